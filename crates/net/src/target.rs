//! Where a stream leads: hosts and ports, and how they are written.

use std::str::FromStr;

use url::Url;

use crate::zone;

/// Which IP addresses may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressFamily {
    /// Both families, IPv6 first (RFC 8305).
    #[default]
    Any,
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
}

impl std::fmt::Display for AddressFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Any => "IP",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// The far end of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

impl Target {
    /// The target of a URL. `None` for a URL without host or port.
    #[must_use]
    pub fn from_url(url: &Url) -> Option<Self> {
        let host = url
            .host_str()?
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Some(Self {
            host,
            port: url.port_or_known_default()?,
        })
    }

    /// The URL `tcp://host:port`, for errors where there is no other URL. `None` for a host that no URL can have.
    #[must_use]
    pub fn to_url(&self) -> Option<Url> {
        zone::parse_url(&format!("tcp://{self}")).ok()
    }

    /// Host and port as a request names them: IPv6 addresses in brackets, without their zone.
    pub(crate) fn authority(&self) -> String {
        match zone::without_zone(&self.host) {
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        }
    }
}

/// The longest possible name, in bytes (RFC 1035 section 2.3.4).
const MAX_HOST_LENGTH: usize = 253;

/// A text that names no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No port after the host.
    #[error("the port is missing: write HOST:PORT, IPv6 addresses in brackets")]
    NoPort,
    /// No host before the port.
    #[error("the host before the port is missing")]
    NoHost,
    /// Not a port.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// Not a host.
    #[error("not a valid host: write a name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
}

impl FromStr for Target {
    type Err = TargetError;

    /// Parses `host:port` and `[::1]:22`.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TargetError::NoPort)?;
        if host.is_empty() {
            return Err(TargetError::NoHost);
        }
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or(TargetError::NoPort)?;
                let address = zone::parse_ipv6(inner).ok_or(TargetError::Host)?;
                address.to_string()
            }
            None => parse_host(host).ok_or(TargetError::Host)?,
        };
        Ok(Self {
            host,
            port: parse_port(port).ok_or(TargetError::Port)?,
        })
    }
}

/// Parses a name into the form that requests use, or an IPv4 address. The result contains nothing that could end a line of a
/// request, or mean something else in one.
pub(crate) fn parse_host(text: &str) -> Option<String> {
    // The parser is that of URLs, whose hosts may have escapes and ports.
    if text.contains(['%', ':']) || text.len() > MAX_HOST_LENGTH {
        return None;
    }
    let host = url::Host::parse(text).ok()?.to_string();
    (host.len() <= MAX_HOST_LENGTH).then_some(host)
}

/// `parse` alone would accept a plus sign.
pub(crate) fn parse_port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port > 0)
}

impl std::fmt::Display for Target {
    /// As people write it: IPv6 addresses in brackets, with their zone.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.parse() {
            Ok(address) => write!(f, "[{}]:{}", zone::ipv6_text(address), self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_and_written_in_the_same_form() {
        for text in ["a.test:22", "127.0.0.1:1", "[::1]:65535", "my_host:80"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!(target.authority(), text);
            assert_eq!(target.to_url().unwrap().as_str(), format!("tcp://{text}"));
        }
        let target: Target = "[::1]:22".parse().unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 22));
        for text in ["[fe80::1%lo]:22", "[fe80::1%25lo]:22"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), "[fe80::1%lo]:22");
            assert_eq!(target.authority(), "[fe80::1]:22");
            assert_eq!(Target::from_url(&target.to_url().unwrap()), Some(target));
        }
        let target: Target = "Bücher.test:22".parse().unwrap();
        assert_eq!(target.host, "xn--bcher-kva.test");
    }

    #[test]
    fn errors_name_the_wrong_part() {
        use TargetError as E;
        for (text, error) in [
            ("", E::NoPort),
            ("a.test", E::NoPort),
            ("[::1]", E::NoPort),
            ("[::1", E::NoPort),
            (":22", E::NoHost),
            ("::1:22", E::Host),
            ("[a.test]:22", E::Host),
            ("[fe80::1%nosuch0]:22", E::Host),
            ("a b:22", E::Host),
            ("a\r\nX:22", E::Host),
            ("a%0d:22", E::Host),
            ("a.test:", E::Port),
            ("a.test:0", E::Port),
            ("a.test:+1", E::Port),
            ("a.test:65536", E::Port),
            ("a.test:ssh", E::Port),
        ] {
            assert_eq!(text.parse::<Target>(), Err(error), "{text}");
        }
    }
}
