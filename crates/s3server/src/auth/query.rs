//! The query and the path of a request, decoded once, and encoded as a signature has them.

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::{S3ErrorCode, S3Failure};

/// What a signature encodes in a query: everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The same in a path, whose slashes stay.
const ENCODED_IN_PATH: &AsciiSet = &ENCODED.remove(b'/');

/// Parameters of a presigned URL that are about its signature, or about the library that made it.
const PARAMETERS_ONLY: [&str; 10] = [
    "x-amz-algorithm",
    "x-amz-content-sha256",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
    "x-amz-user-agent",
];

/// A decoded query. Names are compared exactly, as S3 does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct S3Query(pub(super) Vec<(String, String)>);

impl S3Query {
    /// Decodes a query as it was sent. A parameter without `=` has an empty value, and `+` is a
    /// space, as in forms.
    ///
    /// # Errors
    /// `InvalidURI` when a part of it is not UTF-8.
    pub(crate) fn parse(raw: Option<&str>) -> Result<Self, S3Failure> {
        let parameters = raw.unwrap_or_default().split('&');
        parameters
            .filter(|parameter| !parameter.is_empty())
            .map(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                Ok((
                    decode(&name.replace('+', " "))?,
                    decode(&value.replace('+', " "))?,
                ))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The value of the first parameter with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether there is a parameter with this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The header fields of a request with a presigned URL, if parameters of the URL add to them:
    /// some libraries move Amazon's fields there, where the signature covers them, too. A field in
    /// the header wins.
    ///
    /// The algorithm of `x-amz-sdk-checksum-algorithm` is left out: it is the plan of a library for
    /// a body that somebody else sends without it.
    pub(crate) fn with_moved_fields(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        let mut all = None;
        for (name, value) in &self.0 {
            let name = name.to_ascii_lowercase();
            if !name.starts_with("x-amz-") || PARAMETERS_ONLY.contains(&name.as_str()) {
                continue;
            }
            let (Ok(name), Ok(value)) = (
                HeaderName::try_from(name),
                HeaderValue::from_bytes(value.as_bytes()),
            ) else {
                continue;
            };
            if !headers.contains_key(&name) {
                let all = all.get_or_insert_with(|| headers.clone());
                all.append(name, value);
            }
        }
        all
    }

    /// How many parameters have this name.
    pub(super) fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(known, _)| known == name).count()
    }

    /// The query as a signature has it: encoded, then sorted; without the signature itself.
    pub(super) fn canonical(&self) -> String {
        let encode = |text: &String| percent_encode(text.as_bytes(), ENCODED).to_string();
        let signed = self.0.iter().filter(|(name, _)| name != "X-Amz-Signature");
        let mut pairs: Vec<(String, String)> = signed
            .map(|(name, value)| (encode(name), encode(value)))
            .collect();
        pairs.sort_unstable();
        let mut canonical = String::new();
        for (name, value) in &pairs {
            if !canonical.is_empty() {
                canonical.push('&');
            }
            canonical.extend([name, "=", value]);
        }
        canonical
    }
}

/// Decodes the path of a request once: `%2F` is a slash, `+` stays. Nothing is normalised.
///
/// # Errors
/// `InvalidURI` when it is not UTF-8.
pub(crate) fn decode_path(raw: &str) -> Result<String, S3Failure> {
    decode(raw)
}

/// The path as a signature has it: decoded once and encoded once. Clients differ in what they
/// leave unencoded on the way.
pub(super) fn canonical_path(raw: &str) -> String {
    let decoded: Vec<u8> = percent_decode_str(raw).collect();
    percent_encode(&decoded, ENCODED_IN_PATH).to_string()
}

fn decode(text: &str) -> Result<String, S3Failure> {
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| S3Failure::new(S3ErrorCode::InvalidURI))?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded_once() {
        let query = S3Query::parse(Some("uploads&prefix=a+b%2B%2525&&x=1=2")).unwrap();
        assert_eq!(query.get("uploads"), Some(""));
        assert_eq!(query.get("prefix"), Some("a b+%25"));
        assert_eq!(query.get("x"), Some("1=2"));
        assert!(!query.contains("Uploads"));
        let code = S3Query::parse(Some("a=%ff")).map_err(|failure| failure.code);
        assert_eq!(code, Err(S3ErrorCode::InvalidURI));
    }

    #[test]
    fn g13_fields_that_a_presigned_url_carries_are_fields() {
        let query = "X-Amz-Date=1&x-amz-meta-a=1&X-Amz-Meta-B=a+b&x-amz-acl=private&prefix=x\
            &x-amz-sdk-checksum-algorithm=CRC32&x-amz-meta-c=%0A";
        let query = S3Query::parse(Some(query)).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-acl", HeaderValue::from_static("public-read"));
        let all = query.with_moved_fields(&headers).unwrap();
        assert_eq!(all["x-amz-meta-a"], "1");
        assert_eq!(all["x-amz-meta-b"], "a b");
        assert_eq!(all["x-amz-acl"], "public-read");
        assert_eq!(all.len(), 3);
        let query = S3Query::parse(Some("X-Amz-Date=1&x-id=GetObject")).unwrap();
        assert_eq!(query.with_moved_fields(&headers), None);
    }

    #[test]
    fn a_canonical_query_is_sorted_by_encoded_names_and_values() {
        let query = S3Query::parse(Some("b=2&a-=1&a=2&X-Amz-Signature=f&a=10&c&a%2F=%7e")).unwrap();
        assert_eq!(query.canonical(), "a=10&a=2&a%2F=~&a-=1&b=2&c=");
    }

    #[test]
    fn a_canonical_path_is_not_normalised() {
        for (sent, canonical) in [
            ("/b//a/../k", "/b//a/../k"),
            ("/b/a%20b+%7E~", "/b/a%20b%2B~~"),
            ("/b/%2525%2F(", "/b/%2525/%28"),
            ("/b/%C3%BC%ff", "/b/%C3%BC%FF"),
            ("/", "/"),
        ] {
            assert_eq!(canonical_path(sent), canonical);
        }
    }
}
