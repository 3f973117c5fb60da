//! The access log: a [`LineLog`] whose lines are requests, in one of the formats.
//!
//! The owner of the [`LineLog`] opens, closes and rotates it.
//!
//! Common and combined are Apache's to the byte, so that any tool for such logs reads these; text
//! from clients is escaped as nginx does (`\xHH` for quotes, backslashes, control bytes and
//! non-ASCII bytes). JSON has one object on each line, with keys of our own. Whatever a client
//! sends, a line holds no raw control byte, ends with its only newline, and has a bounded length;
//! secrets in targets and referers are masked.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_net::redacted_target;
use haul_service::observe::{LineLog, UtcTimestamp, write_number};
use http::{HeaderValue, Method, StatusCode, Uri, Version};

/// Writes requests to a log. A clone writes to the same log.
#[derive(Debug, Clone)]
pub struct AccessLog {
    log: Arc<LineLog>,
    format: AccessLogFormat,
}

impl AccessLog {
    /// The name of the log, in messages and in the names of metrics.
    pub const NAME: &str = "access log";

    #[must_use]
    pub fn new(log: Arc<LineLog>, format: AccessLogFormat) -> Self {
        Self { log, format }
    }

    /// Logs a request, or drops its line and counts that. Never waits for the disk.
    pub fn write(&self, record: &AccessRecord) {
        self.log.write(|line| self.format.render(record, line));
    }
}

/// One request. Its fields are types of the `http` crate, so making a record copies nothing but a
/// few reference counts. It holds the client's text as it was sent; the formats mask and escape it.
#[derive(Debug, Clone)]
pub struct AccessRecord {
    /// When its head was read.
    pub time: SystemTime,
    /// The client's address; `None` for a Unix socket.
    pub peer: Option<IpAddr>,
    /// The user it was authorized as; `None` without credentials, or with wrong ones.
    pub user: Option<Arc<str>>,
    /// The method; `None` for a request that could not be parsed, whose target and version mean
    /// nothing either.
    pub method: Option<Method>,
    /// The request target. Its query may hold secrets, which no format shows.
    pub target: Uri,
    pub version: Version,
    pub status: StatusCode,
    /// Bytes of the response body that were sent.
    pub sent: u64,
    /// Bytes of the request body that were received.
    pub received: u64,
    /// From its head to the last byte of the response.
    pub duration: Duration,
    pub referer: Option<HeaderValue>,
    pub user_agent: Option<HeaderValue>,
    /// Whether the response ended early: the client went away, or the file shrank. Common and
    /// combined have no field for it, JSON has.
    pub is_incomplete: bool,
}

/// Maximum bytes of a client's field that are shown.
const MAX_FIELD_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessLogFormat {
    /// Apache's `%h %l %u %t "%r" %>s %b`.
    Common,
    /// Common with referer and user agent: what most tools expect.
    #[default]
    Combined,
    /// One JSON object on each line, with all fields.
    Json,
}

impl AccessLogFormat {
    /// Appends the line of a request, with its newline.
    pub fn render(self, record: &AccessRecord, line: &mut Vec<u8>) {
        match self {
            Self::Common => write_common(record, line),
            Self::Combined => write_combined(record, line),
            Self::Json => write_json(record, line),
        }
        line.push(b'\n');
    }
}

/// A request's target as it was in the request line. HTTP/2 has no such line; as in nginx, path and
/// query are shown.
fn shown_request_target(record: &AccessRecord) -> Cow<'_, str> {
    let uri = &record.target;
    match uri.path_and_query() {
        Some(path) if record.version >= Version::HTTP_2 || uri.authority().is_none() => {
            redacted_target(path.as_str())
        }
        _ => Cow::Owned(redacted_target(&uri.to_string()).into_owned()),
    }
}

/// A referer with its secrets masked.
fn redacted_referer(value: &HeaderValue) -> Cow<'_, str> {
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => redacted_target(text),
        Err(_) => {
            Cow::Owned(redacted_target(&String::from_utf8_lossy(value.as_bytes())).into_owned())
        }
    }
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/1.1",
    }
}

/// Marks an absent field.
const ABSENT: &[u8] = b"-";

/// Apache's `%h %l %u %t "%r" %>s %b`.
fn write_common(record: &AccessRecord, line: &mut Vec<u8>) {
    match record.peer {
        // Writing to a `Vec` cannot fail.
        Some(peer) => drop(write!(line, "{}", peer.to_canonical())),
        // As nginx writes it.
        None => line.extend_from_slice(b"unix:"),
    }
    line.extend_from_slice(b" - ");
    match record.user.as_deref() {
        Some("") => line.extend_from_slice(b"\"\""),
        Some(user) => write_escaped(user.as_bytes(), b" ", line),
        None => line.extend_from_slice(ABSENT),
    }
    line.extend_from_slice(b" [");
    UtcTimestamp::from(record.time).write_common(line);
    line.extend_from_slice(b"] \"");
    match &record.method {
        Some(method) => {
            write_escaped(method.as_str().as_bytes(), b"", line);
            line.push(b' ');
            write_escaped(shown_request_target(record).as_bytes(), b"", line);
            line.push(b' ');
            line.extend_from_slice(version_name(record.version).as_bytes());
        }
        None => line.extend_from_slice(ABSENT),
    }
    line.extend_from_slice(b"\" ");
    write_number(line, u64::from(record.status.as_u16()), 3);
    line.push(b' ');
    match record.sent {
        0 => line.extend_from_slice(ABSENT),
        sent => write_number(line, sent, 0),
    }
}

/// Common, and `"%{Referer}i" "%{User-Agent}i"`.
fn write_combined(record: &AccessRecord, line: &mut Vec<u8>) {
    write_common(record, line);
    let referer = record.referer.as_ref().map(redacted_referer);
    write_quoted(referer.as_deref().map(str::as_bytes), line);
    let agent = record.user_agent.as_ref();
    write_quoted(agent.map(HeaderValue::as_bytes), line);
}

fn write_quoted(field: Option<&[u8]>, line: &mut Vec<u8>) {
    line.extend_from_slice(b" \"");
    write_escaped(field.unwrap_or(ABSENT), b"", line);
    line.push(b'"');
}

/// Appends client text, up to a length, so that it ends no field: everything but plain ASCII, and
/// the bytes in `also`, is written as `\xHH`.
fn write_escaped(field: &[u8], also: &[u8], line: &mut Vec<u8>) {
    let visible = &field[..field.len().min(MAX_FIELD_BYTES)];
    let is_plain = |byte: u8| {
        (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\' && !also.contains(&byte)
    };
    for run in visible.chunk_by(|a, b| is_plain(*a) && is_plain(*b)) {
        match run {
            [byte] if !is_plain(*byte) => drop(write!(line, "\\x{byte:02X}")),
            plain => line.extend_from_slice(plain),
        }
    }
    if visible.len() < field.len() {
        line.extend_from_slice(b"...");
    }
}

/// Writes one request as an object without a newline. Absent fields are null, so that all objects
/// have the same keys.
fn write_json(record: &AccessRecord, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"time\":\"");
    UtcTimestamp::from(record.time).write_rfc3339(line);
    line.extend_from_slice(b"\",\"peer\":");
    match record.peer {
        // Writing to a `Vec` cannot fail.
        Some(peer) => drop(write!(line, "\"{}\"", peer.to_canonical())),
        None => line.extend_from_slice(b"null"),
    }
    write_json_field(",\"user\":", record.user.as_deref(), line);
    let method = record.method.as_ref();
    write_json_field(",\"method\":", method.map(Method::as_str), line);
    let target = method.map(|_| shown_request_target(record));
    write_json_field(",\"target\":", target.as_deref(), line);
    let version = method.map(|_| version_name(record.version));
    write_json_field(",\"version\":", version, line);
    line.extend_from_slice(b",\"status\":");
    write_number(line, u64::from(record.status.as_u16()), 3);
    line.extend_from_slice(b",\"sent\":");
    write_number(line, record.sent, 0);
    line.extend_from_slice(b",\"received\":");
    write_number(line, record.received, 0);
    line.extend_from_slice(b",\"seconds\":");
    write_number(line, record.duration.as_secs(), 0);
    line.push(b'.');
    write_number(line, u64::from(record.duration.subsec_micros()), 6);
    let referer = record.referer.as_ref().map(redacted_referer);
    write_json_field(",\"referer\":", referer.as_deref(), line);
    let agent = record.user_agent.as_ref();
    let agent = agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    write_json_field(",\"user_agent\":", agent.as_deref(), line);
    let cut: &[u8] = if record.is_incomplete {
        b",\"cut_short\":true}"
    } else {
        b",\"cut_short\":false}"
    };
    line.extend_from_slice(cut);
}

/// Appends a key with its punctuation, and a string or null. Control characters are escaped, also
/// those above ASCII: terminals obey some of them.
fn write_json_field(name: &str, text: Option<&str>, line: &mut Vec<u8>) {
    line.extend_from_slice(name.as_bytes());
    let Some(text) = text else {
        line.extend_from_slice(b"null");
        return;
    };
    let visible = &text[..text.floor_char_boundary(MAX_FIELD_BYTES)];
    line.push(b'"');
    for run in visible.split_inclusive(must_escape) {
        let last = run.chars().next_back().filter(|c| must_escape(*c));
        let plain = run.len() - last.map_or(0, char::len_utf8);
        line.extend_from_slice(&run.as_bytes()[..plain]);
        match last {
            Some(quote @ ('"' | '\\')) => drop(write!(line, "\\{quote}")),
            // Control characters are all below U+00A0.
            Some(control) => drop(write!(line, "\\u{:04x}", u32::from(control))),
            None => {}
        }
    }
    if visible.len() < text.len() {
        line.extend_from_slice(b"...");
    }
    line.push(b'"');
}

/// Whether a character must be escaped, or should be: U+2028 and U+2029 are newlines to JavaScript.
fn must_escape(c: char) -> bool {
    matches!(c, '"' | '\\' | '\u{2028}' | '\u{2029}') || c.is_control()
}
