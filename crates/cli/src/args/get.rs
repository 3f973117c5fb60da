//! `haul get`, flag by flag.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use haul_plan::Checksum;

use super::values::{Duration, Field, HttpUrl, Resolve, Size};

/// `haul get`.
#[derive(Debug, Args)]
#[command(after_help = "SIZE takes k, M, G, T (powers of 1024); TIME takes ms, s, m, h.\n\
    Exit codes: 0 done, 1 some of several failed, 2 usage, 3 verification, 4 local disk, 5 network or origin, 130 interrupted.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct GetArgs {
    /// What to download; several go on at once.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<HttpUrl>,

    /// Write to FILE; `-` is standard output.
    #[arg(short, long, value_name = "FILE", help_heading = "Output", conflicts_with = "directory")]
    pub(crate) output: Option<PathBuf>,
    /// Put files into DIR, under the name that the origin or the URL gives.
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub(crate) directory: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long, help_heading = "Output", conflicts_with = "update")]
    pub(crate) overwrite: bool,
    /// Replace a file that is there if the origin has a newer one.
    #[arg(long, help_heading = "Output")]
    pub(crate) update: bool,
    /// Do not use what an earlier run left, and leave nothing to a later one.
    #[arg(long, help_heading = "Output")]
    pub(crate) no_resume: bool,
    /// Undo a Content-Encoding that the origin applied unasked.
    #[arg(long, help_heading = "Output")]
    pub(crate) decode: bool,
    /// Verify a digest, or print it when HEX is left out: sha256, sha512, sha1, md5, blake3, crc32c. Repeatable.
    #[arg(long, value_name = "ALGO[:HEX]", help_heading = "Output")]
    pub(crate) checksum: Vec<Checksum>,

    /// Exactly N connections to an origin [default: found by itself, up to 16].
    #[arg(short = 'x', long, value_name = "N", help_heading = "Speed", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) max_connections: Option<u16>,
    /// No segment smaller than this.
    #[arg(long, value_name = "SIZE", default_value = "1M", help_heading = "Speed")]
    pub(crate) min_segment_size: Size,
    /// All segments of this size, instead of sizes found by itself.
    #[arg(long, value_name = "SIZE", help_heading = "Speed")]
    pub(crate) segment_size: Option<Size>,
    /// No faster than this many bytes a second, all connections together.
    #[arg(long, value_name = "SIZE", help_heading = "Speed")]
    pub(crate) limit_rate: Option<Size>,

    /// Add a header field; `Name:` removes one of our own. Repeatable.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = "Request")]
    pub(crate) headers: Vec<Field>,
    /// Log in by Basic or Digest; without a password it is asked for.
    #[arg(short, long, value_name = "USER[:PASSWORD]", help_heading = "Request", conflicts_with = "bearer", value_parser = NonEmptyStringValueParser::new(), hide_env_values = true)]
    pub(crate) user: Option<String>,
    /// Send a token; `@FILE` reads it from there, so that no process list shows it.
    #[arg(long, value_name = "TOKEN|@FILE", help_heading = "Request", hide_env_values = true)]
    pub(crate) bearer: Option<String>,
    /// Take logins from ~/.netrc, or from FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Request")]
    pub(crate) netrc: Option<PathBuf>,
    /// Follow no more redirects in a row.
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Request")]
    pub(crate) max_redirs: usize,
    /// Follow redirects from https to http.
    #[arg(long, help_heading = "Request")]
    pub(crate) allow_downgrade: bool,

    /// Through this proxy (http, https, socks5, socks5h); '' for none, whatever the environment says.
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    pub(crate) proxy: Option<String>,
    /// Trust the authorities in this PEM file and no others.
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) cacert: Option<PathBuf>,
    /// Trust any certificate: anyone in between can read and change what comes.
    #[arg(short = 'k', long, help_heading = "Connection")]
    pub(crate) insecure: bool,
    /// Show this certificate (PEM).
    #[arg(long, value_name = "FILE", help_heading = "Connection", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert (PEM).
    #[arg(long, value_name = "FILE", help_heading = "Connection", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Use ADDRESS for HOST:PORT without asking a name server. Repeatable.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", help_heading = "Connection")]
    pub(crate) resolve: Vec<Resolve>,
    /// IPv4 only.
    #[arg(short = '4', long, help_heading = "Connection", conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// IPv6 only.
    #[arg(short = '6', long, help_heading = "Connection")]
    pub(crate) ipv6: bool,
    /// Give up on a connection that is not made by then.
    #[arg(long, value_name = "TIME", default_value = "15s", help_heading = "Connection")]
    pub(crate) connect_timeout: Duration,
    /// Give up on a connection that brings nothing for so long.
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Connection")]
    pub(crate) stall_timeout: Duration,
    /// Try again no more often than this without progress in between.
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Connection")]
    pub(crate) retries: u32,

    /// How to show progress on standard error.
    #[arg(long, value_enum, default_value_t = ProgressKind::Auto, help_heading = "Messages")]
    pub(crate) progress: ProgressKind,
    /// Print the result as one JSON object a URL on standard output.
    #[arg(long, help_heading = "Messages")]
    pub(crate) json: bool,
    /// Errors only.
    #[arg(short, long, help_heading = "Messages", conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// A line for each segment: range, ms, size, rate.
    #[arg(short, long, help_heading = "Messages")]
    pub(crate) verbose: bool,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressKind {
    /// A bar on a terminal, nothing elsewhere.
    Auto,
    /// A bar.
    Bar,
    /// A line a second.
    Plain,
    /// A JSON object a line.
    Json,
    /// Nothing.
    None,
}
