//! From what was typed, and the environment, to what the engine takes: the one place where they meet.

mod credentials;
mod tls;

use std::collections::HashSet;

use haul_net::{ClientConfig, ConnectorConfig, Family, NoProxy, ProxyRules, connector};
use haul_plan::{RedirectOptions, RetryOptions};
use haul_transfer::{Connections, Existing, GetOptions, Job, Output};

use crate::args::{ConnectionArgs, Field, GetArgs, HttpUrl, OutputArgs, Resolve};
use crate::exit::Exit;
use credentials::{complete, credentials};
use tls::tls;

/// A setting that cannot be used, or a question about one that a signal ended.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct SettingError {
    /// What is wrong.
    text: String,
    /// What to do about it.
    hint: Option<&'static str>,
    /// How the program ends.
    exit: Exit,
    /// What said so.
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SettingError {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            exit: Exit::Usage,
            source: None,
        }
    }

    fn because(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    fn hint(self, hint: &'static str) -> Self {
        Self {
            hint: Some(hint),
            ..self
        }
    }

    /// A signal came before all settings were known.
    fn interrupted() -> Self {
        Self {
            exit: Exit::Interrupted,
            ..Self::new("interrupted")
        }
    }

    /// How the program ends.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What to do about it, where that is known.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        self.hint
    }
}

/// What `haul get` was told, resolved.
#[derive(Debug)]
pub(crate) struct GetSettings {
    /// For `net`.
    pub(crate) client: ClientConfig,
    /// For `transfer`.
    pub(crate) options: GetOptions,
    /// One a URL.
    pub(crate) jobs: Vec<Job>,
}

impl GetSettings {
    /// Resolves the arguments. Reads the files they name; may ask for a password.
    ///
    /// # Errors
    /// Flags that contradict each other, files that cannot be read or used.
    pub(crate) fn resolve(args: &GetArgs) -> Result<Self, SettingError> {
        let to_stdout = args.output.is_stdout();
        if args.output.file.is_some() && args.urls.len() > 1 {
            return Err(
                SettingError::new("-o names one file, but there are several URLs")
                    .hint("-d DIR takes them all"),
            );
        }
        if to_stdout && args.messages.json {
            return Err(
                SettingError::new("--json and -o - both write to standard output")
                    .hint("give -o a file"),
            );
        }
        named_once(&args.urls)?;
        let client = client(args)?;
        let mut jobs = jobs(args, to_stdout);
        complete(jobs.iter_mut().map(|job| &mut job.url), &client.credentials)?;
        Ok(Self {
            client,
            options: options(args),
            jobs,
        })
    }
}

/// A URL named twice comes to one file twice. Different URLs may do so too, but what names the origin gives them is not known
/// yet.
fn named_once(urls: &[HttpUrl]) -> Result<(), SettingError> {
    let mut seen = HashSet::new();
    for HttpUrl(url) in urls {
        let mut bare = url.clone();
        // It never reaches the origin.
        bare.set_fragment(None);
        if !seen.insert(bare) {
            let shown = haul_net::shown(url);
            let error = SettingError::new(format!("{shown} is named twice"));
            return Err(error.hint("once is enough: both would be the same file"));
        }
    }
    Ok(())
}

fn jobs(args: &GetArgs, to_stdout: bool) -> Vec<Job> {
    let OutputArgs {
        file,
        directory,
        checksum,
        ..
    } = &args.output;
    let output = match file {
        Some(_) if to_stdout => Output::Stdout,
        Some(file) => Output::File(file.clone()),
        // Joined with a name it is the name alone, which is how it shall be shown.
        None => Output::Directory(directory.clone().unwrap_or_default()),
    };
    let job = |(id, url): (u64, &HttpUrl)| Job {
        id,
        url: url.0.clone(),
        output: output.clone(),
        checksums: checksum.clone(),
    };
    (0..).zip(&args.urls).map(job).collect()
}

fn options(args: &GetArgs) -> GetOptions {
    let defaults = GetOptions::default();
    GetOptions {
        connections: args
            .speed
            .max_connections
            .map_or(defaults.connections, |n| Connections::Fixed(n.into())),
        min_segment: args.speed.min_segment_size.map(|size| size.0),
        segment: args.speed.segment_size.map(|size| size.0),
        resume: !args.output.no_resume,
        existing: match (args.output.overwrite, args.output.update) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Update,
            _ => Existing::Keep,
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
    let (given, removed): (Vec<&Field>, Vec<_>) = args
        .request
        .headers
        .iter()
        .partition(|field| field.value.is_some());
    Ok(ClientConfig {
        connector: ConnectorConfig {
            limit_rate: args.speed.limit_rate.map(|size| size.0),
            ..connector(&args.connection)
        },
        stall_timeout: args.connection.stall_timeout.0,
        proxy: proxy(&args.connection)?,
        tls: tls(&args.connection)?,
        redirects: RedirectOptions {
            max: usize::try_from(args.request.max_redirs).unwrap_or(usize::MAX),
            allow_downgrade: args.request.allow_downgrade,
        },
        credentials: credentials(&args.request)?,
        headers: given
            .into_iter()
            .filter_map(|field| Some((field.name.clone(), field.value.clone()?)))
            .collect(),
        without: removed
            .into_iter()
            .map(|field| field.name.clone())
            .collect(),
        idle: args
            .speed
            .max_connections
            .map_or(defaults.idle, usize::from),
    })
}

fn connector(args: &ConnectionArgs) -> ConnectorConfig {
    let pin = |pin: &Resolve| connector::Pin {
        host: pin.host.clone(),
        port: pin.port,
        addresses: pin.addresses.clone(),
    };
    ConnectorConfig {
        connect_timeout: args.connect_timeout.0,
        family: match (args.ipv4, args.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        pins: args.resolve.iter().map(pin).collect(),
        ..ConnectorConfig::default()
    }
}

fn proxy(args: &ConnectionArgs) -> Result<ProxyRules, SettingError> {
    let rules = match &args.proxy {
        Some(proxy) => proxy.0.clone().map(ProxyRules::all).unwrap_or_default(),
        None => ProxyRules::from_environment(|name| std::env::var(name).ok()).map_err(
            |(name, error)| {
                SettingError::new(format!("the variable {name} cannot be used"))
                    .because(error)
                    .hint("--proxy '' goes without")
            },
        )?,
    };
    let no_proxy = args
        .no_proxy
        .as_deref()
        .map_or(rules.no_proxy, NoProxy::parse);
    Ok(ProxyRules { no_proxy, ..rules })
}

#[cfg(test)]
mod tests;
