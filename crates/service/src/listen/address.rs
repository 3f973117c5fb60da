//! Addresses to listen on, as users write them.
//!
//! | written | meaning |
//! | --- | --- |
//! | `127.0.0.1:8080`, `[::1]:8080` | that address |
//! | `localhost:8080` | every address that the name has when it is bound |
//! | `:8080`, `*:8080` | every interface, IPv6 and IPv4 |
//! | `0.0.0.0:8080`, `[::]:8080` | every interface, IPv4 alone; IPv6 and IPv4 |
//! | `8080` | this machine alone, 127.0.0.1: a number changes the port and not who may connect |
//! | `unix:/run/haul.sock`, `unix:/run/haul.sock?mode=660` | a socket file, and its permissions |
//! | `systemd`, `systemd:web` | all sockets that the service manager hands over, or those of one name (`FileDescriptorName=`) |
//!
//! Port 0 is any free port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// The longest path that fits into a `sockaddr_un` together with its NUL (unix(7)), in bytes.
const MAX_PATH_LEN: usize = 107;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A port of a host.
    Tcp {
        host: ListenHost,
        /// 0 is any free port.
        port: u16,
    },
    /// A socket in the file system.
    Unix {
        path: PathBuf,
        /// The permissions of the file; by default the umask decides. Users who may write to the file may connect.
        mode: Option<u32>,
    },
    /// Sockets that the service manager opened.
    Systemd {
        /// Only the sockets of this name.
        name: Option<String>,
    },
}

/// Addresses of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenHost {
    /// Every interface.
    Any,
    Ip(IpAddr),
    /// The addresses that the name has when it is bound; also an IPv6 address with a zone.
    Name(String),
}

/// Why a text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    #[error("the address is empty: write 127.0.0.1:8080, :8080 for every interface, or unix:/path")]
    Empty,
    /// A URL: its scheme means nothing here.
    #[error("{0:?} is a URL: write the host and the port alone, as in 127.0.0.1:8080")]
    Url(String),
    /// A host without a port.
    #[error("{0:?} has no port: write {0}:8080")]
    NoPort(String),
    /// The text after the colon is not a port.
    #[error("{0:?} is not a port: a number from 0 to 65535")]
    Port(String),
    /// Several colons without brackets.
    #[error("{0:?} has several colons: write an IPv6 address in brackets, as in [::1]:8080")]
    UnbracketedIpv6(String),
    /// The text between brackets is not an IPv6 address.
    #[error("{0:?} is not an IPv6 address")]
    Ipv6(String),
    /// Neither a host name nor an IPv4 address.
    #[error("{0:?} is not a host name")]
    Name(String),
    /// `unix:` without a path, or with one that is too long.
    #[error("unix:PATH needs a path of 1 to {MAX_PATH_LEN} bytes")]
    Path,
    /// An abstract socket, which everybody on the machine may connect to.
    #[error("{0:?} would be a socket without permissions: write the path of a file")]
    Abstract(String),
    /// An unknown option after the question mark.
    #[error("{0:?} is unknown after the path of a unix socket: only ?mode=660 is possible")]
    Option(String),
    /// The mode is not three octal digits.
    #[error("{0:?} is not a mode: three octal digits, as in 660")]
    Mode(String),
    /// `systemd:` without a name.
    #[error("systemd:NAME needs a name; systemd alone means all sockets that systemd handed over")]
    SystemdName,
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, ListenAddressError> {
        if text.is_empty() {
            return Err(ListenAddressError::Empty);
        }
        if text.contains("://") {
            return Err(ListenAddressError::Url(text.into()));
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return parse_unix(rest);
        }
        if text == "systemd" {
            return Ok(Self::Systemd { name: None });
        }
        match text.strip_prefix("systemd:") {
            Some("") => Err(ListenAddressError::SystemdName),
            Some(name) => Ok(Self::Systemd {
                name: Some(name.into()),
            }),
            None => parse_tcp(text),
        }
    }
}

fn parse_unix(rest: &str) -> Result<ListenAddress, ListenAddressError> {
    let (path, option) = match rest.split_once('?') {
        None => (rest, None),
        Some((path, option)) => (path, Some(option)),
    };
    if path.starts_with('@') {
        return Err(ListenAddressError::Abstract(path.into()));
    }
    if path.is_empty() || path.len() > MAX_PATH_LEN || path.contains('\0') {
        return Err(ListenAddressError::Path);
    }
    let mode = match option {
        None => None,
        Some(option) => {
            let unknown = || ListenAddressError::Option(option.into());
            Some(parse_mode(
                option.strip_prefix("mode=").ok_or_else(unknown)?,
            )?)
        }
    };
    Ok(ListenAddress::Unix {
        path: path.into(),
        mode,
    })
}

/// Parses `660` or `0660`. Other bits make no sense for a socket.
fn parse_mode(digits: &str) -> Result<u32, ListenAddressError> {
    let wrong = || ListenAddressError::Mode(digits.into());
    if digits.len() < 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let mode = u32::from_str_radix(digits, 8).map_err(|_| wrong())?;
    (mode <= 0o777).then_some(mode).ok_or_else(wrong)
}

fn parse_tcp(text: &str) -> Result<ListenAddress, ListenAddressError> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let host = ListenHost::Ip(Ipv4Addr::LOCALHOST.into());
        let port = parse_port(text)?;
        return Ok(ListenAddress::Tcp { host, port });
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, after) = rest
            .split_once(']')
            .ok_or_else(|| ListenAddressError::Ipv6(rest.into()))?;
        let host = parse_ipv6(inner)?;
        let digits = after
            .strip_prefix(':')
            .ok_or_else(|| ListenAddressError::NoPort(text.into()))?;
        let port = parse_port(digits)?;
        return Ok(ListenAddress::Tcp { host, port });
    }
    let (host, digits) = text
        .rsplit_once(':')
        .ok_or_else(|| ListenAddressError::NoPort(text.into()))?;
    if host.contains(':') {
        return Err(ListenAddressError::UnbracketedIpv6(text.into()));
    }
    let host = match host {
        "" | "*" => ListenHost::Any,
        host => match host.parse::<Ipv4Addr>() {
            Ok(ip) => ListenHost::Ip(ip.into()),
            Err(_) => parse_name(host)?,
        },
    };
    let port = parse_port(digits)?;
    Ok(ListenAddress::Tcp { host, port })
}

/// An address with a zone (`fe80::1%eth0`) becomes a name: the resolver knows the interface.
fn parse_ipv6(text: &str) -> Result<ListenHost, ListenAddressError> {
    let wrong = || ListenAddressError::Ipv6(text.into());
    let (ip, zone) = match text.split_once('%') {
        None => (text, None),
        Some((ip, zone)) => (ip, Some(zone)),
    };
    let ip: Ipv6Addr = ip.parse().map_err(|_| wrong())?;
    match zone {
        None => Ok(ListenHost::Ip(ip.into())),
        Some(zone) if is_plain_word(zone) => Ok(ListenHost::Name(text.into())),
        Some(_) => Err(wrong()),
    }
}

/// A name has a letter: a text without one was meant as an address (`127.0.0.256`), and a resolver might turn it into another.
fn parse_name(host: &str) -> Result<ListenHost, ListenAddressError> {
    if is_plain_word(host) && host.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        Ok(ListenHost::Name(host.into()))
    } else {
        Err(ListenAddressError::Name(host.into()))
    }
}

fn is_plain_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(plain)
}

fn parse_port(digits: &str) -> Result<u16, ListenAddressError> {
    let wrong = || ListenAddressError::Port(digits.into());
    // `parse` would take a plus sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    digits.parse().map_err(|_| wrong())
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => match host {
                ListenHost::Any => write!(f, ":{port}"),
                ListenHost::Ip(IpAddr::V4(ip)) => write!(f, "{ip}:{port}"),
                ListenHost::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{port}"),
                ListenHost::Name(name) if name.contains(':') => write!(f, "[{name}]:{port}"),
                ListenHost::Name(name) => write!(f, "{name}:{port}"),
            },
            Self::Unix { path, mode } => {
                write!(f, "unix:{}", path.display())?;
                mode.map_or(Ok(()), |mode| write!(f, "?mode={mode:03o}"))
            }
            Self::Systemd { name: None } => f.write_str("systemd"),
            Self::Systemd { name: Some(name) } => write!(f, "systemd:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<ListenAddress, ListenAddressError> {
        text.parse()
    }

    fn ip(ip: &str, port: u16) -> ListenAddress {
        let host = ListenHost::Ip(ip.parse().unwrap());
        ListenAddress::Tcp { host, port }
    }

    #[test]
    fn every_form_is_parsed() {
        let any = |port| ListenAddress::Tcp {
            host: ListenHost::Any,
            port,
        };
        let named = |name: &str, port| ListenAddress::Tcp {
            host: ListenHost::Name(name.into()),
            port,
        };
        let unix = |path: &str, mode| ListenAddress::Unix {
            path: path.into(),
            mode,
        };
        let systemd = |name: Option<&str>| ListenAddress::Systemd {
            name: name.map(Into::into),
        };
        for (text, address) in [
            ("127.0.0.1:8080", ip("127.0.0.1", 8080)),
            ("0.0.0.0:0", ip("0.0.0.0", 0)),
            ("[::1]:8080", ip("::1", 8080)),
            ("[::]:65535", ip("::", 65535)),
            ("8080", ip("127.0.0.1", 8080)),
            (":80", any(80)),
            ("*:80", any(80)),
            ("localhost:80", named("localhost", 80)),
            (
                "my_host-1.example.org:80",
                named("my_host-1.example.org", 80),
            ),
            ("[fe80::1%eth0]:80", named("fe80::1%eth0", 80)),
            ("unix:/run/a.sock", unix("/run/a.sock", None)),
            ("unix:a", unix("a", None)),
            ("unix:/a?mode=660", unix("/a", Some(0o660))),
            ("unix:/a?mode=0600", unix("/a", Some(0o600))),
            ("systemd", systemd(None)),
            ("systemd:web", systemd(Some("web"))),
        ] {
            assert_eq!(parsed(text), Ok(address), "{text}");
        }
    }

    #[test]
    fn every_mistake_has_its_error() {
        use ListenAddressError as E;
        let zone = "fe80::1%a b";
        for (text, error) in [
            ("", E::Empty),
            ("http://a:80", E::Url("http://a:80".into())),
            ("localhost", E::NoPort("localhost".into())),
            ("127.0.0.1", E::NoPort("127.0.0.1".into())),
            ("[::1]", E::NoPort("[::1]".into())),
            ("[::1]8080", E::NoPort("[::1]8080".into())),
            ("65536", E::Port("65536".into())),
            ("a:", E::Port("".into())),
            ("a:+1", E::Port("+1".into())),
            ("a:http", E::Port("http".into())),
            ("::1", E::UnbracketedIpv6("::1".into())),
            ("::1:8080", E::UnbracketedIpv6("::1:8080".into())),
            ("[::1", E::Ipv6("::1".into())),
            ("[localhost]:80", E::Ipv6("localhost".into())),
            ("[fe80::1%a b]:80", E::Ipv6(zone.into())),
            ("127.0.0.256:80", E::Name("127.0.0.256".into())),
            ("127.1:80", E::Name("127.1".into())),
            ("a b:80", E::Name("a b".into())),
            ("unix:", E::Path),
            ("unix:/a\0b", E::Path),
            ("unix:@a", E::Abstract("@a".into())),
            ("unix:/a?mode", E::Option("mode".into())),
            ("unix:/a?owner=b", E::Option("owner=b".into())),
            ("unix:/a?mode=", E::Mode("".into())),
            ("unix:/a?mode=668", E::Mode("668".into())),
            ("unix:/a?mode=4755", E::Mode("4755".into())),
            ("unix:/a?mode=66", E::Mode("66".into())),
            ("systemd:", E::SystemdName),
        ] {
            assert_eq!(parsed(text), Err(error), "{text}");
        }
        let long = format!("unix:/{}", "a".repeat(MAX_PATH_LEN));
        assert_eq!(parsed(&long), Err(E::Path));
        assert!(parsed(&long[..long.len() - 1]).is_ok());
    }

    #[test]
    fn an_error_says_what_to_write() {
        assert_eq!(
            parsed("localhost").unwrap_err().to_string(),
            "\"localhost\" has no port: write localhost:8080"
        );
    }

    proptest! {
        #[test]
        fn displayed_addresses_are_parsed_back(text in "(unix:|systemd:?|\\[|\\]|[a-z0-9:.*%]|::1|\\?mode=[0-7]{3}){1,8}") {
            if let Ok(address) = parsed(&text) {
                prop_assert_eq!(parsed(&address.to_string()), Ok(address));
            }
        }

        #[test]
        fn addresses_with_ports_are_parsed_back(ip: IpAddr, port: u16) {
            let shown = std::net::SocketAddr::new(ip, port).to_string();
            let address = ListenAddress::Tcp { host: ListenHost::Ip(ip), port };
            prop_assert_eq!(address.to_string(), shown.clone());
            prop_assert_eq!(parsed(&shown), Ok(address));
        }
    }
}
