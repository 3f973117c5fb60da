//! Flags of `haul bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use url::Url;

use super::peer::PeerTlsArgs;
use super::values::{DownloadUrl, DurationArg, HttpUrl};

/// `haul bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// Text below the flags of an experiment.
const AFTER: &str = "\
SIZE takes k, M, G, powers of 1024, and RATE also kbit, Mbit, Gbit; TIME takes ms, s,
m, h, and seconds without a unit.
Exit codes: 0 done, 1 some cells could not be measured, 2 usage, 4 this machine,
5 nothing could be measured, 130 interrupted: what was measured by then is reported.";

/// Text below the flags of a load.
const LOAD_AFTER: &str = "\
TIME takes ms, s, m, h, and seconds without a unit.
Exit codes: 0 done, 1 some requests failed, 2 usage, 5 no request had a success,
130 interrupted: what was measured by then is printed.";

/// An experiment, or something about experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One large file over 1 to 32 connections, and over as many as haul chooses.
    ///
    /// Without a URL from `haul serve` on this machine, over links with a delay and a rate for each connection. haul sends nothing to a host that
    /// you do not name.
    #[command(after_help = AFTER)]
    Accelerate(BenchUrlArgs),
    /// Small and large files, one after the other and all at once, over HTTP, HTTPS and HTTP/2.
    #[command(after_help = AFTER)]
    Quirks {
        /// Files to fetch, in place of some on this machine: small ones and large ones.
        #[arg(value_name = "URL")]
        urls: Vec<HttpUrl>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// 100 files, 5 to 100 at a time, by threads and by an event loop; and a server whose queue is too short.
    #[command(after_help = AFTER)]
    Sweep {
        /// Files to fetch, in place of some on this machine.
        #[arg(value_name = "URL")]
        urls: Vec<HttpUrl>,
        /// Fetch the URLs of LIST, one a line.
        #[arg(short, long, value_name = "LIST", conflicts_with = "urls")]
        input: Option<PathBuf>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// PUT, GET and DELETE; without a URL with the four ways in which `haul serve` accepts connections.
    ///
    /// At a URL of yours files with random names are stored below it, and removed.
    #[command(after_help = AFTER)]
    Store(BenchUrlArgs),
    /// Small files directly, through a proxy, and through `haul tunnel` and the proxy.
    #[command(after_help = AFTER)]
    Tunnel {
        /// Use this HTTP proxy, in place of one inside haul. It must be able to reach this machine.
        #[arg(short, long, value_name = "HOST:PORT")]
        proxy: Option<String>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// One large object and many small ones, to S3 and from it.
    ///
    /// In a bucket of yours objects are stored below the prefix, in a folder with a random name, and removed. Credentials and endpoint are found as by
    /// `haul put`.
    #[command(after_help = AFTER)]
    S3(BenchUrlArgs),
    /// Many requests for URLs of a server, as ab and wrk send them: requests a second, latencies, failures.
    #[command(after_help = LOAD_AFTER)]
    Load(BenchLoadArgs),
    /// All experiments, in less than four minutes.
    #[command(after_help = AFTER)]
    All(BenchRunArgs),
    /// An experiment of your own: factors, levels and rounds in a file. `haul bench show` prints examples.
    #[command(after_help = AFTER)]
    Run {
        /// The experiment's file.
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
        /// The server to measure, in place of one on this machine.
        #[arg(value_name = "URL")]
        urls: Vec<DownloadUrl>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// Print the file of a built-in experiment, or without a name what there is.
    Show {
        /// The experiment.
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Compare two runs: the results.json of each.
    Compare {
        /// The earlier run.
        #[arg(value_name = "A.json")]
        before: PathBuf,
        /// The later run.
        #[arg(value_name = "B.json")]
        after: PathBuf,
    },
}

/// A load.
#[derive(Debug, Args)]
pub(crate) struct BenchLoadArgs {
    /// What is requested, in turn.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<HttpUrl>,
    /// Requests at a time.
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// How long requests begin.
    #[arg(short, long, value_name = "TIME", default_value = "10s")]
    pub(crate) time: DurationArg,
    /// End after N requests, and not after a time.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Begin N requests a second, whatever the responses do; latencies count from the moment at which a request was due.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Use HTTP/2, on one connection for each processor. Only for https URLs.
    #[arg(long)]
    pub(crate) http2: bool,
    /// Make a connection for each request.
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// Print the measurement as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no line at the start.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Allow more than 100 requests a second at a host that is not this machine.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten, next_help_heading = "TLS")]
    pub(crate) tls: PeerTlsArgs,
}

/// An experiment with a server.
#[derive(Debug, Args)]
pub(crate) struct BenchUrlArgs {
    /// The server to measure, in place of one on this machine.
    #[arg(value_name = "URL")]
    pub(crate) url: Option<DownloadUrl>,
    #[command(flatten)]
    pub(crate) run: BenchRunArgs,
}

impl BenchUrlArgs {
    pub(crate) fn targets(&self) -> Vec<Url> {
        self.url.iter().map(|url| url.0.clone()).collect()
    }
}

/// How an experiment is run, and where its results go.
#[derive(Debug, Args)]
pub(crate) struct BenchRunArgs {
    /// Use the sizes of the write-ups: most of an hour rather than minutes.
    #[arg(long)]
    pub(crate) full: bool,
    /// Begin no further round after TIME, for each experiment; but four rounds are the fewest.
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<DurationArg>,
    /// Measure these levels of a factor. Repeatable. `haul bench show NAME` has the factors.
    #[arg(long, value_name = "FACTOR=LEVEL,LEVEL")]
    pub(crate) set: Vec<String>,
    /// Put this link between client and server: kernel:RTT,RATE or kernel:RTT,RATE,LOSS, as kernel:100ms,200Mbit,0.1%, or a relay, as 100ms. Repeatable.
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Vec<String>,
    /// Write results.json, report.md and report.html into DIR.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print the results as JSON in place of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Allow more than 100 requests a second at a host that is not this machine.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Measure CPU time and memory of this process, too: your server's. Repeatable.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Vec<u32>,
    #[command(flatten, next_help_heading = "TLS")]
    pub(crate) tls: PeerTlsArgs,
}
