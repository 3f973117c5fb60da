//! `--config`: the settings and tunnels of a file. What its keys are called and mean is what the flags are called and mean.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use haul_net::{Family, NoProxy, Secret};
use haul_service::listen::Address;
use haul_service::observe::LogTarget;
use haul_tunnel::Local;
use toml::de::DeTable;

use super::running::{NetrcWish, RunningWishes};
use super::table::{Source, Table, Value};
use super::way;
use super::wishes::{LoginWish, Place, TlsWish, Wishes};
use crate::args::{
    Duration, Field, MaybeTime, ProxyUrl, Resolve, User, ValueError, keepalive, listen, many,
    no_proxy, ready, target, threads,
};
use crate::settings::{SettingError, exposed};

/// What messages call whoever named a proxy in the file.
const FLAG: &str = "--config";

/// Bytes that a file has at most: some thousand tunnels.
const MOST: u64 = 1 << 20;

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Of all tunnels, also of those that flags name.
    pub(crate) all: Wishes,
    /// Of the process.
    pub(crate) running: RunningWishes,
    /// Its tunnels, in their order.
    pub(crate) tunnels: Vec<Listed>,
    /// Proxies by their names.
    pub(crate) proxies: Proxies,
    /// What is likely not meant.
    pub(crate) warnings: Vec<String>,
}

/// Proxies by their names.
pub(super) type Proxies = BTreeMap<String, Named>;

/// A tunnel of a file's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Where it listens.
    pub(crate) listen: Address,
    /// Where that leads.
    pub(crate) local: Local,
    /// What else is wished of it.
    pub(crate) wishes: Wishes,
}

/// A proxy with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// It, as it is written.
    pub(crate) url: Secret,
    /// Who we are to it.
    pub(crate) login: LoginWish,
    /// What a CONNECT to it carries.
    pub(crate) headers: Vec<Field>,
    /// TLS with it.
    pub(crate) tls: TlsWish,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or says what cannot be used: with the line.
    pub(crate) fn read(path: &Path) -> Result<Self, SettingError> {
        let text = text(path)?;
        let mut config = Self::parse(path, &text)?;
        if config.has_secrets() {
            config.warnings.extend(exposed(path));
        }
        Ok(config)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, SettingError> {
        let source = Source { path, text };
        let parsed = DeTable::parse(text).map_err(|error| {
            let place = error.span().unwrap_or_default();
            source.wrong(&place, error.message())
        })?;
        let table = source.table(&parsed);
        let proxies = proxies(&table)?;
        let config = Self {
            all: wishes(&table, &proxies)?,
            running: running(&table)?,
            tunnels: tunnels(&table, &proxies)?,
            proxies,
            warnings: Vec::new(),
        };
        table.finish()?;
        Ok(config)
    }

    /// Whether there is something in it that is not for everybody to read.
    fn has_secrets(&self) -> bool {
        let login = |login: &LoginWish| {
            let user = login.user.as_ref();
            user.is_some_and(|user| user.password.is_some())
        };
        let secret = |text: &Secret| text.expose().contains('@');
        let wishes = |wishes: &Wishes| {
            let mut texts = wishes
                .proxies
                .iter()
                .flatten()
                .flat_map(|place| &place.proxies);
            login(&wishes.login) || !wishes.headers.is_empty() || texts.any(secret)
        };
        let named =
            |named: &Named| login(&named.login) || !named.headers.is_empty() || secret(&named.url);
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
        SettingError::new(format!("--config: cannot read {shown}")).because(error)
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

/// What the file as a whole or one of its tunnels wishes.
fn wishes(table: &Table<'_>, proxies: &Proxies) -> Result<Wishes, SettingError> {
    let family = |name, family| {
        let wanted = table.read(&[name], Value::flag)?;
        Ok::<_, SettingError>(wanted.filter(|wanted| *wanted).map(|_| family))
    };
    Ok(Wishes {
        proxies: table.read(&["proxy"], |value| places(value, proxies))?,
        is_own: false,
        login: login(table)?,
        headers: headers(table)?,
        proxy_tls: TlsWish {
            cacert: table.read(&["proxy-cacert"], Value::path)?,
            insecure: table.read(&["proxy-insecure"], Value::flag)?,
            cert: table.read(&["proxy-cert"], Value::path)?,
            key: table.read(&["proxy-key"], Value::path)?,
        },
        no_proxy: table.read(&["no-proxy"], hosts)?,
        direct_fallback: table.read(&["direct-fallback"], Value::flag)?,
        target_tls: table.read(&["target-tls"], Value::flag)?,
        tls: tls(table)?,
        connect_timeout: table
            .read(&["connect-timeout"], |value| value.parsed(str::parse))?
            .map(|time: Duration| time.0),
        idle_timeout: maybe_time(table, "idle-timeout")?,
        keepalive: table.read(&["keepalive"], |value| value.parsed(keepalive))?,
        warm: table.read(&["warm"], |value| value.parsed(ready))?,
        warm_idle: table
            .read(&["warm-idle"], |value| value.parsed(str::parse))?
            .map(|time: Duration| time.0),
        resolve: list(table, &["resolve"], str::parse::<Resolve>)?,
        family: match (family("ipv4", Family::V4)?, family("ipv6", Family::V6)?) {
            (Some(_), Some(_)) => return Err(table.wrong("ipv4 and ipv6 exclude each other")),
            (v4, v6) => v4.or(v6),
        },
    })
}

fn maybe_time(table: &Table<'_>, name: &'static str) -> Result<Option<MaybeTime>, SettingError> {
    table.read(&[name], |value| value.parsed(str::parse))
}

/// Places in a row; in each a text with commas, or a list, of alternatives.
fn places(value: Value<'_>, proxies: &Proxies) -> Result<Vec<Place>, SettingError> {
    let whole = value.clone();
    let is_empty = |value: &Value<'_>| value.is_list() && value.clone().each().is_empty();
    if is_empty(&whole) || whole.clone().each().iter().any(is_empty) {
        let told = whole.wrong("there is no proxy in this list");
        return Err(told.hint("proxy = \"\" goes straight to targets"));
    }
    let place = |value: Value<'_>| {
        if !value.is_list() {
            return value.text().map(|text| Place::of(text, FLAG));
        }
        let texts = value.each().into_iter().map(|value| {
            let text = value.text()?;
            Ok(Secret::new(text.trim().to_owned()))
        });
        let proxies = texts.collect::<Result<_, _>>()?;
        Ok(Place {
            proxies,
            flag: FLAG,
        })
    };
    let places: Vec<Place> = value
        .each()
        .into_iter()
        .map(place)
        .collect::<Result<_, _>>()?;
    // Told here, where the line is known; it is done again where flags have their say.
    way::written(&places, proxies).map_err(|error| {
        let told = whole.wrong(error.to_string().trim_start_matches("--config: "));
        match error.advice() {
            Some(advice) => told.hint(advice.to_owned()),
            None => told,
        }
    })?;
    Ok(places)
}

fn login(table: &Table<'_>) -> Result<LoginWish, SettingError> {
    let user = |value: Value<'_>| value.parsed(str::parse::<User>);
    Ok(LoginWish {
        user: table.read(&["user", "proxy-user"], user)?,
        file: table.read(&["password-file", "proxy-password-file"], Value::path)?,
    })
}

fn headers(table: &Table<'_>) -> Result<Vec<Field>, SettingError> {
    list(table, &["headers", "header"], str::parse)
}

fn tls(table: &Table<'_>) -> Result<TlsWish, SettingError> {
    Ok(TlsWish {
        cacert: table.read(&["cacert"], Value::path)?,
        insecure: table.read(&["insecure"], Value::flag)?,
        cert: table.read(&["cert"], Value::path)?,
        key: table.read(&["key"], Value::path)?,
    })
}

/// A list of texts as one, as the flag has them. Each is judged where it stands.
fn hosts(value: Value<'_>) -> Result<NoProxy, SettingError> {
    let judged = |value: Value<'_>| {
        let text = value.clone().text()?;
        value.parsed(no_proxy).map(|_| text.to_owned())
    };
    let texts = value.each().into_iter().map(judged);
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    Ok(NoProxy::parse(&texts.join(",")))
}

fn list<T>(
    table: &Table<'_>,
    names: &[&'static str],
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<Vec<T>, SettingError> {
    let Some(value) = table.key(names)? else {
        return Ok(Vec::new());
    };
    let each = value.each().into_iter();
    each.map(|value| value.parsed(&parse)).collect()
}

fn running(table: &Table<'_>) -> Result<RunningWishes, SettingError> {
    let home = table.read(&["netrc"], Value::flag)?.unwrap_or(false);
    let file = table.read(&["netrc-file"], Value::path)?;
    Ok(RunningWishes {
        max_connections: table.read(&["max-connections"], |value| value.parsed(many))?,
        log: table.read(&["log"], log)?,
        log_format: table.read(&["log-format"], |value| {
            let format = value.clone().text()?.parse();
            format.map_err(|error: haul_tunnel::LogFormatError| value.wrong(error))
        })?,
        admin: table.read(&["admin"], address)?,
        grace: maybe_time(table, "grace")?,
        threads: table.read(&["threads"], |value| value.parsed(threads))?,
        netrc: file
            .map(NetrcWish::File)
            .or_else(|| home.then_some(NetrcWish::Home)),
    })
}

fn log(value: Value<'_>) -> Result<LogTarget, SettingError> {
    match value.clone().text()? {
        "-" => Ok(LogTarget::Stdout),
        _ => value.path().map(LogTarget::File),
    }
}

/// An address, whose socket file is relative to the configuration's.
fn address(value: Value<'_>) -> Result<Address, SettingError> {
    let address = value.clone().parsed(listen)?;
    Ok(match address {
        Address::Unix { path, mode } => Address::Unix {
            path: value.beside(&path),
            mode,
        },
        other => other,
    })
}

fn tunnels(table: &Table<'_>, proxies: &Proxies) -> Result<Vec<Listed>, SettingError> {
    let Some(value) = table.key(&["tunnel"])? else {
        return Ok(Vec::new());
    };
    let each = value.each().into_iter();
    each.map(|value| tunnel(&value.table()?, proxies)).collect()
}

fn tunnel(table: &Table<'_>, proxies: &Proxies) -> Result<Listed, SettingError> {
    let listen = table.read(&["listen"], address)?;
    let forward = table.read(&["target"], |value| value.parsed(target))?;
    let kind = table.read(&["kind"], kind)?;
    let mut wishes = wishes(table, proxies)?;
    wishes.is_own = wishes.proxies.is_some();
    table.finish()?;
    let local = match (forward, kind) {
        (Some(target), None) => Local::Forward(target),
        (None, Some(kind)) => kind,
        (Some(_), Some(_)) => {
            return Err(
                table.wrong("this tunnel has a target and a kind, and can have one of them")
            );
        }
        (None, None) => {
            let told = table.wrong("this tunnel leads nowhere");
            return Err(told.hint(
                "target = \"HOST:PORT\", or kind = \"socks\" or \"http\" whose clients name theirs",
            ));
        }
    };
    let listen = listen.ok_or_else(|| {
        let told = table.wrong("this tunnel listens nowhere");
        told.hint("listen = \"PORT\", \"HOST:PORT\", \"unix:PATH\" or \"systemd:NAME\"")
    })?;
    Ok(Listed {
        listen,
        local,
        wishes,
    })
}

fn kind(value: Value<'_>) -> Result<Local, SettingError> {
    match value.clone().text()? {
        "socks" => Ok(Local::Socks),
        "http" => Ok(Local::Http),
        _ => Err(value.wrong("this is no kind of tunnel: socks or http")),
    }
}

fn proxies(table: &Table<'_>) -> Result<Proxies, SettingError> {
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

fn named(table: &Table<'_>) -> Result<Named, SettingError> {
    let url = table.read(&["url"], |value| {
        value.clone().parsed(|text| {
            let proxy: ProxyUrl = text.parse()?;
            proxy
                .0
                .map(|_| ())
                .ok_or_else(|| ValueError::of("it is empty"))
        })?;
        value.text()
    })?;
    let named = Named {
        url: Secret::new(url.unwrap_or_default().to_owned()),
        login: login(table)?,
        headers: headers(table)?,
        tls: tls(table)?,
    };
    table.finish()?;
    match url {
        Some(_) => Ok(named),
        None => Err(table
            .wrong("this proxy has no url")
            .hint("url = \"HOST:PORT\", or with a scheme before it")),
    }
}
