//! `haul tunnel`: the proxies, who we are to them, and how targets are reached.

use std::path::PathBuf;

use clap::Args;

use crate::args::peer::{AddressArgs, PeerTlsArgs, ProxyTlsArgs};
use crate::args::values::{
    DurationArg, HeaderArg, OptionalTimeArg, SecretText, UserArg, keepalive, warm_connections,
};

/// The proxies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proxy")]
pub(crate) struct TunnelProxyArgs {
    /// Through this proxy (http, https, socks5, socks5h); several in a row are a chain; '' for none.
    ///
    /// Written as host:port, which is http, or scheme://host:port, with user:password@ before the host if it wants them. With commas
    /// between, alternatives are tried in turn, and the one that worked is kept. Without -p the environment decides: https_proxy, all_proxy.
    #[arg(short, long = "proxy", value_name = "PROXY")]
    pub(crate) proxies: Vec<SecretText>,
    /// Log in to the first -p by Basic, Digest or SOCKS; a missing password is asked for.
    ///
    /// Other users of this machine see arguments: the variable HAUL_PROXY_USER (USER:PASSWORD), --proxy-password-file and --netrc
    /// keep passwords from them. A login in the proxy's URL is used before this one; proxies further on have theirs there.
    #[arg(short = 'U', long, value_name = "USER[:PASSWORD]")]
    pub(crate) proxy_user: Option<UserArg>,
    /// The password from FILE, or USER:PASSWORD where -U names nobody.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_password_file: Option<PathBuf>,
    /// Take proxies' logins from ~/.netrc, or the file that $NETRC names.
    #[arg(long)]
    pub(crate) netrc: bool,
    /// Take them from FILE, written as a .netrc.
    #[arg(long, value_name = "FILE", conflicts_with = "netrc")]
    pub(crate) netrc_file: Option<PathBuf>,
    /// Add a header field to the CONNECT to the first -p. Repeatable.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<HeaderArg>,
    #[command(flatten)]
    pub(crate) by_proxy: ProxyTlsArgs,
    /// Go straight to the target when no proxy can be reached: for laptops that move.
    #[arg(long)]
    pub(crate) direct_fallback: bool,
}

/// How connections are made, and when they are given up.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct TunnelConnectionArgs {
    /// Give up on a connection that is not made by then [default: 15s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) connect_timeout: Option<DurationArg>,
    /// End a connection on which nothing moves for so long; 0 is never [default: 0].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) idle_timeout: Option<OptionalTimeArg>,
    /// Probe a peer that says nothing after so long, to notice one that is gone; 0 is never [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = keepalive, allow_negative_numbers = true)]
    pub(crate) keepalive: Option<OptionalTimeArg>,
    /// Keep N connections to each target open in advance: whoever comes need not wait for the proxy.
    #[arg(long, value_name = "N", value_parser = warm_connections, allow_negative_numbers = true)]
    pub(crate) warm: Option<usize>,
    /// Replace those after so long: less than the proxy lets an idle one live [default: 30s].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) warm_idle: Option<DurationArg>,
    #[command(flatten)]
    pub(crate) addresses: AddressArgs,
}

/// TLS with the far end, for local clients that speak in clear.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS with the target")]
pub(crate) struct TargetArgs {
    /// Speak TLS with the target, for clients that have none.
    #[arg(long)]
    pub(crate) target_tls: bool,
    #[command(flatten)]
    pub(crate) tls: PeerTlsArgs,
}
