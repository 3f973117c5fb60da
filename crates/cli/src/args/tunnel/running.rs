//! `haul tunnel`: what a running tunnel tells and does.

use clap::Args;
use haul_service::listen::ListenAddress;
use haul_service::observe::LogTarget;
use haul_tunnel::TunnelLogFormat;

use crate::args::values::{OptionalTimeArg, choice, listen_address, positive_number, thread_count};

/// What it tells, how it ends, how it works.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct TunnelRunningArgs {
    /// Connections at one time; more are closed at once [default: 65536, or what ulimit -n has room for].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<usize>,
    /// Log each connection to FILE; `-` is standard output [default: standard error].
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<LogTarget>,
    /// What its lines look like [default: text].
    #[arg(long, value_name = "FORMAT", value_parser = choice::<TunnelLogFormat, 2>([
        ("text", "A line for people"),
        ("json", "An object a line"),
    ]))]
    pub(crate) log_format: Option<TunnelLogFormat>,
    /// Answer /healthz, /metrics (Prometheus) and /tunnels on an address of their own.
    ///
    /// There are no logins on it: HOST:PORT or PORT that strangers do not reach.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) admin: Option<ListenAddress>,
    /// At the end, give connections this long [default: 0].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) grace: Option<OptionalTimeArg>,
    /// Threads that relay [default: 1].
    #[arg(long, value_name = "N", value_parser = thread_count, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Errors only: no banner, and no log unless --log names one.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
