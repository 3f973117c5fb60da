//! Zones of link-local IPv6 addresses as people write them: `http://[fe80::1%eth0]/`, `[fe80::1%25eth0]:22`.
//!
//! [`parse_url`] and [`parse_ipv6`] take the zone off and keep the interface's number in the address (`ipv6_zone` in `plan` says how). From
//! there it goes wherever the address goes, and is seen again in three places only: [`socket_address`] connects to it, [`url_text`] and
//! [`ipv6_text`] show it by the name of the interface, and `request_target` leaves it out of requests.

mod sys;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use haul_plan::{split_zone, split_zone_of_host, split_zone_text, with_zone, zone_of_url};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Position, Url};

/// A text that is not a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It breaks the rules of URLs.
    #[error("{}", malformed_text(.0))]
    Malformed(#[from] url::ParseError),
    /// Its IPv6 address names an interface that does not exist.
    #[error("this machine has no network interface {0:?}")]
    NoInterface(String),
}

/// In words for people who have not read the URL standard.
fn malformed_text(error: &url::ParseError) -> String {
    match error {
        url::ParseError::RelativeUrlWithoutBase => {
            "it does not begin with https:// or http://".to_owned()
        }
        other => other.to_string(),
    }
}

/// Parses a URL. An IPv6 address in it may have a zone, after `%` or `%25`.
///
/// # Errors
/// The text is not a URL, or there is no such interface.
pub fn parse_url(text: &str) -> Result<Url, UrlError> {
    let Some((without, zone)) = split_zone_text(text) else {
        return Ok(Url::parse(text)?);
    };
    let mut url = Url::parse(&without)?;
    if let Some(url::Host::Ipv6(address)) = url.host() {
        let address = with_named_zone(address, zone)?;
        // It fails only for URLs that have no host.
        let _ = url.set_ip_host(address.into());
    }
    Ok(url)
}

/// Parses an IPv6 address without brackets, perhaps with a zone.
#[must_use]
pub fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    match split_zone_of_host(text) {
        Some((address, zone)) => with_named_zone(address.parse().ok()?, zone).ok(),
        None => text.parse().ok(),
    }
}

/// The address with the zone of this name or number. A zone is without meaning for other addresses than link-local ones.
fn with_named_zone(address: Ipv6Addr, zone: &str) -> Result<Ipv6Addr, UrlError> {
    if !address.is_unicast_link_local() {
        return Ok(address);
    }
    let name = percent_decode_str(zone).decode_utf8_lossy();
    let number = sys::interface_number(&name).or_else(|| name.parse().ok());
    let number = number
        .filter(|number| *number != 0)
        .ok_or_else(|| UrlError::NoInterface(name.into_owned()))?;
    Ok(with_zone(address, number))
}

/// The name of an interface, or its number if it is gone.
fn zone_name(number: u32) -> String {
    sys::interface_name(number).unwrap_or_else(|| number.to_string())
}

/// An address as people write it.
#[must_use]
pub fn ipv6_text(address: Ipv6Addr) -> String {
    match split_zone(address) {
        (address, 0) => address.to_string(),
        (address, zone) => format!("{address}%{}", zone_name(zone)),
    }
}

/// A host without brackets, for a peer or a certificate: a zone means nothing to another machine.
pub(crate) fn without_zone(host: &str) -> Cow<'_, str> {
    match host.parse().map(split_zone) {
        Ok((address, zone)) if zone != 0 => Cow::Owned(address.to_string()),
        _ => Cow::Borrowed(host),
    }
}

/// A URL with the zone of its host, in the form that [`parse_url`] and curl take. All others are not copied.
#[must_use]
pub fn url_text(url: &Url) -> Cow<'_, str> {
    let Some((address, zone)) = zone_of_url(url) else {
        return Cow::Borrowed(url.as_str());
    };
    let name = zone_name(zone);
    let name = utf8_percent_encode(&name, &ESCAPED_IN_ZONES);
    let (before, after) = (&url[..Position::BeforeHost], &url[Position::AfterHost..]);
    Cow::Owned(format!("{before}[{address}%25{name}]{after}"))
}

/// All but what RFC 3986 leaves unescaped anywhere.
const ESCAPED_IN_ZONES: percent_encoding::AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Where a socket connects to.
#[must_use]
pub fn socket_address(address: IpAddr, port: u16) -> SocketAddr {
    match address {
        IpAddr::V4(address) => (address, port).into(),
        IpAddr::V6(address) => {
            let (address, zone) = split_zone(address);
            SocketAddrV6::new(address, port, 0, zone).into()
        }
    }
}

/// The address of a socket, with its zone kept.
#[must_use]
pub fn address_with_zone(address: SocketAddr) -> IpAddr {
    match address {
        SocketAddr::V4(address) => (*address.ip()).into(),
        SocketAddr::V6(address) => with_zone(*address.ip(), address.scope_id()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_of_a_url_is_kept_in_either_form_and_shown_in_one() {
        let parsed = |text: &str| url_text(&parse_url(text).unwrap()).into_owned();
        // Every machine has this interface.
        for text in [
            "http://me:pw@[fe80::1%lo]:8080/a?b",
            "http://me:pw@[fe80::1%25lo]:8080/a?b",
        ] {
            assert_eq!(parsed(text), "http://me:pw@[fe80::1%25lo]:8080/a?b");
        }
        assert_eq!(parsed("http://[fe80::1%1]"), parsed("http://[fe80::1%lo]/"));
        // A number without an interface may get one later.
        assert_eq!(
            parsed("http://[FE80::1%4294967295]"),
            "http://[fe80::1%254294967295]/"
        );
        assert_eq!(parsed("http://[::1%lo]/"), "http://[::1]/");
        assert_eq!(
            parse_url("http://[fe80::1%nosuch0]/"),
            Err(UrlError::NoInterface("nosuch0".into()))
        );
        for text in [
            "http://[fe80::1%0]/",
            "http://[fe80::1%]/",
            "http://[fe80::1%-1]/",
            "http://[x%lo]/",
        ] {
            assert!(parse_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_socket_gets_the_zone_beside_the_address() {
        let address = parse_ipv6("fe80::1%lo").unwrap();
        let socket = socket_address(address.into(), 80);
        let SocketAddr::V6(parts) = socket else {
            panic!("{socket}");
        };
        assert_eq!(
            (parts.ip().to_string().as_str(), parts.scope_id()),
            ("fe80::1", 1)
        );
        assert_eq!(address_with_zone(socket), address);
        assert_eq!(ipv6_text(address), "fe80::1%lo");
    }
}
