//! `--config`: the settings and tunnels of a file. What its keys are called and mean is what the flags are called and mean.
//!
//! Here is what a file comes to, and its tables one within another; what may be wished in several of them is read in [`keys`], and what was
//! meant by a key that stands in the wrong one is told by [`meant`].

mod keys;
mod meant;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use haul_net::{Proxy, ProxyScheme, Secret};
use haul_service::listen::ListenAddress;
use haul_service::observe::LogTarget;
use haul_tunnel::ListenerKind;
use toml::de::DeTable;

use super::beside::ProxyTlsOptions;
use super::running::{NetrcOption, ProcessOptions};
use super::table::{TomlTable, TomlText, TomlValue};
use super::wishes::TunnelOptionsLayer;
use crate::args::{
    HeaderArg, ProxyUrl, ValueError, listen_address, positive_number, target, thread_count,
};
use crate::settings::proxy_login::ProxyLoginOptions;
use crate::settings::{SettingError, Sourced, world_readable_warning};

/// Bytes that a file has at most: some thousand tunnels.
const MOST: u64 = 1 << 20;

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct TunnelConfigFile {
    /// Of all tunnels, also of those that flags name.
    pub(crate) all: TunnelOptionsLayer,
    /// Of the process.
    pub(crate) running: ProcessOptions,
    /// Its tunnels, in their order.
    pub(crate) tunnels: Vec<ConfiguredTunnel>,
    /// Proxies by their names.
    pub(crate) proxies: NamedProxies,
    /// Its name.
    pub(crate) path: PathBuf,
    /// What is likely not meant.
    pub(crate) warnings: Vec<String>,
}

/// Proxies by their names.
pub(super) type NamedProxies = BTreeMap<String, NamedProxy>;

/// A tunnel of a file's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredTunnel {
    /// Where it listens.
    pub(crate) listen: Sourced<ListenAddress>,
    /// Where that leads.
    pub(crate) local: ListenerKind,
    /// What else is wished of it.
    pub(crate) wishes: TunnelOptionsLayer,
}

/// A proxy with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedProxy {
    /// It, as it is written.
    pub(crate) url: Secret,
    /// Who we are to it.
    pub(crate) login: ProxyLoginOptions,
    /// What a CONNECT to it carries.
    pub(crate) headers: Vec<Sourced<HeaderArg>>,
    /// TLS with it.
    pub(crate) tls: ProxyTlsOptions,
}

impl TunnelConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what cannot be used: with the line.
    pub(crate) fn read(path: &Path) -> Result<Self, SettingError> {
        let text = text(path)?;
        let mut config = Self::parse(path, &text)?;
        if config.has_secrets() {
            config.warnings.extend(world_readable_warning(path));
        }
        Ok(config)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, SettingError> {
        let source = TomlText { path, text };
        let parsed = DeTable::parse(text).map_err(|error| {
            let place = error.span().unwrap_or_default();
            source.wrong(&place, error.message())
        })?;
        let table = source.table(&parsed);
        let proxies = proxies(&table)?;
        let config = Self {
            all: keys::wishes(&table, &proxies)?,
            running: running(&table)?,
            tunnels: tunnels(&table, &proxies)?,
            proxies,
            path: path.to_owned(),
            warnings: Vec::new(),
        };
        table.finish(meant::at_the_top)?;
        Ok(config)
    }

    /// Whether there is something in it that is not for everybody to read.
    fn has_secrets(&self) -> bool {
        let login = |login: &ProxyLoginOptions| {
            let user = login.user.as_ref();
            user.is_some_and(|user| user.value.password.is_some())
        };
        let secret = |text: &Secret| text.expose().contains('@');
        let wishes = |wishes: &TunnelOptionsLayer| {
            let mut texts = wishes
                .proxies
                .iter()
                .flatten()
                .flat_map(|place| &place.proxies);
            login(&wishes.login) || !wishes.headers.is_empty() || texts.any(secret)
        };
        let named = |named: &NamedProxy| {
            login(&named.login) || !named.headers.is_empty() || secret(&named.url)
        };
        wishes(&self.all)
            || self.tunnels.iter().any(|tunnel| wishes(&tunnel.wishes))
            || self.proxies.values().any(named)
    }
}

fn text(path: &Path) -> Result<String, SettingError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut text));
    let shown = path.display();
    read.map_err(|error| {
        SettingError::new(format!("--config: cannot read {shown}")).caused_by(error)
    })?;
    if u64::try_from(text.len()).is_ok_and(|length| length > MOST) {
        return Err(SettingError::new(format!(
            "--config: {shown} is larger than {} KiB",
            MOST >> 10
        )));
    }
    String::from_utf8(text)
        .map_err(|_| SettingError::new(format!("--config: {shown} is not UTF-8")))
}

fn running(table: &TomlTable<'_>) -> Result<ProcessOptions, SettingError> {
    let home = table.said(&["netrc"], TomlValue::flag)?;
    let home = home.filter(|said| said.value);
    let file = table.said(&["netrc-file"], TomlValue::path)?;
    Ok(ProcessOptions {
        max_connections: table.read(&["max-connections"], |value| value.parsed(positive_number))?,
        log: table.said(&["log"], log)?,
        log_format: table.said(&["log-format"], |value| {
            let format = value.clone().text()?.parse();
            format.map_err(|error: haul_tunnel::TunnelLogFormatError| value.wrong(error))
        })?,
        admin: table.said(&["admin"], address)?,
        grace: keys::maybe_time(table, "grace")?,
        threads: table.read(&["threads"], |value| value.parsed(thread_count))?,
        netrc: file
            .map(|file| file.map(NetrcOption::File))
            .or_else(|| home.map(|home| home.map(|_| NetrcOption::Home))),
    })
}

fn log(value: TomlValue<'_>) -> Result<LogTarget, SettingError> {
    match value.clone().text()? {
        "-" => Ok(LogTarget::Stdout),
        _ => value.path().map(LogTarget::File),
    }
}

/// An address, whose socket file is relative to the configuration's.
fn address(value: TomlValue<'_>) -> Result<ListenAddress, SettingError> {
    let address = value.clone().parsed(listen_address)?;
    Ok(match address {
        ListenAddress::Unix { path, mode } => ListenAddress::Unix {
            path: value.beside(&path),
            mode,
        },
        other => other,
    })
}

fn tunnels(
    table: &TomlTable<'_>,
    proxies: &NamedProxies,
) -> Result<Vec<ConfiguredTunnel>, SettingError> {
    let Some(value) = table.key(&["tunnel"])? else {
        return Ok(Vec::new());
    };
    let each = value.each().into_iter();
    each.map(|value| tunnel(&value.table()?, proxies)).collect()
}

fn tunnel(table: &TomlTable<'_>, proxies: &NamedProxies) -> Result<ConfiguredTunnel, SettingError> {
    let listen = table.said(&["listen"], address)?;
    let forward = table.read(&["target"], |value| value.parsed(target))?;
    let kind = table.read(&["kind"], kind)?;
    let mut wishes = keys::wishes(table, proxies)?;
    wishes.is_own = wishes.proxies.is_some();
    table.finish(meant::in_a_tunnel)?;
    let local = match (forward, kind) {
        (Some(target), None) => ListenerKind::Forward(target),
        (None, Some(kind)) => kind,
        (Some(_), Some(_)) => {
            return Err(
                table.wrong("this tunnel has a target and a kind, and can have one of them")
            );
        }
        (None, None) => {
            let told = table.wrong("this tunnel leads nowhere");
            return Err(told.with_hint(
                "target = \"HOST:PORT\", or kind = \"socks\" or \"http\" whose clients name theirs",
            ));
        }
    };
    let listen = listen.ok_or_else(|| {
        let told = table.wrong("this tunnel listens nowhere");
        told.with_hint("listen = \"PORT\", \"HOST:PORT\", \"unix:PATH\" or \"systemd:NAME\"")
    })?;
    Ok(ConfiguredTunnel {
        listen,
        local,
        wishes,
    })
}

fn kind(value: TomlValue<'_>) -> Result<ListenerKind, SettingError> {
    match value.clone().text()? {
        "socks" => Ok(ListenerKind::Socks),
        "http" => Ok(ListenerKind::Http),
        _ => Err(value.wrong("this is no kind of tunnel: socks or http")),
    }
}

fn proxies(table: &TomlTable<'_>) -> Result<NamedProxies, SettingError> {
    let Some(value) = table.key(&["proxies"])? else {
        return Ok(BTreeMap::new());
    };
    let each = value.table()?;
    let named = each.all().map(|value| {
        let name = value.name().to_owned();
        Ok((name, named(&value.table()?)?))
    });
    named.collect()
}

fn named(table: &TomlTable<'_>) -> Result<NamedProxy, SettingError> {
    let url = table.read(&["url"], |value| {
        let proxy = value.clone().parsed(|text| {
            let proxy: ProxyUrl = text.parse()?;
            proxy.0.ok_or_else(|| ValueError::of("it is empty"))
        })?;
        Ok((value.text()?, proxy))
    })?;
    let (login, headers, tls) = (
        keys::login(table)?,
        keys::headers(table)?,
        keys::tls(table)?,
    );
    table.finish(meant::in_a_proxy)?;
    let Some((url, proxy)) = url else {
        return Err(table
            .wrong("this proxy has no url")
            .with_hint("url = \"HOST:PORT\", or with a scheme before it"));
    };
    takes(&proxy, &headers, &tls)?;
    Ok(NamedProxy {
        url: Secret::new(url.to_owned()),
        login,
        headers,
        tls,
    })
}

/// What a proxy could never use is a mistake.
fn takes(
    proxy: &Proxy,
    headers: &[Sourced<HeaderArg>],
    tls: &ProxyTlsOptions,
) -> Result<(), SettingError> {
    if let (Some(by), true) = (tls.by(), proxy.scheme != ProxyScheme::Https) {
        let told = by.wrong("there is no TLS with this proxy, and so nothing for certificates");
        return Err(told.with_hint("write a proxy over TLS as https://HOST:PORT"));
    }
    match headers.first().filter(|_| !proxy.is_http()) {
        Some(field) => Err(field
            .by
            .wrong("this proxy is none of HTTP")
            .with_hint("a SOCKS proxy takes no header fields")),
        None => Ok(()),
    }
}
