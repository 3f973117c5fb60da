//! JSON: one object on each line (RFC 8259), written straight into the line.

use std::io::Write;

use haul_service::observe::{UtcTimestamp, write_number};

use super::{MAX_FIELD_BYTES, redacted_referer, shown_request_target, version_name};
use crate::observe::AccessRecord;

/// Writes one request as an object without a newline. Absent fields are null, so that all objects
/// have the same keys.
pub(super) fn write_json(record: &AccessRecord, line: &mut Vec<u8>) {
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
    write_json_field(",\"method\":", method.map(http::Method::as_str), line);
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
    let cut: &[u8] = match record.is_incomplete {
        true => b",\"cut_short\":true}",
        false => b",\"cut_short\":false}",
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
