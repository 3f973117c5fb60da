//! `haul sign`.

use std::path::PathBuf;

use clap::Args;
use haul_serve::access::SignableMethod;

use super::values::{DurationArg, HttpUrl, ValueError, choice};

/// What stands below the flags.
const AFTER: &str = "\
TIME takes s, m, h, d, and seconds without a unit.
The server that is to take the URL knows the key: haul serve --sign-key FILE.";

/// `haul sign`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct SignArgs {
    /// What may be used, as the server is reached; a query is signed with it.
    #[arg(value_name = "URL", required_unless_present = "new_key", value_parser = signable_url)]
    pub(crate) url: Option<HttpUrl>,
    /// The key that signs: a file of at least 16 bytes.
    #[arg(long, value_name = "FILE", required_unless_present = "new_key")]
    pub(crate) key: Option<PathBuf>,
    /// For how long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        value_parser = at_least_a_second,
        allow_negative_numbers = true
    )]
    pub(crate) expires: DurationArg,
    /// What may be done with it.
    #[arg(long, value_name = "METHOD", default_value = "GET", ignore_case = true, value_parser = choice::<SignableMethod, 3>([
        ("GET", "Read it, or list it if it is a folder and the URL ends in /"),
        ("PUT", "Upload to it, as often as one likes until then"),
        ("DELETE", "Delete it"),
    ]))]
    pub(crate) method: SignableMethod,
    /// Make a key in a new file, readable for you alone; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "key"])]
    pub(crate) new_key: Option<PathBuf>,
}

/// A time of a second at least: that is what a URL counts in, and with less it expires as it is made.
fn at_least_a_second(text: &str) -> Result<DurationArg, ValueError> {
    let time: DurationArg = text.parse()?;
    if time.0 < std::time::Duration::from_secs(1) {
        return Err(ValueError::too_short(text, "1s"));
    }
    Ok(time)
}

/// A URL that a server like ours may have. What is wrong with it is told as for downloads, of which this is none.
fn signable_url(text: &str) -> Result<HttpUrl, ValueError> {
    text.parse::<HttpUrl>()
        .map_err(|error| match text.split_once("://") {
            Some((scheme, _)) if !matches!(scheme, "http" | "https") => {
                error.with_hint("haul serve is reached by http:// and https://")
            }
            _ => error,
        })
}
