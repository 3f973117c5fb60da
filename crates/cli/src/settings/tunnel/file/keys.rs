//! Keys that several tables have: what is wished of all tunnels or of one, and what stands beside a proxy.

use haul_net::{AddressFamily, NoProxy, Secret};

use super::NamedProxies;
use crate::args::{
    DurationArg, HeaderArg, OptionalTimeArg, ResolveArg, UserArg, ValueError, keepalive, no_proxy,
    warm_connections,
};
use crate::settings::proxy_login::ProxyLoginOptions;
use crate::settings::tunnel::beside::{ProxyChainStep, ProxyTlsOptions};
use crate::settings::tunnel::chain;
use crate::settings::tunnel::table::{TomlTable, TomlValue};
use crate::settings::tunnel::wishes::TunnelOptionsLayer;
use crate::settings::{SettingError, Sourced};

/// What the file as a whole or one of its tunnels wishes.
pub(super) fn wishes(
    table: &TomlTable<'_>,
    proxies: &NamedProxies,
) -> Result<TunnelOptionsLayer, SettingError> {
    Ok(TunnelOptionsLayer {
        proxies: table.read(&["proxy"], |value| places(value, proxies))?,
        is_own: false,
        login: login(table)?,
        headers: headers(table)?,
        proxy_tls: ProxyTlsOptions {
            cacert: table.said(&["proxy-cacert"], TomlValue::path)?,
            insecure: table.said(&["proxy-insecure"], TomlValue::flag)?,
            cert: table.said(&["proxy-cert"], TomlValue::path)?,
            key: table.said(&["proxy-key"], TomlValue::path)?,
        },
        no_proxy: table.read(&["no-proxy"], hosts)?,
        direct_fallback: table.read(&["direct-fallback"], TomlValue::flag)?,
        target_tls: table.read(&["target-tls"], TomlValue::flag)?,
        tls: tls(table)?,
        connect_timeout: table
            .read(&["connect-timeout"], |value| value.parsed(str::parse))?
            .map(|time: DurationArg| time.0),
        idle_timeout: maybe_time(table, "idle-timeout")?,
        keepalive: table.read(&["keepalive"], |value| value.parsed(keepalive))?,
        warm: table.read(&["warm"], |value| value.parsed(warm_connections))?,
        warm_idle: table
            .read(&["warm-idle"], |value| value.parsed(str::parse))?
            .map(|time: DurationArg| time.0),
        resolve: list(table, &["resolve"], str::parse::<ResolveArg>)?,
        family: family(table)?,
    })
}

fn family(table: &TomlTable<'_>) -> Result<Option<AddressFamily>, SettingError> {
    let wanted = |name| {
        let said = table.said(&[name], TomlValue::flag)?;
        Ok::<_, SettingError>(said.filter(|said| said.value))
    };
    match (wanted("ipv4")?, wanted("ipv6")?) {
        (Some(_), Some(said)) => Err(said.by.wrong("ipv4 and ipv6 cannot be used together")),
        (Some(_), None) => Ok(Some(AddressFamily::V4)),
        (None, v6) => Ok(v6.map(|_| AddressFamily::V6)),
    }
}

/// A time, or none.
pub(super) fn maybe_time(
    table: &TomlTable<'_>,
    name: &'static str,
) -> Result<Option<OptionalTimeArg>, SettingError> {
    table.read(&[name], |value| value.parsed(str::parse))
}

/// Places in a row; in each a text with commas, or a list, of alternatives.
fn places(
    value: TomlValue<'_>,
    proxies: &NamedProxies,
) -> Result<Vec<ProxyChainStep>, SettingError> {
    let whole = value.clone();
    let is_empty = |value: &TomlValue<'_>| value.is_list() && value.clone().each().is_empty();
    if is_empty(&whole) || whole.clone().each().iter().any(is_empty) {
        let told = whole.wrong("there is no proxy in this list");
        return Err(told.with_hint("proxy = \"\" goes straight to targets"));
    }
    let place = |value: TomlValue<'_>| {
        let by = value.by();
        if !value.is_list() {
            return value.text().map(|text| ProxyChainStep::of(text, by));
        }
        let texts = value.each().into_iter().map(|value| {
            let text = value.text()?;
            Ok(Secret::new(text.trim().to_owned()))
        });
        let proxies = texts.collect::<Result<_, _>>()?;
        Ok(ProxyChainStep { proxies, by })
    };
    let places: Vec<ProxyChainStep> = value
        .each()
        .into_iter()
        .map(place)
        .collect::<Result<_, _>>()?;
    // Told here, also where flags name others. It is done again where flags have their say.
    chain::written(&places, proxies)?;
    Ok(places)
}

/// Who we are to a proxy.
pub(super) fn login(table: &TomlTable<'_>) -> Result<ProxyLoginOptions, SettingError> {
    let user = |value: TomlValue<'_>| value.parsed(str::parse::<UserArg>);
    Ok(ProxyLoginOptions {
        user: table.said(&["user", "proxy-user"], user)?,
        file: table.said(&["password-file", "proxy-password-file"], TomlValue::path)?,
    })
}

/// Fields of a CONNECT.
pub(super) fn headers(table: &TomlTable<'_>) -> Result<Vec<Sourced<HeaderArg>>, SettingError> {
    let field = |value: TomlValue<'_>| value.said(|value| value.parsed(str::parse));
    let fields = table.read(&["headers", "header"], |value| {
        value.each().into_iter().map(field).collect()
    })?;
    Ok(fields.unwrap_or_default())
}

/// Files of TLS.
pub(super) fn tls(table: &TomlTable<'_>) -> Result<ProxyTlsOptions, SettingError> {
    Ok(ProxyTlsOptions {
        cacert: table.said(&["cacert"], TomlValue::path)?,
        insecure: table.said(&["insecure"], TomlValue::flag)?,
        cert: table.said(&["cert"], TomlValue::path)?,
        key: table.said(&["key"], TomlValue::path)?,
    })
}

/// A list of texts as one, as the flag has them. Each is judged where it stands.
fn hosts(value: TomlValue<'_>) -> Result<NoProxy, SettingError> {
    let judged = |value: TomlValue<'_>| {
        let text = value.clone().text()?;
        value.parsed(no_proxy).map(|_| text.to_owned())
    };
    let texts = value.each().into_iter().map(judged);
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    Ok(NoProxy::parse(&texts.join(",")))
}

fn list<T>(
    table: &TomlTable<'_>,
    names: &[&'static str],
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<Vec<T>, SettingError> {
    let Some(value) = table.key(names)? else {
        return Ok(Vec::new());
    };
    let each = value.each().into_iter();
    each.map(|value| value.parsed(&parse)).collect()
}
