//! What a conforming origin says: methods, preconditions, ranges (RFC 9110 9.3, 13.2.2, 14).

use std::ops::Range;
use std::time::SystemTime;

use super::{OriginResource, OriginResponse, OriginResponseBody, RecordedRequest};

impl OriginResponse {
    /// The answer that a conforming origin gives.
    #[must_use]
    pub fn conforming(asked: &RecordedRequest, resource: &OriginResource) -> Self {
        if !matches!(asked.method.as_str(), "GET" | "HEAD") {
            let mut reply = Self::empty(405);
            reply.set_header("Allow", "GET, HEAD");
            return reply;
        }
        let mut reply = Self::whole(resource);
        if is_not_modified(asked, resource) {
            reply.status = 304;
            reply.body = OriginResponseBody::Bytes(Vec::new());
            return reply;
        }
        let length = resource.content.length();
        let range = asked
            .range(length)
            .filter(|_| asked.method == "GET" && if_range_holds(asked, resource));
        if let Some(range) = range {
            reply.set_range(range, length);
        }
        reply
    }

    /// Everything, whatever was asked.
    #[must_use]
    pub fn whole(resource: &OriginResource) -> Self {
        let mut reply = Self::empty(200);
        for (name, value) in &resource.headers {
            reply.set_header(name, value);
        }
        reply.set_header("Accept-Ranges", "bytes");
        reply.body =
            OriginResponseBody::Slice(resource.content.clone(), 0..resource.content.length());
        reply
    }

    fn set_range(&mut self, range: Range<u64>, length: u64) {
        if range.start >= length || range.is_empty() {
            self.status = 416;
            self.set_header("Content-Range", &format!("bytes */{length}"));
            self.body = OriginResponseBody::Bytes(Vec::new());
            return;
        }
        self.status = 206;
        let last = range.end - 1;
        self.set_header(
            "Content-Range",
            &format!("bytes {}-{last}/{length}", range.start),
        );
        if let OriginResponseBody::Slice(_, part) = &mut self.body {
            *part = range;
        }
    }
}

/// If-None-Match by weak comparison, else If-Modified-Since (RFC 9110 13.1.2, 13.1.3).
fn is_not_modified(asked: &RecordedRequest, resource: &OriginResource) -> bool {
    if let Some(sent) = asked.header("if-none-match") {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        return sent.trim() == "*"
            || resource
                .find_header("etag")
                .is_some_and(|own| sent.split(',').any(|tag| opaque(tag) == opaque(own)));
    }
    let date = |value: &str| httpdate::parse_http_date(value).ok();
    let since: Option<SystemTime> = asked.header("if-modified-since").and_then(date);
    let modified = resource.find_header("last-modified").and_then(date);
    since
        .zip(modified)
        .is_some_and(|(since, modified)| modified <= since)
}

/// If-Range by strong comparison, or by the very date (RFC 9110 13.1.5).
fn if_range_holds(asked: &RecordedRequest, resource: &OriginResource) -> bool {
    asked.header("if-range").is_none_or(|sent| {
        !sent.starts_with("W/")
            && (resource.find_header("etag") == Some(sent)
                || resource.find_header("last-modified") == Some(sent))
    })
}
