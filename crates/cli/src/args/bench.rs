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
5 nothing could be measured, 130 interrupted: haul reports the measurements made so far.";

/// Text below the flags of a load.
const LOAD_AFTER: &str = "\
TIME takes ms, s, m, h, and seconds without a unit.
Exit codes: 0 done, 1 some requests failed, 2 usage, 5 no request succeeded,
130 interrupted: haul prints the measurement made so far.";

/// An experiment, or something about experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Download one large file over 1 to 32 connections, and over the number that haul chooses.
    ///
    /// Without a URL, haul downloads from a `haul serve` on this machine, over links with a delay and a rate for each connection. It sends
    /// nothing to a host that you do not name.
    #[command(after_help = AFTER)]
    Accelerate(BenchUrlArgs),
    /// Download small and large files, one after the other and all at once, over HTTP, HTTPS and HTTP/2.
    #[command(after_help = AFTER)]
    Quirks {
        /// Small and large files to fetch, instead of files on this machine.
        #[arg(value_name = "URL")]
        urls: Vec<HttpUrl>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// Download 100 files, 5 to 100 at a time, with threads and with an event loop; also from a server with too short a queue.
    #[command(after_help = AFTER)]
    Sweep {
        /// Files to fetch, instead of files on this machine.
        #[arg(value_name = "URL")]
        urls: Vec<HttpUrl>,
        /// Fetch the URLs of LIST, one a line.
        #[arg(short, long, value_name = "LIST", conflicts_with = "urls")]
        input: Option<PathBuf>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// Send PUT, GET and DELETE requests; without a URL, to `haul serve` with each strategy of its --accept.
    ///
    /// With a URL, haul stores files with random names below it, and removes them.
    #[command(after_help = AFTER)]
    Store(BenchUrlArgs),
    /// Download small files directly, through a proxy, and through `haul tunnel` and the proxy.
    #[command(after_help = AFTER)]
    Tunnel {
        /// Use this HTTP proxy instead of one inside haul. It must be able to reach this machine.
        #[arg(short, long, value_name = "HOST:PORT")]
        proxy: Option<String>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// Upload one large object and many small ones to S3, and download them.
    ///
    /// With a URL, haul stores objects below its prefix, in a folder with a random name, and removes them. It finds credentials and endpoint as
    /// `haul put` does.
    #[command(after_help = AFTER)]
    S3(BenchUrlArgs),
    /// Send many requests to a server, as ab and wrk do: requests a second, latencies, failures.
    #[command(after_help = LOAD_AFTER)]
    Load(BenchLoadArgs),
    /// Run all experiments, in less than four minutes.
    #[command(after_help = AFTER)]
    All(BenchRunArgs),
    /// Run your own experiment: factors, levels and rounds in a file. `haul bench show` prints examples.
    #[command(after_help = AFTER)]
    Run {
        /// The experiment's file.
        #[arg(value_name = "FILE.toml")]
        file: PathBuf,
        /// The server to measure, instead of one on this machine.
        #[arg(value_name = "URL")]
        urls: Vec<DownloadUrl>,
        #[command(flatten)]
        run: BenchRunArgs,
    },
    /// Print the file of a built-in experiment; without a name, list the experiments.
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
    /// URLs to request, in turn.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<HttpUrl>,
    /// Requests at a time.
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// Start requests for this time.
    #[arg(short, long, value_name = "TIME", default_value = "10s")]
    pub(crate) time: DurationArg,
    /// Stop after N requests instead of after a time.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "time", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    /// Start N requests a second, even while responses are late; latencies count from the moment when a request was due.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Use HTTP/2, with one connection for each processor. Only for https URLs.
    #[arg(long)]
    pub(crate) http2: bool,
    /// Open a connection for each request.
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// Print the measurement as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no line at the start.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Allow more than 100 requests a second to another machine, without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten, next_help_heading = "TLS")]
    pub(crate) tls: PeerTlsArgs,
}

/// An experiment with a server.
#[derive(Debug, Args)]
pub(crate) struct BenchUrlArgs {
    /// The server to measure, instead of one on this machine.
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
    /// Use the full sizes: the run takes most of an hour instead of minutes.
    #[arg(long)]
    pub(crate) full: bool,
    /// Time for each experiment: haul starts no round that would end later, except the first four [default: the experiment's own].
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<DurationArg>,
    /// Measure these levels of a factor. Repeatable. `haul bench show NAME` shows the factors.
    #[arg(long, value_name = "FACTOR=LEVEL,LEVEL")]
    pub(crate) set: Vec<String>,
    /// Put this link between client and server: kernel:RTT,RATE or kernel:RTT,RATE,LOSS, as kernel:100ms,200Mbit,0.1%, or a relay, as 100ms. Repeatable.
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Vec<String>,
    /// Write results.json, report.md and report.html into DIR.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Print the results as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Allow more than 100 requests a second to another machine, without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also measure CPU time and memory of this process, your server's. Repeatable.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Vec<u32>,
    #[command(flatten, next_help_heading = "TLS")]
    pub(crate) tls: PeerTlsArgs,
}
