//! Flags that `haul get` and `haul tunnel` have alike: TLS with whoever is at the far end, TLS with a proxy, and addresses.
//!
//! They stand under the heading of the group that they are flattened into. What the two call differently is not here: the proxy itself,
//! of which a tunnel takes several, header fields, which are for requests or for a CONNECT, and timeouts, which have other defaults.

use std::path::PathBuf;

use clap::Args;
use haul_net::NoProxy;

use super::values::{ResolveArg, no_proxy};

/// TLS with the far end.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeerTlsArgs {
    /// Trust the authorities in this PEM file and no others.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Trust any certificate: whoever is in between can read and change what comes.
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Show this certificate (PEM, with its chain).
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert (PEM, without a passphrase), unless that file holds it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// TLS with a proxy, and who is reached without one.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProxyTlsArgs {
    /// Trust the authorities in this PEM file and no others, with a proxy over TLS.
    #[arg(long, value_name = "FILE", conflicts_with = "proxy_insecure")]
    pub(crate) proxy_cacert: Option<PathBuf>,
    /// Show the proxy this certificate (PEM, with its chain).
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_cert: Option<PathBuf>,
    /// The private key of --proxy-cert, unless that file holds it.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_key: Option<PathBuf>,
    /// Trust any certificate of the proxy: whoever is in between can read its login.
    #[arg(long)]
    pub(crate) proxy_insecure: bool,
    /// Hosts to reach without a proxy, separated by commas; '*' is all.
    ///
    /// Names with all below them, addresses, networks as 10.0.0.0/8. In place of the variable no_proxy.
    #[arg(long, value_name = "HOSTS", value_parser = no_proxy)]
    pub(crate) no_proxy: Option<NoProxy>,
}

/// Which addresses are used.
#[derive(Debug, Clone, Args)]
pub(crate) struct AddressArgs {
    /// Use ADDRESS for HOST:PORT without asking a name server. Repeatable.
    #[arg(long, value_name = "HOST:PORT:ADDRESS")]
    pub(crate) resolve: Vec<ResolveArg>,
    /// IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// IPv6 only.
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
}
