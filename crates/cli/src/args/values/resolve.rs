//! Addresses told by hand: `HOST:PORT:ADDRESS[,ADDRESS]`, as curl has it.

use std::net::IpAddr;
use std::str::FromStr;

use super::{ValueError, quoted};

/// The addresses of a host, for one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolveArg {
    /// The name as it stands in URLs.
    pub(crate) host: String,
    /// The port that it holds for.
    pub(crate) port: u16,
    /// Tried in this order.
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
        let wrong = || ValueError::new(format!("{} is no host, port and address", quoted(text)));
        parse().ok_or_else(|| wrong().with_hint("it is written as example.com:443:192.0.2.1"))
    }
}

/// IPv6 addresses stand with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    text.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text)
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_told_by_hand() {
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
