//! Values of flags. They are parsed with the command line, so that an error names the flag.
//!
//! Errors are [`ValueError`]s. They say what to write instead, and repeat no text that may contain a secret; nor does the `Debug` of a value.

mod checksum;
mod choice;
mod credentials;
mod duration;
mod header;
mod host;
mod listen;
mod maybe_time;
mod no_proxy;
mod proxy;
mod resolve;
mod secret;
mod size;
mod text;
mod url;

use http::HeaderValue;

pub(crate) use checksum::ChecksumArg;
pub(crate) use choice::choice;
pub(crate) use credentials::{BearerArg, UserArg, token};
pub(crate) use duration::DurationArg;
pub(crate) use header::HeaderArg;
pub(crate) use host::host_name;
pub(crate) use listen::listen_address;
pub(crate) use maybe_time::{OptionalTimeArg, keepalive};
pub(crate) use no_proxy::no_proxy;
pub(crate) use proxy::ProxyUrl;
pub(crate) use resolve::ResolveArg;
pub(crate) use secret::SecretText;
pub(crate) use size::SizeArg;
pub(crate) use text::UrlArg;
pub(crate) use url::HttpUrl;

/// Why a value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ValueError {
    text: String,
    hint: Option<String>,
}

impl ValueError {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
        }
    }

    /// An error about a value of a configuration file.
    pub(crate) fn of(text: &str) -> Self {
        Self::new(text)
    }

    /// A time shorter than `least`.
    pub(super) fn too_short(text: &str, least: &str) -> Self {
        Self::new(format!("{} is too short", quoted(text)))
            .with_hint(format!("the shortest time is {least}"))
    }

    /// What to write instead.
    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// What to write instead, if known.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A text as an error may repeat it: short, without control characters, and without the secrets of a URL, which is what stands here when
/// the value of a flag was forgotten.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let text = haul_net::redacted_text(text);
    let short: String = text.chars().take(LONGEST).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("\"{}{more}\"", short.escape_debug())
}

/// A count, such as retries.
pub(crate) fn non_negative_number(text: &str) -> Result<u32, ValueError> {
    text.trim().parse().map_err(|_| {
        ValueError::new(format!("{} is not a number", quoted(text))).with_hint("write 0 or more")
    })
}

/// A number of connections. More than some hundreds make a download slower and annoy the origin.
pub(crate) fn connection_count(text: &str) -> Result<u16, ValueError> {
    let number = text
        .trim()
        .parse()
        .ok()
        .filter(|number| (1..=256).contains(number));
    number.ok_or_else(|| {
        ValueError::new(format!("{} is not a number of connections", quoted(text)))
            .with_hint("from 1 to 256")
    })
}

/// A number of files at once. Each needs an open connection and an open file.
pub(crate) fn job_count(text: &str) -> Result<u16, ValueError> {
    let number = text
        .trim()
        .parse()
        .ok()
        .filter(|number| (1..=4096).contains(number));
    number.ok_or_else(|| {
        ValueError::new(format!("{} is not a number of files", quoted(text)))
            .with_hint("from 1 to 4096")
    })
}

pub(crate) fn thread_count(text: &str) -> Result<usize, ValueError> {
    number_within(text, 1024, "number of threads")
}

/// A number of warm connections, or 0.
pub(crate) fn warm_connections(text: &str) -> Result<usize, ValueError> {
    match text.trim() {
        "0" => Ok(0),
        text => number_within(text, 1024, "number")
            .map_err(|wrong| wrong.with_hint("from 1 to 1024, or 0 for none")),
    }
}

/// The target of a tunnel.
pub(crate) fn target(text: &str) -> Result<haul_net::Target, ValueError> {
    text.parse().map_err(|error: haul_net::TargetError| {
        ValueError::new(error.to_string())
            .with_hint("write HOST:PORT, as imap.example.com:993 or [::1]:22")
    })
}

/// A number of things that need memory each.
pub(crate) fn positive_number(text: &str) -> Result<usize, ValueError> {
    number_within(text, 1 << 24, "number")
}

fn number_within(text: &str, most: usize, what: &str) -> Result<usize, ValueError> {
    let wrong = match text.trim().parse::<u128>() {
        Ok(0) => "too few".to_owned(),
        Ok(number) => match usize::try_from(number)
            .ok()
            .filter(|number| *number <= most)
        {
            Some(number) => return Ok(number),
            None => "too many".to_owned(),
        },
        Err(_) => format!("not a {what}"),
    };
    Err(ValueError::new(format!("{} is {wrong}", quoted(text)))
        .with_hint(format!("from 1 to {most}")))
}

pub(crate) fn cache_control(text: &str) -> Result<HeaderValue, ValueError> {
    let text = text.trim();
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let value = Some(text).filter(|text| !text.is_empty() && text.chars().all(is_plain));
    value
        .and_then(|text| HeaderValue::from_str(text).ok())
        .ok_or_else(|| {
            ValueError::new(format!("{} is not a Cache-Control value", quoted(text)))
                .with_hint("write it as max-age=3600, no-cache or no-store")
        })
}

/// Splits behind a decimal number.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}
