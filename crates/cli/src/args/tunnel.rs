//! `haul tunnel`, flag by flag: which ports lead where, by way of which proxies, and for how long anybody is waited for.
//!
//! Flags stand in groups, a struct and a heading each: the proxies and the way in [`way`], what a running tunnel does in [`running`].
//! What may hold a password is taken as it stands and parsed by [`settings`](crate::settings), where a file may say the rest.

mod running;
mod way;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use haul_net::Target;
use haul_service::listen::ListenAddress;

use super::values::{listen_address, target};
pub(crate) use running::TunnelRunningArgs;
pub(crate) use way::{TargetArgs, TunnelConnectionArgs, TunnelProxyArgs};

/// What stands below the flags.
const AFTER: &str = "\
SPEC is [BIND:]PORT:HOST:HOSTPORT, as ssh -L has it: 9993:imap.example.com:993; or with unix:PATH or
systemd[:NAME] in place of the port. IPv6 addresses stand in brackets, port 0 is any free one.
TIME takes ms, s, m, h, d, and seconds without a unit.
SIGHUP reads --config, certificates and password files again and begins a new log; what is
connected stays so. Ctrl-C and SIGTERM end, at once unless there is a --grace.
Exit codes: 0 ended, 1 connections outlasted --grace, or status found nothing, 2 usage, 4 local,
5 cannot listen, or --stdio cannot reach its target, 130 ended by a second signal.";

/// `haul tunnel`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = AFTER,
    args_conflicts_with_subcommands = true,
    override_usage = "haul tunnel [OPTIONS] SPEC...\n       haul tunnel [OPTIONS] --stdio HOST:PORT\n       haul tunnel status [OPTIONS]"
)]
pub(crate) struct TunnelArgs {
    /// What to do besides.
    #[command(subcommand)]
    pub(crate) also: Option<TunnelCommand>,
    /// A port to listen on, and where it leads.
    ///
    /// Without BIND it is this machine's alone; `*:PORT` is every interface, and then everybody who can reach it can connect.
    #[arg(value_name = "SPEC")]
    pub(crate) specs: Vec<String>,
    /// The same as SPEC, as ssh has it. Repeatable.
    #[arg(short = 'L', value_name = "SPEC")]
    pub(crate) forwards: Vec<String>,
    /// Join standard input and output to a target, as ssh's ProxyCommand wants it.
    #[arg(long, value_name = "HOST:PORT", value_parser = target, conflicts_with_all = [
        "specs", "forwards", "socks", "http", "admin", "log", "log_format", "warm", "warm_idle", "max_connections", "grace", "threads",
    ])]
    pub(crate) stdio: Option<Target>,
    /// Listen as a SOCKS5 proxy, whose clients name their targets, as ssh -D does. Repeatable.
    ///
    /// ADDRESS is PORT (this machine's alone), HOST:PORT, :PORT for every interface, unix:PATH, systemd.
    #[arg(short = 'D', long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) socks: Vec<ListenAddress>,
    /// Listen as an HTTP proxy. Repeatable.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) http: Vec<ListenAddress>,
    /// Only try to connect to the target of each tunnel through its proxy, and say whether that works.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) check: bool,
    /// Read settings and tunnels from FILE (TOML); flags go before what it says.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) proxy: TunnelProxyArgs,
    #[command(flatten)]
    pub(crate) way: TunnelConnectionArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) running: TunnelRunningArgs,
}

/// What `haul tunnel` does besides. A SPEC has a colon, and none of these words.
#[derive(Debug, Clone, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum TunnelCommand {
    /// Print the tunnels and connections that are live, of all that you have running.
    Status(StatusArgs),
}

/// `haul tunnel status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// Ask the one whose --admin is there, and no others.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) admin: Option<ListenAddress>,
    /// An object a line on standard output, one for each process.
    #[arg(long)]
    pub(crate) json: bool,
}
