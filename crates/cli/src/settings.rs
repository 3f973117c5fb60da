//! From what was typed, and the environment, to what the engine takes: the one place where they meet.

use std::path::{Path, PathBuf};

use haul_net::{
    ClientConfig, ConnectorConfig, Credentials, Family, Identity, Login, Netrc, ProxyRules, Secret, TlsOptions, connector,
};
use haul_plan::{RedirectOptions, RetryOptions};
use haul_transfer::{Connections, Existing, GetOptions, Job, Output};

use crate::args::GetArgs;

/// A setting that cannot be used: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct SettingError {
    text: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SettingError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), source: None }
    }

    fn because(text: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { text: text.into(), source: Some(source.into()) }
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
    pub(crate) fn resolve(args: &GetArgs) -> Result<Self, SettingError> {
        if args.output.is_some() && args.urls.len() > 1 {
            return Err(SettingError::new("-o names one file, but there are several URLs; -d DIR takes them all"));
        }
        Ok(Self { client: client(args)?, options: options(args), jobs: jobs(args) })
    }
}

fn jobs(args: &GetArgs) -> Vec<Job> {
    let output = match (&args.output, &args.directory) {
        (Some(path), _) if path.as_os_str() == "-" => Output::Stdout,
        (Some(path), _) => Output::File(path.clone()),
        (None, Some(directory)) => Output::Directory(directory.clone()),
        (None, None) => Output::Directory(PathBuf::from(".")),
    };
    let job = |(id, url): (u64, &crate::args::HttpUrl)| Job {
        id,
        url: url.0.clone(),
        output: output.clone(),
        checksums: args.checksum.clone(),
    };
    (0..).zip(&args.urls).map(job).collect()
}

fn options(args: &GetArgs) -> GetOptions {
    let defaults = GetOptions::default();
    GetOptions {
        connections: args.max_connections.map_or(defaults.connections, |n| Connections::Fixed(n.into())),
        min_segment: args.min_segment_size.0,
        segment: args.segment_size.map(|size| size.0),
        resume: !args.no_resume,
        existing: match (args.overwrite, args.update) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Update,
            _ => Existing::Keep,
        },
        decode: args.decode,
        retry: RetryOptions { retries: args.retries, ..RetryOptions::default() },
        ..defaults
    }
}

fn client(args: &GetArgs) -> Result<ClientConfig, SettingError> {
    let defaults = ClientConfig::default();
    let (given, removed): (Vec<_>, Vec<_>) = args.headers.iter().partition(|field| field.value.is_some());
    Ok(ClientConfig {
        connector: connector_config(args),
        stall_timeout: args.stall_timeout.0,
        proxy: proxy(args)?,
        tls: tls(args)?,
        redirects: RedirectOptions { max: args.max_redirs, allow_downgrade: args.allow_downgrade },
        credentials: credentials(args)?,
        headers: given.into_iter().filter_map(|f| Some((f.name.clone(), f.value.clone()?))).collect(),
        without: removed.into_iter().map(|field| field.name.clone()).collect(),
        limit_rate: args.limit_rate.map(|size| size.0),
        idle: args.max_connections.map_or(defaults.idle, usize::from),
    })
}

fn connector_config(args: &GetArgs) -> ConnectorConfig {
    let pin = |r: &crate::args::Resolve| connector::Pin { host: r.host.clone(), port: r.port, addresses: r.addresses.clone() };
    ConnectorConfig {
        connect_timeout: args.connect_timeout.0,
        family: match (args.ipv4, args.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        pins: args.resolve.iter().map(pin).collect(),
    }
}

fn proxy(args: &GetArgs) -> Result<ProxyRules, SettingError> {
    match args.proxy.as_deref() {
        Some("") => Ok(ProxyRules::default()),
        Some(text) => {
            let proxy = text.parse().map_err(|e| SettingError::because("--proxy", e))?;
            Ok(ProxyRules::all(proxy))
        }
        None => ProxyRules::from_environment(|name| std::env::var(name).ok())
            .map_err(|(name, error)| SettingError::because(format!("the variable {name}"), error)),
    }
}

fn tls(args: &GetArgs) -> Result<TlsOptions, SettingError> {
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some(Identity { certificates: read("--cert", cert)?, key: read("--key", key)? }),
        _ => None,
    };
    let cacert = args.cacert.as_deref().map(|path| read("--cacert", path)).transpose()?;
    Ok(TlsOptions { cacert, insecure: args.insecure, identity })
}

fn credentials(args: &GetArgs) -> Result<Credentials, SettingError> {
    let bearer = match args.bearer.as_deref().map(|text| text.strip_prefix('@').ok_or(text)) {
        None => None,
        Some(Err(token)) => Some(token.to_owned()),
        Some(Ok(file)) => Some(text("--bearer", Path::new(file))?.trim().to_owned()),
    };
    Ok(Credentials {
        login: args.user.as_deref().map(login).transpose()?,
        bearer: bearer.map(Secret::new),
        netrc: args.netrc.as_deref().map(netrc).transpose()?,
    })
}

fn login(text: &str) -> Result<Login, SettingError> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, password.to_owned()),
        None => (text, ask_password(text)?),
    };
    Ok(Login { user: user.to_owned(), password: Secret::new(password) })
}

/// Asks on the terminal, without showing what is typed.
fn ask_password(user: &str) -> Result<String, SettingError> {
    rpassword::prompt_password(format!("Password for {user}: "))
        .map_err(|e| SettingError::because("-u without a password asks for it on a terminal, and there is none", e))
}

fn netrc(path: &Path) -> Result<Netrc, SettingError> {
    let path = if path.as_os_str().is_empty() {
        let home = std::env::home_dir().ok_or_else(|| SettingError::new("--netrc: there is no home directory; give --netrc=FILE"))?;
        std::env::var_os("NETRC").map_or_else(|| home.join(".netrc"), PathBuf::from)
    } else {
        path.to_owned()
    };
    let text = text("--netrc", &path)?;
    Netrc::parse(&text).map_err(|e| SettingError::because(format!("--netrc {}", path.display()), e))
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, SettingError> {
    std::fs::read(path).map_err(|e| SettingError::because(format!("{flag}: cannot read {}", path.display()), e))
}

fn text(flag: &str, path: &Path) -> Result<String, SettingError> {
    let bytes = read(flag, path)?;
    String::from_utf8(bytes).map_err(|_| SettingError::new(format!("{flag}: {} is not text", path.display())))
}
