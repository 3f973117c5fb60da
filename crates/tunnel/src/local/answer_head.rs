//! The head of an answer to a request that was passed on: whether it is a proxy's question for a login, and how the client gets it.
//!
//! Its connection carries no other request, and so it says `Connection: close`, whatever the peer has said about its own
//! connection (RFC 9112 section 9.6). All else goes on as it was written. No I/O here.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::hop::HopByHopFields;

/// Fields of the longest head.
const FIELDS: usize = 128;

/// What a buffer begins with.
#[derive(Debug)]
pub(crate) enum ParsedResponseHead {
    /// Not all of a head yet.
    Part,
    /// Something else.
    Nothing,
    /// An interim one (1xx) of so many bytes: another follows.
    Interim(usize),
    /// A proxy's 407, with its fields.
    Challenge(HeaderMap),
    /// Any other of so many bytes, and in the words that are for the client.
    Answer(usize, Vec<u8>),
}

impl ParsedResponseHead {
    /// Reads what there is.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Self::Part,
            Err(_) => return Self::Nothing,
        };
        match response.code {
            // What comes behind it is of another protocol.
            None | Some(101) => Self::Nothing,
            Some(100..200) => Self::Interim(length),
            Some(407) => Self::Challenge(map(&response)),
            Some(_) => Self::Answer(length, closing(bytes, &response)),
        }
    }
}

/// Several fields of a name are several challenges.
fn map(response: &httparse::Response<'_, '_>) -> HeaderMap {
    let fields = response.headers.iter().filter_map(|field| {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(field.value).ok()?))
    });
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name, value);
    }
    map
}

/// A head whose connection ends with its answer.
fn closing(bytes: &[u8], response: &httparse::Response<'_, '_>) -> Vec<u8> {
    let hop = HopByHopFields::of(response.headers);
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.unwrap_or_default().trim_ascii_end();
    let mut head = [line, b"\r\n"].concat();
    for field in response.headers.iter() {
        if !hop.is_ours(field.name) {
            let name = field.name.as_bytes();
            head.extend_from_slice(&[name, b": ", field.value, b"\r\n"].concat());
        }
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_on(text: &str) -> String {
        match ParsedResponseHead::of(text.as_bytes()) {
            ParsedResponseHead::Answer(length, words) => {
                String::from_utf8(words).unwrap() + &text[length..]
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_says_that_its_connection_ends_and_is_else_as_it_was() {
        for (said, told) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
            ),
            (
                "HTTP/1.0 200 very  odd\r\nConnection: keep-alive, x-mine\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\nx-YOURS:2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n",
                "HTTP/1.0 200 very  odd\r\nx-YOURS: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: close\r\n\r\n",
            ),
            (
                "HTTP/1.1 200\r\nProxy-Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n",
                "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nConnection: close\r\n\r\n",
            ),
            // What says where it ends stays, whatever is said of it.
            (
                "HTTP/1.1 200 OK\nConnection: content-length\nContent-Length: 0\n\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ),
        ] {
            assert_eq!(passed_on(said), told);
        }
    }

    #[test]
    fn questions_interim_answers_and_what_is_no_head_are_told_apart() {
        use ParsedResponseHead as A;
        let of = |text: &str| A::of(text.as_bytes());
        let asks =
            "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\nProxy-Authenticate: Digest\r\n\r\n";
        let A::Challenge(fields) = of(asks) else {
            panic!("{asks}")
        };
        assert_eq!(fields.get_all("proxy-authenticate").iter().count(), 2);
        assert!(matches!(
            of("HTTP/1.1 100 Continue\r\n\r\nHTTP"),
            A::Interim(25)
        ));
        assert!(matches!(of("HTTP/1.1 101 x\r\n\r\n"), A::Nothing));
        assert!(matches!(of("ICY 200 OK\r\n\r\n"), A::Nothing));
        assert!(matches!(of("HTTP/1.1 200 OK\r\nX: y\r\n"), A::Part));
        assert!(matches!(of(""), A::Part));
    }
}
