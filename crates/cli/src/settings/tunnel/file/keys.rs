//! Keys that several tables have: what is wished of all tunnels or of one, and what stands beside a proxy.

use haul_net::{Family, NoProxy, Secret};

use super::Proxies;
use crate::args::{
    Duration, Field, MaybeTime, Resolve, User, ValueError, keepalive, no_proxy, ready,
};
use crate::settings::tunnel::beside::{LoginWish, Place, TlsWish};
use crate::settings::tunnel::chain;
use crate::settings::tunnel::table::{Table, Value};
use crate::settings::tunnel::wishes::Wishes;
use crate::settings::{Said, SettingError};

/// What the file as a whole or one of its tunnels wishes.
pub(super) fn wishes(table: &Table<'_>, proxies: &Proxies) -> Result<Wishes, SettingError> {
    Ok(Wishes {
        proxies: table.read(&["proxy"], |value| places(value, proxies))?,
        is_own: false,
        login: login(table)?,
        headers: headers(table)?,
        proxy_tls: TlsWish {
            cacert: table.said(&["proxy-cacert"], Value::path)?,
            insecure: table.said(&["proxy-insecure"], Value::flag)?,
            cert: table.said(&["proxy-cert"], Value::path)?,
            key: table.said(&["proxy-key"], Value::path)?,
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
        family: family(table)?,
    })
}

fn family(table: &Table<'_>) -> Result<Option<Family>, SettingError> {
    let wanted = |name| {
        let said = table.said(&[name], Value::flag)?;
        Ok::<_, SettingError>(said.filter(|said| said.value))
    };
    match (wanted("ipv4")?, wanted("ipv6")?) {
        (Some(_), Some(said)) => Err(said.by.wrong("ipv4 and ipv6 exclude each other")),
        (Some(_), None) => Ok(Some(Family::V4)),
        (None, v6) => Ok(v6.map(|_| Family::V6)),
    }
}

/// A time, or none.
pub(super) fn maybe_time(
    table: &Table<'_>,
    name: &'static str,
) -> Result<Option<MaybeTime>, SettingError> {
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
        let by = value.by();
        if !value.is_list() {
            return value.text().map(|text| Place::of(text, by));
        }
        let texts = value.each().into_iter().map(|value| {
            let text = value.text()?;
            Ok(Secret::new(text.trim().to_owned()))
        });
        let proxies = texts.collect::<Result<_, _>>()?;
        Ok(Place { proxies, by })
    };
    let places: Vec<Place> = value
        .each()
        .into_iter()
        .map(place)
        .collect::<Result<_, _>>()?;
    // Told here, also where flags name others. It is done again where flags have their say.
    chain::written(&places, proxies)?;
    Ok(places)
}

/// Who we are to a proxy.
pub(super) fn login(table: &Table<'_>) -> Result<LoginWish, SettingError> {
    let user = |value: Value<'_>| value.parsed(str::parse::<User>);
    Ok(LoginWish {
        user: table.said(&["user", "proxy-user"], user)?,
        file: table.said(&["password-file", "proxy-password-file"], Value::path)?,
    })
}

/// Fields of a CONNECT.
pub(super) fn headers(table: &Table<'_>) -> Result<Vec<Said<Field>>, SettingError> {
    let field = |value: Value<'_>| value.said(|value| value.parsed(str::parse));
    let fields = table.read(&["headers", "header"], |value| {
        value.each().into_iter().map(field).collect()
    })?;
    Ok(fields.unwrap_or_default())
}

/// Files of TLS.
pub(super) fn tls(table: &Table<'_>) -> Result<TlsWish, SettingError> {
    Ok(TlsWish {
        cacert: table.said(&["cacert"], Value::path)?,
        insecure: table.said(&["insecure"], Value::flag)?,
        cert: table.said(&["cert"], Value::path)?,
        key: table.said(&["key"], Value::path)?,
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
