//! Flags of `haul get`: what to download, where to, how fast, which messages.
//!
//! Each group of flags is a struct with a heading. Requests and connections are in [`network`](super::network), lists in
//! [`batch`](super::batch). `-h` shows the first paragraph of a flag, `--help` the rest.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haul_plan::DigestAlgorithm;
use haul_transfer::RobotsTagPolicy;

use super::batch::BatchArgs;
use super::key_filter::KeyFilterArgs;
use super::network::{ConnectionArgs, DownloadLimitArgs, HttpVersionArgs, RequestArgs};
use super::s3::S3Args;
use super::values::{ChecksumArg, SizeArg, UrlArg, choice, connection_count};

/// Text below the flags.
const AFTER: &str = "\
SIZE takes k, M, G, T, powers of 1024; TIME takes ms, s, m, h, d, and seconds without a unit.
The same command resumes an interrupted download.
Exit codes: 0 done, 1 some of several failed, 2 usage, 3 verification, 4 local disk,
5 network or origin, 130 interrupted, 141 standard output closed by its reader.";

/// `haul get`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct GetArgs {
    /// URLs to download, all at once. `[1-9]` and `{a,b}` expand to many.
    #[arg(value_name = "URL", required_unless_present = "input")]
    pub(crate) urls: Vec<UrlArg>,
    /// Download everything below s3:// folders, each file to its path in DIR; s3://BUCKET/photos is all of `photos/`.
    ///
    /// A key that is not a path (`..`, an empty segment) fails with a message; haul downloads the others.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) filter: KeyFilterArgs,
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) speed: SpeedArgs,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) limits: DownloadLimitArgs,
    #[command(flatten)]
    pub(crate) version: HttpVersionArgs,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) messages: GetMessageArgs,
}

/// Where to write, and what to verify.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write to FILE; `-` is standard output.
    ///
    /// For one URL only. Standard output, FIFOs and devices get the bytes in order over one connection. A regular file is written under a
    /// temporary name beside FILE and renamed when it is complete and verified. With -d, FILE is a path in DIR. haul creates missing directories.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Write files into DIR, named by the origin or the URL.
    ///
    /// haul creates DIR if needed. Without -o and -d files go into the current directory.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Replace existing files.
    ///
    /// An existing file stays in place until the new one is complete.
    #[arg(long, conflicts_with = "update")]
    pub(crate) overwrite: bool,
    /// Replace an existing file if the origin has a newer one.
    ///
    /// haul asks with If-None-Match or If-Modified-Since, using the validator that an earlier download stored with the file.
    #[arg(long)]
    pub(crate) update: bool,
    /// Do not resume an earlier run, and leave no partial file.
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Decode a Content-Encoding that haul did not request.
    ///
    /// By default haul stores such a response as it was sent, with a warning.
    #[arg(long)]
    pub(crate) decode: bool,
    /// Respect or ignore an origin's X-Robots-Tag.
    ///
    /// These directives forbid the use of a file: noai, noimageai, noindex, noimageindex and none. haul ignores those for robots of other
    /// names. With `respect`, such a file fails before haul reads its body.
    #[arg(long, value_name = "WHAT", default_value = "ignore", value_parser = choice([
        ("ignore", RobotsTagPolicy::Ignore, "Download the file anyway: you chose it"),
        ("respect", RobotsTagPolicy::Respect, "Fail if it forbids the use of the file"),
    ]))]
    pub(crate) robots_tag: RobotsTagPolicy,
    /// Verify a digest, or print it if you leave out HEX; `@FILE` finds it in FILE. Repeatable.
    #[arg(long, value_name = "ALGO[:HEX]", long_help = checksum_help())]
    pub(crate) checksum: Vec<ChecksumArg>,
}

/// The help of `--checksum`, with the names of all algorithms.
fn checksum_help() -> String {
    format!(
        "\
Verify a digest, or print it if you leave out HEX; `@FILE` finds it in FILE. Repeatable.

ALGO is one of {}; haul recognises a bare HEX by its length. FILE contains one digest, or a list of digests such as SHA256SUMS, in the \
format of sha256sum, BSD, openssl or gpg --print-md. It can be clear-signed; haul does not check the signature. haul uses the entry with \
the longest path that the URL ends with. If a file does not match, haul renames it to FILE.haul-bad-checksum and exits with code 3. \
Digests go to standard output as `HEX  FILE`, the format of `sha256sum -c` and similar tools.",
        DigestAlgorithm::names()
    )
}

impl OutputArgs {
    pub(crate) fn is_stdout(&self) -> bool {
        // `./-` names a file.
        self.file
            .as_ref()
            .is_some_and(|file| file.as_os_str() == "-")
    }
}

/// Connections, segments and rate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speed")]
pub(crate) struct SpeedArgs {
    /// Exactly N connections to an origin [default: automatic, up to 16].
    ///
    /// By default haul adds connections while the total rate rises, and closes some when the origin refuses them. With N, haul
    /// opens all connections at once, and closes some only when the origin refuses them.
    #[arg(
        short = 'x',
        long,
        value_name = "N",
        value_parser = connection_count,
        allow_negative_numbers = true
    )]
    pub(crate) max_connections: Option<u16>,
    /// Smallest segment, except a file's last [default: automatic, down to 256k near the end].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) min_segment_size: Option<SizeArg>,
    /// Use segments of this size [default: automatic].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) segment_size: Option<SizeArg>,
    /// Limit the total rate, in bytes a second.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate: Option<SizeArg>,
}

/// Progress and results.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct GetMessageArgs {
    /// How to show progress on standard error.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProgressKind::Auto)]
    pub(crate) progress: ProgressKind,
    /// Print one JSON object for each URL on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print a line for each segment: range, ms, size, rate. In a batch, a line for each file.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressKind {
    /// A bar on a terminal, otherwise nothing.
    Auto,
    /// A bar, even without a terminal.
    Bar,
    /// One line a second.
    Plain,
    /// One JSON object a line, and nothing else on standard error.
    Json,
    /// Nothing.
    None,
}
