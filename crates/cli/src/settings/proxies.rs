//! Options of a proxy that several commands share: TLS, and header fields of CONNECT.

use haul_net::{Login, Proxy, ProxyRules, ProxyScheme, ProxyTls};
use http::HeaderMap;
use url::Url;

use super::proxy_login::{self, PromptedPasswords, ProxyLoginOptions, ProxyLogins, of_variable};
use super::tls::{TlsFileOptions, by_flag, tls_options_from};
use super::{OptionSource, SettingError, Sourced};
use crate::args::{ConnectionArgs, HeaderArg, ProxyTlsArgs};

/// The prefix of flags about TLS with a proxy.
pub(super) const FLAGS: &str = "--proxy-";

pub(super) fn proxy_tls(names: TlsFileOptions<'_>) -> Result<ProxyTls, SettingError> {
    let prefix = names.by().map(OptionSource::prefix).unwrap_or_default();
    ProxyTls::new(tls_options_from(names)?).map_err(|error| {
        SettingError::new(format!("{prefix}TLS with the proxy cannot be set up")).caused_by(error)
    })
}

fn tls_files(args: &ProxyTlsArgs) -> TlsFileOptions<'_> {
    TlsFileOptions {
        flags: FLAGS,
        cacert: by_flag("--proxy-cacert", args.proxy_cacert.as_ref()),
        insecure: args.proxy_insecure,
        cert: by_flag("--proxy-cert", args.proxy_cert.as_ref()),
        key: by_flag("--proxy-key", args.proxy_key.as_ref()),
    }
}

/// The header fields of a CONNECT that `flag` gives.
pub(super) fn connect_headers<'a>(
    flag: &str,
    fields: impl Iterator<Item = &'a HeaderArg>,
) -> Result<HeaderMap, SettingError> {
    let mut map = HeaderMap::new();
    for field in fields {
        let Some(value) = field.value.clone() else {
            return Err(SettingError::new(format!(
                "{flag}: {} has no value, and a CONNECT request has no field to remove",
                field.name
            )));
        };
        // Values were marked as sensitive by the parser.
        map.append(field.name.clone(), value);
    }
    Ok(map)
}

/// A warning for each entry of the variable that cannot be used. A flag has none: it refuses them.
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
    let names = tls_files(&args.by_proxy);
    let is_given = names.by().is_some() || names.insecure;
    let tls = is_given.then(|| proxy_tls(names)).transpose()?;
    let fields = connect_headers("--proxy-header", args.proxy_headers.iter())?;
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
        user: args
            .proxy_user
            .clone()
            .map(|user| Sourced::flag("-U", user)),
        file: args
            .proxy_password_file
            .clone()
            .map(|file| Sourced::flag("--proxy-password-file", file)),
    };
    let named = [&rules.http, &rules.https];
    if named.iter().all(|named| named.is_none()) {
        return match options == ProxyLoginOptions::default() {
            true => Ok(rules),
            false => Err(SettingError::new("there is no proxy to log in to")
                .with_hint("name one with -p URL; -u is for the origin")),
        };
    }
    // A question about a proxy that no request uses would only keep the user waiting.
    let is_used = |proxy: &Proxy| {
        urls.is_none_or(|urls| urls.iter().any(|url| rules.for_url(url) == Ok(Some(proxy))))
    };
    let passwords = PromptedPasswords::default();
    let logins = ProxyLogins {
        variable: of_variable(std::env::var(proxy_login::VARIABLE).ok())?,
        netrc: None,
        passwords: &passwords,
    };
    let mut found: Vec<(Proxy, Option<Login>)> = Vec::new();
    for proxy in named.into_iter().flatten().flatten() {
        let is_completed = proxy.login.is_none() || is_used(proxy);
        // http and https mostly have one proxy; a password file that is a pipe can be read only once.
        if is_completed && found.iter().all(|(known, _)| known != proxy) {
            let login = logins.of(proxy, &options, true)?;
            found.push((proxy.clone(), login));
        }
    }
    let proxies = [&mut rules.http, &mut rules.https].into_iter().flatten();
    for proxy in proxies.flatten() {
        if let Some((_, login)) = found.iter().find(|(known, _)| known == proxy) {
            proxy.login.clone_from(login);
        }
    }
    Ok(rules)
}

fn is_secure(proxy: &Proxy) -> bool {
    proxy.scheme == ProxyScheme::Https
}
