//! `haul serve`: limits, and what a running server tells and does.

use clap::Args;
use haul_serve::accept::AcceptStrategy;
use haul_serve::observe::AccessLogFormat;
use haul_service::listen::ListenAddress;
use haul_service::observe::LogTarget;

use crate::args::values::{
    DurationArg, SizeArg, choice, listen_address, positive_number, thread_count,
};

/// How much anybody may have, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Bytes a second that one connection may have, each way.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate: Option<SizeArg>,
    /// Bytes a second that all connections together may have, each way.
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) limit_rate_total: Option<SizeArg>,
    /// Connections at one time; more of them wait [default: 65536, or what ulimit -n has room for].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<usize>,
    /// For the TLS handshake [default: 10s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) handshake_timeout: Option<DurationArg>,
    /// From the first byte of a request's header to its last [default: 15s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) header_timeout: Option<DurationArg>,
    /// Without a request [default: 75s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) idle_timeout: Option<DurationArg>,
    /// For how long a body may be slower than --min-rate [default: 30s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) body_timeout: Option<DurationArg>,
    /// The least rate of bodies, each way, in bytes a second [default: 512].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) min_rate: Option<SizeArg>,
}

/// What it tells, how it ends, how it works.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct RunningArgs {
    /// Log each request to FILE; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<LogTarget>,
    /// What its lines look like [default: combined].
    #[arg(long, value_name = "FORMAT", value_parser = choice::<AccessLogFormat, 3>([
        ("common", "As of Apache and most others"),
        ("combined", "The same with referer and user agent"),
        ("json", "An object a line, with all there is"),
    ]))]
    pub(crate) log_format: Option<AccessLogFormat>,
    /// Answer /healthz and /metrics (Prometheus) on an address of their own.
    ///
    /// There are no logins on it: HOST:PORT or PORT that strangers do not reach.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) admin: Option<ListenAddress>,
    /// At the end, give requests that are under way this long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10s",
        allow_negative_numbers = true
    )]
    pub(crate) grace: DurationArg,
    /// How threads share the work.
    #[arg(long, value_name = "WAY", default_value_t, value_parser = choice::<AcceptStrategy, 4>([
        ("work-stealing", "One queue; idle threads take from busy ones"),
        ("reuseport", "A socket for each thread; the kernel deals connections out"),
        ("round-robin", "One thread accepts and deals connections out in turn"),
        ("single", "One thread does everything"),
    ]))]
    pub(crate) accept: AcceptStrategy,
    /// Threads that serve [default: one for each core].
    #[arg(long, value_name = "N", value_parser = thread_count, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Throw uploads away instead of writing them: to measure all but the disk.
    #[arg(long, value_name = "null", value_parser = ["null"], hide_short_help = true)]
    pub(crate) sink: Option<String>,
    /// Errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
