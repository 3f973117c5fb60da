//! Common and combined: fields between spaces, quotes around what a peer sent.

use std::io::Write;

use haul_service::observe::{UtcTimestamp, number};

use super::{LONGEST_FIELD, referer, target, version};
use crate::observe::AccessRecord;

/// What stands for a field that is not there.
const NONE: &[u8] = b"-";

/// Apache's `%h %l %u %t "%r" %>s %b`.
pub(super) fn common(record: &AccessRecord, line: &mut Vec<u8>) {
    match record.peer {
        // A `Vec` takes all that is written to it.
        Some(peer) => drop(write!(line, "{}", peer.to_canonical())),
        // As nginx calls it.
        None => line.extend_from_slice(b"unix:"),
    }
    line.extend_from_slice(b" - ");
    match record.user.as_deref() {
        Some("") => line.extend_from_slice(b"\"\""),
        Some(user) => escaped(user.as_bytes(), b" ", line),
        None => line.extend_from_slice(NONE),
    }
    line.extend_from_slice(b" [");
    UtcTimestamp::from(record.when).common(line);
    line.extend_from_slice(b"] \"");
    match &record.method {
        Some(method) => {
            escaped(method.as_str().as_bytes(), b"", line);
            line.push(b' ');
            escaped(target(record).as_bytes(), b"", line);
            line.push(b' ');
            line.extend_from_slice(version(record.version).as_bytes());
        }
        None => line.extend_from_slice(NONE),
    }
    line.extend_from_slice(b"\" ");
    number(line, u64::from(record.status.as_u16()), 3);
    line.push(b' ');
    match record.sent {
        0 => line.extend_from_slice(NONE),
        sent => number(line, sent, 0),
    }
}

/// Common, and `"%{Referer}i" "%{User-Agent}i"`.
pub(super) fn combined(record: &AccessRecord, line: &mut Vec<u8>) {
    common(record, line);
    let referer = record.referer.as_ref().map(referer);
    quoted(referer.as_deref().map(str::as_bytes), line);
    let agent = record.user_agent.as_ref();
    quoted(agent.map(http::HeaderValue::as_bytes), line);
}

fn quoted(field: Option<&[u8]>, line: &mut Vec<u8>) {
    line.extend_from_slice(b" \"");
    escaped(field.unwrap_or(NONE), b"", line);
    line.push(b'"');
}

/// Appends what a peer sent, up to a length, so that it ends no field: all but plain ASCII, and what `also` says, as `\xHH`.
fn escaped(field: &[u8], also: &[u8], line: &mut Vec<u8>) {
    let shown = &field[..field.len().min(LONGEST_FIELD)];
    let is_plain = |byte: u8| {
        (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\' && !also.contains(&byte)
    };
    for run in shown.chunk_by(|a, b| is_plain(*a) && is_plain(*b)) {
        match run {
            [byte] if !is_plain(*byte) => drop(write!(line, "\\x{byte:02X}")),
            plain => line.extend_from_slice(plain),
        }
    }
    if shown.len() < field.len() {
        line.extend_from_slice(b"...");
    }
}
