//! Flags that `haul get` and `haul tunnel` share: TLS with the peer, TLS with a proxy, and addresses.
//!
//! They appear under the heading of the group that they are flattened into. Flags that differ between the two are elsewhere: the proxy
//! itself, of which a tunnel takes several, header fields, and timeouts with other defaults.

use std::path::PathBuf;

use clap::Args;
use haul_net::NoProxy;

use super::values::{ResolveArg, no_proxy};

/// TLS with the peer.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeerTlsArgs {
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Do not verify certificates: somebody between you and the server can read and change the data.
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Client certificate (PEM, with its chain).
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert (PEM, not encrypted), unless that file contains it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// TLS with a proxy.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProxyTlsArgs {
    /// Trust only the authorities in this PEM file for a proxy over TLS.
    #[arg(long, value_name = "FILE", conflicts_with = "proxy_insecure")]
    pub(crate) proxy_cacert: Option<PathBuf>,
    /// Client certificate for the proxy (PEM, with its chain).
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_cert: Option<PathBuf>,
    /// Private key of --proxy-cert, unless that file contains it.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_key: Option<PathBuf>,
    /// Do not verify the proxy's certificate: somebody in between can read its login.
    #[arg(long)]
    pub(crate) proxy_insecure: bool,
}

/// Hosts without a proxy.
#[derive(Debug, Clone, Args)]
pub(crate) struct NoProxyArgs {
    /// Hosts to reach without a proxy, separated by commas; '*' is all.
    ///
    /// A name includes its subdomains; addresses and networks such as 10.0.0.0/8 are possible, too. Replaces the variable no_proxy.
    #[arg(long = "no-proxy", value_name = "HOSTS", value_parser = no_proxy)]
    pub(crate) hosts: Option<NoProxy>,
}

/// Name resolution.
#[derive(Debug, Clone, Args)]
pub(crate) struct AddressArgs {
    /// Use ADDRESS for HOST:PORT instead of asking DNS. Repeatable.
    #[arg(long, value_name = "HOST:PORT:ADDRESS")]
    pub(crate) resolve: Vec<ResolveArg>,
    /// Use IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
}
