//! Mirrors that the origin itself names: Link fields (RFC 6249) on the first answer, and the Metalink document they may lead to.
//!
//! Whoever names a mirror is not the user, so such a one is believed only when something tells that it has the same file; and
//! what cannot be fetched or read is no error, since nobody asked for it.

use std::time::Duration;

use haul_net::{Answer, Fetch};
use haul_plan::metalink::{self, MetalinkFile};
use haul_plan::{Expected, Links, expected_digests, links};
use http::{HeaderMap, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::first::{Begun, Brings};
use super::job::Run;

/// Mirrors that are taken from an origin's fields and document together.
const MOST: usize = 64;

/// How long fetching the document may take: the first answer waits meanwhile.
const LONGEST: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// Takes what the first answer says of other places, once.
    pub(super) async fn discover(&mut self, begun: &Begun) {
        let Brings::Part { total, version, .. } = &begun.brings else {
            return;
        };
        if !self.engine.options.mirror_links || std::mem::replace(&mut self.discovered, true) {
            return;
        }
        let answer = &begun.answer;
        let Links {
            duplicates,
            metalinks,
        } = links(&answer.headers, &answer.url);
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
                _ => tracing::debug!("no use in {}", haul_net::shown(url)),
            }
        }
    }

    fn verifies(&self) -> bool {
        self.pieces.is_some() || self.job.checksums.iter().any(|c| c.digest.is_some())
    }

    /// Whether nobody on the way could change what this URL brings, and somebody could what that one does, unless the user said
    /// that this is no matter.
    fn gives_up_encryption(&self, from: &Url, to: &Url) -> bool {
        self.engine.client.redirects().is_refused(from, to)
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
        let fetch = Fetch {
            own: None,
            url,
            given: self.given(self.source),
            range: None,
            headers: HeaderMap::new(),
            shared: false,
        };
        let mut answer = self.engine.client.fetch(fetch).await.ok()?;
        if answer.status != StatusCode::OK {
            return None;
        }
        let mut document = Vec::new();
        while let Some(piece) = answer.chunk().await.ok()? {
            document.extend_from_slice(&piece);
            if document.len() > metalink::LARGEST {
                return None;
            }
        }
        answer.recycle();
        let files = metalink::parse(&document).ok()?.files.into_iter();
        let fits = |file: &MetalinkFile| {
            file.size.is_none_or(|size| size == total)
                && file.pieces.as_ref().is_none_or(|pieces| pieces.fit(total))
        };
        let mut fitting = files.filter(fits);
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Uses what a document says. What the user said is not overruled.
    fn take(&mut self, file: MetalinkFile, answer: &Answer) {
        let described = file.checksums.iter().filter_map(|checksum| {
            Some(Expected {
                algorithm: checksum.algorithm,
                digest: checksum.digest.clone()?,
                field: "the Metalink document",
            })
        });
        self.described.extend(described);
        self.add_found(&answer.url, file.urls().cloned());
        if self.pieces.is_none() {
            self.pieces = file.pieces;
        }
    }
}
