//! Rules that tests use again and again: each a change to a [`Reply`], to be given to [`Resource::rule`](super::Resource::rule).

use super::{Asked, Body, Framing, Reply};

/// Everything, although a part was asked for.
pub fn ignore_range(_: &Asked, reply: &mut Reply) {
    if reply.status != 206 && reply.status != 416 {
        return;
    }
    reply.status = 200;
    reply.unset("Content-Range");
    if let Body::Part(content, part) = &mut reply.body {
        *part = 0..content.length();
    }
}

/// Everything whenever If-Range is there, as if the resource had changed.
pub fn misread_if_range(asked: &Asked, reply: &mut Reply) {
    if asked.header("if-range").is_some() {
        ignore_range(asked, reply);
    }
}

/// A Content-Range of one's own.
pub fn content_range(value: &'static str) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |_, reply| reply.set("Content-Range", value)
}

/// Another status with nothing behind it.
pub fn status(status: u16) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |_, reply| {
        reply.status = status;
        reply.unset("Content-Range");
        reply.body = Body::Raw(Vec::new());
    }
}

/// Another status with a header field.
pub fn status_with(
    code: u16,
    name: &'static str,
    value: String,
) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |asked, reply| {
        status(code)(asked, reply);
        reply.set(name, &value);
    }
}

/// The connection is reset after so many bytes of the body.
pub fn reset_after(bytes: u64) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |_, reply| reply.cut = Some((bytes, true))
}

/// The connection is closed after so many bytes of the body.
pub fn close_after(bytes: u64) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |_, reply| reply.cut = Some((bytes, false))
}

/// Nothing more comes after so many bytes of the body.
pub fn stall_after(bytes: u64) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |_, reply| reply.stall = Some(bytes)
}

/// So many bytes a second.
pub fn drip(rate: u64) -> impl Fn(&Asked, &mut Reply) + Send + Sync {
    move |_, reply| reply.rate = Some(rate)
}

/// The length is not told.
pub fn chunked(_: &Asked, reply: &mut Reply) {
    reply.framing = Framing::Chunked;
}

/// The end of the body is the end of the connection.
pub fn until_close(_: &Asked, reply: &mut Reply) {
    reply.framing = Framing::Close;
}

/// A reset in place of an answer.
pub fn refuse(_: &Asked, reply: &mut Reply) {
    reply.refuse = true;
}
