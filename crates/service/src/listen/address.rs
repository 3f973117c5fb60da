//! What a user writes to say where to listen.
//!
//! | written | meaning |
//! | --- | --- |
//! | `127.0.0.1:8080`, `[::1]:8080` | that address |
//! | `localhost:8080` | every address that the name has when we bind |
//! | `:8080`, `*:8080` | every interface, IPv6 and IPv4 |
//! | `0.0.0.0:8080`, `[::]:8080` | every interface, IPv4 alone; IPv6 and IPv4 |
//! | `8080` | this machine alone, 127.0.0.1: a number changes the port of the default and not who may come |
//! | `parse_unix:/run/haul.sock`, `parse_unix:/run/haul.sock?parse_mode=660` | a socket file, and who may connect to it |
//! | `systemd`, `systemd:web` | all sockets that were handed over, or those of one name (`FileDescriptorName=`) |
//!
//! Port 0 is any free one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// Bytes of the longest path that fits into a `sockaddr_un`, with the NUL after it (unix(7)).
const MAX_PATH_LEN: usize = 107;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// A port of a host.
    Tcp {
        /// Which addresses.
        host: ListenHost,
        /// 0 is any free one.
        port: u16,
    },
    /// A socket in the file system.
    Unix {
        /// Where its file is made.
        path: PathBuf,
        /// Permissions of the file; as the umask has it when not given. Who may write to it may connect.
        mode: Option<u32>,
    },
    /// Sockets that whoever started us has opened.
    Systemd {
        /// Those of this name alone.
        name: Option<String>,
    },
}

/// Which addresses of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenHost {
    /// All of them.
    Any,
    /// This one.
    Ip(IpAddr),
    /// Those that the name has when we bind; also an IPv6 address with a zone.
    Name(String),
}

/// Why a text is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    /// Nothing at all.
    #[error("the address is empty: write 127.0.0.1:8080, :8080 for every interface, or unix:/path")]
    Empty,
    /// A URL, whose scheme says nothing here.
    #[error("{0:?} is a URL: write the host and the port alone, as in 127.0.0.1:8080")]
    Url(String),
    /// A host with no port after it.
    #[error("{0:?} has no port: write {0}:8080")]
    NoPort(String),
    /// What follows the colon is no port.
    #[error("{0:?} is no port: a number from 0 to 65535")]
    Port(String),
    /// Colons, and no telling which of them the port follows.
    #[error("{0:?} has several colons: write an IPv6 address in brackets, as in [::1]:8080")]
    UnbracketedIpv6(String),
    /// Between brackets there is something else.
    #[error("{0:?} is no IPv6 address")]
    Ipv6(String),
    /// No name of a host, and no IPv4 address.
    #[error("{0:?} is no name of a host")]
    Name(String),
    /// `parse_unix:` and then no path, or one that the system has no room for.
    #[error("unix:PATH wants a path of 1 to {MAX_PATH_LEN} bytes")]
    Path,
    /// Linux has sockets without a file, which anybody on the machine may connect to.
    #[error("{0:?} would be a socket without permissions: write the path of a file")]
    Abstract(String),
    /// After the question mark is something that we do not know.
    #[error("{0:?} is unknown after the path of a unix socket: ?mode=660 is all there is")]
    Option(String),
    /// No permissions.
    #[error("{0:?} is no mode: three octal digits, as in 660")]
    Mode(String),
    /// `systemd:` and then no name.
    #[error("systemd:NAME wants a name; systemd alone means all sockets that were handed over")]
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

/// `660` and `0660`. Nothing above the nine bits: a socket is not set-user-id.
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

/// With a zone (`fe80::1%eth0`) it is for the resolver to say which interface that is.
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

/// A name has a letter: what has none was meant as an address (`127.0.0.256`), and a resolver might make some other one of it.
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
    fn every_form_is_understood() {
        let every = |port| ListenAddress::Tcp {
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
            (":80", every(80)),
            ("*:80", every(80)),
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
    fn every_mistake_is_told_from_the_others() {
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
    fn a_mistake_says_what_to_write() {
        assert_eq!(
            parsed("localhost").unwrap_err().to_string(),
            "\"localhost\" has no port: write localhost:8080"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(text in "(unix:|systemd:?|\\[|\\]|[a-z0-9:.*%]|::1|\\?mode=[0-7]{3}){1,8}") {
            if let Ok(address) = parsed(&text) {
                prop_assert_eq!(parsed(&address.to_string()), Ok(address));
            }
        }

        #[test]
        fn addresses_with_ports_are_read_back(ip: IpAddr, port: u16) {
            let shown = std::net::SocketAddr::new(ip, port).to_string();
            let address = ListenAddress::Tcp { host: ListenHost::Ip(ip), port };
            prop_assert_eq!(address.to_string(), shown.clone());
            prop_assert_eq!(parsed(&shown), Ok(address));
        }
    }
}
