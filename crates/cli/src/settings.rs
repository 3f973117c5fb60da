//! From what was typed, and the environment, to what the engine takes: the one place where they meet.

mod batch;
mod credentials;
mod error;
mod few;
mod proxies;
mod said;
mod secrets;
mod serve;
mod tls;
mod tunnel;

use std::path::Path;

use haul_net::{AddressFamily, ClientConfig, ConnectorConfig, ProxyRules, connector};
use haul_plan::{Glob, HttpVersionChoice, RedirectOptions, RetryOptions};
use haul_transfer::{ConnectionCount, ExistingFilePolicy, GetOptions, JobOutput};

use url::Url;

use crate::args::{
    AddressArgs, ConnectionArgs, GetArgs, HeaderArg, HttpUrl, ResolveArg, UrlArg, ValueError,
};
use crate::sources::JobSourceArg;
pub(crate) use batch::{BatchWorkload, destination};
use credentials::credentials;
pub(crate) use error::SettingError;
pub(crate) use few::SingleDownloads;
pub(crate) use proxies::left_out;
pub(crate) use said::{OptionSource, Sourced};
pub(crate) use secrets::{exposed, signing_key};
pub(crate) use serve::{AccessSummary, ServeSettings, TlsSettings};
use tls::tls;
pub(crate) use tunnel::{
    PlannedTunnel, ProcessSettings, PromptedPasswords, StdioSettings, TunnelSettings,
};

/// What `haul get` was told, resolved.
#[derive(Debug)]
pub(crate) struct GetSettings {
    /// For `net`.
    pub(crate) client: ClientConfig,
    /// For `transfer`.
    pub(crate) options: GetOptions,
    /// What is to be done with them.
    pub(crate) task: GetTask,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum GetTask {
    /// Downloads that are watched one by one.
    Few(SingleDownloads),
    /// A batch.
    Many(Box<BatchWorkload>),
}

impl GetTask {
    /// The directories of files whose whole path is known.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        let jobs = match self {
            Self::Few(few) => few.jobs.as_slice(),
            Self::Many(_) => &[],
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
                    .hint("give -o a file"),
            );
        }
        let mut named = named(args)?;
        let mut client = client(args)?;
        let options = GetOptions {
            expect: batch::expectation(&args.batch)?,
            mirror_links: args.batch.mirror,
            ..options(args)
        };
        batch::log_in(&mut named, &client.credentials)?;
        let urls = named.len();
        named.extend(batch::lists(&args.batch)?);
        if args.batch.mirror && urls > 0 && named.len() > urls {
            let error =
                SettingError::new("--mirror makes one file of the URLs, and there are lists");
            return Err(error.hint("lists have mirrors of their own, with tabs between"));
        }
        let task = if batch::is_batch(args, &named) {
            let many = batch::many(args, options.connections, named)?;
            client.max_idle_per_host = client.max_idle_per_host.max(many.idle());
            client.max_idle = client.max_idle.max(many.options.dispatch.request_slots);
            GetTask::Many(Box::new(many))
        } else {
            GetTask::Few(few::jobs(args, named)?)
        };
        Ok(Self {
            client,
            options,
            task,
        })
    }
}

/// What the URLs on the command line stand for.
fn named(args: &GetArgs) -> Result<Vec<JobSourceArg>, SettingError> {
    let url = |text: &UrlArg| match text {
        UrlArg::Url(url) => Ok(JobSourceArg::Url(url.0.clone())),
        UrlArg::Glob(text) if args.batch.globoff => http_url(text).map(JobSourceArg::Url),
        UrlArg::Glob(text) => glob(text),
    };
    args.urls.iter().map(url).collect()
}

fn http_url(text: &str) -> Result<Url, SettingError> {
    let wrong = |error: ValueError| {
        let told = SettingError::new(error.to_string());
        match error.advice() {
            Some(advice) => told.hint(advice.to_owned()),
            None => told,
        }
    };
    text.parse().map(|url: HttpUrl| url.0).map_err(wrong)
}

fn glob(text: &str) -> Result<JobSourceArg, SettingError> {
    let wrong = |error| {
        let text = format!("{} cannot be read", haul_net::redacted_text(text));
        SettingError::new(text)
            .because(error)
            .hint("-g/--globoff takes brackets and braces as they are")
    };
    let glob = Glob::parse(text).map_err(wrong)?;
    let first = glob.nth(0).map_or_else(String::new, |item| item.url);
    let first = http_url(&first)?;
    Ok(match glob.len() {
        1 => JobSourceArg::Url(first),
        _ => JobSourceArg::Glob { glob, first },
    })
}

fn options(args: &GetArgs) -> GetOptions {
    let defaults = GetOptions::default();
    GetOptions {
        connections: args
            .speed
            .max_connections
            .map_or(defaults.connections, |n| ConnectionCount::Fixed(n.into())),
        min_segment: args.speed.min_segment_size.map(|size| size.0),
        segment: args.speed.segment_size.map(|size| size.0),
        resume: !args.output.no_resume,
        existing: match (args.output.overwrite, args.output.update) {
            (true, _) => ExistingFilePolicy::Overwrite,
            (_, true) => ExistingFilePolicy::Update,
            _ => ExistingFilePolicy::Keep,
        },
        decode: args.output.decode,
        retry: retry(args.connection.retries),
        ..defaults
    }
}

/// A number that was given holds for every failure; without one, hosts that are down are given up sooner.
fn retry(retries: Option<u32>) -> RetryOptions {
    let defaults = RetryOptions::default();
    RetryOptions {
        retries: retries.unwrap_or(defaults.retries),
        opening: retries.unwrap_or(defaults.opening),
        ..defaults
    }
}

fn client(args: &GetArgs) -> Result<ClientConfig, SettingError> {
    let defaults = ClientConfig::default();
    let (given, removed): (Vec<&HeaderArg>, Vec<_>) = args
        .request
        .headers
        .iter()
        .partition(|field| field.value.is_some());
    Ok(ClientConfig {
        connector: ConnectorConfig {
            rate_limit: args.speed.limit_rate.map(|size| size.0),
            ..connector(&args.connection)
        },
        stall_timeout: args.connection.stall_timeout.0,
        proxy: proxy(&args.connection)?,
        tls: tls(&args.connection.tls)?,
        http_version: match (args.connection.http1, args.connection.http2) {
            (true, _) => HttpVersionChoice::Http1,
            (_, true) => HttpVersionChoice::Http2,
            _ => HttpVersionChoice::Auto,
        },
        redirects: RedirectOptions {
            max_redirects: usize::try_from(args.request.max_redirs).unwrap_or(usize::MAX),
            allow_downgrade: args.request.allow_downgrade,
        },
        credentials: credentials(&args.request)?,
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

fn connector(args: &ConnectionArgs) -> ConnectorConfig {
    ConnectorConfig {
        connect_timeout: args.connect_timeout.0,
        address_family: family(&args.addresses).unwrap_or_default(),
        pinned_addresses: args.addresses.resolve.iter().map(pin).collect(),
        ..ConnectorConfig::default()
    }
}

/// The only family of addresses that may be used, if one alone may.
fn family(args: &AddressArgs) -> Option<AddressFamily> {
    match (args.ipv4, args.ipv6) {
        (true, _) => Some(AddressFamily::V4),
        (_, true) => Some(AddressFamily::V6),
        _ => None,
    }
}

/// An address told by hand.
fn pin(told: &ResolveArg) -> connector::PinnedAddress {
    connector::PinnedAddress {
        host: told.host.clone(),
        port: told.port,
        addresses: told.addresses.clone(),
    }
}

fn proxy(args: &ConnectionArgs) -> Result<ProxyRules, SettingError> {
    let rules = match &args.proxy {
        Some(proxy) => proxy.0.clone().map(ProxyRules::all).unwrap_or_default(),
        None => ProxyRules::from_environment(|name| std::env::var(name).ok()),
    };
    let no_proxy = args.by_proxy.no_proxy.clone().unwrap_or(rules.no_proxy);
    proxies::completed(args, ProxyRules { no_proxy, ..rules })
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod tests;
