//! Wrong ranges and wrong versions.

use std::ops::Range;

use crate::content::ResourceContent;
use crate::origin::{OriginResource, OriginResponse, OriginResponseBody, RecordedRequest};

/// The whole content, although a range was requested (A2, A3).
pub fn ignore_range(_: &RecordedRequest, response: &mut OriginResponse) {
    if response.status != 206 && response.status != 416 {
        return;
    }
    response.status = 200;
    response.remove_header("Content-Range");
    if let OriginResponseBody::Slice(content, part) = &mut response.body {
        *part = 0..content.length();
    }
}

/// The whole content for each request with If-Range, as if the resource had changed (A4).
pub fn if_range_never_matches(request: &RecordedRequest, response: &mut OriginResponse) {
    if request.header("if-range").is_some() {
        ignore_range(request, response);
    }
}

/// The conforming response for another resource: a later version, or a mirror that is out of date (A5).
pub fn serve_other(
    other: OriginResource,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |request, response| *response = OriginResponse::conforming(request, &other)
}

/// Pseudo-random bytes that are longer by `step` at each request, without a validator: a log (A30).
pub fn growing_resource(
    seed: u64,
    length: u64,
    step: u64,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |request, response| {
        let content = ResourceContent::random(seed, length + step * request.number_for_path as u64);
        *response =
            OriginResponse::conforming(request, &OriginResource::without_validator(content));
    }
}

/// This Content-Range (A8).
pub fn content_range(
    value: &'static str,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.set_header("Content-Range", value)
}

/// A Content-Range made from the right one, in 206 responses: `|range, total| format!("bytes {}-{}/*", range.start, range.end - 1)` (A8).
pub fn content_range_from(
    value: impl Fn(Range<u64>, u64) -> String + Send + Sync,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        if let (206, OriginResponseBody::Slice(content, part)) = (response.status, &response.body) {
            let value = value(part.clone(), content.length());
            response.set_header("Content-Range", &value);
        }
    }
}

/// A 206 without a Content-Range (A9).
pub fn no_content_range(_: &RecordedRequest, response: &mut OriginResponse) {
    response.remove_header("Content-Range");
}

/// A multipart/byteranges with one part (A9, RFC 9110 14.6).
pub fn multipart_byteranges(_: &RecordedRequest, response: &mut OriginResponse) {
    let Some(range) = response.header("Content-Range").map(ToOwned::to_owned) else {
        return;
    };
    if response.status != 206 {
        return;
    }
    let mut body = format!("--LAB\r\nContent-Range: {range}\r\n\r\n").into_bytes();
    response.body.append(0..response.body.length(), &mut body);
    body.extend_from_slice(b"\r\n--LAB--\r\n");
    response.body = OriginResponseBody::Bytes(body);
    response.remove_header("Content-Range");
    response.set_header("Content-Type", "multipart/byteranges; boundary=LAB");
}
