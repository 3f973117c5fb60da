//! Odd heads, and hostile ones.

use std::time::Duration;

use crate::origin::{OriginResponse, OriginResponseFraming, RecordedRequest};

pub fn header(
    name: &'static str,
    value: impl Into<String>,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    let value = value.into();
    move |_, response| response.set_header(name, &value)
}

/// A Content-Disposition with exactly this file name in quotes (A25).
pub fn content_disposition(
    name: &str,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + use<> {
    header(
        "Content-Disposition",
        format!("attachment; filename=\"{name}\""),
    )
}

/// Nothing is sent before this time has passed (A19).
pub fn delay_response(
    time: Duration,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.delay = time
}

/// HTTP/1.0, whose body ends with the connection (A22).
pub fn http10(_: &RecordedRequest, response: &mut OriginResponse) {
    response.version = "HTTP/1.0".into();
    response.framing = OriginResponseFraming::CloseDelimited;
}

/// All names of header fields in lower case (A22).
pub fn lower_case_names(_: &RecordedRequest, response: &mut OriginResponse) {
    response.lower_case_names = true;
}

/// A header field in two lines (A22, RFC 9112 5.2).
pub fn folded_header(_: &RecordedRequest, response: &mut OriginResponse) {
    response.set_header("X-Folded", "the first line\r\n and the second");
}

/// An interim response before the final one: 100, 103 (A22).
pub fn interim_response(
    status: u16,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        let head = format!("HTTP/1.1 {status} Wait\r\nLink: </style.css>; rel=preload\r\n\r\n");
        response.prelude.extend_from_slice(head.as_bytes());
    }
}

/// A head in pieces of so many bytes, each in a packet of its own (E3).
pub fn trickled_head(bytes: usize) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.head_packet_bytes = Some(bytes)
}

/// A head that never ends (A23).
pub fn endless_head(_: &RecordedRequest, response: &mut OriginResponse) {
    response.endless_head = true;
}

/// A header field of so many bytes (A23).
pub fn huge_header(bytes: usize) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.set_header("X-Huge", &"y".repeat(bytes))
}

/// A NUL in a header field (A23).
pub fn nul_in_header(_: &RecordedRequest, response: &mut OriginResponse) {
    response.set_header("X-Nul", "a\0b");
}

/// A header field that contains line ends and another response: response splitting (A23).
pub fn response_splitting(_: &RecordedRequest, response: &mut OriginResponse) {
    response.set_header(
        "X-Split",
        "a\r\nContent-Length: 1\r\n\r\nx\r\nHTTP/1.1 200 OK",
    );
}

/// A header field with an invalid name (A23).
pub fn invalid_header_name(_: &RecordedRequest, response: &mut OriginResponse) {
    response.set_header("Bad Name", "x");
}
