//! How the end of an HTTP/1.1 response's body is found (RFC 9112 6.3, rows A31 and A22).
//!
//! haul sends no TE field, so the only transfer coding that a server may use is `chunked`. A body in another coding would be
//! stored with the bytes of that coding in it, and a Transfer-Encoding that two programs read differently gives two bodies.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version};

/// Longer values are cut in messages.
const MAX_SHOWN: usize = 60;

/// How the end of a response's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// After so many bytes. A response without a body has none.
    Length(u64),
    /// `chunked`. Content-Length should be absent; where there is one, the body must have that length.
    Chunked(Option<u64>),
    /// With the connection, or after so many bytes, if Content-Length stands beside `identity`, a coding that RFC 7230 abolished.
    /// 101 has no bytes.
    UntilClose(Option<u64>),
}

/// A response whose body has no certain end, or bytes that are not the file's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A transfer coding that was not requested, or `chunked` where it does not belong.
    #[error("the response has Transfer-Encoding: {0}, and haul accepts only chunked")]
    TransferEncoding(String),
    /// A transfer coding in a version of HTTP that has none: what wrote the head may mean something else by it.
    #[error("the response has a Transfer-Encoding, which HTTP/1.0 does not know")]
    TransferEncodingInHttp10,
    /// Not a number, or several that differ.
    #[error("the response has an invalid Content-Length")]
    ContentLength,
    /// The chunks have more or fewer bytes.
    #[error("the response has a Content-Length that contradicts its chunks")]
    LengthMismatch,
}

impl BodyFraming {
    /// How the body of this final response to a request of this method ends.
    ///
    /// # Errors
    /// The body must not be used.
    pub fn from_response(
        method: &Method,
        status: StatusCode,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<Self, FramingError> {
        // Another protocol follows, which nobody asked for: the connection is of no use.
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Self::UntilClose(Some(0)));
        }
        let has_no_body = *method == Method::HEAD || matches!(status.as_u16(), 204 | 304);
        if has_no_body {
            return Ok(Self::Length(0));
        }
        if version == Version::HTTP_10 && headers.contains_key(TRANSFER_ENCODING) {
            return Err(FramingError::TransferEncodingInHttp10);
        }
        Self::from_headers(headers)
    }

    /// Whether the peer takes another request behind this body (RFC 9112 9.3).
    #[must_use]
    pub fn keeps_connection(self, version: Version, headers: &HeaderMap) -> bool {
        if matches!(self, Self::UntilClose(_)) {
            return false;
        }
        let mut keeps = version == Version::HTTP_11;
        for value in headers.get_all(CONNECTION) {
            for option in value.as_bytes().split(|byte| *byte == b',') {
                let option = option.trim_ascii();
                // The peer may say so more than once; what it says first or last makes no difference.
                if option.eq_ignore_ascii_case(b"close") {
                    return false;
                }
                keeps |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        keeps
    }

    /// Reads Transfer-Encoding, all fields together, and Content-Length.
    fn from_headers(headers: &HeaderMap) -> Result<Self, FramingError> {
        if !headers.contains_key(TRANSFER_ENCODING) {
            let length = content_length(headers)?;
            return Ok(length.map_or(Self::UntilClose(None), Self::Length));
        }
        let codings = headers
            .get_all(TRANSFER_ENCODING)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii);
        let is_identity = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"identity");
        let mut chunked_count = 0;
        for coding in codings.skip_while(is_identity) {
            chunked_count += 1;
            if chunked_count > 2 || !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(FramingError::TransferEncoding(shown(headers)));
            }
        }
        let length = content_length(headers)?;
        Ok(match chunked_count {
            0 => Self::UntilClose(length),
            _ => Self::Chunked(length),
        })
    }
}

/// Content-Length; several fields, or several numbers in one, must agree (RFC 9110 8.6).
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, FramingError> {
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for number in value.as_bytes().split(|byte| *byte == b',') {
            let number = parse_length(number.trim_ascii()).ok_or(FramingError::ContentLength)?;
            if length.is_some_and(|other| other != number) {
                return Err(FramingError::ContentLength);
            }
            length = Some(number);
        }
    }
    Ok(length)
}

/// Digits alone: the parser of numbers would take a sign, too.
fn parse_length(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_number = digits.iter().all(u8::is_ascii_digit);
    text.parse().ok().filter(|_| is_number)
}

/// The value of Transfer-Encoding for a message.
fn shown(headers: &HeaderMap) -> String {
    let values: Vec<_> = headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    printable(&values.join(", "), MAX_SHOWN)
}

/// A peer's text without control characters, cut to a length.
#[must_use]
pub fn printable(text: &str, most: usize) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(most)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn framing(codings: &[&str], lengths: &[&str]) -> Result<BodyFraming, FramingError> {
        let mut headers = HeaderMap::new();
        for coding in codings {
            headers.append(TRANSFER_ENCODING, HeaderValue::from_str(coding).unwrap());
        }
        for length in lengths {
            headers.append(CONTENT_LENGTH, HeaderValue::from_str(length).unwrap());
        }
        BodyFraming::from_headers(&headers)
    }

    #[test]
    fn a31_only_chunked_and_identity_are_accepted() {
        let accepted: [(&[&str], BodyFraming); 8] = [
            (&[], BodyFraming::UntilClose(None)),
            (&["chunked"], BodyFraming::Chunked(None)),
            (&["\tChunked "], BodyFraming::Chunked(None)),
            (&["chunked, chunked"], BodyFraming::Chunked(None)),
            (&["chunked", "chunked"], BodyFraming::Chunked(None)),
            (&["identity", "chunked"], BodyFraming::Chunked(None)),
            (&["identity"], BodyFraming::UntilClose(None)),
            (&["identity, identity"], BodyFraming::UntilClose(None)),
        ];
        for (codings, expected) in accepted {
            assert_eq!(framing(codings, &[]), Ok(expected), "{codings:?}");
        }
        let refused: [&[&str]; 16] = [
            &["gzip"],
            &["deflate"],
            &["gzip, chunked"],
            &["gzip", "chunked"],
            &["chunked, gzip"],
            &["chunked, identity"],
            &["chunked, chunked, gzip"],
            &["chunked, chunked, chunked"],
            &["xchunked"],
            &["identityx"],
            &["identity, gzip, chunked"],
            &["chunked;q=1"],
            &["chunked,"],
            &[",chunked"],
            &[""],
            &["gzip,"; 9],
        ];
        for codings in refused {
            for lengths in [&[][..], &["5"][..]] {
                let refused = framing(codings, lengths);
                assert!(
                    matches!(refused, Err(FramingError::TransferEncoding(_))),
                    "{codings:?}: {refused:?}"
                );
            }
        }
    }

    #[test]
    fn a31_a_content_length_beside_a_transfer_encoding_is_one_number() {
        let chunked = |length| Ok(BodyFraming::Chunked(Some(length)));
        assert_eq!(framing(&["chunked"], &["5"]), chunked(5));
        assert_eq!(framing(&["chunked"], &["5, 5", "5"]), chunked(5));
        let identity = BodyFraming::UntilClose(Some(5));
        assert_eq!(framing(&["identity"], &["5"]), Ok(identity));
        for lengths in [&["5", "6"][..], &["5, 6"], &["+5"], &["-5"], &[""], &["5x"]] {
            for coding in [&[][..], &["chunked"], &["identity"]] {
                let refused = framing(coding, lengths);
                assert_eq!(refused, Err(FramingError::ContentLength), "{lengths:?}");
            }
        }
    }

    #[test]
    fn a31_a_response_without_a_body_has_no_bytes_whatever_its_fields_say() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("5"));
        let framing = |method, status, version, headers: &HeaderMap| {
            let status = StatusCode::from_u16(status).unwrap();
            BodyFraming::from_response(&method, status, version, headers)
        };
        for (method, status, length) in [
            (Method::GET, 200, 5),
            (Method::GET, 404, 5),
            (Method::PUT, 205, 5),
            (Method::HEAD, 200, 0),
            (Method::GET, 204, 0),
            (Method::GET, 304, 0),
        ] {
            let found = framing(method, status, Version::HTTP_11, &headers);
            assert_eq!(found, Ok(BodyFraming::Length(length)), "{status}");
        }
        let upgraded = framing(Method::GET, 101, Version::HTTP_11, &headers);
        assert_eq!(upgraded, Ok(BodyFraming::UntilClose(Some(0))));
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let refused = framing(Method::GET, 200, Version::HTTP_10, &headers);
        assert_eq!(refused, Err(FramingError::TransferEncodingInHttp10));
        let chunked = framing(Method::GET, 200, Version::HTTP_11, &headers);
        assert_eq!(chunked, Ok(BodyFraming::Chunked(Some(5))));
    }

    #[test]
    fn a_connection_is_kept_where_both_sides_know_where_the_body_ends() {
        let keeps = |framing: BodyFraming, version, connection: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in connection {
                headers.append(CONNECTION, HeaderValue::from_static(value));
            }
            framing.keeps_connection(version, &headers)
        };
        for framing in [BodyFraming::Length(5), BodyFraming::Chunked(None)] {
            for (version, connection, expected) in [
                (Version::HTTP_11, &[][..], true),
                (Version::HTTP_11, &["x-hop"], true),
                (Version::HTTP_11, &["x-hop, Close"], false),
                (Version::HTTP_11, &["close", "keep-alive"], false),
                (Version::HTTP_11, &["keep-alive", "close"], false),
                (Version::HTTP_10, &[], false),
                (Version::HTTP_10, &["Keep-Alive"], true),
                (Version::HTTP_10, &["close, keep-alive"], false),
            ] {
                assert_eq!(
                    keeps(framing, version, connection),
                    expected,
                    "{connection:?}"
                );
            }
        }
        for length in [None, Some(5)] {
            let framing = BodyFraming::UntilClose(length);
            assert!(!keeps(framing, Version::HTTP_11, &["keep-alive"]));
        }
    }

    #[test]
    fn a31_a_long_value_is_cut_in_the_message() {
        let Err(error) = framing(&["gzip,gzip,gzip,gzip,gzip"; 9], &[]) else {
            panic!("accepted");
        };
        assert!(error.to_string().len() < 140, "{error}");
    }
}
