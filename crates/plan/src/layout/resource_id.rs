//! Which resource a URL names, whoever signed it and whenever: what tells, between two runs, whose a file is.
//!
//! Lists of signed URLs are signed anew for each run, and a file that was fetched by yesterday's signature is today's file. So
//! what the well-known ways of signing put into a query is left out: they sign a path (or the rest of the query), which is what names
//! the object. Everything else of a query counts, also what may be a secret: two URLs with two values of `key` or `token` may
//! well be two files. The scheme does not count, for a list that was moved from http to https names the same files.

use std::fmt;

use sha2::{Digest, Sha256};
use url::{Position, Url};

/// Beginnings of names that S3 and GCS keep for signatures.
const SIGNATURE_PREFIXES: [&str; 2] = ["x-amz-", "x-goog-"];

/// Names that mean a signature only together: those that say so, and all that stand with them. CloudFront, the older ways of S3,
/// GCS and OSS; Azure.
const SIGNATURE_GROUPS: [(&[&str], &[&str]); 2] = [
    (
        &["signature", "expires"],
        &[
            "signature",
            "expires",
            "key-pair-id",
            "policy",
            "awsaccesskeyid",
            "googleaccessid",
            "ossaccesskeyid",
        ],
    ),
    (
        &["sig", "se", "sv"],
        &[
            "sig", "se", "sv", "st", "sp", "sr", "spr", "sip", "skoid", "sktid", "skt", "ske",
            "sks", "skv",
        ],
    ),
];

/// A resource, known by 64 bits of a digest. Holds nothing that could be read back, and of a login or signature not even that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceId([u8; 8]);

impl ResourceId {
    /// That of a URL.
    #[must_use]
    pub fn from_url(url: &Url) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(&url[Position::BeforeHost..Position::AfterPath]);
        if let Some(query) = url.query() {
            let names: Vec<String> = query.split('&').map(parameter_name).collect();
            let signed = |name: &str| is_signature_parameter(&names, name);
            let pairs = query.split('&').zip(&names);
            for (pair, _) in pairs.filter(|(_, name)| !signed(name)) {
                hasher.update("&");
                hasher.update(pair);
            }
        }
        let sum = hasher.finalize();
        Self(std::array::from_fn(|at| sum[at]))
    }

    /// One that was written down by [`Display`](fmt::Display); `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = u64::from_str_radix(text, 16).ok();
        number
            .map(|number| Self(number.to_be_bytes()))
            .filter(|id| id.to_string() == text)
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The name in a pair of a query, in lower case.
fn parameter_name(pair: &str) -> String {
    let name = pair.split_once('=').map_or(pair, |(name, _)| name);
    name.to_ascii_lowercase()
}

/// Whether a name belongs to a signature, beside those others.
fn is_signature_parameter(names: &[String], name: &str) -> bool {
    let has = |wanted: &&str| names.iter().any(|name| name == wanted);
    SIGNATURE_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || SIGNATURE_GROUPS
            .iter()
            .any(|(marks, all)| all.contains(&name) && marks.iter().all(has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> ResourceId {
        ResourceId::from_url(&Url::parse(text).unwrap())
    }

    #[test]
    fn a_signature_does_not_count_and_all_else_does() {
        for (first, second) in [
            (
                "https://b.test/p.jpg?X-Amz-Date=1&X-Amz-Signature=a",
                "https://b.test/p.jpg?X-Amz-Date=2&X-Amz-Signature=b",
            ),
            (
                "https://b.test/p.jpg?x=1&Expires=1&Signature=a",
                "https://b.test/p.jpg?x=1&Signature=b&Expires=2&Key-Pair-Id=k",
            ),
            (
                "https://b.test/p.jpg?sv=1&se=2&sig=3&sp=r",
                "https://b.test/p.jpg?sv=1&se=3&sig=4",
            ),
            ("http://me:pw@h.test/p.jpg#x", "https://h.test/p.jpg"),
        ] {
            assert_eq!(of(first), of(second), "{first} {second}");
        }
        for (first, second) in [
            ("https://h.test/a/p.jpg", "https://h.test/b/p.jpg"),
            ("https://h.test/p.jpg", "https://i.test/p.jpg"),
            ("https://h.test/p.jpg", "https://h.test:8/p.jpg"),
            ("https://h.test/get?id=1", "https://h.test/get?id=2"),
            ("https://h.test/get?key=1", "https://h.test/get?key=2"),
            ("https://h.test/get?token=1", "https://h.test/get?token=2"),
            (
                "https://h.test/get?expires=1",
                "https://h.test/get?expires=2",
            ),
            (
                "https://h.test/get?sp=1&sig=1",
                "https://h.test/get?sp=2&sig=1",
            ),
        ] {
            assert_ne!(of(first), of(second), "{first} {second}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_down_is_read_back(bytes: [u8; 8], other in ".{0,20}") {
            let id = ResourceId(bytes);
            prop_assert_eq!(ResourceId::parse(&id.to_string()), Some(id));
            let read = ResourceId::parse(&other).map(|id| id.to_string());
            prop_assert!(read.is_none_or(|text| text == other));
        }
    }
}
