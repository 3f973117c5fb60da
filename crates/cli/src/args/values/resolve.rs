//! Addresses set by the user: `HOST:PORT:ADDRESS[,ADDRESS]`, as in curl.

use std::net::IpAddr;
use std::str::FromStr;

use super::{ValueError, quoted};

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

/// An IPv6 address may have brackets.
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
