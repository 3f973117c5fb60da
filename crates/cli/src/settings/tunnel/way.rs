//! From what is wished of a tunnel to the way to its targets: proxies with logins and certificates, times, trust.
//!
//! Tunnels that wish the same share a way, and so what is learned on it: which alternative works, what a proxy wants to see.

use std::sync::Arc;

use haul_net::{
    ConnectorConfig, NoProxy, Proxy, ProxyRules, ProxyScheme, ProxySource, ProxyTls, Secret,
    Target, TlsOptions, connector::Pin,
};
use haul_tunnel::{Upstream, UpstreamError, UpstreamOptions};

use super::Environment;
use super::file::{Named, Proxies};
use super::login::Logins;
use super::wishes::{Place, TlsWish, Wishes};
use crate::args::Resolve;
use crate::settings::tls::{Names, client_tls};
use crate::settings::{SettingError, proxies};

/// A way to targets.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// What goes it.
    pub(crate) upstream: Arc<Upstream>,
    /// The proxies, for people.
    proxies: String,
    /// Targets that go without.
    no_proxy: NoProxy,
}

/// What makes ways, each once.
#[derive(Debug)]
pub(super) struct Ways<'a> {
    /// Proxies by name.
    pub(super) named: &'a Proxies,
    /// Who we are.
    pub(super) logins: Logins<'a>,
    /// What the environment says of proxies.
    pub(super) environment: Environment,
    /// Those that there are, by what was wished.
    pub(super) made: Vec<(Wishes, Way)>,
    /// What of the environment cannot be used, and is no reason to do nothing.
    pub(super) warnings: Vec<String>,
}

impl Way {
    /// By which way a target is reached, for people.
    pub(crate) fn to(&self, target: Option<&Target>) -> String {
        let is_straight = target.is_some_and(|target| self.no_proxy.matches(&target.host));
        match self.proxies.is_empty() || is_straight {
            true => "directly".to_owned(),
            false => format!("via {}", self.proxies),
        }
    }
}

impl Ways<'_> {
    /// The way that was wished.
    pub(super) fn of(&mut self, wishes: &Wishes) -> Result<Way, SettingError> {
        let wishes = on_the_way(wishes);
        if let Some((_, made)) = self.made.iter().find(|(known, _)| *known == wishes) {
            return Ok(made.clone());
        }
        let way = self.make(&wishes)?;
        self.made.push((wishes, way.clone()));
        Ok(way)
    }

    fn make(&mut self, wishes: &Wishes) -> Result<Way, SettingError> {
        let rules = self.rules(wishes.proxies.is_some())?;
        let proxies = self.proxies(wishes, rules.https)?;
        let no_proxy = match &wishes.no_proxy {
            Some(wished) => wished.clone(),
            None => {
                if !proxies.is_empty() {
                    self.warn_of(&rules.no_proxy);
                }
                rules.no_proxy
            }
        };
        let shown = shown(&proxies);
        let upstream = Upstream::new(UpstreamOptions {
            proxies,
            no_proxy: no_proxy.clone(),
            direct_fallback: wishes.direct_fallback.unwrap_or(false),
            target_tls: wishes.target_tls.unwrap_or(false),
            connector: connector(wishes),
            tls: target_tls(wishes)?,
        });
        let upstream = upstream.map_err(|error| match error {
            UpstreamError::Config(error) => {
                SettingError::new("TLS with the target cannot be set up").because(error)
            }
            error @ UpstreamError::Ways => SettingError::new("-p").because(error),
        })?;
        Ok(Way {
            upstream: Arc::new(upstream),
            proxies: shown,
            no_proxy,
        })
    }

    /// Tells once what of the variable is left out.
    fn warn_of(&mut self, list: &NoProxy) {
        for unusable in list.unusable() {
            let warning = format!("the variable no_proxy: {unusable}; it is left out");
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// What the environment says; where a proxy is named, nothing of others that may be wrong there.
    fn rules(&self, is_named: bool) -> Result<ProxyRules, SettingError> {
        let read = |name: &str| {
            let is_wanted = match name {
                "no_proxy" | "NO_PROXY" => true,
                // For plain requests alone, of which a tunnel makes none.
                "http_proxy" => false,
                _ => !is_named,
            };
            is_wanted.then(|| (self.environment)(name))?
        };
        ProxyRules::from_environment(read).map_err(|(name, error)| {
            SettingError::new(format!("the variable {name} cannot be used"))
                .because(error)
                .hint("-p '' goes without")
        })
    }

    /// The proxies of each place.
    pub(super) fn proxies(
        &self,
        wishes: &Wishes,
        environment: Option<Proxy>,
    ) -> Result<Vec<Vec<Proxy>>, SettingError> {
        let places = match &wishes.proxies {
            Some(places) => written(places, self.named)?,
            None => {
                let proxy = environment.ok_or_else(no_proxy)?;
                vec![vec![(proxy, None)]]
            }
        };
        let tls = proxy_tls(&wishes.proxy_tls)?;
        let is_secure = |(proxy, _): &(Proxy, _)| proxy.scheme == ProxyScheme::Https;
        let has_tls = places
            .first()
            .is_some_and(|place| place.iter().any(is_secure));
        if wishes.proxy_tls != TlsWish::default() && !has_tls {
            let told = "there is no TLS with the first proxy, and so nothing for certificates";
            return Err(SettingError::new(told).hint("https://HOST:PORT is a proxy over TLS"));
        }
        let takes_fields = |(proxy, _): &(Proxy, _)| proxy.is_http();
        let takes_fields = places
            .first()
            .is_some_and(|place| place.iter().any(takes_fields));
        if !wishes.headers.is_empty() && !takes_fields {
            let told = "-H, and the first proxy is none of HTTP";
            return Err(SettingError::new(told).hint("a SOCKS proxy takes no header fields"));
        }
        let number = places.into_iter().enumerate();
        number
            .map(|(number, place)| {
                let each = place.into_iter();
                let each =
                    each.map(|(proxy, named)| self.proxy(proxy, named, (wishes, &tls, number)));
                each.collect()
            })
            .collect()
    }

    /// A proxy with all that belongs to it.
    fn proxy(
        &self,
        proxy: Proxy,
        named: Option<&Named>,
        (wishes, tls, place): (&Wishes, &ProxyTls, usize),
    ) -> Result<Proxy, SettingError> {
        let is_first = place == 0;
        let is_secure = proxy.scheme == ProxyScheme::Https;
        let beside = named.map(|named| named.login.clone()).unwrap_or_default();
        let beside = match is_first {
            true => wishes.login.over(beside),
            false => beside,
        };
        let is_for_all = is_first && !wishes.is_own;
        let login = self.logins.of(&proxy, &beside, is_for_all)?;
        let fields = named.map_or(&[][..], |named| &named.headers);
        let more = if is_first { &wishes.headers[..] } else { &[] };
        let own = named
            .map(|named| &named.tls)
            .filter(|tls| **tls != TlsWish::default());
        let tls = match own {
            // One of its own goes before the one for all of the first place, unless flags have said something.
            Some(own) if !is_first || wishes.proxy_tls == TlsWish::default() => {
                Some(proxy_tls(own)?)
            }
            _ if is_first => Some(tls.clone()),
            _ => Some(proxy_tls(&TlsWish::default())?),
        };
        Ok(Proxy {
            login,
            headers: proxies::fields("-H", fields.iter().chain(more))?,
            tls: tls.filter(|_| is_secure),
            ..proxy
        })
    }
}

/// A proxy, with what the file says of it if it has a name there.
type Written<'a> = (Proxy, Option<&'a Named>);

/// The proxies of each place as they are written. An empty text alone is none.
pub(super) fn written<'a>(
    places: &[Place],
    named: &'a Proxies,
) -> Result<Vec<Vec<Written<'a>>>, SettingError> {
    if places.len() == 1 && places[0].is_none() {
        return Ok(Vec::new());
    }
    let each = |place: &Place| {
        let each = place.proxies.iter().zip(0..);
        each.map(|(text, at)| {
            let named = named.get(text.expose());
            let text = named.map_or(text, |named| &named.url);
            Ok((proxy(text, (place.flag, at))?, named))
        })
        .collect()
    };
    places.iter().map(each).collect()
}

/// What of the wishes makes a way; the rest may differ between tunnels that share one.
fn on_the_way(wishes: &Wishes) -> Wishes {
    Wishes {
        idle_timeout: None,
        warm: None,
        warm_idle: None,
        ..wishes.clone()
    }
}

fn no_proxy() -> SettingError {
    SettingError::new("there is no proxy: -p names none, and no variable either")
        .hint("-p HOST:PORT names one, as do https_proxy and all_proxy; -p '' goes straight")
}

/// A proxy that a flag or the file names. Errors never repeat the text: it may hold a password.
fn proxy(text: &Secret, (flag, at): (&'static str, usize)) -> Result<Proxy, SettingError> {
    let wrong = |what: String| SettingError::new(format!("{flag}: {what}"));
    let text = text.expose();
    if text.is_empty() {
        return Err(wrong("there is an empty place among the proxies".into())
            .hint("-p '' alone goes straight to targets"));
    }
    // What stands after a comma may be the rest of a password, and what stood before it no proxy.
    if at > 0 && text.contains('@') && !text.contains("://") {
        return Err(wrong(
            "an alternative with a login needs its scheme, as http://user:password@host:port"
                .into(),
        )
        .hint("a comma in a password is written as %2C"));
    }
    let parsed: Result<Proxy, _> = text.parse();
    let parsed = parsed.map_err(|error| wrong(error.to_string()))?;
    Ok(Proxy {
        source: ProxySource::Flag(flag),
        ..parsed
    })
}

/// `a:3128 or b:3128 > c:443`.
fn shown(places: &[Vec<Proxy>]) -> String {
    let place = |place: &Vec<Proxy>| {
        let names: Vec<String> = place.iter().map(Proxy::address).collect();
        names.join(" or ")
    };
    let places: Vec<String> = places.iter().map(place).collect();
    places.join(" > ")
}

fn connector(wishes: &Wishes) -> ConnectorConfig {
    let defaults = ConnectorConfig::default();
    let pin = |pin: &Resolve| Pin {
        host: pin.host.clone(),
        port: pin.port,
        addresses: pin.addresses.clone(),
    };
    ConnectorConfig {
        connect_timeout: wishes.connect_timeout.unwrap_or(defaults.connect_timeout),
        keepalive: wishes.keepalive.map_or(defaults.keepalive, |time| time.0),
        family: wishes.family.unwrap_or_default(),
        pins: wishes.resolve.iter().map(pin).collect(),
        ..defaults
    }
}

/// TLS with a proxy. Apart from TLS with targets: who trusts any of these does not mean any of those.
fn proxy_tls(wish: &TlsWish) -> Result<ProxyTls, SettingError> {
    proxies::tls(wish.names(proxies::FLAGS))
}

fn target_tls(wishes: &Wishes) -> Result<TlsOptions, SettingError> {
    match wishes.target_tls {
        Some(true) => client_tls(wishes.tls.names("--")),
        _ => Ok(TlsOptions::default()),
    }
}

impl TlsWish {
    fn names(&self, flags: &'static str) -> Names<'_> {
        Names {
            flags,
            cacert: self.cacert.as_deref(),
            insecure: self.insecure.unwrap_or(false),
            cert: self.cert.as_deref(),
            key: self.key.as_deref(),
        }
    }
}
