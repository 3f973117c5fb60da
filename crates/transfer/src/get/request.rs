//! Requests for a job's bytes: every strategy sends them here, so that each response is checked against what was sent.

use std::time::SystemTime;

use haul_net::{Client, FetchRequest, FetchResponse};
use http::StatusCode;
use http::header::{HeaderMap, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE};
use url::Url;

use super::attempt_error::{AttemptError, first_line};
use crate::disk::StoredValidators;
use crate::response::{
    BytesOnDisk, MAX_RESPONSE_TEXT, RequestFailure, RequestedContent, ResponseContent,
    RobotsTagPolicy, UnusableResponse, classify_response,
};

/// Sends a request and classifies the head of its response.
///
/// Cancel safe: dropped, it closes the connection.
pub(crate) async fn send(
    client: &Client,
    mut request: FetchRequest<'_>,
    on_disk: BytesOnDisk<'_>,
    may_send_if_range: bool,
) -> Result<(FetchResponse, ResponseContent), Box<AttemptError>> {
    let conditional = !request.headers.is_empty();
    let expected_version = on_disk.joined();
    if let Some(version) = expected_version
        && may_send_if_range
        && request.range.is_some()
        && let Some(value) = version.if_range()
    {
        request.headers.insert(IF_RANGE, value);
    }
    let if_range_sent = request.headers.contains_key(IF_RANGE);
    let (url, range) = (request.url, request.range.clone());
    let mut response = client.fetch(request).await.map_err(|error| {
        // The first request's range is the whole file as far as anybody knows: only others are worth naming.
        let range = range.filter(|range| range.start > 0 || expected_version.is_some());
        AttemptError::transport(error, false, url, range)
    })?;
    let requested = RequestedContent {
        range: response.requested_range.clone(),
        on_disk,
        if_range_sent,
        conditional,
    };
    let now = SystemTime::now();
    match classify_response(&requested, response.status, &response.headers, now) {
        Ok(content) => Ok((response, content)),
        Err(failure) => {
            let error = AttemptError::response(failure, &response, url);
            let body = response.first_bytes(MAX_RESPONSE_TEXT).await;
            let text = match url.scheme() {
                "s3" => haul_s3::error_text(&body, &response.request_secrets()),
                _ => first_line(&response, &body),
            };
            let error = error.with_response_text(text);
            // A host may send a 403 to the connection and not to the file (row A18): on that connection it would send another.
            if response.status != StatusCode::FORBIDDEN {
                response.discard().await;
            }
            Err(error)
        }
    }
}

/// Refuses a first response that may be a part of a longer file, whatever its total says. S3 says what is true.
pub(super) fn check_total(
    response: &FetchResponse,
    content: &ResponseContent,
    url: &Url,
) -> Result<(), Box<AttemptError>> {
    let requested = response.requested_range.as_ref();
    if url.scheme() == "s3" || !requested.is_some_and(|range| content.has_doubtful_total(range)) {
        return Ok(());
    }
    let failure = RequestFailure::Unusable(UnusableResponse::DoubtfulTotal);
    Err(AttemptError::response(failure, response, url))
}

/// Refuses a response by which the origin forbids the use of the file. To be called for the first response of each source,
/// before its body is read.
pub(super) fn check_robots_tag(
    policy: RobotsTagPolicy,
    response: &FetchResponse,
    url: &Url,
) -> Result<(), Box<AttemptError>> {
    let forbidding = policy.forbidding_directive(&response.headers);
    forbidding.map_or(Ok(()), |directive| {
        Err(AttemptError::forbidden_by_robots_tag(
            directive, response, url,
        ))
    })
}

/// Header fields that ask for a file only if the origin has a newer one than these validators are of.
pub(super) fn conditions(stored: &StoredValidators) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(etag) = stored.etag.as_deref().and_then(|etag| etag.parse().ok()) {
        headers.insert(IF_NONE_MATCH, etag);
    }
    if let Ok(date) = httpdate::fmt_http_date(stored.modified).parse() {
        headers.insert(IF_MODIFIED_SINCE, date);
    }
    headers
}
