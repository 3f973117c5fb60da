//! Which resource a URL names, whatever its signature; this decides, between two runs, whether a
//! file belongs to a URL.
//!
//! Lists of signed URLs are signed anew for each run, and a file that was fetched with yesterday's signature
//! is today's file. So the query parameters of the well-known signatures are left out: they sign a path (or
//! the rest of the query), which is what names the object. All other parameters count, even those that may be
//! secret: two URLs with two values of `key` or `token` may well be two files. The scheme does not count: a
//! list that was moved from http to https names the same files.
//!
//! A partial file is another matter: before bytes are added to it, the origin's validators must agree. So for it the parameters of all
//! tokens and terms are left out ([`ResourceId::without_tokens`], row A37).

use std::fmt;

use sha2::{Digest, Sha256};
use url::{Position, Url};

/// Prefixes of the parameters that S3 and GCS use for signatures.
const SIGNATURE_PREFIXES: [&str; 2] = ["x-amz-", "x-goog-"];

/// Parameters that are a signature only together: the ones that must be there, and all that then belong to
/// it. CloudFront, the older signatures of S3, GCS and OSS; Azure.
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

/// Parameters of links that open a file for a while, besides those of signatures: of nginx, Akamai, Fastly, and of many a program.
const TOKEN_PARAMETERS: [&str; 28] = [
    "__gda__",
    "__token__",
    "access_token",
    "auth",
    "auth_key",
    "expiration",
    "expire",
    "expires",
    "expiry",
    "exp",
    "hdnea",
    "hdntl",
    "hdnts",
    "hmac",
    "jwt",
    "key-pair-id",
    "md5",
    "policy",
    "se",
    "sig",
    "sign",
    "signature",
    "st",
    "token",
    "token_path",
    "validfrom",
    "validto",
    "verify",
];

/// A resource, identified by 64 bits of a digest. Nothing can be read back from it, and logins and signatures
/// are not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceId([u8; 8]);

impl ResourceId {
    /// The resource of a URL.
    #[must_use]
    pub fn from_url(url: &Url) -> Self {
        Self::without_parameters(url, is_signature_parameter)
    }

    /// The resource of a URL whatever its signature, token or term: for bytes that are kept only if validators agree, too.
    #[must_use]
    pub fn without_tokens(url: &Url) -> Self {
        Self::without_parameters(url, |names, name| {
            TOKEN_PARAMETERS.contains(&name) || is_signature_parameter(names, name)
        })
    }

    fn without_parameters(url: &Url, is_left_out: impl Fn(&[String], &str) -> bool) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(&url[Position::BeforeHost..Position::AfterPath]);
        if let Some(query) = url.query() {
            let names: Vec<String> = query.split('&').map(parameter_name).collect();
            let parameters = query.split('&').zip(&names);
            for (parameter, _) in parameters.filter(|(_, name)| !is_left_out(&names, name)) {
                hasher.update("&");
                hasher.update(parameter);
            }
        }
        let digest = hasher.finalize();
        Self(std::array::from_fn(|at| digest[at]))
    }

    /// Parses the text of [`Display`](fmt::Display); `None` for any other text.
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

/// The name of a query parameter, in lower case.
fn parameter_name(parameter: &str) -> String {
    let name = parameter
        .split_once('=')
        .map_or(parameter, |(name, _)| name);
    name.to_ascii_lowercase()
}

/// Whether a parameter belongs to a signature, given the `names` of all parameters.
fn is_signature_parameter(names: &[String], name: &str) -> bool {
    let has = |wanted: &&str| names.iter().any(|name| name == wanted);
    SIGNATURE_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || SIGNATURE_GROUPS
            .iter()
            .any(|(required, all)| all.contains(&name) && required.iter().all(has))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(text: &str) -> ResourceId {
        ResourceId::from_url(&Url::parse(text).unwrap())
    }

    #[test]
    fn signature_parameters_do_not_count_and_all_others_do() {
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
            assert_eq!(id(first), id(second), "{first} {second}");
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
            assert_ne!(id(first), id(second), "{first} {second}");
        }
    }

    #[test]
    fn a37_tokens_and_terms_do_not_count_for_a_partial_file_and_all_else_does() {
        let id = |text: &str| ResourceId::without_tokens(&Url::parse(text).unwrap());
        for (first, second) in [
            ("https://h.test/p?sig=1", "https://h.test/p?sig=2"),
            ("https://h.test/p?sig=1", "https://h.test/p"),
            (
                "https://h.test/p?id=7&Token=1&expires=3",
                "https://h.test/p?id=7&token=2&expires=4",
            ),
            (
                "https://h.test/p?md5=a&expires=1",
                "https://h.test/p?md5=b&expires=2",
            ),
            (
                "https://h.test/p?hdnts=exp=1~hmac=2",
                "https://h.test/p?hdnts=exp=3~hmac=4",
            ),
            (
                "https://h.test/p?X-Goog-Signature=1&X-Goog-Date=2",
                "https://h.test/p?X-Goog-Signature=3&X-Goog-Date=4",
            ),
            (
                "https://h.test/p?sv=1&st=2&se=3&sr=b&sp=r&sig=4",
                "https://h.test/p?sv=1&st=5&se=6&sr=b&sp=r&sig=7",
            ),
        ] {
            assert_eq!(id(first), id(second), "{first} {second}");
        }
        for (first, second) in [
            ("https://h.test/p?sig=1", "https://h.test/q?sig=1"),
            ("https://h.test/p?id=1&sig=1", "https://h.test/p?id=2&sig=1"),
            ("https://h.test/p?key=1", "https://h.test/p?key=2"),
            ("https://h.test/p?sig=1", "https://i.test/p?sig=1"),
        ] {
            assert_ne!(id(first), id(second), "{first} {second}");
        }
    }

    proptest! {
        #[test]
        fn a_written_id_is_parsed_and_other_text_is_not(bytes: [u8; 8], other in ".{0,20}") {
            let id = ResourceId(bytes);
            prop_assert_eq!(ResourceId::parse(&id.to_string()), Some(id));
            let read = ResourceId::parse(&other).map(|id| id.to_string());
            prop_assert!(read.is_none_or(|text| text == other));
        }
    }
}
