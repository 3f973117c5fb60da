//! Odd heads, and hostile ones.

use std::time::Duration;

use crate::origin::{OriginReply, RecordedRequest, ReplyFraming};

/// A header field.
pub fn header(
    name: &'static str,
    value: impl Into<String>,
) -> impl Fn(&RecordedRequest, &mut OriginReply) + Send + Sync {
    let value = value.into();
    move |_, reply| reply.set(name, &value)
}

/// A Content-Disposition with this file name as it is, in quotes (A25).
pub fn disposition(
    name: &str,
) -> impl Fn(&RecordedRequest, &mut OriginReply) + Send + Sync + use<> {
    header(
        "Content-Disposition",
        format!("attachment; filename=\"{name}\""),
    )
}

/// Nothing at all before this time has passed (A19).
pub fn silent_for(time: Duration) -> impl Fn(&RecordedRequest, &mut OriginReply) + Send + Sync {
    move |_, reply| reply.delay = time
}

/// HTTP/1.0, whose body ends with the connection (A22).
pub fn http10(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.version = "HTTP/1.0".into();
    reply.framing = ReplyFraming::Close;
}

/// All names of header fields in lower case (A22).
pub fn lower_case(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.lower_case = true;
}

/// A header field in two lines (A22, RFC 9112 5.2).
pub fn folded(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.set("X-Folded", "the first line\r\n and the second");
}

/// An interim response before the answer: 100, 103 (A22).
pub fn interim(status: u16) -> impl Fn(&RecordedRequest, &mut OriginReply) + Send + Sync {
    move |_, reply| {
        let head = format!("HTTP/1.1 {status} Wait\r\nLink: </style.css>; rel=preload\r\n\r\n");
        reply.prelude.extend_from_slice(head.as_bytes());
    }
}

/// A head in pieces of so many bytes, each in a packet of its own (E3).
pub fn trickled_head(bytes: usize) -> impl Fn(&RecordedRequest, &mut OriginReply) + Send + Sync {
    move |_, reply| reply.trickle = Some(bytes)
}

/// A head that never ends (A23).
pub fn endless_head(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.endless = true;
}

/// A header field of so many bytes (A23).
pub fn huge_head(bytes: usize) -> impl Fn(&RecordedRequest, &mut OriginReply) + Send + Sync {
    move |_, reply| reply.set("X-Huge", &"y".repeat(bytes))
}

/// A NUL in a header field (A23).
pub fn nul_in_head(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.set("X-Nul", "a\0b");
}

/// A header field that holds a line end and another field: an answer split by what somebody else put into it (A23).
pub fn split_head(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.set(
        "X-Split",
        "a\r\nContent-Length: 1\r\n\r\nx\r\nHTTP/1.1 200 OK",
    );
}

/// A header field whose name is none (A23).
pub fn bad_name(_: &RecordedRequest, reply: &mut OriginReply) {
    reply.set("Bad Name", "x");
}
