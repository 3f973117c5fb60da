//! Flags of `haul tunnel`: listeners, proxies, connections, TLS with the target, operation.
//!
//! Each group of flags is a struct with a heading. [`LayeredOptions`] are also the keys of the configuration file: flags go over a table of
//! the file for one tunnel, and both over the top of the file. So they arrive as [`GivenFlags`], and [`settings`](crate::settings) merges
//! the layers before it has them parsed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use haul_net::{ConnectorConfig, Target};
use haul_service::listen::ListenAddress;
use haul_service::observe::LogTarget;
use haul_tunnel::{ListenerKind, TunnelLogFormat, TunnelTimeouts, WarmPoolOptions};

use super::given::GivenFlags;
use super::peer::{AddressArgs, NoProxyArgs, PeerTlsArgs, ProxyTlsArgs};
use super::values::{
    DurationArg, HeaderArg, OptionalTimeArg, ProxyAlternatives, ProxyUrl, UserArg, ValueError,
    admin_address, choice, keepalive, listen_address, positive_number, target, thread_count,
    warm_connections,
};

/// Text below the flags.
const AFTER: &str = "\
SPEC is [BIND:]PORT:HOST:HOSTPORT, as in ssh -L: 9993:imap.example.com:993; or with unix:PATH or
systemd[:NAME] instead of the port. IPv6 addresses have brackets; port 0 is any free port.
TIME takes ms, s, m, h, d, and seconds without a unit.
SIGHUP reloads --config, certificates and password files and reopens the log; connections stay.
Ctrl-C and SIGTERM stop haul, at once unless you set --grace.
Exit codes: 0 stopped, 1 connections outlasted --grace, or status found nothing, 2 usage, 4 local,
5 cannot listen, or --stdio cannot reach its target, 130 stopped by a second signal.";

/// `haul tunnel`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = AFTER,
    args_conflicts_with_subcommands = true,
    override_usage = "haul tunnel [OPTIONS] SPEC...\n       haul tunnel [OPTIONS] --stdio HOST:PORT\n       haul tunnel status [OPTIONS]"
)]
pub(crate) struct TunnelArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TunnelCommand>,
    /// A port to listen on, and its target.
    ///
    /// Without BIND the port is on 127.0.0.1; `*:PORT` is on every interface, and everybody who can reach it can connect.
    #[arg(value_name = "SPEC")]
    pub(crate) specs: Vec<String>,
    /// The same as SPEC, as in ssh. Repeatable.
    #[arg(short = 'L', value_name = "SPEC")]
    pub(crate) forwards: Vec<String>,
    /// Connect standard input and output to a target, for ssh's ProxyCommand.
    #[arg(long, value_name = "HOST:PORT", value_parser = target, conflicts_with_all = [
        "specs", "forwards", "socks", "http", "admin", "log", "log_format", "warm", "warm_idle", "max_connections", "grace", "threads",
    ])]
    pub(crate) stdio: Option<Target>,
    /// Listen as a SOCKS5 proxy, as ssh -D does: clients name their targets. Repeatable.
    ///
    /// ADDRESS is PORT on 127.0.0.1, HOST:PORT, :PORT for every interface, unix:PATH, or systemd.
    #[arg(short = 'D', long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) socks: Vec<ListenAddress>,
    /// Listen as an HTTP proxy. Repeatable.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) http: Vec<ListenAddress>,
    /// Connect to the target of each tunnel through its proxy, report whether that works, and exit.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) check: bool,
    /// Read options and tunnels from FILE (TOML); flags override it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: GivenFlags<LayeredOptions>,
    /// Print errors only: no banner, and no log unless --log names one.
    #[arg(short, long, help_heading = "Running")]
    pub(crate) quiet: bool,
}

/// Commands below `haul tunnel`. A SPEC contains a colon, so it is never taken for one.
#[derive(Debug, Clone, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum TunnelCommand {
    /// Print the tunnels and open connections of your running `haul tunnel` processes.
    Status(StatusArgs),
}

/// `haul tunnel status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// Ask only the tunnel with this --admin.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub(crate) admin: Option<ListenAddress>,
    /// Print one JSON object for each process.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options that flags and the file have.
#[derive(Debug, Clone, Args)]
pub(crate) struct LayeredOptions {
    #[command(flatten)]
    pub(crate) tunnel: TunnelOptions,
    #[command(flatten)]
    pub(crate) process: ProcessOptions,
}

/// Options of each tunnel.
#[derive(Debug, Clone, Args)]
pub(crate) struct TunnelOptions {
    #[command(flatten)]
    pub(crate) proxies: ProxyChainOptions,
    #[command(flatten)]
    pub(crate) connection: TunnelConnectionOptions,
    #[command(flatten)]
    pub(crate) target: TargetOptions,
}

/// Options that belong together: those of a group all come from one layer.
pub(crate) const OPTION_GROUPS: &[&[&str]] = &[
    &["proxy-user", "proxy-password-file"],
    &["proxy-cacert", "proxy-insecure"],
    &["proxy-cert", "proxy-key"],
    &["cacert", "insecure"],
    &["cert", "key"],
    &["ipv4", "ipv6"],
    &["netrc", "netrc-file"],
];

/// The proxies of a tunnel.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proxy")]
pub(crate) struct ProxyChainOptions {
    /// Use this proxy (http, https, socks5, socks5h); several make a chain; '' for none.
    ///
    /// host:port, which is http, or scheme://host:port, with user:password@ before the host for a login. Alternatives separated by commas
    /// are tried in order, and haul keeps using the one that worked. Without -p the variables https_proxy and all_proxy apply.
    #[arg(short = 'p', long = "proxy", value_name = "PROXY")]
    pub(crate) chain: Vec<ProxyAlternatives>,
    #[command(flatten)]
    pub(crate) first: ProxyOptions,
    #[command(flatten)]
    pub(crate) no_proxy: NoProxyArgs,
    /// Connect to the target directly when no proxy can be reached, for laptops that move.
    #[arg(long)]
    pub(crate) direct_fallback: bool,
}

/// Options of one proxy: of the first in a chain, or of a `[proxies.NAME]` in the file.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProxyOptions {
    /// Log in to the first -p with Basic, Digest or SOCKS; haul asks for a missing password.
    ///
    /// Other users of this machine can see arguments: use the variable HAUL_PROXY_USER (USER:PASSWORD), --proxy-password-file or --netrc for
    /// passwords. A login in the proxy's URL is used before this one; put the logins of further proxies there.
    #[arg(short = 'U', long, value_name = "USER[:PASSWORD]")]
    pub(crate) proxy_user: Option<UserArg>,
    /// Read the password from FILE, or USER:PASSWORD without -U.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_password_file: Option<PathBuf>,
    /// Send the proxy's login with the first request, as Basic, before the proxy asks for it.
    ///
    /// haul does so by itself after a proxy has refused a request without asking for a login. With this flag, even a proxy that would ask
    /// for Digest sees the password.
    #[arg(long)]
    pub(crate) proxy_basic: bool,
    /// Add a header field to the CONNECT request to the first -p. Repeatable.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<HeaderArg>,
    #[command(flatten)]
    pub(crate) tls: ProxyTlsArgs,
}

/// Connections and their timeouts.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct TunnelConnectionOptions {
    /// Time limit for opening a connection.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = ConnectorConfig::default().connect_timeout.into())]
    pub(crate) connect_timeout: DurationArg,
    /// Close a connection after this time without traffic; 0 means never.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = OptionalTimeArg(TunnelTimeouts::default().idle))]
    pub(crate) idle_timeout: OptionalTimeArg,
    /// Probe a silent peer after this time, to notice when it is gone; 0 means never.
    #[arg(long, value_name = "TIME", value_parser = keepalive, allow_negative_numbers = true, default_value_t = OptionalTimeArg(ConnectorConfig::default().keepalive))]
    pub(crate) keepalive: OptionalTimeArg,
    /// Keep N connections to each target open in advance, so that clients need not wait for the proxy.
    #[arg(long, value_name = "N", value_parser = warm_connections, allow_negative_numbers = true, default_value_t = WarmPoolOptions::default().size)]
    pub(crate) warm: usize,
    /// Replace warm connections after this time: less than the proxy's own limit for idle ones.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value_t = WarmPoolOptions::default().max_idle.into())]
    pub(crate) warm_idle: DurationArg,
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
}

/// TLS with the target, for local clients without TLS.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS with the target")]
pub(crate) struct TargetOptions {
    /// Use TLS with the target, for clients without TLS.
    #[arg(long)]
    pub(crate) target_tls: bool,
    #[command(flatten)]
    pub(crate) tls: PeerTlsArgs,
}

/// Options of the process: log, admin endpoint, shutdown, threads.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct ProcessOptions {
    /// Read logins of proxies from ~/.netrc, or the file in $NETRC.
    #[arg(long, help_heading = "Proxy")]
    pub(crate) netrc: bool,
    /// Read logins of proxies from FILE, in the format of .netrc.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "netrc",
        help_heading = "Proxy"
    )]
    pub(crate) netrc_file: Option<PathBuf>,
    /// Most connections at one time; more are closed at once [default: 65536, or less if ulimit -n is low].
    #[arg(long, value_name = "N", value_parser = positive_number, allow_negative_numbers = true)]
    pub(crate) max_connections: Option<usize>,
    /// Log each connection to FILE; `-` is standard output [default: standard error].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<LogTarget>,
    /// Format of the connection log.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = choice([
        ("text", TunnelLogFormat::Text, "One line for people"),
        ("json", TunnelLogFormat::Json, "One object a line"),
    ]))]
    pub(crate) log_format: TunnelLogFormat,
    /// Serve /healthz, /metrics (Prometheus) and /tunnels on this address.
    ///
    /// It has no logins: choose a HOST:PORT or PORT that others cannot reach.
    #[arg(long, value_name = "ADDRESS", value_parser = admin_address)]
    pub(crate) admin: Option<ListenAddress>,
    /// At shutdown, let connections take this long to end.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "0"
    )]
    pub(crate) grace: OptionalTimeArg,
    /// Threads that relay.
    #[arg(long, value_name = "N", value_parser = thread_count, allow_negative_numbers = true, default_value_t = 1)]
    pub(crate) threads: usize,
}

/// A `[[tunnel]]` of the file.
#[derive(Debug, Clone, Args)]
pub(crate) struct TunnelTable {
    #[arg(long, value_parser = listen_address)]
    pub(crate) listen: ListenAddress,
    #[arg(long, value_parser = target)]
    pub(crate) target: Option<Target>,
    #[arg(long, conflicts_with = "target", value_parser = listener_kind)]
    pub(crate) kind: Option<ListenerKind>,
    #[command(flatten)]
    pub(crate) options: TunnelOptions,
}

/// A `[proxies.NAME]` of the file.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProxyTable {
    #[arg(long)]
    pub(crate) url: ProxyUrl,
    #[command(flatten)]
    pub(crate) options: ProxyOptions,
}

/// A kind of listener whose clients name their targets.
fn listener_kind(text: &str) -> Result<ListenerKind, ValueError> {
    match text {
        "socks" => Ok(ListenerKind::Socks),
        "http" => Ok(ListenerKind::Http),
        _ => Err(ValueError::new("unknown kind of tunnel").with_hint("one of socks, http")),
    }
}
