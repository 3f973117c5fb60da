//! An answer before it is written: what a conforming origin would say, for rules to change.

use std::ops::Range;
use std::time::Duration;

use super::{Asked, Resource};
use crate::content::Content;

/// Where a body's bytes come from.
#[derive(Debug, Clone)]
pub enum Body {
    /// Part of a content.
    Part(Content, Range<u64>),
    /// As given.
    Raw(Vec<u8>),
}

impl Body {
    /// Bytes in it.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Part(_, range) => range.end.saturating_sub(range.start),
            Self::Raw(bytes) => bytes.len() as u64,
        }
    }

    pub(crate) fn slice(&self, range: Range<u64>) -> Vec<u8> {
        match self {
            Self::Part(content, part) => {
                content.slice(part.start + range.start..(part.start + range.end).min(part.end))
            }
            Self::Raw(bytes) => {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                bytes[index(range.start)..index(range.end)].to_vec()
            }
        }
    }
}

/// How a body's end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By Content-Length.
    Length,
    /// By chunks.
    Chunked,
    /// By closing.
    Close,
}

/// An answer before it is written.
#[derive(Debug, Clone)]
pub struct Reply {
    /// `HTTP/1.1`.
    pub version: String,
    /// The status.
    pub status: u16,
    /// Header fields in order, names as they will be written; Content-Length is added by the framing.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// How its end is told.
    pub framing: Framing,
    /// A Content-Length that is not the body's.
    pub claimed_length: Option<u64>,
    /// The connection is reset (true) or closed (false) after so many bytes of the body.
    pub cut: Option<(u64, bool)>,
    /// Nothing more is sent after so many bytes of the body.
    pub stall: Option<u64>,
    /// Bytes a second for this answer alone.
    pub rate: Option<u64>,
    /// Waited before the head.
    pub delay: Duration,
    /// Written before the head, as it is.
    pub prelude: Vec<u8>,
    /// Written in place of head and body, as it is; then the connection is closed.
    pub raw: Option<Vec<u8>>,
    /// Header lines without end are written in place of a head.
    pub endless: bool,
    /// The connection is reset before anything is written.
    pub refuse: bool,
}

impl Reply {
    /// What a conforming origin says (RFC 9110 13.2.2, 14).
    pub(crate) fn conforming(asked: &Asked, resource: &Resource) -> Self {
        let length = resource.content.length();
        let mut reply = Self::whole(resource);
        let matches = |field: &str, name: &str| {
            asked
                .header(field)
                .is_some_and(|sent| resource.field(name) == Some(sent))
        };
        if matches("if-none-match", "etag")
            || (asked.header("if-none-match").is_none()
                && matches("if-modified-since", "last-modified"))
        {
            reply.status = 304;
            reply.body = Body::Raw(Vec::new());
            return reply;
        }
        let if_range = asked.header("if-range").is_none_or(|sent| {
            resource.field("etag") == Some(sent) || resource.field("last-modified") == Some(sent)
        });
        if let Some(range) = asked.range(length).filter(|_| if_range) {
            reply.take_range(range, length);
        }
        reply
    }

    /// Everything, whatever was asked.
    pub(crate) fn whole(resource: &Resource) -> Self {
        let mut headers = resource.headers.clone();
        headers.push((
            "Date".into(),
            httpdate::fmt_http_date(std::time::SystemTime::now()),
        ));
        headers.push(("Accept-Ranges".into(), "bytes".into()));
        Self {
            version: "HTTP/1.1".into(),
            status: 200,
            headers,
            body: Body::Part(resource.content.clone(), 0..resource.content.length()),
            framing: Framing::Length,
            claimed_length: None,
            cut: None,
            stall: None,
            rate: None,
            delay: Duration::ZERO,
            prelude: Vec::new(),
            raw: None,
            endless: false,
            refuse: false,
        }
    }

    fn take_range(&mut self, range: Range<u64>, length: u64) {
        if range.start >= length || range.is_empty() {
            self.status = 416;
            self.set("Content-Range", &format!("bytes */{length}"));
            self.body = Body::Raw(Vec::new());
            return;
        }
        self.status = 206;
        self.set(
            "Content-Range",
            &format!("bytes {}-{}/{length}", range.start, range.end - 1),
        );
        if let Body::Part(_, part) = &mut self.body {
            *part = range;
        }
    }

    /// Sets a header field, replacing one of that name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.headers.push((name.into(), value.into()));
    }

    /// Takes a header field away.
    pub fn unset(&mut self, name: &str) {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// The head as it is written.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = format!(
            "{} {} {}\r\n",
            self.version,
            self.status,
            reason(self.status)
        );
        for (name, value) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        match self.framing {
            _ if self.status == 304 => {}
            Framing::Length => {
                let length = self.claimed_length.unwrap_or_else(|| self.body.length());
                head.push_str("Content-Length: ");
                head.push_str(&length.to_string());
                head.push_str("\r\n");
            }
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::Close => head.push_str("Connection: close\r\n"),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        304 => "Not Modified",
        416 => "Range Not Satisfiable",
        _ => "As Scripted",
    }
}
