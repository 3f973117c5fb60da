//! Common and combined: fields separated by spaces, with quotes around client text.

use std::io::Write;

use haul_service::observe::{UtcTimestamp, write_number};

use super::{MAX_FIELD_BYTES, redacted_referer, shown_request_target, version_name};
use crate::observe::AccessRecord;

/// Marks an absent field.
const ABSENT: &[u8] = b"-";

/// Apache's `%h %l %u %t "%r" %>s %b`.
pub(super) fn write_common(record: &AccessRecord, line: &mut Vec<u8>) {
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
pub(super) fn write_combined(record: &AccessRecord, line: &mut Vec<u8>) {
    write_common(record, line);
    let referer = record.referer.as_ref().map(redacted_referer);
    write_quoted(referer.as_deref().map(str::as_bytes), line);
    let agent = record.user_agent.as_ref();
    write_quoted(agent.map(http::HeaderValue::as_bytes), line);
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
