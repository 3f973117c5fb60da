//! The text that a signature covers (S3 API reference, "Create a canonical request").

use std::borrow::Cow;

use haul_digest::hex;
use haul_service::request_host;
use http::header::HOST;
use http::{HeaderMap, HeaderName, Method, Uri};
use sha2::{Digest as _, Sha256};

use super::S3Query;
use super::amz_date::AmzDate;
use super::credential::{ALGORITHM, ClaimedSignature};
use super::query::canonical_path;
use crate::{S3ErrorCode, S3Failure};

/// The fields that must be signed if they are there, by the beginning of their names.
const AMAZON_PREFIX: &str = "x-amz-";

/// A request's head as it was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignedHead<'a> {
    pub(super) method: &'a Method,
    /// Path and query as sent; over HTTP/2 the authority.
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) query: &'a S3Query,
}

impl SignedHead<'_> {
    /// Checks that the host and every Amazon field are signed: an unsigned one may have been added
    /// on the way.
    pub(super) fn check_signed_headers(&self, signed: &[String]) -> Result<(), S3Failure> {
        let is_signed = |name: &str| signed.iter().any(|known| known.eq_ignore_ascii_case(name));
        let names = self.headers.keys().map(HeaderName::as_str);
        let amazon = names.filter(|name| name.starts_with(AMAZON_PREFIX));
        let unsigned: Vec<&str> = std::iter::once("host")
            .chain(amazon)
            .filter(|name| !is_signed(name))
            .collect();
        if unsigned.is_empty() {
            return Ok(());
        }
        let message = "There were headers present in the request which were not signed";
        let failure = S3Failure::with_message(S3ErrorCode::AccessDenied, message);
        Err(failure.element("HeadersNotSigned", unsigned.join(", ")))
    }

    /// The canonical request; `payload` is the value of `x-amz-content-sha256`.
    pub(super) fn canonical_request(&self, signed: &[String], payload: &str) -> Vec<u8> {
        let mut text = Vec::with_capacity(1024);
        let mut push = |parts: &[&[u8]]| parts.iter().for_each(|part| text.extend_from_slice(part));
        push(&[self.method.as_str().as_bytes(), b"\n"]);
        push(&[canonical_path(self.uri.path()).as_bytes(), b"\n"]);
        push(&[self.query.canonical().as_bytes(), b"\n"]);
        for name in signed {
            push(&[name.as_bytes(), b":", &self.canonical_value(name), b"\n"]);
        }
        push(&[
            b"\n",
            signed.join(";").as_bytes(),
            b"\n",
            payload.as_bytes(),
        ]);
        text
    }

    /// A field's values, joined by commas. A missing field is empty.
    fn canonical_value(&self, name: &str) -> Cow<'_, [u8]> {
        if name.eq_ignore_ascii_case(HOST.as_str()) {
            let host = request_host(self.headers, self.uri).unwrap_or_default();
            return Cow::Borrowed(host.as_bytes());
        }
        let mut values = self.headers.get_all(name).iter();
        let first = values
            .next()
            .map_or(Cow::Borrowed(&[][..]), |value| collapsed(value.as_bytes()));
        values.fold(first, |joined, value| {
            let mut joined = joined.into_owned();
            joined.push(b',');
            joined.extend_from_slice(&collapsed(value.as_bytes()));
            Cow::Owned(joined)
        })
    }
}

/// A value without blanks at its ends, and with one for each run of them.
fn collapsed(value: &[u8]) -> Cow<'_, [u8]> {
    let value = value.trim_ascii();
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    let has_run = value
        .windows(2)
        .any(|two| two.iter().copied().all(is_blank));
    if !has_run && !value.contains(&b'\t') {
        return Cow::Borrowed(value);
    }
    let words: Vec<&[u8]> = value
        .split(|byte| is_blank(*byte))
        .filter(|word| !word.is_empty())
        .collect();
    Cow::Owned(words.join(&b' '))
}

pub(super) fn signature_scope(claimed: &ClaimedSignature) -> String {
    format!("{}/{}/s3/aws4_request", claimed.day, claimed.region)
}

pub(super) fn string_to_sign(date: &AmzDate, scope: &str, canonical_request: &[u8]) -> String {
    let digest = hex(&Sha256::digest(canonical_request));
    format!("{ALGORITHM}\n{}\n{scope}\n{digest}", date.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_trimmed_and_runs_of_blanks_collapsed() {
        for (value, expected) in [
            ("a b", "a b"),
            ("  a  b   c ", "a b c"),
            ("a\tb", "a b"),
            ("\"a  b\"", "\"a b\""),
            ("", ""),
        ] {
            assert_eq!(*collapsed(value.as_bytes()), *expected.as_bytes());
        }
    }

    #[test]
    fn repeated_fields_are_joined_and_the_authority_is_the_host() {
        let request = http::Request::get("https://a.example:8443/k?x")
            .header("x-amz-meta-a", " 1  2")
            .header("x-amz-meta-a", "3")
            .header("host", "b.example")
            .body(())
            .unwrap();
        let query = S3Query::parse(request.uri().query()).unwrap();
        let head = SignedHead {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            query: &query,
        };
        let signed = ["host", "x-amz-meta-a", "absent"].map(str::to_owned);
        let text = head.canonical_request(&signed, "UNSIGNED-PAYLOAD");
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "GET\n/k\nx=\nhost:a.example:8443\nx-amz-meta-a:1 2,3\nabsent:\n\n\
             host;x-amz-meta-a;absent\nUNSIGNED-PAYLOAD"
        );
    }
}
