//! Turns the flags about connections into a client's settings, the same for every command that makes requests.

use std::time::Duration;

use haul_net::{ClientConfig, ConnectorConfig, ProxyRules};
use haul_transfer::{DownloadLimits, RetryOptions};
use url::Url;

use super::credentials::user_credentials;
use super::tls::TlsFiles;
use super::{SettingError, address_family, environment, pinned_address, proxies};
use crate::args::{ConnectionArgs, DownloadLimitArgs, GivenOptions, LoginArgs};

/// The connections of a client. `urls` are those of the command, `None` if others may follow.
///
/// # Errors
/// Flags that contradict each other, files that cannot be read or used.
pub(crate) fn connection_config(
    args: &ConnectionArgs,
    urls: Option<&[Url]>,
) -> Result<ClientConfig, SettingError> {
    Ok(ClientConfig {
        connector: connector_config(args),
        stall_timeout: args.stall_timeout.0,
        response_timeout: args.response_timeout.0,
        proxy: proxies::with_logins(args, urls, proxy_rules(args)?)?,
        tls: TlsFiles::of_peer(&args.tls, &GivenOptions::default()).options()?,
        ..ClientConfig::default()
    })
}

/// Adds the user's header fields and logins to a client.
///
/// # Errors
/// A file with a login that cannot be used, or a password that nobody gave.
pub(crate) fn add_login(args: &LoginArgs, config: &mut ClientConfig) -> Result<(), SettingError> {
    config.credentials = user_credentials(args)?;
    for field in &args.headers {
        match &field.value {
            Some(value) => {
                config.headers.append(field.name.clone(), value.clone());
            }
            None => config.removed_headers.push(field.name.clone()),
        }
    }
    Ok(())
}

/// A given number applies to every failure, and is the only limit; without one, haul gives up sooner on hosts that are down.
pub(crate) fn retry_options(args: &ConnectionArgs) -> RetryOptions {
    let (retries, defaults) = (args.retries, RetryOptions::default());
    RetryOptions {
        retries: retries.unwrap_or(defaults.retries),
        retries_before_response: retries.unwrap_or(defaults.retries_before_response),
        max_retry_after: args.max_wait.0,
        max_outage: retries.map_or(defaults.max_outage, |_| Duration::MAX),
        ..defaults
    }
}

/// Without a rate, the default of the engine applies to the files of a batch.
pub(crate) fn download_limits(args: &DownloadLimitArgs) -> DownloadLimits {
    DownloadLimits {
        min_rate: args.min_rate.map(|rate| rate.0),
        max_time: args.max_time.map(|time| time.0),
    }
}

fn connector_config(args: &ConnectionArgs) -> ConnectorConfig {
    ConnectorConfig {
        connect_timeout: args.connect_timeout.0,
        address_family: address_family(&args.addresses).unwrap_or_default(),
        pinned_addresses: args.addresses.resolve.iter().map(pinned_address).collect(),
        ..ConnectorConfig::default()
    }
}

fn proxy_rules(args: &ConnectionArgs) -> Result<ProxyRules, SettingError> {
    let environment = ProxyRules::from_environment(environment);
    let rules = match &args.proxy {
        None => environment,
        Some(proxy) => match proxy.0.clone() {
            // As in curl, the flag replaces the variables that name a proxy, and not the one that names exceptions.
            Some(proxy) => ProxyRules {
                no_proxy: environment.no_proxy,
                no_proxy_variable: environment.no_proxy_variable,
                ..ProxyRules::all(proxy)
            },
            None => ProxyRules::default(),
        },
    };
    let no_proxy = args.no_proxy.hosts.clone().unwrap_or(rules.no_proxy);
    proxies::with_tls_and_headers(args, ProxyRules { no_proxy, ..rules })
}
