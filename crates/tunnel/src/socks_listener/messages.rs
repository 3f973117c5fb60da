//! The messages of SOCKS5 (RFC 1928), read from a buffer that may hold more than one or less: no I/O here.

use std::net::{Ipv4Addr, Ipv6Addr};

use haul_net::Target;

/// The protocol's version.
const VERSION: u8 = 5;

/// The method without a login.
const OPEN: u8 = 0;

/// The one command that there is.
const CONNECT: u8 = 1;

/// Replies (section 6).
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

/// What a buffer holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SocksMessage<T> {
    /// Not all of it yet.
    Part,
    /// All of it, in so many bytes.
    Whole(T, usize),
}

/// Why a message is none that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocksMessageError {
    /// Another version, or another protocol.
    Version,
    /// A login is all that it would take.
    Method,
    /// It can be told by this reply.
    Told(SocksReply),
}

/// The greeting: whether the method without a login is among those that are offered.
pub(super) fn greeting(bytes: &[u8]) -> Result<SocksMessage<()>, SocksMessageError> {
    let [version, rest @ ..] = bytes else {
        return Ok(SocksMessage::Part);
    };
    if *version != VERSION {
        return Err(SocksMessageError::Version);
    }
    let [count, methods @ ..] = rest else {
        return Ok(SocksMessage::Part);
    };
    let count = usize::from(*count);
    match methods.get(..count) {
        None => Ok(SocksMessage::Part),
        Some(methods) if methods.contains(&OPEN) => Ok(SocksMessage::Whole((), 2 + count)),
        Some(_) => Err(SocksMessageError::Method),
    }
}

/// The request: where to.
pub(super) fn request(bytes: &[u8]) -> Result<SocksMessage<Target>, SocksMessageError> {
    let [version, command, _, kind, rest @ ..] = bytes else {
        return Ok(SocksMessage::Part);
    };
    if *version != VERSION {
        return Err(SocksMessageError::Version);
    }
    if *command != CONNECT {
        return Err(SocksMessageError::Told(SocksReply::CommandUnsupported));
    }
    let (length, before) = match (kind, rest.first()) {
        (1, _) => (4, 0),
        (4, _) => (16, 0),
        (3, None) => return Ok(SocksMessage::Part),
        (3, Some(length)) => (usize::from(*length), 1),
        _ => return Err(SocksMessageError::Told(SocksReply::AddressUnsupported)),
    };
    let end = before + length;
    let (Some(address), Some(port)) = (rest.get(before..end), rest.get(end..end + 2)) else {
        return Ok(SocksMessage::Part);
    };
    let host = host(address, *kind).ok_or(SocksMessageError::Told(SocksReply::Failed))?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    // Read as a target that somebody wrote, so that no name gets further that is none.
    let target = format!("{host}:{port}").parse();
    let target = target.map_err(|_| SocksMessageError::Told(SocksReply::Failed))?;
    Ok(SocksMessage::Whole(target, 4 + end + 2))
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

/// The method that is taken: none.
pub(super) const METHOD: [u8; 2] = [VERSION, OPEN];

/// None of the methods will do.
pub(super) const NO_METHOD: [u8; 2] = [VERSION, 0xff];

/// A reply. Which address of a proxy's the target sees is not known here.
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
    fn targets_of_each_kind_are_read_whole_or_not_at_all() {
        let v6 = Ipv6Addr::LOCALHOST.octets();
        for (bytes, target) in [
            (request_for(1, &[127, 0, 0, 1], 80), "127.0.0.1:80"),
            (request_for(4, &v6, 22), "[::1]:22"),
            (request_for(3, b"\x06a.test", 443), "a.test:443"),
            (request_for(3, b"\x03::1", 443), "[::1]:443"),
        ] {
            let expected = SocksMessage::Whole(target.parse().unwrap(), bytes.len());
            assert_eq!(request(&bytes), Ok(expected), "{target}");
            for length in 0..bytes.len() {
                assert_eq!(
                    request(&bytes[..length]),
                    Ok(SocksMessage::Part),
                    "{target} {length}"
                );
            }
            let more = [&bytes[..], b"more"].concat();
            assert!(
                matches!(request(&more), Ok(SocksMessage::Whole(_, length)) if length == bytes.len())
            );
        }
    }

    #[test]
    fn what_is_not_served_is_told() {
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
                request(&bytes),
                Err(SocksMessageError::Told(reply)),
                "{bytes:?}"
            );
        }
        assert_eq!(request(&[4, 1, 0, 80]), Err(SocksMessageError::Version));
        assert_eq!(
            greeting(b"GET / HTTP/1.1\r\n"),
            Err(SocksMessageError::Version)
        );
        assert_eq!(greeting(&[5, 1, 2]), Err(SocksMessageError::Method));
        assert_eq!(greeting(&[5, 0]), Err(SocksMessageError::Method));
        assert_eq!(greeting(&[5, 2, 2]), Ok(SocksMessage::Part));
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Ok(SocksMessage::Whole((), 4)));
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_a_panic_or_a_target_of_several_lines(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = greeting(&bytes);
            let mut bytes = bytes;
            if let Ok(SocksMessage::Whole(target, length)) = request(&bytes) {
                prop_assert!(length <= bytes.len() && !target.host.contains(['\r', '\n', ' ', '\0']));
            }
            bytes.splice(..bytes.len().min(4), [5, 1, 0, 3]);
            if let Ok(SocksMessage::Whole(target, _)) = request(&bytes) {
                prop_assert!(!target.host.contains(['\r', '\n', ' ', '\0']));
            }
        }
    }
}
