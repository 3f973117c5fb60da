//! Flags of `haul serve` for limits and operation.

use clap::Args;
use haul_serve::accept::AcceptStrategy;
use haul_serve::observe::AccessLogFormat;
use haul_service::listen::ListenAddress;
use haul_service::observe::LogTarget;

use crate::args::values::{
    DurationArg, SizeArg, choice, listen_address, positive_number, thread_count,
};

/// Rates, connections and timeouts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Limit the rate of each connection, in bytes a second, each way.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate: Option<SizeArg>,
    /// Limit the total rate, in bytes a second, each way.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate_total: Option<SizeArg>,
    /// Most connections at one time; more wait [default: 65536, or less if ulimit -n is low].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<usize>,
    /// Time limit for the TLS handshake [default: 10s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) handshake_timeout: Option<DurationArg>,
    /// Time limit for a request's header, from its first byte [default: 15s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) header_timeout: Option<DurationArg>,
    /// Time limit between requests [default: 75s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) idle_timeout: Option<DurationArg>,
    /// How long a body may be slower than --min-rate [default: 30s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) body_timeout: Option<DurationArg>,
    /// Lowest rate of bodies, each way, in bytes a second [default: 512].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) min_rate: Option<SizeArg>,
}

/// Log, admin endpoint, shutdown, threads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct RunningArgs {
    /// Log each request to FILE; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<LogTarget>,
    /// Format of the access log [default: combined].
    #[arg(long, value_name = "FORMAT", value_parser = choice([
        ("common", AccessLogFormat::Common, "The common log format of Apache"),
        ("combined", AccessLogFormat::Combined, "common with referer and user agent"),
        ("json", AccessLogFormat::Json, "One object a line, with all fields"),
    ]))]
    pub(crate) log_format: Option<AccessLogFormat>,
    /// Serve /healthz and /metrics (Prometheus) on this address.
    ///
    /// It has no logins: choose a HOST:PORT or PORT that others cannot reach.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) admin: Option<ListenAddress>,
    /// At shutdown, let running requests take this long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        allow_negative_numbers = true
    )]
    pub(crate) grace: DurationArg,
    /// How threads share connections.
    #[arg(long, value_name = "STRATEGY", default_value_t, value_parser = choice([
        ("work-stealing", AcceptStrategy::WorkStealing, "One queue; idle threads take from busy ones"),
        ("reuseport", AcceptStrategy::ReusePort, "A socket for each thread; the kernel distributes connections"),
        ("round-robin", AcceptStrategy::RoundRobin, "One thread accepts and distributes connections in turn"),
        ("single", AcceptStrategy::Single, "One thread does everything"),
    ]))]
    pub(crate) accept: AcceptStrategy,
    /// Threads that serve [default: one for each core].
    #[arg(long, value_name = "N", value_parser = thread_count, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Discard uploads instead of writing them, to measure everything but the disk.
    #[arg(long, value_name = "null", value_parser = ["null"], hide_short_help = true)]
    pub(crate) sink: Option<String>,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
