//! Which hosts are reached without a proxy, as `no_proxy` lists them.

use std::net::IpAddr;

/// Hosts that are reached directly: names with all below them, addresses, networks, or `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<String>);

impl NoProxy {
    /// Reads a list separated by commas or blanks.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let items = text
            .split([',', ' ', '\t'])
            .map(|item| item.trim().to_ascii_lowercase());
        Self(items.filter(|item| !item.is_empty()).collect())
    }

    /// Whether a host (without brackets) is reached directly.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        // The usual case, asked for every request of a batch.
        if self.0.is_empty() {
            return false;
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        self.0
            .iter()
            .any(|item| item == "*" || item_matches(item, &host, address))
    }
}

fn item_matches(item: &str, host: &str, address: Option<IpAddr>) -> bool {
    if let Some(address) = address {
        let item = item.trim_start_matches('[').trim_end_matches(']');
        return item.parse() == Ok(address) || in_network(item, address);
    }
    let name = item.trim_start_matches("*.").trim_matches('.');
    host == name
        || host
            .strip_suffix(name)
            .is_some_and(|front| front.ends_with('.'))
}

/// `10.0.0.0/8`, `fd00::/8`.
fn in_network(item: &str, address: IpAddr) -> bool {
    let Some((network, bits)) = item.split_once('/') else {
        return false;
    };
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    let same = |a: u128, b: u128, width: u32| {
        bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0)
    };
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        _ => false,
    }
}
