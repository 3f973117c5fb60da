//! JSON: an object a line (RFC 8259), written straight into the line.

use std::io::Write;

use haul_service::observe::{UtcTimestamp, number};

use super::{LONGEST_FIELD, referer, target, version};
use crate::observe::AccessRecord;

/// One request as an object without a newline. Fields that are not there are null, so that each object has the same.
pub(super) fn object(record: &AccessRecord, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"time\":\"");
    UtcTimestamp::from(record.when).rfc3339(line);
    line.extend_from_slice(b"\",\"peer\":");
    match record.peer {
        // A `Vec` takes all that is written to it.
        Some(peer) => drop(write!(line, "\"{}\"", peer.to_canonical())),
        None => line.extend_from_slice(b"null"),
    }
    string(",\"user\":", record.user.as_deref(), line);
    let method = record.method.as_ref();
    string(",\"method\":", method.map(http::Method::as_str), line);
    let target = method.map(|_| target(record));
    string(",\"target\":", target.as_deref(), line);
    let version = method.map(|_| version(record.version));
    string(",\"version\":", version, line);
    line.extend_from_slice(b",\"status\":");
    number(line, u64::from(record.status.as_u16()), 3);
    line.extend_from_slice(b",\"sent\":");
    number(line, record.sent, 0);
    line.extend_from_slice(b",\"received\":");
    number(line, record.received, 0);
    line.extend_from_slice(b",\"seconds\":");
    number(line, record.took.as_secs(), 0);
    line.push(b'.');
    number(line, u64::from(record.took.subsec_micros()), 6);
    let from = record.referer.as_ref().map(referer);
    string(",\"referer\":", from.as_deref(), line);
    let agent = record.user_agent.as_ref();
    let agent = agent.map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    string(",\"user_agent\":", agent.as_deref(), line);
    let cut: &[u8] = match record.is_cut_short {
        true => b",\"cut_short\":true}",
        false => b",\"cut_short\":false}",
    };
    line.extend_from_slice(cut);
}

/// Appends a name with what surrounds it, and a text or null. Control characters are escaped, those above ASCII too: terminals
/// obey some of them.
fn string(name: &str, text: Option<&str>, line: &mut Vec<u8>) {
    line.extend_from_slice(name.as_bytes());
    let Some(text) = text else {
        line.extend_from_slice(b"null");
        return;
    };
    let shown = &text[..text.floor_char_boundary(LONGEST_FIELD)];
    line.push(b'"');
    for run in shown.split_inclusive(is_special) {
        let last = run.chars().next_back().filter(|c| is_special(*c));
        let plain = run.len() - last.map_or(0, char::len_utf8);
        line.extend_from_slice(&run.as_bytes()[..plain]);
        match last {
            Some(quote @ ('"' | '\\')) => drop(write!(line, "\\{quote}")),
            // Control characters are all below U+00A0.
            Some(control) => drop(write!(line, "\\u{:04x}", u32::from(control))),
            None => {}
        }
    }
    if shown.len() < text.len() {
        line.extend_from_slice(b"...");
    }
    line.push(b'"');
}

/// Whether a character cannot stand in a string, or should not: the two separators are newlines to JavaScript.
fn is_special(c: char) -> bool {
    matches!(c, '"' | '\\' | '\u{2028}' | '\u{2029}') || c.is_control()
}
