//! The messages of SOCKS5 (RFC 1928), parsed from a buffer that may hold part of one or more than one. No I/O here.

use std::net::{Ipv4Addr, Ipv6Addr};

use haul_net::Target;

const VERSION: u8 = 5;

/// The method that needs no login.
const METHOD_NONE: u8 = 0;

/// The only command that is served.
const CONNECT: u8 = 1;

/// The codes of replies (section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SocksReply {
    Succeeded = 0,
    Failed = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    CommandUnsupported = 7,
    AddressUnsupported = 8,
}

/// What a buffer begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocksMessage<T> {
    /// A message that is not whole yet.
    Partial,
    /// A message, and its length in bytes.
    Whole(T, usize),
}

/// Why a message is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocksMessageError {
    /// It is of another version, or of another protocol.
    Version,
    /// The client offers no method without a login.
    Method,
    /// There is a reply for the reason.
    Unsupported(SocksReply),
}

/// Parses the greeting, which must offer the method without a login.
pub(super) fn parse_greeting(bytes: &[u8]) -> Result<SocksMessage<()>, SocksMessageError> {
    let [version, rest @ ..] = bytes else {
        return Ok(SocksMessage::Partial);
    };
    if *version != VERSION {
        return Err(SocksMessageError::Version);
    }
    let [count, methods @ ..] = rest else {
        return Ok(SocksMessage::Partial);
    };
    let count = usize::from(*count);
    match methods.get(..count) {
        None => Ok(SocksMessage::Partial),
        Some(methods) if methods.contains(&METHOD_NONE) => Ok(SocksMessage::Whole((), 2 + count)),
        Some(_) => Err(SocksMessageError::Method),
    }
}

/// Parses the request, which names the target.
pub(super) fn parse_request(bytes: &[u8]) -> Result<SocksMessage<Target>, SocksMessageError> {
    let [version, command, _, kind, rest @ ..] = bytes else {
        return Ok(SocksMessage::Partial);
    };
    if *version != VERSION {
        return Err(SocksMessageError::Version);
    }
    if *command != CONNECT {
        return Err(SocksMessageError::Unsupported(
            SocksReply::CommandUnsupported,
        ));
    }
    let (length, before) = match (kind, rest.first()) {
        (1, _) => (4, 0),
        (4, _) => (16, 0),
        (3, None) => return Ok(SocksMessage::Partial),
        (3, Some(length)) => (usize::from(*length), 1),
        _ => {
            return Err(SocksMessageError::Unsupported(
                SocksReply::AddressUnsupported,
            ));
        }
    };
    let end = before + length;
    let (Some(address), Some(port)) = (rest.get(before..end), rest.get(end..end + 2)) else {
        return Ok(SocksMessage::Partial);
    };
    let host = host(address, *kind).ok_or(SocksMessageError::Unsupported(SocksReply::Failed))?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    // Parsed as if a user had written it, so that no name goes on that is none.
    let target = format!("{host}:{port}")
        .parse()
        .map_err(|_| SocksMessageError::Unsupported(SocksReply::Failed))?;
    Ok(SocksMessage::Whole(target, 4 + end + 2))
}

/// For fuzz targets: the length of the greeting at the beginning of these bytes.
#[cfg(feature = "fuzzing")]
pub(crate) fn greeting_length(bytes: &[u8]) -> Option<usize> {
    match parse_greeting(bytes) {
        Ok(SocksMessage::Whole((), length)) => Some(length),
        _ => None,
    }
}

/// For fuzz targets: the target of the request at the beginning of these bytes, and the request's length.
#[cfg(feature = "fuzzing")]
pub(crate) fn request_target(bytes: &[u8]) -> Option<(Target, usize)> {
    match parse_request(bytes) {
        Ok(SocksMessage::Whole(target, length)) => Some((target, length)),
        _ => None,
    }
}

fn host(address: &[u8], kind: u8) -> Option<String> {
    Some(match kind {
        1 => Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).to_string(),
        4 => format!("[{}]", Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
        // Some clients send addresses as names.
        _ => match std::str::from_utf8(address).ok()? {
            text if text.parse::<Ipv6Addr>().is_ok() => format!("[{text}]"),
            text => text.to_owned(),
        },
    })
}

/// The response to a greeting: no login is needed.
pub(super) const NO_LOGIN: [u8; 2] = [VERSION, METHOD_NONE];

/// The response to a greeting that offers no method that will do.
pub(super) const NO_ACCEPTABLE_METHOD: [u8; 2] = [VERSION, 0xff];

/// A reply. Its address, which the target sees, is not known here.
pub(super) fn reply(reply: SocksReply) -> [u8; 10] {
    [VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request_for(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, kind];
        bytes.extend(address);
        bytes.extend(port.to_be_bytes());
        bytes
    }

    #[test]
    fn targets_of_each_kind_are_parsed_whole_or_not_at_all() {
        let v6 = Ipv6Addr::LOCALHOST.octets();
        for (bytes, target) in [
            (request_for(1, &[127, 0, 0, 1], 80), "127.0.0.1:80"),
            (request_for(4, &v6, 22), "[::1]:22"),
            (request_for(3, b"\x06a.test", 443), "a.test:443"),
            (request_for(3, b"\x03::1", 443), "[::1]:443"),
        ] {
            let expected = SocksMessage::Whole(target.parse().unwrap(), bytes.len());
            assert_eq!(parse_request(&bytes), Ok(expected), "{target}");
            for length in 0..bytes.len() {
                assert_eq!(
                    parse_request(&bytes[..length]),
                    Ok(SocksMessage::Partial),
                    "{target} {length}"
                );
            }
            let more = [&bytes[..], b"more"].concat();
            assert!(
                matches!(parse_request(&more), Ok(SocksMessage::Whole(_, length)) if length == bytes.len())
            );
        }
    }

    #[test]
    fn requests_that_are_not_served_have_a_reply() {
        use SocksReply as R;
        for (bytes, reply) in [
            (vec![5, 2, 0, 1], R::CommandUnsupported),
            (vec![5, 3, 0, 1], R::CommandUnsupported),
            (vec![5, 1, 0, 2], R::AddressUnsupported),
            (request_for(3, b"\x00", 80), R::Failed),
            (request_for(3, b"\x03a b", 80), R::Failed),
            (request_for(3, b"\x04a\r\nb", 80), R::Failed),
            (request_for(3, b"\x01\xff", 80), R::Failed),
            (request_for(1, &[127, 0, 0, 1], 0), R::Failed),
        ] {
            assert_eq!(
                parse_request(&bytes),
                Err(SocksMessageError::Unsupported(reply)),
                "{bytes:?}"
            );
        }
        assert_eq!(
            parse_request(&[4, 1, 0, 80]),
            Err(SocksMessageError::Version)
        );
        assert_eq!(
            parse_greeting(b"GET / HTTP/1.1\r\n"),
            Err(SocksMessageError::Version)
        );
        assert_eq!(parse_greeting(&[5, 1, 2]), Err(SocksMessageError::Method));
        assert_eq!(parse_greeting(&[5, 0]), Err(SocksMessageError::Method));
        assert_eq!(parse_greeting(&[5, 2, 2]), Ok(SocksMessage::Partial));
        assert_eq!(
            parse_greeting(&[5, 2, 2, 0, 9]),
            Ok(SocksMessage::Whole((), 4))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic_or_a_target_of_several_lines(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_greeting(&bytes);
            let mut bytes = bytes;
            if let Ok(SocksMessage::Whole(target, length)) = parse_request(&bytes) {
                prop_assert!(length <= bytes.len() && !target.host.contains(['\r', '\n', ' ', '\0']));
            }
            bytes.splice(..bytes.len().min(4), [5, 1, 0, 3]);
            if let Ok(SocksMessage::Whole(target, _)) = parse_request(&bytes) {
                prop_assert!(!target.host.contains(['\r', '\n', ' ', '\0']));
            }
        }
    }
}
