//! Parses proxies: `host:port`, `scheme://user:password@host:port`.
//!
//! A host without a port is refused. Programs do not agree on a default (curl takes 1080, wget and Go take 80), and a user who
//! forgot the port should not have to wait for a timeout. A path or a query is refused, too: it would be ignored, and is most
//! often the rest of a password that should have been escaped. The url crate would accept both, hence a parser.

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::{Proxy, ProxyScheme};
use crate::auth::Login;
use crate::secret::Secret;
use crate::target::{parse_host, parse_port};
use crate::zone::parse_ipv6;

/// The longest scheme that an error repeats, in characters.
const MAX_SCHEME: usize = 16;

/// A text that names no proxy. Messages do not repeat it, since it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Not in the form of a proxy.
    #[error("not a proxy: write http://host:port or socks5://host:port")]
    Unreadable,
    /// Not a supported protocol.
    #[error("unknown proxy protocol {0}: haul supports http, https, socks5 and socks5h")]
    Scheme(String),
    #[error("the port is missing: write host:3128, or http://host for port 80")]
    NoPort,
    /// Not a port.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// No host, and perhaps a port.
    #[error("there is no host")]
    NoHost,
    /// Not a host.
    #[error("the host must be a name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
    /// A password without a user name.
    #[error("the user before the password is missing")]
    User,
    /// A path, query or fragment.
    #[error(
        "unexpected text after the host and the port; in a login write / as %2F, ? as %3F, # as %23, \\ as %5C"
    )]
    Path,
}

impl std::str::FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(parse_scheme(scheme)?), rest),
            None => (None, text),
        };
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !matches!(path, "" | "/") {
            return Err(ProxyError::Path);
        }
        let (login, host_and_port) = match authority.rsplit_once('@') {
            Some((login, host_and_port)) => (parse_login(login)?, host_and_port),
            None => (None, authority),
        };
        let (host, port) = parse_host_and_port(host_and_port)?;
        let (scheme, default_port) = scheme.unwrap_or((ProxyScheme::Http, None));
        Ok(Self {
            scheme,
            host,
            port: port.or(default_port).ok_or(ProxyError::NoPort)?,
            login,
            is_basic_sent_first: false,
            headers: HeaderMap::new(),
            tls: None,
            variable: None,
        })
    }
}

/// The protocol before `://`, and its default port.
fn parse_scheme(text: &str) -> Result<(ProxyScheme, Option<u16>), ProxyError> {
    let lower = text.to_ascii_lowercase();
    Ok(match lower.as_str() {
        "http" => (ProxyScheme::Http, Some(80)),
        "https" => (ProxyScheme::Https, Some(443)),
        "socks5" => (ProxyScheme::Socks5, Some(1080)),
        "socks5h" | "socks" => (ProxyScheme::Socks5h, Some(1080)),
        "" => return Err(ProxyError::Unreadable),
        // Any other text may be part of a login.
        other
            if other.len() <= MAX_SCHEME
                && other.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            return Err(ProxyError::Scheme(lower));
        }
        _ => return Err(ProxyError::Unreadable),
    })
}

fn parse_login(text: &str) -> Result<Option<Login>, ProxyError> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match (user, password) {
        ("", "") => Ok(None),
        ("", _) => Err(ProxyError::User),
        _ => Ok(Some(Login {
            user: decode(user),
            password: Secret::new(decode(password)),
        })),
    }
}

/// `host`, `host:port`, `[::1]:port`.
fn parse_host_and_port(text: &str) -> Result<(String, Option<u16>), ProxyError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inner, after) = rest.split_once(']').ok_or(ProxyError::Host)?;
            let host = parse_ipv6(inner).ok_or(ProxyError::Host)?.to_string();
            match after.strip_prefix(':') {
                None if !after.is_empty() => return Err(ProxyError::Host),
                port => (host, port),
            }
        }
        None => {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            // An IPv6 address without brackets.
            if port.is_some_and(|port| port.contains(':')) {
                return Err(ProxyError::Host);
            }
            if host.is_empty() {
                return Err(ProxyError::NoHost);
            }
            (parse_host(host).ok_or(ProxyError::Host)?, port)
        }
    };
    let port = port.map(|digits| parse_port(digits).ok_or(ProxyError::Port));
    Ok((host, port.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_parsed_and_passwords_never_shown() {
        let proxy: Proxy = "http://us%40er:p%3Aw@[::1]:8080".parse().unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("::1", 8080));
        let login = proxy.login.as_ref().unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.expose()),
            ("us@er", "p:w")
        );
        assert!(!format!("{proxy:?}").contains("p:w"));
    }

    #[test]
    fn a_scheme_has_a_default_port_and_a_host_alone_has_none() {
        let port = |text: &str| text.parse::<Proxy>().map(|proxy| proxy.port);
        for (text, expected) in [
            ("http://p", 80),
            ("HTTPS://p/", 443),
            ("socks5://p", 1080),
            ("p:80", 80),
            ("me:pw@p:3128/", 3128),
            ("[::1]:1", 1),
        ] {
            assert_eq!(port(text), Ok(expected), "{text}");
        }
        for text in ["p", "p.test", "[::1]", "10.0.0.1", "me:pw@p", "p/"] {
            assert_eq!(port(text), Err(ProxyError::NoPort), "{text}");
        }
    }

    #[test]
    fn errors_name_the_wrong_part() {
        use ProxyError as E;
        for (text, error) in [
            ("ftp://p", E::Scheme("ftp".into())),
            ("socks4a://me:s3cret@p:1", E::Scheme("socks4a".into())),
            ("me:s3cret@p://p:1", E::Unreadable),
            ("://p:1", E::Unreadable),
            ("", E::NoHost),
            ("http://", E::NoHost),
            (":3128", E::NoHost),
            ("http://me:s3cret@:3128", E::NoHost),
            ("p:x", E::Port),
            ("p:", E::Port),
            ("http://p:", E::Port),
            ("p:0", E::Port),
            ("p:65536", E::Port),
            ("p:+1", E::Port),
            ("::1:3128", E::Host),
            ("fd00::1:3128", E::Host),
            ("http://[::1", E::Host),
            ("http://[p]:1", E::Host),
            ("[::1]3128", E::Host),
            ("a b:1", E::Host),
            ("a%2eb:1", E::Host),
            (":s3cret@p:1", E::User),
            ("http://p:1/path", E::Path),
            ("p:1?query", E::Path),
            ("p:1#fragment", E::Path),
            ("p:1//", E::Path),
            ("http://me:s3/cret@p:1", E::Path),
            ("http://me:3128/cret@p:1", E::Path),
            ("http://DOM\\me:s3cret@p:1", E::Path),
        ] {
            let found = text.parse::<Proxy>().unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("cret"), "{found}");
        }
        assert!(ProxyError::Path.to_string().ends_with("\\ as %5C"));
        let escaped: Proxy = "http://DOM%5Cme:pw@p:1".parse().unwrap();
        assert_eq!(escaped.login.unwrap().user, "DOM\\me");
    }
}
