//! Turns arguments, files and the environment into options of the library crates.

mod batch;
mod checksums;
mod credentials;
mod error;
mod proxies;
mod proxy_login;
mod secrets;
mod serve;
mod single_downloads;
mod sourced;
mod tls;
mod tunnel;

use std::path::Path;
use std::time::Duration;

use haul_net::{AddressFamily, ClientConfig, ConnectorConfig, PinnedAddress, ProxyRules};
use haul_plan::{Glob, HttpVersionChoice, RedirectOptions, RetryOptions};
use haul_transfer::{ConnectionCount, ExistingFilePolicy, GetOptions, JobOutput};

use url::Url;

use crate::args::{
    AddressArgs, ConnectionArgs, GetArgs, HeaderArg, HttpUrl, ResolveArg, UrlArg, ValueError,
};
use crate::job_sources::JobSource;
pub(crate) use batch::{BatchWorkload, archive_destination};
use credentials::user_credentials;
pub(crate) use error::SettingError;
pub(crate) use proxies::no_proxy_warnings;
pub(crate) use proxy_login::PromptedPasswords;
pub(crate) use secrets::{read_signing_key, world_readable_warning};
pub(crate) use serve::{AccessSummary, ServeSettings, TlsSettings};
pub(crate) use single_downloads::SingleDownloads;
pub(crate) use sourced::{OptionSource, Sourced};
use tls::tls_options;
pub(crate) use tunnel::{
    PlannedTunnel, ProcessSettings, StdioSettings, TunnelSettings, TunnelUpstream,
};

/// The resolved settings of `haul get`.
#[derive(Debug)]
pub(crate) struct GetSettings {
    pub(crate) client: ClientConfig,
    pub(crate) options: GetOptions,
    pub(crate) task: GetTask,
}

/// What `haul get` downloads.
#[derive(Debug)]
pub(crate) enum GetTask {
    /// Single downloads, each with a line of progress.
    Single(SingleDownloads),
    Batch(Box<BatchWorkload>),
}

impl GetTask {
    /// The directories of files whose full path is known.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        let jobs = match self {
            Self::Single(few) => few.jobs.as_slice(),
            Self::Batch(_) => &[],
        };
        jobs.iter().filter_map(|job| match &job.output {
            JobOutput::File(path) => path.parent().filter(|path| !path.as_os_str().is_empty()),
            _ => None,
        })
    }
}

impl GetSettings {
    /// Resolves the arguments. Reads the files they name; may ask for a password.
    ///
    /// # Errors
    /// Flags that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(args: &GetArgs) -> Result<Self, SettingError> {
        if args.output.is_stdout() && args.messages.json {
            return Err(
                SettingError::new("--json and -o - both write to standard output")
                    .with_hint("give -o a file"),
            );
        }
        let mut named = job_sources(args)?;
        let urls: Option<Vec<Url>> = named
            .iter()
            .map(|source| match source {
                JobSource::Url(url) => Some(url.clone()),
                _ => None,
            })
            .collect();
        let urls = urls.filter(|_| args.batch.input.is_empty());
        let mut client = client_config(args, urls.as_deref())?;
        let options = GetOptions {
            expected_content: batch::content_expectation(&args.batch)?,
            mirror_links: args.batch.mirror,
            ..get_options(args)
        };
        batch::complete_logins(&mut named, &client.credentials)?;
        let urls = named.len();
        named.extend(batch::open_lists(&args.batch)?);
        if args.batch.mirror && urls > 0 && named.len() > urls {
            let error = SettingError::new(
                "--mirror downloads one file from all URLs, and cannot be used with lists",
            );
            return Err(error.with_hint("a list names mirrors itself, separated by tabs"));
        }
        let task = if batch::is_batch(args, &named) {
            let many = batch::batch_workload(args, options.connections, named)?;
            client.max_idle_per_host = client.max_idle_per_host.max(many.idle_connections());
            client.max_idle = client.max_idle.max(many.options.dispatch.request_slots);
            GetTask::Batch(Box::new(many))
        } else {
            GetTask::Single(single_downloads::single_downloads(args, named)?)
        };
        Ok(Self {
            client,
            options,
            task,
        })
    }
}

/// The URLs and patterns on the command line.
fn job_sources(args: &GetArgs) -> Result<Vec<JobSource>, SettingError> {
    let url = |text: &UrlArg| match text {
        UrlArg::Url(url) => Ok(JobSource::Url(url.0.clone())),
        UrlArg::Glob(text) if args.batch.globoff => parse_http_url(text).map(JobSource::Url),
        UrlArg::Glob(text) => parse_glob(text),
    };
    args.urls.iter().map(url).collect()
}

fn parse_http_url(text: &str) -> Result<Url, SettingError> {
    let to_error = |error: ValueError| {
        let resolve = SettingError::new(error.to_string());
        match error.hint() {
            Some(advice) => resolve.with_hint(advice.to_owned()),
            None => resolve,
        }
    };
    text.parse().map(|url: HttpUrl| url.0).map_err(to_error)
}

fn parse_glob(text: &str) -> Result<JobSource, SettingError> {
    let to_error = |error| {
        let text = format!("{} cannot be read", haul_net::redacted_text(text));
        SettingError::new(text)
            .caused_by(error)
            .with_hint("-g/--globoff turns brackets and braces off")
    };
    let glob = Glob::parse(text).map_err(to_error)?;
    let first = glob.nth(0).map_or_else(String::new, |item| item.url);
    let first = parse_http_url(&first)?;
    Ok(match glob.len() {
        1 => JobSource::Url(first),
        _ => JobSource::Glob { glob, first },
    })
}

fn get_options(args: &GetArgs) -> GetOptions {
    let defaults = GetOptions::default();
    GetOptions {
        connections: args
            .speed
            .max_connections
            .map_or(defaults.connections, |n| ConnectionCount::Fixed(n.into())),
        min_segment_size: args.speed.min_segment_size.map(|size| size.0),
        segment_size: args.speed.segment_size.map(|size| size.0),
        resume: !args.output.no_resume,
        existing_file: match (args.output.overwrite, args.output.update) {
            (true, _) => ExistingFilePolicy::Overwrite,
            (_, true) => ExistingFilePolicy::Update,
            _ => ExistingFilePolicy::Keep,
        },
        decode_content: args.output.decode,
        retry: retry_options(args.connection.retries),
        ..defaults
    }
}

/// A given number applies to every failure, and is the only limit; without one, haul gives up sooner on hosts that are down.
fn retry_options(retries: Option<u32>) -> RetryOptions {
    let defaults = RetryOptions::default();
    RetryOptions {
        retries: retries.unwrap_or(defaults.retries),
        retries_before_response: retries.unwrap_or(defaults.retries_before_response),
        max_outage: retries.map_or(defaults.max_outage, |_| Duration::MAX),
        ..defaults
    }
}

/// `urls` are those of the command, `None` if a list or a pattern may name any others.
fn client_config(args: &GetArgs, urls: Option<&[Url]>) -> Result<ClientConfig, SettingError> {
    let defaults = ClientConfig::default();
    let (given, removed): (Vec<&HeaderArg>, Vec<_>) = args
        .request
        .headers
        .iter()
        .partition(|field| field.value.is_some());
    Ok(ClientConfig {
        connector: ConnectorConfig {
            rate_limit: args.speed.limit_rate.map(|size| size.0),
            ..connector_config(&args.connection)
        },
        stall_timeout: args.connection.stall_timeout.0,
        proxy: proxies::with_logins(&args.connection, urls, proxy_rules(&args.connection)?)?,
        tls: tls_options(&args.connection.tls)?,
        http_version: match (args.connection.http1, args.connection.http2) {
            (true, _) => HttpVersionChoice::Http1,
            (_, true) => HttpVersionChoice::Http2,
            _ => HttpVersionChoice::Auto,
        },
        redirects: RedirectOptions {
            max_redirects: usize::try_from(args.request.max_redirs).unwrap_or(usize::MAX),
            allow_downgrade: args.request.allow_downgrade,
        },
        credentials: user_credentials(&args.request)?,
        headers: given
            .into_iter()
            .filter_map(|field| Some((field.name.clone(), field.value.clone()?)))
            .collect(),
        removed_headers: removed
            .into_iter()
            .map(|field| field.name.clone())
            .collect(),
        max_idle_per_host: args
            .speed
            .max_connections
            .map_or(defaults.max_idle_per_host, usize::from),
        ..defaults
    })
}

fn connector_config(args: &ConnectionArgs) -> ConnectorConfig {
    ConnectorConfig {
        connect_timeout: args.connect_timeout.0,
        address_family: address_family(&args.addresses).unwrap_or_default(),
        pinned_addresses: args.addresses.resolve.iter().map(pinned_address).collect(),
        ..ConnectorConfig::default()
    }
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

fn proxy_rules(args: &ConnectionArgs) -> Result<ProxyRules, SettingError> {
    let environment = ProxyRules::from_environment(|name| std::env::var(name).ok());
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
    let no_proxy = args.by_proxy.no_proxy.clone().unwrap_or(rules.no_proxy);
    proxies::with_tls_and_headers(args, ProxyRules { no_proxy, ..rules })
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod tests;
