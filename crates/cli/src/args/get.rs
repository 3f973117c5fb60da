//! `haul get`, flag by flag: what is downloaded, where it goes, how fast, what is said.
//!
//! Flags stand in groups, a struct and a heading each; those of requests and connections are in
//! [`network`](super::network), those of lists in [`batch`](super::batch). The first paragraph of a flag is what `-h` shows, the rest comes with `--help`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use haul_plan::Checksum;

use super::batch::BatchArgs;
use super::network::{ConnectionArgs, RequestArgs};
use super::values::{SizeArg, UrlArg, connection_count};

/// What stands below the flags.
const AFTER: &str = "\
SIZE takes k, M, G, T, powers of 1024; TIME takes ms, s, m, h, d, and seconds without a unit.
The same command goes on where an interrupted one stopped.
Exit codes: 0 done, 1 some of several failed, 2 usage, 3 verification, 4 local disk,
5 network or origin, 130 interrupted, 141 reader of standard output gone.";

/// `haul get`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct GetArgs {
    /// What to download; several go on at once. `[1-9]` and `{a,b}` stand for many.
    #[arg(value_name = "URL", required_unless_present = "input")]
    pub(crate) urls: Vec<UrlArg>,
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
    pub(crate) messages: GetMessageArgs,
}

/// Where bytes go, and what they must be.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Write to FILE; `-` is standard output.
    ///
    /// For one URL only. Standard output, FIFOs and devices take the bytes in order as they come, over one connection;
    /// files are written under a temporary name beside FILE and get their own when they are whole and verified.
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FILE",
        conflicts_with = "directory"
    )]
    pub(crate) file: Option<PathBuf>,
    /// Put files into DIR, under the name that the origin or the URL gives.
    ///
    /// DIR is created if it is not there. Without -o and -d files go into the current directory.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Replace a file that is there.
    ///
    /// It stays in place until the new one is whole.
    #[arg(long, conflicts_with = "update")]
    pub(crate) overwrite: bool,
    /// Replace a file that is there if the origin has a newer one.
    ///
    /// The origin is asked by If-None-Match or If-Modified-Since, with what an earlier download noted on the file.
    #[arg(long)]
    pub(crate) update: bool,
    /// Do not use what an earlier run left, and leave nothing to a later one.
    #[arg(long)]
    pub(crate) no_resume: bool,
    /// Undo a Content-Encoding that the origin applied unasked.
    ///
    /// Without it such an answer is stored as it was sent, under a warning.
    #[arg(long)]
    pub(crate) decode: bool,
    /// Verify a digest, or print it when HEX is left out. Repeatable.
    ///
    /// ALGO is sha256, sha512, sha1, md5, blake3 or crc32c. What does not match is set aside as FILE.haul-bad-checksum and
    /// the exit code is 3. Digests to print go to standard output as `HEX  FILE`, which `sha256sum -c` and its like read.
    #[arg(long, value_name = "ALGO[:HEX]")]
    pub(crate) checksum: Vec<Checksum>,
}

impl OutputArgs {
    /// Whether the file goes to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        // `./-` is a file of that name.
        self.file
            .as_ref()
            .is_some_and(|file| file.as_os_str() == "-")
    }
}

/// How fast, and in what pieces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speed")]
pub(crate) struct SpeedArgs {
    /// Exactly N connections to an origin [default: found by itself, up to 16].
    ///
    /// By itself haul adds connections while the total rate rises, and takes some back when the origin refuses them. A
    /// given number is opened at once and lowered by refusals only.
    #[arg(
        short = 'x',
        long,
        value_name = "N",
        value_parser = connection_count,
        allow_negative_numbers = true
    )]
    pub(crate) max_connections: Option<u16>,
    /// No segment smaller than this, but for a file's last; by itself haul goes down to 256k towards the end.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) min_segment_size: Option<SizeArg>,
    /// All segments of this size, instead of sizes found by itself.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) segment_size: Option<SizeArg>,
    /// No faster than this many bytes a second, all connections together.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate: Option<SizeArg>,
}

/// What is said meanwhile and at the end.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct GetMessageArgs {
    /// How to show progress on standard error.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProgressKind::Auto)]
    pub(crate) progress: ProgressKind,
    /// Print the result as one JSON object a URL on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Errors only.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// A line for each segment: range, ms, size, rate. Of a batch, a line for each file.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressKind {
    /// A bar on a terminal, nothing elsewhere.
    Auto,
    /// A bar, even where no terminal is seen.
    Bar,
    /// A line a second.
    Plain,
    /// A JSON object a line, and nothing else on standard error.
    Json,
    /// Nothing.
    None,
}
