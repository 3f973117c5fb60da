//! Digests that an origin announces: Repr-Digest and Content-Digest (RFC 9530), Digest (RFC 3230),
//! Content-MD5 (RFC 1864) and the `x-amz-checksum-*` fields (row A26).
//!
//! Fields about the representation hold for the file even in a partial response; fields about the content do
//! so only in a whole one. Malformed values are left out: an origin's odd header must not fail a download
//! that is otherwise right.

use http::HeaderMap;

use crate::checksum::{Checksum, DigestAlgorithm};

/// A digest that the file must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigest {
    pub algorithm: DigestAlgorithm,
    /// Most significant byte first.
    pub digest: Vec<u8>,
    /// The name of the field that announced it, for messages.
    pub field: &'static str,
}

/// Every digest that a response head announces for the whole file. `is_whole`: the body is the whole file, in
/// a 200 or in a 206 that has every byte.
#[must_use]
pub fn expected_digests(headers: &HeaderMap, is_whole: bool) -> Vec<ExpectedDigest> {
    let mut found = Vec::new();
    // Most responses announce none, which one look at the names shows.
    if !headers.keys().any(|name| is_about_digests(name.as_str())) {
        return found;
    }
    for field in ["Repr-Digest", "Digest"] {
        read_list(headers, field, &mut found);
    }
    if is_whole {
        read_list(headers, "Content-Digest", &mut found);
        // S3's checksum of the parts' checksums (row F9).
        let is_composite = headers
            .get("x-amz-checksum-type")
            .is_some_and(|kind| kind == "COMPOSITE");
        read_single(headers, "Content-MD5", DigestAlgorithm::Md5, &mut found);
        for algorithm in DigestAlgorithm::ALL.into_iter().filter(|_| !is_composite) {
            if let Some(names) = algorithm.s3() {
                read_single(headers, names.field, algorithm, &mut found);
            }
        }
    }
    found
}

/// The digests of a file that a redirect to it names (RFC 6249 6, and the field that Hugging Face has for that), if they are strong enough to
/// identify a version of it (row A44).
#[must_use]
pub fn redirect_digests(headers: &HeaderMap) -> Vec<ExpectedDigest> {
    let mut found = Vec::new();
    for field in ["Repr-Digest", "Digest"] {
        read_list(headers, field, &mut found);
    }
    let is_strong =
        |algorithm| matches!(algorithm, DigestAlgorithm::Sha256 | DigestAlgorithm::Sha512);
    found.retain(|expected| is_strong(expected.algorithm));
    found.extend(linked_etag(headers));
    found
}

/// An entity tag that is the SHA-256 of the file. Those of other files are other digests, and shorter.
fn linked_etag(headers: &HeaderMap) -> Option<ExpectedDigest> {
    let field = "X-Linked-Etag";
    let value = headers.get(field)?.to_str().ok()?.trim();
    let hex = value.trim_start_matches("W/").trim_matches('"');
    let checksum: Checksum = format!("sha256:{hex}").parse().ok()?;
    Some(ExpectedDigest {
        algorithm: DigestAlgorithm::Sha256,
        digest: checksum.digest?,
        field,
    })
}

fn is_about_digests(name: &str) -> bool {
    name.ends_with("digest") || name == "content-md5" || name.starts_with("x-amz-checksum-")
}

/// Reads a list of `name=value`; the newer fields write the value between colons.
fn read_list(headers: &HeaderMap, field: &'static str, found: &mut Vec<ExpectedDigest>) {
    for value in headers.get_all(field) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let Some((name, value)) = item.split_once('=') else {
                continue;
            };
            let Some(algorithm) = DigestAlgorithm::from_registered_name(name.trim()) else {
                continue;
            };
            let value = value.split(';').next().unwrap_or_default().trim();
            let value = value
                .strip_prefix(':')
                .and_then(|v| v.strip_suffix(':'))
                .unwrap_or(value);
            push(value, field, algorithm, found);
        }
    }
}

/// Reads a field that is one base64 value. S3 writes `VALUE-N` for a digest of digests, which says nothing
/// about the file.
fn read_single(
    headers: &HeaderMap,
    field: &'static str,
    algorithm: DigestAlgorithm,
    found: &mut Vec<ExpectedDigest>,
) {
    if let Some(value) = headers.get(field).and_then(|value| value.to_str().ok()) {
        push(value, field, algorithm, found);
    }
}

fn push(
    value: &str,
    field: &'static str,
    algorithm: DigestAlgorithm,
    found: &mut Vec<ExpectedDigest>,
) {
    let digest = algorithm.decode_base64(value);
    found.extend(digest.map(|digest| ExpectedDigest {
        algorithm,
        digest,
        field,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn expected(
        name: &'static str,
        value: &str,
        is_whole: bool,
    ) -> Vec<(DigestAlgorithm, &'static str)> {
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
        expected_digests(&headers, is_whole)
            .into_iter()
            .map(|e| (e.algorithm, e.field))
            .collect()
    }

    /// The example of RFC 9530.
    const SHA256: &str = "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=";
    const MD5: &str = "HUXZLQLMuI/KZ5KDcJPcOA==";

    #[test]
    fn a26_fields_of_the_representation_hold_for_partial_responses_too() {
        let newer = format!("sha-256=:{SHA256}:, unknown=:YQ==:");
        assert_eq!(
            expected("repr-digest", &newer, false),
            [(DigestAlgorithm::Sha256, "Repr-Digest")]
        );
        let older = format!("SHA-256={SHA256},md5={MD5}");
        assert_eq!(
            expected("digest", &older, false),
            [
                (DigestAlgorithm::Sha256, "Digest"),
                (DigestAlgorithm::Md5, "Digest")
            ]
        );
    }

    #[test]
    fn a44_a_redirect_names_strong_digests_alone() {
        let named = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).unwrap();
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
            redirect_digests(&headers)
                .into_iter()
                .map(|e| (e.digest.len(), e.field))
                .collect::<Vec<_>>()
        };
        let newer = format!("sha-256=:{SHA256}:");
        assert_eq!(named("repr-digest", &newer), [(32, "Repr-Digest")]);
        let older = format!("md5={MD5},SHA-256={SHA256}");
        assert_eq!(named("digest", &older), [(32, "Digest")]);
        let hex = "0a".repeat(32);
        for tag in [format!("\"{hex}\""), hex.clone(), format!("W/\"{hex}\"")] {
            assert_eq!(
                named("x-linked-etag", &tag),
                [(32, "X-Linked-Etag")],
                "{tag}"
            );
        }
        for tag in ["\"0a0b\"", &"0a".repeat(20), &"0g".repeat(32), "", "\""] {
            assert_eq!(named("x-linked-etag", tag), [], "{tag}");
        }
        // About the content of the redirect itself.
        assert_eq!(named("content-digest", &newer), []);
        assert_eq!(named("etag", &hex), []);
    }

    #[test]
    fn a26_fields_of_the_content_hold_for_whole_responses_only() {
        assert_eq!(expected("content-md5", MD5, false), []);
        assert_eq!(
            expected("content-md5", MD5, true),
            [(DigestAlgorithm::Md5, "Content-MD5")]
        );
        assert_eq!(
            expected("x-amz-checksum-sha256", SHA256, true),
            [(DigestAlgorithm::Sha256, "x-amz-checksum-sha256")]
        );
        assert_eq!(
            expected("content-digest", &format!("sha-256=:{SHA256}:"), false),
            []
        );
    }

    #[test]
    fn a26_digests_of_digests_and_junk_are_left_out() {
        assert_eq!(
            expected("x-amz-checksum-sha256", &format!("{SHA256}-3"), true),
            []
        );
        assert_eq!(expected("repr-digest", "sha-256=:c2hvcnQ=:", false), []);
        assert_eq!(expected("repr-digest", "sha-256", false), []);
    }

    proptest! {
        #[test]
        fn no_header_value_panics(bytes: Vec<u8>) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                headers.insert("repr-digest", value);
                let _ = expected_digests(&headers, true);
            }
        }
    }
}
