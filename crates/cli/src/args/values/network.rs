//! Values about the network: header fields, host names, addresses, proxies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use haul_net::{NoProxy, Proxy, ProxyError, Target, TargetError};
use haul_service::listen::{ListenAddress, ListenAddressError};
use http::{HeaderName, HeaderValue};

use super::{ValueError, quoted};

/// A header field.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HeaderArg {
    pub(crate) name: HeaderName,
    /// `None` removes the field.
    pub(crate) value: Option<HeaderValue>,
}

impl fmt::Debug for HeaderArg {
    /// The value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({})", self.name)
    }
}

impl FromStr for HeaderArg {
    type Err = ValueError;

    /// The errors repeat the name at most: the value may be a secret.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong =
            |text: &str| ValueError::new(text).with_hint("write a header field as 'Name: value'");
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| wrong("the colon is missing"))?;
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| wrong("the text before the colon is not a field name"))?;
        if haul_net::is_framing_header(&name) {
            return Err(ValueError::new(format!("haul sets {name} itself")));
        }
        let value = value.trim();
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            ValueError::new(format!(
                "the value of {name} has a line break or a control character"
            ))
        })?;
        value.set_sensitive(true);
        Ok(Self {
            name,
            value: (!value.is_empty()).then_some(value),
        })
    }
}

/// A host name, or `*` for any.
pub(crate) fn host_name(text: &str) -> Result<String, ValueError> {
    let name = text.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name == "*" || !name.is_empty() && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    Err(
        ValueError::new(format!("{} is not a host name", quoted(text))).with_hint(
            "write the name alone, without a scheme and a port, as files.example; `*` is any name",
        ),
    )
}

/// An address. The error is that of the library, unless it would repeat what may be a login.
pub(crate) fn listen_address(text: &str) -> Result<ListenAddress, ValueError> {
    text.parse().map_err(|error: ListenAddressError| {
        let message = match &error {
            _ if text.contains('@') => ValueError::new("this is not an address to listen on"),
            ListenAddressError::UnbracketedIpv6(_) => {
                ValueError::new("several colons: write an IPv6 address in brackets")
            }
            _ => ValueError::new(error.to_string()),
        };
        message.with_hint("an address is HOST:PORT, PORT alone for this machine, :PORT for every interface, unix:PATH or systemd")
    })
}

/// The address of an admin endpoint, which cannot be an inherited socket.
pub(crate) fn admin_address(text: &str) -> Result<ListenAddress, ValueError> {
    match listen_address(text)? {
        ListenAddress::Systemd { .. } => Err(ValueError::new("cannot use an inherited socket")
            .with_hint("give it a port, as 127.0.0.1:9090, or unix:PATH")),
        address => Ok(address),
    }
}

/// A list of hosts, which may be empty. An unusable entry is an error: its author would expect a direct connection to that host.
pub(crate) fn no_proxy(text: &str) -> Result<NoProxy, ValueError> {
    let list = NoProxy::parse(text);
    match list.errors().first() {
        None => Ok(list),
        Some(error) => Err(ValueError::new(error.to_string()).with_hint(
            "separate hosts by commas: names, addresses, networks as 10.0.0.0/8; * is all",
        )),
    }
}

/// `--proxy`: a proxy, or none for an empty text. Its `Debug` shows no password, since that of [`Proxy`] does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyUrl(pub(crate) Option<Proxy>);

impl FromStr for ProxyUrl {
    type Err = ValueError;

    /// The errors never repeat the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.trim().is_empty() {
            return Ok(Self(None));
        }
        text.trim()
            .parse()
            .map(|proxy| Self(Some(proxy)))
            .map_err(|error: ProxyError| ValueError::new(error.to_string()))
    }
}

/// One step of a chain of proxies: alternatives separated by commas, or none for an empty text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyAlternatives(pub(crate) Vec<ProxyAlternative>);

/// A proxy, or a name that the configuration file gives one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyAlternative {
    Proxy(Box<Proxy>),
    /// A text that could only be a proxy with a port.
    Name(String),
}

impl FromStr for ProxyAlternatives {
    type Err = ValueError;

    /// The errors never repeat the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        const COMMA: &str = "write a comma in a password as %2C";
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let texts: Vec<&str> = text.split(',').map(str::trim).collect();
        let has_comma = texts.len() > 1;
        let alternative = |(index, text): (usize, &&str)| {
            // The text after a comma may be the rest of a password, and the text before it no proxy.
            if index > 0 && text.contains('@') && !text.contains("://") {
                let error = ValueError::new(
                    "an alternative with a login needs its scheme, as http://user:password@host:port",
                );
                return Err(error.with_hint(COMMA));
            }
            match text.parse() {
                Ok(proxy) => Ok(ProxyAlternative::Proxy(Box::new(proxy))),
                Err(_) if text.is_empty() => {
                    Err(ValueError::new("there is an empty proxy between commas"))
                }
                Err(ProxyError::NoPort) => Ok(ProxyAlternative::Name((*text).to_owned())),
                Err(error) if has_comma => Err(ValueError::new(error.to_string()).with_hint(COMMA)),
                Err(error) => Err(ValueError::new(error.to_string())),
            }
        };
        texts
            .iter()
            .enumerate()
            .map(alternative)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// The addresses of one host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolveArg {
    /// The host as URLs have it.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// In the order in which haul tries them.
    pub(crate) addresses: Vec<IpAddr>,
}

impl FromStr for ResolveArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let parse = || {
            let (host, rest) = text.split_once(':').filter(|(host, _)| !host.is_empty())?;
            let (port, addresses) = rest.split_once(':')?;
            let addresses = addresses
                .split(',')
                .map(address)
                .collect::<Option<Vec<_>>>()?;
            Some(Self {
                host: host.to_owned(),
                port: port.parse().ok()?,
                addresses,
            })
        };
        let wrong = || ValueError::new(format!("{} is not HOST:PORT:ADDRESS", quoted(text)));
        parse().ok_or_else(|| wrong().with_hint("write it as example.com:443:192.0.2.1"))
    }
}

/// An IPv6 address may have brackets and a zone.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    match haul_net::parse_ipv6(inner) {
        Some(address) => Some(address.into()),
        None => inner.parse().ok(),
    }
}

/// The target of a tunnel.
pub(crate) fn target(text: &str) -> Result<Target, ValueError> {
    text.parse().map_err(|error: TargetError| {
        ValueError::new(error.to_string())
            .with_hint("write HOST:PORT, as imap.example.com:993 or [::1]:22")
    })
}

/// A value of the Cache-Control field.
pub(crate) fn cache_control(text: &str) -> Result<HeaderValue, ValueError> {
    let text = text.trim();
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let value = Some(text).filter(|text| !text.is_empty() && text.chars().all(is_plain));
    value
        .and_then(|text| HeaderValue::from_str(text).ok())
        .ok_or_else(|| {
            ValueError::new(format!("{} is not a Cache-Control value", quoted(text)))
                .with_hint("write it as max-age=3600, no-cache or no-store")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_removal() {
        let field: HeaderArg = "X-A:  b: c ".parse().unwrap();
        assert_eq!(
            (field.name.as_str(), field.value.unwrap().to_str().unwrap()),
            ("x-a", "b: c")
        );
        assert_eq!("Accept:".parse::<HeaderArg>().unwrap().value, None);
        for wrong in [
            "no colon",
            "a b: c",
            ": c",
            "a: b\r\nc: d",
            "a: b\0",
            "Range: bytes=0-1",
            "content-length: 5",
        ] {
            assert!(wrong.parse::<HeaderArg>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_are_never_shown() {
        for text in [
            "Authorization: Bearer s3cret",
            "Authorization Bearer s3cret",
            "X: s3cret\r\n",
            "Range: s3cret",
        ] {
            let shown = format!("{:?}", text.parse::<HeaderArg>());
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn names_are_names_alone() {
        for name in [
            "files.example",
            "A-b.c",
            "x_y",
            "*",
            "xn--bcher-kva.example",
        ] {
            assert_eq!(host_name(name).unwrap(), name);
        }
        for wrong in [
            "",
            "http://a.example",
            "a.example:80",
            "*.example",
            "a/b",
            "a b",
            "b\u{fc}.de",
        ] {
            assert!(host_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_possible_login_is_not_repeated() {
        for text in ["me:s3cret:rw", "http://me:s3cret@h/", "me:s3cret@h"] {
            let error = listen_address(text).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let error = listen_address("localhost").unwrap_err();
        assert!(error.to_string().contains("write localhost:8080"));
        assert!(error.hint().is_some_and(|hint| hint.contains("unix:PATH")));
        assert!(listen_address("127.0.0.1:80").is_ok());
    }

    #[test]
    fn wrong_entries_are_errors_and_empty_ones_are_ignored() {
        for text in ["", ",", "a.test,,b.test", " a.test , 10.0.0.0/8,", "*"] {
            assert!(no_proxy(text).is_ok(), "{text}");
        }
        let error = no_proxy("a.test,1.2.3.4/99,b.test").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("\"1.2.3.4/99\" is not a network")
        );
        let error = no_proxy("http://me:s3cret@p.test").unwrap_err();
        assert!(!error.to_string().contains("s3cret"));
    }

    #[test]
    fn a_proxy_none_and_what_is_neither() {
        assert_eq!("".parse(), Ok(ProxyUrl(None)));
        let ProxyUrl(proxy) = "socks5h://me:s3cret@p.test".parse().unwrap();
        assert_eq!(
            proxy
                .as_ref()
                .map(|proxy| (proxy.host.as_str(), proxy.port)),
            Some(("p.test", 1080))
        );
        assert!(!format!("{proxy:?}").contains("s3cret"));
        let error = "ftp://me:s3cret@p.test".parse::<ProxyUrl>().unwrap_err();
        assert!(
            !error.to_string().contains("s3cret") && error.to_string().contains("ftp"),
            "{error}"
        );
    }

    #[test]
    fn addresses_set_by_the_user() {
        let resolve: ResolveArg = "h.test:443:127.0.0.1,[::1],::2".parse().unwrap();
        assert_eq!(
            (resolve.host.as_str(), resolve.port, resolve.addresses.len()),
            ("h.test", 443, 3)
        );
        for wrong in [
            "",
            "h.test",
            "h.test:443",
            "h.test:x:127.0.0.1",
            "h.test:443:nowhere",
            "h.test:443:",
            ":443:::1",
            "h:443:[::1",
        ] {
            assert!(wrong.parse::<ResolveArg>().is_err(), "{wrong}");
        }
    }
}
