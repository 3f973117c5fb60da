//! Mirrors that the origin itself names: Link fields (RFC 6249) of the first response, and the Metalink document they may lead to.
//!
//! The user did not name these mirrors, so a mirror is believed only when something shows that it has the same file. A document that
//! cannot be fetched or parsed is not an error, since the user did not ask for it. If its digests turn out wrong, the document and its mirrors
//! are dropped.

use std::time::Duration;

use haul_net::FetchRequest;
use haul_plan::{DigestAlgorithm, EntityTag, ExpectedDigest, expected_digests};
use http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use super::context::JobContext;
use super::download_sources::DownloadSources;
use super::expectations::{DOCUMENT, DocumentDigests, FileExpectations};
use super::first_request::FirstResponse;
use crate::disk::blocking;
use crate::error::GetError;
use crate::metalink;
use crate::metalink::MetalinkFile;
use crate::response::{LinkHeader, ResponseContent, parse_link_headers};
use crate::warning::TransferWarning;

/// Time for fetching the document: the first response waits meanwhile.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest document, in bytes: the pieces and mirrors of one file rarely take a tenth of it.
const MAX_DOCUMENT: usize = 1 << 20;

/// Documents of all jobs are parsed one at a time: parsing takes many times a document's length in memory.
static PARSE_LOCK: Mutex<()> = Mutex::const_new(());

/// Adds the mirrors, and the digests of a document, that a first response leads to.
pub(super) async fn discover(
    context: &JobContext<'_>,
    first: &FirstResponse,
    expectations: &mut FileExpectations<'_>,
    sources: &mut DownloadSources,
) {
    let ResponseContent::Part { total, version, .. } = &first.content else {
        return;
    };
    let (origin, headers) = (&first.response.url, &first.response.headers);
    let LinkHeader {
        duplicates,
        metalinks,
    } = parse_link_headers(headers, origin);
    let announced = expected_digests(headers, false);
    // RFC 6249 5 and 7: without one of these nothing would tell a mirror's file from another.
    let has_strong_tag = version.etag.as_ref().is_some_and(EntityTag::is_strong);
    if has_strong_tag || !announced.is_empty() || expectations.has_digest() {
        let urls = duplicates.into_iter().map(|duplicate| duplicate.url);
        add_mirrors(context, sources, origin, urls);
    }
    let may_fetch = |url: &&Url| !is_refused_downgrade(context, origin, url);
    let Some(url) = metalinks.iter().find(may_fetch) else {
        return;
    };
    let user_url = sources.current().credential_url();
    let described = timeout(DOCUMENT_TIMEOUT, describe(context, url, user_url, *total)).await;
    let Ok(Some(file)) = described else {
        let url = haul_net::redacted_url(url);
        return tracing::debug!("the Metalink document {url} cannot be used");
    };
    let document = DocumentDigests {
        whole: whole_digests(&file),
        pieces: file.pieces.clone(),
    };
    if contradicts(context, &document.whole, &announced) {
        return tracing::debug!("the Metalink document is about another version");
    }
    expectations.document = document;
    add_mirrors(context, sources, origin, file.urls().cloned());
}

/// Whether an error shows that the document is about another version: a digest of it is wrong, and a source that the user named is left.
/// Without one, nothing but the document would verify a mirror's bytes.
pub(super) fn disproves_document(
    error: &GetError,
    expectations: &FileExpectations<'_>,
    sources: &DownloadSources,
) -> bool {
    expectations.is_from_document(error) && sources.has_listed()
}

/// Drops the document, and the mirrors that were found with it.
pub(super) async fn drop_document(
    context: &JobContext<'_>,
    expectations: &mut FileExpectations<'_>,
    sources: &mut DownloadSources,
) {
    expectations.document = DocumentDigests::default();
    sources.drop_found("it was found with a document of another version");
    let _ = sources.advance(context.elapsed(), &context.engine.host_limits);
    context.warn(TransferWarning::WrongDocument).await;
}

/// Whether this step would give up encryption, and the user did not allow that: everybody on the network could change the bytes.
fn is_refused_downgrade(context: &JobContext<'_>, from: &Url, to: &Url) -> bool {
    let redirects = context.engine.client.redirects();
    redirects.is_refused_downgrade(from, to)
}

fn add_mirrors(
    context: &JobContext<'_>,
    sources: &mut DownloadSources,
    origin: &Url,
    urls: impl IntoIterator<Item = Url>,
) {
    let allowed = |url: &Url| !is_refused_downgrade(context, origin, url);
    let urls = urls.into_iter().filter(allowed);
    sources.add_found(context.job, urls, &context.engine.host_limits);
}

/// Fetches the document and finds the file in it: the only one of the right size.
async fn describe(
    context: &JobContext<'_>,
    url: &Url,
    user_url: &Url,
    length: u64,
) -> Option<MetalinkFile> {
    let request = FetchRequest {
        user_url,
        ..FetchRequest::get(url)
    };
    // The job holds a connection already, so it does not wait for another one to become free.
    let _permit = context.engine.host_limits.host(url).try_acquire_extra()?;
    let mut response = context.engine.client.fetch(request).await.ok()?;
    if response.status != StatusCode::OK {
        return None;
    }
    let mut document = Vec::new();
    let waiting = context.meter.waiting();
    while let Some(chunk) = response.chunk().await.ok()? {
        context.meter.add(chunk.len());
        document.extend_from_slice(&chunk);
        if document.len() > MAX_DOCUMENT {
            return None;
        }
    }
    response.recycle();
    drop(waiting);
    let _one_at_a_time = PARSE_LOCK.lock().await;
    // A file that cannot be used may be the right one.
    let files: Result<Vec<_>, _> = blocking(|| metalink::parse(&document))
        .ok()?
        .files
        .into_iter()
        .collect();
    let has_length = |file: &MetalinkFile| {
        let pieces = file.pieces.as_ref();
        file.size.is_none_or(|size| size == length)
            && pieces.is_none_or(|pieces| pieces.matches_length(length))
    };
    let mut matching = files.ok()?.into_iter().filter(has_length);
    matching.next().filter(|_| matching.next().is_none())
}

/// The digests of the whole file that a document gives.
fn whole_digests(file: &MetalinkFile) -> Vec<ExpectedDigest> {
    let digests = file.checksums.iter().filter_map(|checksum| {
        Some(ExpectedDigest {
            algorithm: checksum.algorithm,
            digest: checksum.digest.clone()?,
            field: DOCUMENT,
        })
    });
    digests.collect()
}

/// Whether a document gives another digest than the user or the origin, which take precedence: then it is about another version.
fn contradicts(
    context: &JobContext<'_>,
    document: &[ExpectedDigest],
    announced: &[ExpectedDigest],
) -> bool {
    let differs = |algorithm: DigestAlgorithm, digest: &[u8]| {
        let mut same = document.iter().filter(|known| known.algorithm == algorithm);
        same.any(|known| known.digest != digest)
    };
    let mut user = context.job.checksums.iter();
    announced
        .iter()
        .any(|expected| differs(expected.algorithm, &expected.digest))
        || user.any(|checksum| {
            let digest = checksum.digest.as_ref();
            digest.is_some_and(|digest| differs(checksum.algorithm, digest))
        })
}
