//! The responses of a conforming origin: methods, preconditions, ranges (RFC 9110 9.3, 13.2.2, 14).

use std::ops::Range;
use std::time::SystemTime;

use super::{OriginResource, OriginResponse, OriginResponseBody, RecordedRequest};

impl OriginResponse {
    #[must_use]
    pub fn conforming(request: &RecordedRequest, resource: &OriginResource) -> Self {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            let mut response = Self::empty(405);
            response.set_header("Allow", "GET, HEAD");
            return response;
        }
        let mut response = Self::whole(resource);
        if is_not_modified(request, resource) {
            response.status = 304;
            response.body = OriginResponseBody::Bytes(Vec::new());
            return response;
        }
        let length = resource.content.length();
        let range = request
            .range(length)
            .filter(|_| request.method == "GET" && if_range_holds(request, resource));
        if let Some(range) = range {
            response.set_range(range, length);
        }
        response
    }

    /// The whole content, whatever was requested.
    #[must_use]
    pub fn whole(resource: &OriginResource) -> Self {
        let mut response = Self::empty(200);
        for (name, value) in &resource.headers {
            response.set_header(name, value);
        }
        response.set_header("Accept-Ranges", "bytes");
        response.body =
            OriginResponseBody::Slice(resource.content.clone(), 0..resource.content.length());
        response
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
fn is_not_modified(request: &RecordedRequest, resource: &OriginResource) -> bool {
    if let Some(sent) = request.header("if-none-match") {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        return sent.trim() == "*"
            || resource
                .find_header("etag")
                .is_some_and(|own| sent.split(',').any(|tag| opaque(tag) == opaque(own)));
    }
    let date = |value: &str| httpdate::parse_http_date(value).ok();
    let since: Option<SystemTime> = request.header("if-modified-since").and_then(date);
    let modified = resource.find_header("last-modified").and_then(date);
    since
        .zip(modified)
        .is_some_and(|(since, modified)| modified <= since)
}

/// If-Range by strong comparison, or by an equal date (RFC 9110 13.1.5).
fn if_range_holds(request: &RecordedRequest, resource: &OriginResource) -> bool {
    request.header("if-range").is_none_or(|sent| {
        !sent.starts_with("W/")
            && (resource.find_header("etag") == Some(sent)
                || resource.find_header("last-modified") == Some(sent))
    })
}
