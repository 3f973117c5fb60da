//! A response before it is written, for rules to change. `response_writer` writes it.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use crate::content::ResourceContent;
use crate::stream_cut::StreamCut;

#[derive(Debug, Clone)]
pub enum OriginResponseBody {
    Slice(ResourceContent, Range<u64>),
    Bytes(Vec<u8>),
}

impl OriginResponseBody {
    /// The number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Slice(_, range) => range.end.saturating_sub(range.start),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append(0..self.length(), &mut bytes);
        bytes
    }

    /// Appends a range to a buffer, as far as the body has it.
    pub(crate) fn append(&self, range: Range<u64>, buffer: &mut Vec<u8>) {
        match self {
            Self::Slice(content, part) => {
                let at = |at: u64| part.start.saturating_add(at).min(part.end);
                content.append(at(range.start)..at(range.end), buffer);
            }
            Self::Bytes(bytes) => {
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                buffer.extend_from_slice(&bytes[at(range.start)..at(range.end)]);
            }
        }
    }
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginResponseFraming {
    ContentLength,
    Chunked,
    /// By the end of the connection.
    CloseDelimited,
    /// Not at all: the head is one without a body, such as that of a tunnel.
    Undeclared,
}

/// A response before it is written.
#[derive(Debug, Clone)]
pub struct OriginResponse {
    /// `HTTP/1.1`.
    pub version: String,
    pub status: u16,
    /// The reason phrase, if it is not the standard one.
    pub reason: Option<String>,
    /// Header fields in order. Names and values are written as they are here, whatever they contain. The framing adds
    /// Content-Length.
    pub headers: Vec<(String, String)>,
    /// Whether the names of header fields are written in lower case.
    pub lower_case_names: bool,
    pub body: OriginResponseBody,
    /// How its end is marked.
    pub framing: OriginResponseFraming,
    /// A Content-Length that is not the body's.
    pub false_length: Option<u64>,
    /// The connection is reset (true) or closed (false) after so many bytes of the body.
    pub cut: Option<StreamCut>,
    /// Nothing more is sent after so many bytes of the body.
    pub stall_after: Option<u64>,
    /// Bytes a second for this response alone.
    pub max_rate: Option<u64>,
    /// A delay before the head.
    pub delay: Duration,
    /// The head is sent in pieces of so many bytes, each in a packet of its own.
    pub head_packet_bytes: Option<usize>,
    /// Bytes that are written before the head.
    pub prelude: Vec<u8>,
    /// Bytes that are written instead of head and body. Then the connection is closed.
    pub raw_bytes: Option<Vec<u8>>,
    /// Instead of a head, header lines without end are written.
    pub endless_head: bool,
    /// The connection is reset before anything is written.
    pub reset_connection: bool,
}

impl OriginResponse {
    /// A response with only a status and a date.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        let mut response = Self {
            version: "HTTP/1.1".into(),
            status,
            reason: None,
            headers: Vec::new(),
            lower_case_names: false,
            body: OriginResponseBody::Bytes(Vec::new()),
            framing: OriginResponseFraming::ContentLength,
            false_length: None,
            cut: None,
            stall_after: None,
            max_rate: None,
            delay: Duration::ZERO,
            head_packet_bytes: None,
            prelude: Vec::new(),
            raw_bytes: None,
            endless_head: false,
            reset_connection: false,
        };
        response.set_header("Date", &httpdate::fmt_http_date(SystemTime::now()));
        response
    }

    /// A header field's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Sets a header field, replacing one of that name.
    pub fn set_header(&mut self, name: &str, value: &str) {
        self.remove_header(name);
        self.headers.push((name.into(), value.into()));
    }

    pub fn remove_header(&mut self, name: &str) {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// Makes this the response to a CONNECT, which has no body (RFC 9110 9.3.6). Rules may change it.
    pub(crate) fn accept_connect(&mut self) {
        if self.framing == OriginResponseFraming::ContentLength {
            self.framing = OriginResponseFraming::Undeclared;
        }
        self.reason
            .get_or_insert_with(|| "Connection established".into());
    }

    /// Whether something other than this head and body is written.
    pub(crate) fn is_replaced(&self) -> bool {
        self.reset_connection || self.endless_head || self.raw_bytes.is_some()
    }

    /// The bytes of the head.
    pub(crate) fn head(&self) -> Vec<u8> {
        let reason = self
            .reason
            .as_deref()
            .unwrap_or_else(|| reason_phrase(self.status));
        let mut head = format!("{} {} {reason}\r\n", self.version, self.status);
        let mut line = |name: &str, value: &str| {
            if self.lower_case_names {
                head.push_str(&name.to_ascii_lowercase());
            } else {
                head.push_str(name);
            }
            head.extend([": ", value, "\r\n"]);
        };
        for (name, value) in &self.headers {
            line(name, value);
        }
        match self.framing {
            _ if self.status == 304 => {}
            OriginResponseFraming::ContentLength => {
                let length = self.false_length.unwrap_or_else(|| self.body.length());
                line("Content-Length", &length.to_string());
            }
            OriginResponseFraming::Chunked => line("Transfer-Encoding", "chunked"),
            OriginResponseFraming::CloseDelimited if self.header("connection").is_none() => {
                line("Connection", "close")
            }
            OriginResponseFraming::CloseDelimited | OriginResponseFraming::Undeclared => {}
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        304 => "Not Modified",
        404 => "Not Found",
        416 => "Range Not Satisfiable",
        _ => "As Scripted",
    }
}
