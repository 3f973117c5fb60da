//! Options of a proxy that several commands share: TLS, and header fields of CONNECT.

use haul_net::{Login, Proxy, ProxyRules, ProxyScheme, ProxyTls};
use http::HeaderMap;
use url::Url;

use super::proxy_login::{PromptedPasswords, ProxyLoginOptions, ProxyLogins};
use super::tls::TlsFiles;
use super::{SettingError, environment};
use crate::args::{ConnectionArgs, GivenOptions, HeaderArg, OptionSource, Sourced};

/// Options about TLS with a proxy.
const PROXY_TLS: &[&str] = &["proxy-cacert", "proxy-cert", "proxy-key", "proxy-insecure"];

pub(super) fn proxy_tls(files: TlsFiles<'_>) -> Result<ProxyTls, SettingError> {
    ProxyTls::new(files.options()?).map_err(|error| files.unusable(error))
}

/// The header fields of a CONNECT given there.
pub(super) fn connect_headers<'a>(
    source: &OptionSource,
    fields: impl Iterator<Item = &'a HeaderArg>,
) -> Result<HeaderMap, SettingError> {
    let mut map = HeaderMap::new();
    for field in fields {
        let Some(value) = field.value.clone() else {
            let name = &field.name;
            let text = format!("{name} has no value, and a CONNECT request has no field to remove");
            return Err(SettingError::at(source, text));
        };
        // Values were marked as sensitive by the parser.
        map.append(field.name.clone(), value);
    }
    Ok(map)
}

/// Refuses options that none of these proxies can use.
pub(super) fn check_use(proxies: &[Proxy], given: &GivenOptions) -> Result<(), SettingError> {
    let uses_tls = proxies
        .iter()
        .any(|proxy| proxy.scheme == ProxyScheme::Https);
    if let Some(source) = given.first_source(PROXY_TLS).filter(|_| !uses_tls) {
        let text = "the proxy does not use TLS, so certificate options have no effect";
        return Err(SettingError::at(&source, text)
            .with_hint("write a proxy over TLS as https://HOST:PORT"));
    }
    let is_http = proxies.iter().any(Proxy::is_http);
    match given.first_source(&["header"]).filter(|_| !is_http) {
        Some(source) => Err(SettingError::at(&source, "the proxy is not an HTTP proxy")
            .with_hint("a SOCKS proxy takes no header fields")),
        None => Ok(()),
    }
}

/// A warning for each entry of the variable that cannot be used. A flag has no warnings: it refuses such entries.
pub(crate) fn no_proxy_warnings(rules: &ProxyRules) -> impl Iterator<Item = String> + '_ {
    let name = rules.no_proxy_variable.unwrap_or("no_proxy");
    let unusable = rules.no_proxy.errors().iter();
    unusable.map(move |error| format!("the variable {name}: {error}; haul ignores it"))
}

/// Adds TLS and header fields of the flags to the proxies of `haul get`.
pub(super) fn with_tls_and_headers(
    args: &ConnectionArgs,
    mut rules: ProxyRules,
) -> Result<ProxyRules, SettingError> {
    let given = GivenOptions::default();
    let files = TlsFiles::of_proxy(&args.proxy_tls, &given);
    let tls = files.is_given().then(|| proxy_tls(files)).transpose()?;
    let fields = connect_headers(&given.source("proxy-header"), args.proxy_headers.iter())?;
    let named = [&mut rules.http, &mut rules.https].into_iter().flatten();
    let (readable, unreadable): (Vec<_>, Vec<_>) = named.partition(|named| named.is_ok());
    // Nothing is known about a proxy variable that cannot be read; a request that needs it reports it.
    let is_known = unreadable.is_empty();
    let mut proxies: Vec<&mut Proxy> = readable.into_iter().flatten().collect();
    if tls.is_some() && is_known && !proxies.iter().any(|proxy| is_secure(proxy)) {
        let message = "the proxy does not use TLS, so certificate options have no effect";
        return Err(
            SettingError::new(message).with_hint("write a proxy over TLS as https://HOST:PORT")
        );
    }
    if !fields.is_empty() && is_known && !proxies.iter().any(|proxy| proxy.is_http()) {
        return Err(SettingError::new("--proxy-header needs an HTTP proxy")
            .with_hint("name one with --proxy http://HOST:PORT; -H is for requests"));
    }
    for proxy in &mut proxies {
        proxy.tls = tls.clone().filter(|_| is_secure(proxy));
        proxy.headers.clone_from(&fields);
    }
    Ok(rules)
}

/// Gives the proxies of `haul get` their logins: that of the proxy's URL, the flags or the variable. `urls` are those of the command,
/// `None` if a list or a pattern may name any others.
pub(super) fn with_logins(
    args: &ConnectionArgs,
    urls: Option<&[Url]>,
    mut rules: ProxyRules,
) -> Result<ProxyRules, SettingError> {
    let options = ProxyLoginOptions {
        user: args.proxy_user.clone(),
        password_file: args.proxy_password_file.clone().map(|value| Sourced {
            value,
            source: OptionSource::flag("proxy-password-file"),
        }),
    };
    let named = [&rules.http, &rules.https];
    if named.iter().all(|named| named.is_none()) {
        let has_login = options.user.is_some() || options.password_file.is_some();
        return if has_login || args.proxy_basic {
            Err(SettingError::new("there is no proxy to log in to")
                .with_hint("name one with -p URL; -u is for the origin"))
        } else {
            Ok(rules)
        };
    }
    // A question about a proxy that no request uses would only keep the user waiting.
    let is_used = |proxy: &Proxy| {
        urls.is_none_or(|urls| urls.iter().any(|url| rules.for_url(url) == Ok(Some(proxy))))
    };
    let passwords = PromptedPasswords::default();
    let logins = ProxyLogins::new(environment, None, &passwords)?;
    let mut found: Vec<(Proxy, Option<Login>)> = Vec::new();
    for proxy in named.into_iter().flatten().flatten() {
        let is_completed = proxy.login.is_none() || is_used(proxy);
        // http and https mostly have one proxy; a password file that is a pipe can be read only once.
        if is_completed && found.iter().all(|(known, _)| known != proxy) {
            let login = logins.login(proxy, &options, true)?;
            found.push((proxy.clone(), login));
        }
    }
    let proxies = [&mut rules.http, &mut rules.https].into_iter().flatten();
    for proxy in proxies.flatten() {
        if let Some((_, login)) = found.iter().find(|(known, _)| known == proxy) {
            proxy.login.clone_from(login);
        }
        proxy.is_basic_sent_first = args.proxy_basic;
    }
    Ok(rules)
}

fn is_secure(proxy: &Proxy) -> bool {
    proxy.scheme == ProxyScheme::Https
}
