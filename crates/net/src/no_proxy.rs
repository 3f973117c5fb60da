//! Which hosts are reached without a proxy, as `no_proxy` lists them.
//!
//! What of a list cannot be used is left out of it and told apart ([`NoProxy::unusable`]): of a flag that is a mistake, while a variable
//! was written for other programs too, and one of its words is no reason to do nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// Hosts that are reached directly: names with all below them, addresses, networks, or `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy {
    /// What can be used.
    items: Vec<Item>,
    /// What cannot.
    unusable: Vec<NoProxyError>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// Every host.
    All,
    /// A name as requests have it, and all below it.
    Name(String),
    /// An address, or all whose first bits are the same.
    Network(IpAddr, u32),
}

/// What stands among hosts and is none. A login that it may hold is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProxyError {
    /// A URL, or something with a login.
    #[error("a URL stands among the hosts: it is their names and addresses alone")]
    Url,
    /// What stands before a slash is no address.
    #[error("{0:?} is no network: one is an address and a number of bits, as 10.0.0.0/8")]
    Network(String),
    /// More bits than an address has, or no number of them.
    #[error("{0:?} is no network: the number of bits is from 0 to {1}")]
    Bits(String, u32),
    /// A star within a name.
    #[error("{0:?} has a star: one stands alone for every host, or before a name as *.example.com")]
    Star(String),
    /// Digits and dots that are no address.
    #[error("{0:?} is no address; a network is written as 10.0.0.0/8")]
    Address(String),
    /// Brackets around something else, or one alone.
    #[error("{0:?} has brackets, and in them there is no IPv6 address")]
    Brackets(String),
    /// A host with a port.
    #[error("{0:?} has a port: a host is reached without a proxy at all of its ports")]
    Port(String),
    /// No name.
    #[error("{0:?} is no host: a name, an address, or a network as 10.0.0.0/8")]
    Host(String),
}

impl NoProxy {
    /// Reads a list separated by commas or blanks, of which there may be too many.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut list = Self::default();
        let items = text.split(|c: char| c == ',' || c.is_whitespace());
        for text in items.filter(|text| !text.is_empty()) {
            match item(text) {
                Ok(item) => list.items.push(item),
                Err(error) => list.unusable.push(error),
            }
        }
        list
    }

    /// What of the list cannot be used, and is left out.
    #[must_use]
    pub fn unusable(&self) -> &[NoProxyError] {
        &self.unusable
    }

    /// Whether a host (without brackets) is reached directly.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        // The usual case, asked for every request of a batch.
        if self.items.is_empty() {
            return false;
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        self.items.iter().any(|item| item.matches(&host, address))
    }
}

impl Item {
    fn matches(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Network(network, bits), Some(address)) => is_in((*network, *bits), address),
            (Self::Name(name), None) => host
                .strip_suffix(name.as_str())
                .is_some_and(|front| front.is_empty() || front.ends_with('.')),
            _ => false,
        }
    }
}

fn item(text: &str) -> Result<Item, NoProxyError> {
    let wrong = || text.to_owned();
    if text == "*" {
        return Ok(Item::All);
    }
    if text.contains('@') || text.contains("://") {
        return Err(NoProxyError::Url);
    }
    if let Some((address, bits)) = text.split_once('/') {
        let address = address_of(address).ok_or_else(|| NoProxyError::Network(wrong()))?;
        let most = width(address);
        let bits = number(bits).filter(|bits| *bits <= most);
        let bits = bits.ok_or_else(|| NoProxyError::Bits(wrong(), most))?;
        return Ok(Item::Network(address, bits));
    }
    if let Some(address) = address_of(text) {
        return Ok(Item::Network(address, width(address)));
    }
    if text.contains(['[', ']']) && !text.contains("]:") {
        return Err(NoProxyError::Brackets(wrong()));
    }
    if text.contains(':') {
        return Err(NoProxyError::Port(wrong()));
    }
    let name = text.strip_prefix("*.").unwrap_or(text).trim_matches('.');
    if name.contains('*') {
        return Err(NoProxyError::Star(wrong()));
    }
    if !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte == b'.' || byte.is_ascii_digit())
    {
        return Err(NoProxyError::Address(wrong()));
    }
    // As a URL's host is read, escapes apart: what is written otherwise there would never be the same.
    match Host::parse(name) {
        Ok(Host::Domain(name)) if !name.is_empty() && !text.contains('%') => Ok(Item::Name(name)),
        _ => Err(NoProxyError::Host(wrong())),
    }
}

/// An address, of IPv6 perhaps in brackets.
fn address_of(text: &str) -> Option<IpAddr> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// Bits of an address.
fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

/// `parse` would take a plus sign.
fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// `10.0.0.0/8`, `fd00::/8`.
fn is_in((network, bits): (IpAddr, u32), address: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u32| bits == 0 || (a ^ b) >> (width - bits) == 0;
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_used_is_used_whatever_stands_between() {
        let list = NoProxy::parse(
            " ,a.test,, .b.test\t*.c.test,10.0.0.0/8,[fd00::1],fd01::/16,Bücher.test, ",
        );
        assert_eq!(list.unusable(), []);
        for host in [
            "a.test",
            "X.A.test.",
            "b.test",
            "x.c.test",
            "10.9.8.7",
            "fd00::1",
            "fd01::5",
            "xn--bcher-kva.test",
        ] {
            assert!(list.matches(host), "{host}");
        }
        for host in ["ba.test", "11.0.0.1", "fd02::1", "test", "", "."] {
            assert!(!list.matches(host), "{host}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_apart_and_hides_nothing_else() {
        use NoProxyError as E;
        let bits = |text: &str, most| E::Bits(text.into(), most);
        for (text, error) in [
            ("1.2.3.4/99", bits("1.2.3.4/99", 32)),
            ("1.2.3.4/", bits("1.2.3.4/", 32)),
            ("1.2.3.4/+8", bits("1.2.3.4/+8", 32)),
            ("fd00::/129", bits("fd00::/129", 128)),
            ("a.test/8", E::Network("a.test/8".into())),
            ("1.2.3/8", E::Network("1.2.3/8".into())),
            ("[::1", E::Brackets("[::1".into())),
            ("[a.test]", E::Brackets("[a.test]".into())),
            ("a.test:80", E::Port("a.test:80".into())),
            ("[::1]:80", E::Port("[::1]:80".into())),
            ("192.168.", E::Address("192.168.".into())),
            ("1.2.3.400", E::Address("1.2.3.400".into())),
            ("192.168.*", E::Star("192.168.*".into())),
            ("*a.test", E::Star("*a.test".into())),
            ("http://me:s3cret@a.test", E::Url),
            ("me:s3cret@a.test", E::Url),
            (".", E::Host(".".into())),
            ("a%2etest", E::Host("a%2etest".into())),
            ("<local>", E::Host("<local>".into())),
        ] {
            let list = NoProxy::parse(&format!("a.test,{text},b.test"));
            assert_eq!(list.unusable(), [error], "{text}");
            assert!(list.matches("b.test") && !list.matches("c.test"), "{text}");
        }
    }
}
