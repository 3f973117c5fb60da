//! Where a stream leads.

use std::str::FromStr;

use url::Url;

/// Which addresses may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressFamily {
    /// All, IPv6 first, both raced (RFC 8305).
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
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
    /// Its port.
    pub port: u16,
}

impl Target {
    /// Where a URL points. `None` for a URL without host or port.
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
}

/// Bytes of the longest name that there is (RFC 1035 section 2.3.4).
const MAX_HOST_LENGTH: usize = 253;

/// What was given is no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is no port behind the host.
    #[error("there is no port behind the host: write HOST:PORT, IPv6 addresses in brackets")]
    NoPort,
    /// There is no host before the port.
    #[error("there is no host before the port")]
    NoHost,
    /// The port is no number from 1 to 65535.
    #[error("the port is a number from 1 to 65535")]
    Port,
    /// The host is none.
    #[error("this is no host: a name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
}

impl FromStr for Target {
    type Err = TargetError;

    /// `host:port`, `[::1]:22`.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TargetError::NoPort)?;
        if host.is_empty() {
            return Err(TargetError::NoHost);
        }
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or(TargetError::NoPort)?;
                let address: Result<std::net::Ipv6Addr, _> = inner.parse();
                address.map_err(|_| TargetError::Host)?.to_string()
            }
            None => parse_host(host).ok_or(TargetError::Host)?,
        };
        Ok(Self {
            host,
            port: parse_port(port).ok_or(TargetError::Port)?,
        })
    }
}

/// A name as it goes over the wire, or an IPv4 address: nothing that could end a line of a request, or be taken for something
/// else there.
pub(crate) fn parse_host(text: &str) -> Option<String> {
    // What is left of a URL's grammar for hosts: they may be escaped there.
    if text.contains(['%', ':']) || text.len() > MAX_HOST_LENGTH {
        return None;
    }
    let host = url::Host::parse(text).ok()?.to_string();
    (host.len() <= MAX_HOST_LENGTH).then_some(host)
}

/// `parse` would take a plus sign.
pub(crate) fn parse_port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port > 0)
}

impl Target {
    /// As errors speak of it where there is no other URL: `tcp://host:port`. `None` for what is no host.
    #[must_use]
    pub fn to_url(&self) -> Option<Url> {
        Url::parse(&format!("tcp://{self}")).ok()
    }
}

impl std::fmt::Display for Target {
    /// As a request writes it: IPv6 addresses in brackets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        for text in ["a.test:22", "127.0.0.1:1", "[::1]:65535", "my_host:80"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!(target.to_url().unwrap().as_str(), format!("tcp://{text}"));
        }
        let target: Target = "[::1]:22".parse().unwrap();
        assert_eq!((target.host.as_str(), target.port), ("::1", 22));
        let target: Target = "Bücher.test:22".parse().unwrap();
        assert_eq!(target.host, "xn--bcher-kva.test");
    }

    #[test]
    fn what_is_no_target_is_told() {
        use TargetError as E;
        for (text, error) in [
            ("", E::NoPort),
            ("a.test", E::NoPort),
            ("[::1]", E::NoPort),
            ("[::1", E::NoPort),
            (":22", E::NoHost),
            ("::1:22", E::Host),
            ("[a.test]:22", E::Host),
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
