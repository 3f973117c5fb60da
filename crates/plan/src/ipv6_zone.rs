//! Zones of link-local IPv6 addresses: which interface `fe80::1%eth0` is reached by (RFC 4007).
//!
//! A URL has no place for a zone, and parsers of URLs refuse one. So haul keeps the number of the interface inside the address, in 32 of
//! the bits that are zero in every link-local address (RFC 4291 2.5.6), as BSD kernels do: `fe80::1%2` is `fe80:0:2::1` here. Such an
//! address goes through URLs, targets, pools and comparisons of origins like any other, and never leaves the process: sockets and
//! requests get it without the zone, and people and files the name of the interface (`zone` in `net`).

use std::borrow::Cow;
use std::net::Ipv6Addr;

use url::{Host, Url};

/// An address, and the number of the interface in it; 0 is none.
#[must_use]
pub fn split_zone(address: Ipv6Addr) -> (Ipv6Addr, u32) {
    if !address.is_unicast_link_local() {
        return (address, 0);
    }
    let [first, high, low, rest @ ..] = address.segments();
    let [a, b, c, d, e] = rest;
    let bare = Ipv6Addr::new(first, 0, 0, a, b, c, d, e);
    (bare, u32::from(high) << 16 | u32::from(low))
}

/// A link-local address with the number of an interface in it. Other addresses need none, and stay as they are.
#[must_use]
pub fn with_zone(address: Ipv6Addr, zone: u32) -> Ipv6Addr {
    if !address.is_unicast_link_local() {
        return address;
    }
    let [first, _, _, rest @ ..] = address.segments();
    let ([a, b, c, d, e], [z0, z1, z2, z3]) = (rest, zone.to_be_bytes());
    let (high, low) = (u16::from_be_bytes([z0, z1]), u16::from_be_bytes([z2, z3]));
    Ipv6Addr::new(first, high, low, a, b, c, d, e)
}

/// The address of a URL without its zone, and the zone; `None` for a URL without one.
#[must_use]
pub fn zone_of_url(url: &Url) -> Option<(Ipv6Addr, u32)> {
    match url.host() {
        Some(Host::Ipv6(address)) => Some(split_zone(address)).filter(|(_, zone)| *zone != 0),
        _ => None,
    }
}

/// A URL as text without the zone that is written in it, and that zone: after `%`, or after `%25` as RFC 6874 escapes it.
#[must_use]
pub fn split_zone_text(url: &str) -> Option<(String, &str)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?', '#', '\\']);
    let authority = &url[start..end.map_or(url.len(), |end| start + end)];
    let host = start + authority.rfind('@').map_or(0, |at| at + 1);
    let inner = url[host..].strip_prefix('[')?.split_once(']')?.0;
    let (address, zone) = split_zone_of_host(inner)?;
    let (before, after) = (&url[..=host], &url[host + 1 + inner.len()..]);
    Some((format!("{before}{address}{after}"), zone))
}

/// The same for a host without brackets.
#[must_use]
pub fn split_zone_of_host(host: &str) -> Option<(&str, &str)> {
    let (address, zone) = host.split_once('%')?;
    // `%25` alone is the interface with that number, as curl reads it.
    let unescaped = zone.strip_prefix("25").filter(|zone| !zone.is_empty());
    Some((address, unescaped.unwrap_or(zone)))
}

/// A URL that a peer at `from` names. A zone means nothing to another machine, so a link-local address in it is on the link of `from`.
///
/// # Errors
/// The text is not a URL.
pub fn join_from_peer(from: &Url, text: &str) -> Result<Url, url::ParseError> {
    let text = match split_zone_text(text) {
        Some((text, _)) => Cow::Owned(text),
        None => Cow::Borrowed(text),
    };
    let mut url = from.join(&text)?;
    if let Some(Host::Ipv6(address)) = url.host() {
        let zone = zone_of_url(from).map_or(0, |(_, zone)| zone);
        // It fails only for URLs that have no host.
        let _ = url.set_ip_host(with_zone(address, zone).into());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn only_link_local_addresses_have_a_zone() {
        assert_eq!(with_zone(address("fe80::1"), 2), address("fe80:0:2::1"));
        for other in ["::1", "2001:db8::1", "fd00::1", "fec0::1"] {
            assert_eq!(with_zone(address(other), 2), address(other));
            assert_eq!(split_zone(address(other)), (address(other), 0));
        }
    }

    #[test]
    fn the_zone_is_taken_from_the_host_of_a_url_alone() {
        for (url, without, zone) in [
            ("http://[fe80::1%eth0]/", "http://[fe80::1]/", "eth0"),
            (
                "http://[fe80::1%25eth0]:81/?%25",
                "http://[fe80::1]:81/?%25",
                "eth0",
            ),
            ("http://[fe80::1%25]", "http://[fe80::1]", "25"),
            ("http://[fe80::1%2]", "http://[fe80::1]", "2"),
            (
                "http://u:%5B@[fe80::1%a-b.1]/@",
                "http://u:%5B@[fe80::1]/@",
                "a-b.1",
            ),
        ] {
            assert_eq!(split_zone_text(url), Some((without.into(), zone)), "{url}");
        }
        for url in [
            "",
            "http://",
            "http://[fe80::1]/%25",
            "http://h/[fe80::1%eth0]",
            "http://h?[a%b]",
            "http://[fe80::1%eth0",
            "/[fe80::1%eth0]/",
            "http://a%b/",
        ] {
            assert_eq!(split_zone_text(url), None, "{url}");
        }
    }

    #[test]
    fn a_peer_names_no_interface_and_its_link_is_kept() {
        let from: Url = "http://[fe80:0:2::1]:8080/a".parse().unwrap();
        for (location, expected) in [
            ("b", "http://[fe80:0:2::1]:8080/b"),
            ("http://[fe80::1]:8080/b", "http://[fe80:0:2::1]:8080/b"),
            ("http://[fe80::9%25eth7]/b", "http://[fe80:0:2::9]/b"),
            ("//[fe80:0:5::9]/b", "http://[fe80:0:2::9]/b"),
            ("https://h.test/", "https://h.test/"),
            ("https://[::1]/", "https://[::1]/"),
        ] {
            let url = join_from_peer(&from, location).unwrap();
            assert_eq!(url.as_str(), expected, "{location}");
        }
        let far: Url = "http://h.test/".parse().unwrap();
        let url = join_from_peer(&far, "http://[fe80:0:2::1]/").unwrap();
        assert_eq!(url.as_str(), "http://[fe80::1]/");
    }

    proptest! {
        #[test]
        fn an_address_and_its_zone_are_what_they_were(last in any::<[u16; 5]>(), zone: u32) {
            let [a, b, c, d, e] = last;
            let address = Ipv6Addr::new(0xfe80, 0, 0, a, b, c, d, e);
            prop_assert_eq!(split_zone(with_zone(address, zone)), (address, zone));
        }

        #[test]
        fn no_text_makes_it_panic(text in "(http|://|[\\[\\]%@/:a-f0-9]){0,12}") {
            if let Some((without, zone)) = split_zone_text(&text) {
                prop_assert!(without.len() < text.len() && text.contains(zone));
            }
        }
    }
}
