//! What stands beside a proxy, by flags that several commands have: certificates, and header fields of a CONNECT.

use haul_net::{Proxy, ProxyRules, ProxyScheme, ProxyTls};
use http::HeaderMap;

use super::tls::{TlsFileOptions, by_flag, tls_options_from};
use super::{OptionSource, SettingError};
use crate::args::{ConnectionArgs, HeaderArg, ProxyTlsArgs};

/// What flags about TLS with a proxy begin with.
pub(super) const FLAGS: &str = "--proxy-";

/// TLS with a proxy.
pub(super) fn proxy_tls(names: TlsFileOptions<'_>) -> Result<ProxyTls, SettingError> {
    let place = names.by().map(OptionSource::prefix).unwrap_or_default();
    ProxyTls::new(tls_options_from(names)?).map_err(|error| {
        SettingError::new(format!("{place}TLS with the proxy cannot be set up")).caused_by(error)
    })
}

/// The files that flags name for TLS with a proxy.
fn tls_files(args: &ProxyTlsArgs) -> TlsFileOptions<'_> {
    TlsFileOptions {
        flags: FLAGS,
        cacert: by_flag("--proxy-cacert", args.proxy_cacert.as_ref()),
        insecure: args.proxy_insecure,
        cert: by_flag("--proxy-cert", args.proxy_cert.as_ref()),
        key: by_flag("--proxy-key", args.proxy_key.as_ref()),
    }
}

/// Header fields, by a flag.
pub(super) fn connect_headers<'a>(
    flag: &str,
    fields: impl Iterator<Item = &'a HeaderArg>,
) -> Result<HeaderMap, SettingError> {
    let mut map = HeaderMap::new();
    for field in fields {
        let Some(value) = field.value.clone() else {
            return Err(SettingError::new(format!(
                "{flag}: {} has no value, and a CONNECT has nothing that it could take away",
                field.name
            )));
        };
        // Values were marked as sensitive where they were read.
        map.append(field.name.clone(), value);
    }
    Ok(map)
}

/// What of the variable is no host, as a warning each. A flag's list holds nothing of that kind.
pub(crate) fn no_proxy_warnings(rules: &ProxyRules) -> impl Iterator<Item = String> + '_ {
    let name = rules.no_proxy_variable.unwrap_or("no_proxy");
    let unusable = rules.no_proxy.errors().iter();
    unusable.map(move |error| format!("the variable {name}: {error}; it is left out"))
}

/// The proxies of `haul get`, with what its flags say of them.
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
    // Of one that cannot be read nothing is known: whoever needs it is told so.
    let is_known = unreadable.is_empty();
    let mut proxies: Vec<&mut Proxy> = readable.into_iter().flatten().collect();
    if tls.is_some() && is_known && !proxies.iter().any(|proxy| is_secure(proxy)) {
        let told = "there is no TLS with the proxy, and so nothing for certificates";
        return Err(SettingError::new(told).with_hint("https://HOST:PORT is a proxy over TLS"));
    }
    if !fields.is_empty() && is_known && !proxies.iter().any(|proxy| proxy.is_http()) {
        return Err(
            SettingError::new("--proxy-header, and there is no HTTP proxy")
                .with_hint("--proxy http://HOST:PORT names one; -H is for requests"),
        );
    }
    for proxy in &mut proxies {
        proxy.tls = tls.clone().filter(|_| is_secure(proxy));
        proxy.headers.clone_from(&fields);
    }
    Ok(rules)
}

fn is_secure(proxy: &Proxy) -> bool {
    proxy.scheme == ProxyScheme::Https
}
