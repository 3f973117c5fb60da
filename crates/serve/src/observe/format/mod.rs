//! The formats of the access log: common, combined, JSON.
//!
//! Common and combined are Apache's to the byte, so that any tool for such logs reads these; text
//! from clients is escaped as nginx does (`\xHH` for quotes, backslashes, control bytes and
//! non-ASCII bytes). JSON has one object on each line, with keys of our own. Whatever a client
//! sends, a line holds no raw control byte, ends with its only newline, and has a bounded length;
//! secrets in targets and referers are masked.

mod json;
mod text;

use std::borrow::Cow;

use haul_net::redacted_target;
use http::{HeaderValue, Version};

use super::AccessRecord;

/// Maximum bytes of a client's field that are shown.
const MAX_FIELD_BYTES: usize = 8 * 1024;

/// The format of an access log.
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

/// The text names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an access log format: use common, combined or json")]
pub struct AccessLogFormatError {
    /// The text.
    pub text: String,
}

impl AccessLogFormat {
    /// Appends the line of a request, with its newline.
    pub fn render(self, record: &AccessRecord, line: &mut Vec<u8>) {
        match self {
            Self::Common => text::write_common(record, line),
            Self::Combined => text::write_combined(record, line),
            Self::Json => json::write_json(record, line),
        }
        line.push(b'\n');
    }
}

impl std::str::FromStr for AccessLogFormat {
    type Err = AccessLogFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "common" => Ok(Self::Common),
            "combined" => Ok(Self::Combined),
            "json" => Ok(Self::Json),
            _ => Err(AccessLogFormatError {
                text: text.to_owned(),
            }),
        }
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

#[cfg(test)]
mod tests;
