//! The proxies on a way: from how they are written to each with its login, header fields and certificates.

use haul_net::{
    Proxy, ProxyError, ProxyScheme, ProxySource, ProxyTls, Secret, UnusableProxyVariable,
};
use http::HeaderMap;

use super::beside::{ProxyChainStep, ProxyTlsOptions};
use super::file::{NamedProxies, NamedProxy};
use super::way::TunnelUpstreams;
use super::wishes::TunnelOptionsLayer;
use crate::args::HeaderArg;
use crate::settings::{OptionSource, SettingError, Sourced, proxies};

impl TunnelUpstreams<'_> {
    /// The proxies of each place.
    pub(super) fn proxies(
        &self,
        wishes: &TunnelOptionsLayer,
        environment: Option<Result<Proxy, UnusableProxyVariable>>,
    ) -> Result<Vec<Vec<Proxy>>, SettingError> {
        let places = match &wishes.proxies {
            Some(places) => written(places, self.named)?,
            None => {
                let proxy = environment.ok_or_else(no_proxy)?.map_err(unusable)?;
                vec![vec![(proxy, None)]]
            }
        };
        let tls = proxy_tls(&wishes.proxy_tls)?;
        let is_secure = |(proxy, _): &(Proxy, _)| proxy.scheme == ProxyScheme::Https;
        let has_tls = places
            .first()
            .is_some_and(|place| place.iter().any(is_secure));
        if let Some(by) = wishes.proxy_tls.by().filter(|_| !has_tls) {
            let told =
                by.wrong("there is no TLS with the first proxy, and so nothing for certificates");
            return Err(told.with_hint("write a proxy over TLS as https://HOST:PORT"));
        }
        let takes_fields = |(proxy, _): &(Proxy, _)| proxy.is_http();
        let takes_fields = places
            .first()
            .is_some_and(|place| place.iter().any(takes_fields));
        if let Some(field) = wishes.headers.first().filter(|_| !takes_fields) {
            let told = field.by.wrong("the first proxy is none of HTTP");
            return Err(told.with_hint("a SOCKS proxy takes no header fields"));
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
        named: Option<&NamedProxy>,
        (wishes, tls, place): (&TunnelOptionsLayer, &ProxyTls, usize),
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
            .filter(|tls| **tls != ProxyTlsOptions::default());
        let tls = match own {
            // One of its own goes before the one for all of the first place, unless flags have said something.
            Some(own) if !is_first || wishes.proxy_tls == ProxyTlsOptions::default() => {
                Some(proxy_tls(own)?)
            }
            _ if is_first => Some(tls.clone()),
            _ => Some(proxy_tls(&ProxyTlsOptions::default())?),
        };
        Ok(Proxy {
            login,
            headers: fields_of(fields.iter().chain(more))?,
            tls: tls.filter(|_| is_secure),
            ..proxy
        })
    }
}

/// Header fields, each told by whoever gave it.
fn fields_of<'a>(
    said: impl Iterator<Item = &'a Sourced<HeaderArg>>,
) -> Result<HeaderMap, SettingError> {
    let mut all = HeaderMap::new();
    for said in said {
        let one = proxies::connect_headers(&said.by.to_string(), std::iter::once(&said.value))?;
        all.extend(one);
    }
    Ok(all)
}

/// A proxy, with what the file says of it if it has a name there.
type ProxyWithConfig<'a> = (Proxy, Option<&'a NamedProxy>);

/// The proxies of each place as they are written. An empty text alone is none.
pub(super) fn written<'a>(
    places: &[ProxyChainStep],
    named: &'a NamedProxies,
) -> Result<Vec<Vec<ProxyWithConfig<'a>>>, SettingError> {
    if places.len() == 1 && places[0].is_none() {
        return Ok(Vec::new());
    }
    let each = |place: &ProxyChainStep| {
        let each = place.proxies.iter().zip(0..);
        each.map(|(text, at)| {
            let named = named.get(text.expose());
            let text = named.map_or(text, |named| &named.url);
            Ok((proxy(text, (&place.by, at), place.proxies.len())?, named))
        })
        .collect()
    };
    places.iter().map(each).collect()
}

fn no_proxy() -> SettingError {
    SettingError::new("there is no proxy: -p names none, and no variable either")
        .with_hint("-p HOST:PORT names one, as do https_proxy and all_proxy; -p '' goes straight")
}

fn unusable(variable: UnusableProxyVariable) -> SettingError {
    SettingError::new(variable.to_string())
        .caused_by(variable.error)
        .with_hint("-p HOST:PORT names another, -p '' goes without")
}

/// A proxy that a flag or the file names, one of so many. Errors never repeat the text: it may hold a password.
fn proxy(
    text: &Secret,
    (by, at): (&OptionSource, usize),
    of: usize,
) -> Result<Proxy, SettingError> {
    const COMMA: &str = "a comma in a password is written as %2C";
    let text = text.expose();
    if text.is_empty() {
        let straight = match by.is_key() {
            true => "proxy = \"\" alone goes straight to targets",
            false => "-p '' alone goes straight to targets",
        };
        let told = by.wrong("there is an empty place among the proxies");
        return Err(told.with_hint(straight));
    }
    // What stands after a comma may be the rest of a password, and what stood before it no proxy.
    if at > 0 && text.contains('@') && !text.contains("://") {
        let told = by.wrong(
            "an alternative with a login needs its scheme, as http://user:password@host:port",
        );
        return Err(told.with_hint(COMMA));
    }
    let parsed: Result<Proxy, ProxyError> = text.parse();
    let parsed = parsed.map_err(|error| {
        let told = by.wrong(&error);
        match error {
            ProxyError::NoPort if by.is_key() => {
                told.with_hint("a name without a port is one of [proxies.NAME] in the file")
            }
            _ if of > 1 => told.with_hint(COMMA),
            _ => told,
        }
    })?;
    let source = match by {
        OptionSource::Flag(name) => name,
        OptionSource::Key { .. } => "--config",
    };
    Ok(Proxy {
        source: ProxySource::Flag(source),
        ..parsed
    })
}

/// TLS with a proxy. Apart from TLS with targets: who trusts any of these does not mean any of those.
fn proxy_tls(wish: &ProxyTlsOptions) -> Result<ProxyTls, SettingError> {
    proxies::proxy_tls(wish.names(proxies::FLAGS))
}
