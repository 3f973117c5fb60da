//! Mirrors that the origin itself names: Link fields (RFC 6249) on the first answer, and the Metalink document they may lead to.
//!
//! Whoever names a mirror is not the user, so such a one is believed only when something tells that it has the same file; and
//! what cannot be fetched or read is no error, since nobody asked for it.

use std::time::Duration;

use haul_net::{FetchRequest, FetchResponse};
use haul_plan::metalink::{self, MetalinkFile};
use haul_plan::{
    DigestAlgorithm, ExpectedDigest, LinkHeader, expected_digests, parse_link_headers,
};
use http::{HeaderMap, StatusCode};
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use super::first_request::{FirstResponse, FirstResponseContent};
use super::run::DownloadRun;
use crate::disk::blocking;
use crate::error::GetError;

/// Mirrors that are taken from an origin's fields and document together.
const MOST: usize = 64;

/// How long fetching the document may take: the first answer waits meanwhile.
const LONGEST: Duration = Duration::from_secs(5);

/// The largest document that nobody asked for, in bytes: one file's pieces and places are rarely a tenth of it.
const LARGEST: usize = 1 << 20;

/// What a digest from a document is said to come from.
const DOCUMENT: &str = "the Metalink document";

/// Documents are read one at a time, whoever's they are: what they take in memory while they are is many times their length.
static READING: Mutex<()> = Mutex::const_new(());

impl DownloadRun<'_> {
    /// Takes what the first answer says of other places, once.
    pub(super) async fn discover(&mut self, begun: &FirstResponse) {
        let FirstResponseContent::Part { total, version, .. } = &begun.brings else {
            return;
        };
        if !self.engine.options.mirror_links || std::mem::replace(&mut self.discovered, true) {
            return;
        }
        let answer = &begun.answer;
        let LinkHeader {
            duplicates,
            metalinks,
        } = parse_link_headers(&answer.headers, &answer.url);
        // RFC 6249 5 and 7: without one of these nothing would tell a mirror's file from another.
        let tagged = version
            .etag
            .as_ref()
            .is_some_and(haul_plan::EntityTag::is_strong);
        if tagged || !expected_digests(&answer.headers, false).is_empty() || self.verifies() {
            let urls = duplicates.into_iter().map(|duplicate| duplicate.url);
            self.add_found(&answer.url, urls);
        }
        let may_be_read = |url: &&Url| !self.gives_up_encryption(&answer.url, url);
        if let Some(url) = metalinks.iter().find(may_be_read) {
            match timeout(LONGEST, self.describe(url, *total)).await {
                Ok(Some(file)) => self.take(file, answer),
                _ => tracing::debug!("no use in {}", haul_net::redacted_url(url)),
            }
        }
    }

    fn verifies(&self) -> bool {
        self.pieces.is_some() || self.job.checksums.iter().any(|c| c.digest.is_some())
    }

    /// Whether nobody on the way could change what this URL brings, and somebody could what that one does, unless the user said
    /// that this is no matter.
    fn gives_up_encryption(&self, from: &Url, to: &Url) -> bool {
        self.engine
            .client
            .redirects()
            .is_refused_downgrade(from, to)
    }

    /// Adds mirrors that an answer from a URL led to.
    fn add_found(&mut self, from: &Url, urls: impl IntoIterator<Item = Url>) {
        for mut url in urls.into_iter().take(MOST) {
            // An origin does not get to choose which credentials are sent. These fail only for URLs that cannot have any.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            if self.gives_up_encryption(from, &url) {
                continue;
            }
            if !self.sources.contains(&url) && self.sources.len() <= self.job.mirrors.len() + MOST {
                self.sources.push(url);
                self.mirrors.add(false);
            }
        }
    }

    /// Fetches the document and finds the file in it: the only one of the right size.
    async fn describe(&self, url: &Url, total: u64) -> Option<MetalinkFile> {
        let fetch = FetchRequest {
            user_headers: None,
            url,
            user_url: self.given(self.source),
            range: None,
            conditions: HeaderMap::new(),
            may_multiplex: false,
        };
        // The job has a connection in its hands: it does not wait for another one's end.
        let _permit = self.engine.host_limits.host(url).try_acquire_extra()?;
        let mut answer = self.engine.client.fetch(fetch).await.ok()?;
        if answer.status != StatusCode::OK {
            return None;
        }
        let mut document = Vec::new();
        while let Some(piece) = answer.chunk().await.ok()? {
            document.extend_from_slice(&piece);
            if document.len() > LARGEST {
                return None;
            }
        }
        answer.recycle();
        let _alone = READING.lock().await;
        let files = blocking(|| metalink::parse(&document)).ok()?.files;
        // One that cannot be used may be the one that is meant.
        let files: Result<Vec<_>, _> = files.into_iter().collect();
        let files = files.ok()?.into_iter();
        let fits = |file: &MetalinkFile| {
            file.size.is_none_or(|size| size == total)
                && file
                    .pieces
                    .as_ref()
                    .is_none_or(|pieces| pieces.matches_length(total))
        };
        let mut fitting = files.filter(fits);
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Uses what a document says. What the user or the origin said is not overruled: one that differs is of another version.
    fn take(&mut self, file: MetalinkFile, answer: &FetchResponse) {
        let described = file.checksums.iter().filter_map(|checksum| {
            Some(ExpectedDigest {
                algorithm: checksum.algorithm,
                digest: checksum.digest.clone()?,
                field: DOCUMENT,
            })
        });
        let described: Vec<ExpectedDigest> = described.collect();
        let announced = expected_digests(&answer.headers, false);
        let known = announced.iter().map(|e| (e.algorithm, Some(&e.digest)));
        let given = self.job.checksums.iter();
        let mut known = known.chain(given.map(|c| (c.algorithm, c.digest.as_ref())));
        let differs = |(algorithm, digest): (DigestAlgorithm, Option<&Vec<u8>>)| {
            let same = described.iter().filter(|e| e.algorithm == algorithm);
            digest.is_some_and(|digest| same.into_iter().any(|e| e.digest != *digest))
        };
        if known.any(differs) {
            tracing::debug!("a document of another version");
            return;
        }
        self.described.extend(described);
        self.add_found(&answer.url, file.urls().cloned());
        if self.pieces.is_none() {
            self.pieces = file.pieces;
        }
    }

    /// How many sources the user named, where the digests of pieces are those of a document that nobody asked for: it may be of
    /// another version than what these sources have, and is then of no use.
    pub(super) fn doubtful(&self) -> Option<usize> {
        let found = self.job.piece_digests.is_none() && self.pieces.is_some();
        found.then_some(self.named)
    }

    /// Whether an error says no more than that a source which the user named has another file than a document describes.
    pub(super) fn is_of_document(&self, error: &GetError) -> bool {
        match error {
            GetError::PieceDigest { .. } => {
                self.doubtful().is_some_and(|named| self.source < named)
            }
            GetError::Checksum {
                expected_by: origin,
                ..
            } => *origin == DOCUMENT,
            _ => false,
        }
    }

    /// The document that the origin led to is not about what it has: nothing of it counts any more, and what was found with it is
    /// asked no more.
    pub(super) async fn disown(&mut self) {
        self.described.clear();
        self.pieces.clone_from(&self.job.piece_digests);
        for source in self.named..self.sources.len() {
            let why = "it was found with a document of another version";
            self.mirrors.drop_source(source, why);
        }
        let _ = self.turn();
        let text = "the Metalink document that the origin leads to is not about the version it has: starting again without";
        self.warn(text.into()).await;
    }
}
