//! Values of flags. They are parsed with the command line, so that an error names the flag.
//!
//! Errors are [`ValueError`]s. They say what to write instead, and repeat no text that may contain a secret; nor does the `Debug` of a value.

mod checksum;
mod credentials;
mod network;
mod quantities;
mod urls;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

pub(crate) use checksum::ChecksumArg;
pub(crate) use credentials::{BearerArg, SecretText, UserArg, token};
pub(crate) use network::{
    HeaderArg, ProxyAlternative, ProxyAlternatives, ProxyUrl, ResolveArg, admin_address,
    cache_control, host_name, listen_address, no_proxy, target,
};
pub(crate) use quantities::{
    DurationArg, MinRateArg, OptionalTimeArg, SizeArg, connection_count, job_count, keepalive,
    non_negative_number, part_size, positive_number, thread_count, warm_connections,
};
pub(crate) use urls::{DownloadUrl, HttpUrl, UrlArg, s3_address};

/// Why a value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ValueError {
    text: String,
    hint: Option<String>,
}

impl ValueError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
        }
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

/// A parser that accepts these words, each with its value and its help text.
pub(crate) fn choice<T: Clone + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let shown = |(word, _, meaning): &(&'static str, T, &'static str)| {
        PossibleValue::new(*word).help(*meaning)
    };
    PossibleValuesParser::new(words.each_ref().map(shown)).map(move |text| {
        let mut words = words.iter();
        let Some((_, value, _)) = words.find(|(word, ..)| word.eq_ignore_ascii_case(&text)) else {
            unreachable!("the parser accepts no other words")
        };
        value.clone()
    })
}
