//! Which hosts are reached without a proxy, as `no_proxy` lists them.
//!
//! What of a list cannot be used is left out of it and told apart ([`NoProxy::errors`]): of a flag that is a mistake, while a variable
//! was written for other programs too, and one of its words is no reason to do nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

use crate::target::parse_port;

/// Hosts that are reached directly: names with all below them, addresses, networks, or `*`; at all of their ports, or at one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy {
    /// What can be used, each with its only port, if it has one.
    items: Vec<(NoProxyItem, Option<u16>)>,
    /// What cannot.
    errors: Vec<NoProxyError>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NoProxyItem {
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
    /// What should be a port is none.
    #[error("{0:?}: the port is no number from 1 to 65535")]
    Port(String),
    /// An address with the interface that leads to it.
    #[error("{0:?} has a zone, which no URL's host has: leave out the % and what follows it")]
    Zone(String),
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
            match parse_item(text) {
                Ok(item) => list.items.push(item),
                Err(error) => list.errors.push(error),
            }
        }
        list
    }

    /// What of the list cannot be used, and is left out.
    #[must_use]
    pub fn errors(&self) -> &[NoProxyError] {
        &self.errors
    }

    /// Whether a host (without brackets) is reached directly at this port.
    #[must_use]
    pub fn matches(&self, host: &str, port: u16) -> bool {
        // The usual case, asked for every request of a batch.
        if self.items.is_empty() {
            return false;
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        let mut items = self.items.iter();
        items.any(|(item, only)| {
            only.is_none_or(|only| only == port) && item.matches(&host, address)
        })
    }
}

impl NoProxyItem {
    fn matches(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, _) => true,
            (Self::Network(network, bits), Some(address)) => {
                network_contains((*network, *bits), address)
            }
            (Self::Name(name), None) => host
                .strip_suffix(name.as_str())
                .is_some_and(|front| front.is_empty() || front.ends_with('.')),
            _ => false,
        }
    }
}

/// A host, perhaps with a port, as Go's programs take it.
fn parse_item(text: &str) -> Result<(NoProxyItem, Option<u16>), NoProxyError> {
    if text.contains('@') || text.contains("://") {
        return Err(NoProxyError::Url);
    }
    // Of an IPv6 address without brackets, everything is the address.
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
    let wrong = || text.to_owned();
    if text == "*" {
        return Ok(NoProxyItem::All);
    }
    if let Some((address, bits)) = text.split_once('/') {
        let address = parse_address(address).ok_or_else(|| NoProxyError::Network(wrong()))?;
        let most = address_bits(address);
        let bits = parse_number(bits).filter(|bits| *bits <= most);
        let bits = bits.ok_or_else(|| NoProxyError::Bits(wrong(), most))?;
        return Ok(NoProxyItem::Network(address, bits));
    }
    if let Some(address) = parse_address(text) {
        return Ok(NoProxyItem::Network(address, address_bits(address)));
    }
    if let Some((network, bits)) = parse_wildcard_network(text) {
        return Ok(NoProxyItem::Network(IpAddr::V4(network), bits));
    }
    if has_zone(text) {
        return Err(NoProxyError::Zone(wrong()));
    }
    if text.contains(['[', ']']) {
        return Err(NoProxyError::Brackets(wrong()));
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
        Ok(Host::Domain(name)) if !name.is_empty() && !text.contains('%') => {
            Ok(NoProxyItem::Name(name))
        }
        _ => Err(NoProxyError::Host(wrong())),
    }
}

/// An address, of IPv6 perhaps in brackets.
fn parse_address(text: &str) -> Option<IpAddr> {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// `192.168.*`: the octets that all addresses of a network begin with.
fn parse_wildcard_network(text: &str) -> Option<(Ipv4Addr, u32)> {
    let mut stem = text;
    while let Some(before) = stem.strip_suffix(".*") {
        stem = before;
    }
    let given = stem.split('.').count();
    if stem.len() == text.len() || text.split('.').count() > 4 || given > 3 {
        return None;
    }
    let network = format!("{stem}{}", ".0".repeat(4 - given)).parse().ok()?;
    Some((network, u32::try_from(given).ok()? * u8::BITS))
}

/// `fe80::1%eth0`.
fn has_zone(text: &str) -> bool {
    let inner = text.strip_prefix('[').unwrap_or(text);
    inner
        .split_once('%')
        .is_some_and(|(address, _)| address.parse::<Ipv6Addr>().is_ok())
}

/// Bits of an address.
fn address_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    }
}

/// `parse` would take a plus sign.
fn parse_number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// `10.0.0.0/8`, `fd00::/8`.
fn network_contains((network, bits): (IpAddr, u32), address: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u32| bits == 0 || (a ^ b) >> (width - bits) == 0;
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
