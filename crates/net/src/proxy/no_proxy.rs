//! Which hosts are reached without a proxy, as `no_proxy` lists them.
//!
//! Items that cannot be used are left out of the list and reported beside it ([`NoProxy::errors`]). In a flag they are mistakes;
//! a variable serves other programs too, and one of its items is no reason to stop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

use crate::target::parse_port;
use crate::zone::without_zone;

/// Hosts that are reached directly: names with their subdomains, addresses, networks, or `*`; at all of their ports, or at one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy {
    /// Each with its port, if it is for one port alone.
    items: Vec<(NoProxyItem, Option<u16>)>,
    errors: Vec<NoProxyError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NoProxyItem {
    /// `*`.
    All,
    /// A name in the form that requests use, and its subdomains.
    Name(String),
    /// The addresses that share these first bits.
    Network(IpAddr, u32),
}

/// An item that is no host. Messages do not repeat a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProxyError {
    /// A URL, or a text with a login.
    #[error("URLs are not allowed here: write host names and addresses")]
    Url,
    /// No address before the slash.
    #[error("{0:?} is not a network: write an address and a number of bits, as in 10.0.0.0/8")]
    Network(String),
    /// Not a number of bits, or too many.
    #[error("{0:?} is not a network: the number of bits must be from 0 to {1}")]
    Bits(String, u32),
    /// A star inside a name.
    #[error("{0:?}: a star is allowed alone, for every host, or as in *.example.com")]
    Star(String),
    /// Digits and dots that are not an address.
    #[error("{0:?} is not an address; write a network as 10.0.0.0/8")]
    Address(String),
    /// Brackets without an IPv6 address, or one alone.
    #[error("{0:?}: brackets must contain an IPv6 address")]
    Brackets(String),
    /// Not a port.
    #[error("{0:?}: the port must be a number from 1 to 65535")]
    Port(String),
    /// An address with the interface that leads to it (`fe80::1%eth0`).
    #[error("{0:?}: an address here is meant in every zone: leave out the % and the text after it")]
    Zone(String),
    /// Not a name.
    #[error("{0:?} is not a host: write a name, an address, or a network as 10.0.0.0/8")]
    Host(String),
}

impl NoProxy {
    /// Parses a list. Items are separated by any number of commas and blanks.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut list = Self::default();
        let items = text.split(|c: char| c == ',' || c.is_whitespace());
        for text in items.filter(|text| !text.is_empty()) {
            match parse_item(text) {
                Ok(item) => list.items.push(item),
                Err(error) => list.errors.push(error),
            }
        }
        list
    }

    /// The items that cannot be used and were left out.
    #[must_use]
    pub fn errors(&self) -> &[NoProxyError] {
        &self.errors
    }

    /// Whether a host (without brackets) is reached directly at this port.
    #[must_use]
    pub fn matches(&self, host: &str, port: u16) -> bool {
        // The usual case, for every request of a batch.
        if self.items.is_empty() {
            return false;
        }
        let host = without_zone(host.trim_end_matches('.')).to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        let mut items = self.items.iter();
        items.any(|(item, item_port)| {
            item_port.is_none_or(|item_port| item_port == port) && item.matches(&host, address)
        })
    }
}

impl NoProxyItem {
    fn matches(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Network(network, bits), Some(address)) => {
                network_contains(*network, *bits, address)
            }
            (Self::Name(name), None) => host
                .strip_suffix(name.as_str())
                .is_some_and(|front| front.is_empty() || front.ends_with('.')),
            _ => false,
        }
    }
}

/// A host, perhaps with a port, as Go programs accept it.
fn parse_item(text: &str) -> Result<(NoProxyItem, Option<u16>), NoProxyError> {
    if text.contains('@') || text.contains("://") {
        return Err(NoProxyError::Url);
    }
    // An IPv6 address without brackets has no port.
    let with_port = text
        .rsplit_once(':')
        .filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let Some((host, port)) = with_port else {
        return Ok((parse_host_item(text)?, None));
    };
    let port = parse_port(port).ok_or_else(|| NoProxyError::Port(text.to_owned()))?;
    Ok((parse_host_item(host)?, Some(port)))
}

/// A host without a port.
fn parse_host_item(text: &str) -> Result<NoProxyItem, NoProxyError> {
    let item = || text.to_owned();
    if text == "*" {
        return Ok(NoProxyItem::All);
    }
    if let Some((address, bits)) = text.split_once('/') {
        let address = parse_address(address).ok_or_else(|| NoProxyError::Network(item()))?;
        let max_bits = address_bits(address);
        let bits = parse_number(bits)
            .filter(|bits| *bits <= max_bits)
            .ok_or_else(|| NoProxyError::Bits(item(), max_bits))?;
        return Ok(NoProxyItem::Network(address, bits));
    }
    if let Some(address) = parse_address(text) {
        return Ok(NoProxyItem::Network(address, address_bits(address)));
    }
    if let Some((network, bits)) = parse_wildcard_network(text) {
        return Ok(NoProxyItem::Network(IpAddr::V4(network), bits));
    }
    if has_zone(text) {
        return Err(NoProxyError::Zone(item()));
    }
    if text.contains(['[', ']']) {
        return Err(NoProxyError::Brackets(item()));
    }
    let name = text.strip_prefix("*.").unwrap_or(text).trim_matches('.');
    if name.contains('*') {
        return Err(NoProxyError::Star(item()));
    }
    if !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte == b'.' || byte.is_ascii_digit())
    {
        return Err(NoProxyError::Address(item()));
    }
    // Parsed like the host of a URL, so that both have the same form. Escapes are refused.
    match Host::parse(name) {
        Ok(Host::Domain(name)) if !name.is_empty() && !text.contains('%') => {
            Ok(NoProxyItem::Name(name))
        }
        _ => Err(NoProxyError::Host(item())),
    }
}

/// An address; IPv6 perhaps in brackets.
fn parse_address(text: &str) -> Option<IpAddr> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// `192.168.*`: a network by its first octets.
fn parse_wildcard_network(text: &str) -> Option<(Ipv4Addr, u32)> {
    let octets = text.trim_end_matches(".*");
    let given = octets.split('.').count();
    if octets.len() == text.len() || text.split('.').count() > 4 || given > 3 {
        return None;
    }
    let network = format!("{octets}{}", ".0".repeat(4 - given)).parse().ok()?;
    Some((network, u32::try_from(given).ok()? * u8::BITS))
}

/// Whether this is an address with an interface: `fe80::1%eth0`.
fn has_zone(text: &str) -> bool {
    let inner = text.strip_prefix('[').unwrap_or(text);
    inner
        .split_once('%')
        .is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
}

fn address_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

/// `parse` alone would accept a plus sign.
fn parse_number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn network_contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let is_same = |a: u128, b: u128, width: u32| bits == 0 || (a ^ b) >> (width - bits) == 0;
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => is_same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => is_same(a.into(), b.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
