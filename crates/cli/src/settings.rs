//! Turns arguments, files and the environment into options of the library crates.

mod batch;
mod checksums;
mod connection;
mod credentials;
mod error;
mod get;
mod object_headers;
mod proxies;
mod proxy_login;
mod put;
mod s3;
mod secrets;
mod serve;
mod single_downloads;
mod sync;
mod tls;
mod tunnel;

use haul_net::{AddressFamily, PinnedAddress};

use crate::args::{AddressArgs, ResolveArg};
pub(crate) use batch::{BatchWorkload, archive_destination};
pub(crate) use connection::{add_login, connection_config, download_limits, retry_options};
pub(crate) use error::SettingError;
pub(crate) use get::{GetSettings, GetTask};
pub(crate) use object_headers::storage_headers;
pub(crate) use proxies::no_proxy_warnings;
pub(crate) use proxy_login::PromptedPasswords;
pub(crate) use put::put_settings;
pub(crate) use s3::s3_config;
pub(crate) use secrets::{read_signing_key, world_readable_warning};
pub(crate) use serve::{ServeSettings, TlsSettings};
pub(crate) use single_downloads::SingleDownloads;
pub(crate) use sync::{sync_places, sync_settings};
pub(crate) use tls::peer_tls_options;
pub(crate) use tunnel::{
    PlannedTunnel, ProcessSettings, StdioSettings, TunnelSettings, TunnelUpstream,
};

type EnvironmentReader = fn(&str) -> Option<String>;

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The address family that the flags select, if any.
fn address_family(args: &AddressArgs) -> Option<AddressFamily> {
    match (args.ipv4, args.ipv6) {
        (true, _) => Some(AddressFamily::V4),
        (_, true) => Some(AddressFamily::V6),
        _ => None,
    }
}

/// An address that the user has set for a host and port.
fn pinned_address(resolve: &ResolveArg) -> PinnedAddress {
    PinnedAddress {
        host: resolve.host.clone(),
        port: resolve.port,
        addresses: resolve.addresses.clone(),
    }
}
