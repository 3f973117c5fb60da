//! Resolves the arguments of `haul get`.

use std::path::Path;
use std::time::Duration;

use haul_net::{ClientConfig, ConnectorConfig, ProxyRules};
use haul_plan::{Glob, HttpVersionChoice, RedirectOptions, RetryOptions};
use haul_transfer::{ConnectionCount, ExistingFilePolicy, GetOptions, JobOutput};
use url::Url;

use super::credentials::user_credentials;
use super::tls::TlsFiles;
use super::{
    BatchWorkload, SettingError, SingleDownloads, address_family, batch, environment,
    pinned_address, proxies, single_downloads,
};
use crate::args::{ConnectionArgs, GetArgs, GivenOptions, HeaderArg, HttpUrl, UrlArg};
use crate::job_sources::JobSource;

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
    Ok(text.parse::<HttpUrl>()?.0)
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
        tls: TlsFiles::of_peer(&args.connection.tls, &GivenOptions::default()).options()?,
        http_version: match (args.connection.http1, args.connection.http2) {
            (true, _) => HttpVersionChoice::Http1,
            (_, true) => HttpVersionChoice::Http2,
            _ => HttpVersionChoice::Auto,
        },
        redirects: RedirectOptions {
            max_redirects: args.request.max_redirs,
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

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod tests;
