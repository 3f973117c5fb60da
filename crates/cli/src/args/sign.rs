//! Flags of `haul sign`.

use std::path::PathBuf;

use clap::Args;
use haul_serve::access::SignableMethod;

use super::values::{DurationArg, HttpUrl, ValueError, choice};

/// Text below the flags.
const AFTER: &str = "\
TIME takes s, m, h, d, and seconds without a unit.
The server needs the same key: haul serve --sign-key FILE.";

/// `haul sign`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct SignArgs {
    /// The URL to sign, as clients will use it; a query is signed, too.
    #[arg(value_name = "URL", required_unless_present = "new_key", value_parser = signable_url)]
    pub(crate) url: Option<HttpUrl>,
    /// The signing key: a file of at least 16 bytes.
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    pub(crate) key: Option<PathBuf>,
    /// How long the URL is valid.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        value_parser = at_least_a_second,
        allow_negative_numbers = true
    )]
    pub(crate) expires: DurationArg,
    /// What the URL allows.
    #[arg(long, value_name = "METHOD", default_value = "GET", ignore_case = true, value_parser = choice([
        ("GET", SignableMethod::Get, "Read the file, or list the folder if the URL ends in /"),
        ("PUT", SignableMethod::Put, "Upload the file, any number of times"),
        ("DELETE", SignableMethod::Delete, "Delete the file"),
    ]))]
    pub(crate) method: SignableMethod,
    /// Make a key in a new file that only you can read; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "key"])]
    pub(crate) new_key: Option<PathBuf>,
}

/// A time of at least a second: URLs count seconds, and a shorter time would expire at once.
fn at_least_a_second(text: &str) -> Result<DurationArg, ValueError> {
    let time: DurationArg = text.parse()?;
    if time.0 < std::time::Duration::from_secs(1) {
        return Err(ValueError::too_short(text, "1s"));
    }
    Ok(time)
}

/// A URL of a `haul serve`. The errors are those of downloads, except for the scheme.
fn signable_url(text: &str) -> Result<HttpUrl, ValueError> {
    text.parse::<HttpUrl>()
        .map_err(|error| match text.split_once("://") {
            Some((scheme, _)) if !matches!(scheme, "http" | "https") => {
                error.with_hint("URLs of haul serve begin with http:// or https://")
            }
            _ => error,
        })
}
