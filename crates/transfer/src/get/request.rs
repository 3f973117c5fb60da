//! One request for a job's bytes, and the verdict on the head of its answer.
//!
//! Every road asks here, so that what was asked and what the answer is judged by are the same.

use std::ops::Range;
use std::time::SystemTime;

use haul_net::{Client, FetchRequest, FetchResponse};
use haul_plan::{RequestedContent, ResourceVersion, ResponseVerdict, classify_response};
use http::HeaderMap;
use http::header::IF_RANGE;
use url::Url;

use super::attempt_failure::AttemptFailure;

/// What is asked for, of whom.
#[derive(Debug)]
pub(super) struct RangeRequest<'a> {
    /// Makes the request.
    pub(super) client: &'a Client,
    /// Where it goes.
    pub(super) url: &'a Url,
    /// The URL that the user gave, which credentials are for.
    pub(super) given: &'a Url,
    /// Bytes; `None` asks for everything without a Range.
    pub(super) range: Option<Range<u64>>,
    /// The version that bytes at hand are of.
    pub(super) pinned: Option<&'a ResourceVersion>,
    /// Whether If-Range may be sent with a range.
    pub(super) if_range: bool,
    /// Whether it may share a connection with others (HTTP/2).
    pub(super) shared: bool,
    /// The user's header fields for this job.
    pub(super) own: &'a HeaderMap,
    /// Conditions under which an answer is wanted at all.
    pub(super) conditions: HeaderMap,
}

impl RangeRequest<'_> {
    /// Sends the request and judges what comes. Cancel safe: dropped, it closes the connection.
    pub(super) async fn send(self) -> Result<(FetchResponse, ResponseVerdict), AttemptFailure> {
        let conditional = !self.conditions.is_empty();
        let mut headers = self.conditions;
        let pinned = self
            .pinned
            .filter(|_| self.if_range && self.range.is_some());
        if let Some(value) = pinned.and_then(ResourceVersion::if_range) {
            headers.insert(IF_RANGE, value);
        }
        let asked = RequestedContent {
            range: self.range.clone(),
            expected_version: self.pinned,
            if_range_sent: headers.contains_key(IF_RANGE),
            conditional,
        };
        let fetch = FetchRequest {
            user_headers: Some(self.own).filter(|own| !own.is_empty()),
            url: self.url,
            user_url: self.given,
            range: self.range,
            conditions: headers,
            may_multiplex: self.shared,
        };
        let answer = self.client.fetch(fetch).await;
        let answer = answer.map_err(|error| AttemptFailure::Transport {
            error: Box::new(error),
            answered: false,
        })?;
        let verdict = classify_response(&asked, answer.status, &answer.headers, SystemTime::now());
        Ok((answer, verdict))
    }
}
