//! Header fields that are stored with an object and come back with it, and its entity tag.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_digest::hex;
use haul_plan::serving::CurrentRepresentation;
use haul_plan::serving::{ConditionOutcome, RequestConditions};
use haul_plan::{DigestAlgorithm, EntityTag};
use haul_serve::store::{FileMetadata, ObjectAttributes, ObjectChecksum};
use http::header::{CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};

use crate::xml::XmlDocument;
use crate::{
    BodyDigests, S3ErrorCode, S3Failure, checksum_algorithm_of_name, checksum_element,
    checksum_name, checksum_type, parse_tag_header, stored_content_encoding,
};

/// Fields that are stored, beside those of the user's.
const STORED_FIELDS: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
];

/// Prefix of the user's own fields.
const USER_PREFIX: &str = "x-amz-meta-";

/// Maximum bytes of the user's fields, names without the prefix, and values.
const MAX_USER_BYTES: usize = 2048;

/// Maximum bytes of all stored fields, names and values. S3 takes headers of 8 KB.
const MAX_STORED_BYTES: usize = 8192;

/// The attributes that a request's header gives an object: its fields and tags.
pub(super) fn attributes_of_request(headers: &HeaderMap) -> Result<ObjectAttributes, S3Failure> {
    let mut stored = Vec::new();
    let mut user_bytes = 0;
    for name in headers.keys() {
        let text = name.as_str();
        let user_name = text.strip_prefix(USER_PREFIX);
        if user_name.is_none() && !STORED_FIELDS.contains(&text) {
            continue;
        }
        let value = if *name == CONTENT_ENCODING {
            stored_content_encoding(headers)
        } else {
            joined_values(headers, name)
        };
        let Some(value) = value.filter(|value| !value.is_empty() || user_name.is_some()) else {
            continue;
        };
        if let Some(user_name) = user_name {
            user_bytes += user_name.len() + value.len();
        }
        stored.push((text.to_owned(), value));
    }
    let stored_bytes = stored.iter().map(|(name, value)| name.len() + value.len());
    for (bytes, limit) in [
        (user_bytes, MAX_USER_BYTES),
        (stored_bytes.sum(), MAX_STORED_BYTES),
    ] {
        if bytes > limit {
            return Err(S3Failure::new(S3ErrorCode::MetadataTooLarge)
                .element("Size", bytes.to_string())
                .element("MaxSizeAllowed", limit.to_string()));
        }
    }
    Ok(ObjectAttributes {
        headers: stored,
        tags: tags_of_request(headers)?,
        ..ObjectAttributes::default()
    })
}

/// The values of a field as one. Bytes that are not ASCII stay, as UTF-8.
fn joined_values(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<Cow<'_, str>> = headers
        .get_all(name)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// The tags in `x-amz-tagging`.
fn tags_of_request(headers: &HeaderMap) -> Result<Vec<(String, String)>, S3Failure> {
    let Some(value) = headers.get("x-amz-tagging") else {
        return Ok(Vec::new());
    };
    let tags = parse_tag_header(value.as_bytes())?;
    Ok(tags.into_iter().map(|tag| (tag.key, tag.value)).collect())
}

/// Adds the entity tag and the checksum of a whole body.
pub(super) fn add_digests(attributes: &mut ObjectAttributes, digests: &BodyDigests) {
    attributes.etag = digests
        .get(DigestAlgorithm::Md5)
        .map(hex)
        .unwrap_or_default();
    let algorithm = digests.announced.unwrap_or(DigestAlgorithm::Crc64Nvme);
    attributes.checksum = digests.get(algorithm).and_then(|digest| {
        Some(ObjectChecksum {
            algorithm: checksum_name(algorithm)?.to_owned(),
            value: STANDARD.encode(digest),
            is_composite: false,
        })
    });
}

/// A stored field as a response has it. One of the user's that is not ASCII is an encoded word (RFC 2047), as
/// S3's user guide says ("Working with object metadata"): clients differ in what they make of other bytes.
pub(super) fn field_of_response<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    if name.starts_with(USER_PREFIX) && !value.is_ascii() {
        format!("=?UTF-8?B?{}?=", STANDARD.encode(value)).into()
    } else {
        value.into()
    }
}

/// Writes the checksum of an object, and its type.
pub(super) fn write_checksum(document: &mut XmlDocument, attributes: &ObjectAttributes) {
    if let Some(checksum) = &attributes.checksum
        && let Some(algorithm) = checksum_algorithm_of_name(&checksum.algorithm)
        && let Some(element) = checksum_element(algorithm)
    {
        document.text(element, &checksum.value);
        document.text("ChecksumType", checksum_type(checksum.is_composite));
    }
}

/// S3's entity tag of a version, without quotes. That of a file which did not come by S3 has a
/// hyphen, so that nobody takes it for an MD5.
pub(super) fn object_etag(metadata: &FileMetadata) -> String {
    match &metadata.attributes {
        Some(attributes) => attributes.etag.clone(),
        None => {
            let hash = blake3::hash(metadata.etag.to_string().as_bytes());
            format!("{}-0", hex(&hash.as_bytes()[..16]))
        }
    }
}

/// Whether the conditions of a write hold for the object that has the key.
pub(super) fn write_conditions_hold(
    conditions: &RequestConditions,
    metadata: Option<&FileMetadata>,
) -> bool {
    let etag = metadata.map(|metadata| EntityTag::new_strong(object_etag(metadata)));
    let current = metadata.map(|metadata| CurrentRepresentation {
        etag: etag.as_ref(),
        last_modified: Some(metadata.modified),
    });
    conditions.evaluate_write(current) == ConditionOutcome::Proceed
}

/// The failure of a request whose conditions do not hold; it names the first of them. `prefix` is that of their fields.
pub(super) fn precondition_failed(headers: &HeaderMap, prefix: &str) -> S3Failure {
    let failure = S3Failure::new(S3ErrorCode::PreconditionFailed);
    let mut conditions = [
        "If-Match",
        "If-None-Match",
        "If-Unmodified-Since",
        "If-Modified-Since",
    ]
    .iter()
    .map(|name| format!("{prefix}{name}"));
    match conditions.find(|name| headers.contains_key(name.as_str())) {
        Some(condition) => failure.element("Condition", condition),
        None => failure,
    }
}

/// Header fields of conditions, with quotes around the tags that clients send without.
pub(super) fn conditions_of(headers: &HeaderMap) -> RequestConditions {
    let is_bare = |value: &HeaderValue| {
        let text = value.as_bytes();
        !text.is_empty() && !text.contains(&b'"') && text != b"*"
    };
    let names = ["if-match", "if-none-match"];
    let is_changed = names
        .iter()
        .any(|name| headers.get(*name).is_some_and(is_bare));
    if !is_changed {
        return RequestConditions::parse(headers);
    }
    let mut quoted = headers.clone();
    for name in names {
        let Some(value) = headers.get(name).filter(|value| is_bare(value)) else {
            continue;
        };
        let text = [b"\"", value.as_bytes(), b"\""].concat();
        if let Ok(value) = HeaderValue::from_bytes(&text) {
            quoted.insert(name, value);
        }
    }
    RequestConditions::parse(&quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            (HeaderName::from_static(name), value)
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn g3_fields_of_the_object_are_stored_and_no_others() {
        let request = headers(&[
            ("content-encoding", "gzip, aws-chunked"),
            ("content-type", "text/x"),
            ("x-amz-meta-a", "ü"),
            ("x-amz-date", "now"),
            ("host", "h"),
            ("x-amz-tagging", "k=a%20b&l="),
        ]);
        let mut stored = attributes_of_request(&request).expect("attributes");
        stored.headers.sort();
        let expected = [
            ("content-encoding", "gzip"),
            ("content-type", "text/x"),
            ("x-amz-meta-a", "ü"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(stored.headers, expected);
        assert_eq!(stored.tags[0], ("k".to_owned(), "a b".to_owned()));
        for (name, most) in [
            ("x-amz-meta-a", MAX_USER_BYTES),
            ("cache-control", MAX_STORED_BYTES),
        ] {
            let long = "x".repeat(most);
            let failure = attributes_of_request(&headers(&[(name, &long)]));
            let code = failure.expect_err("too large").code;
            assert_eq!(code, S3ErrorCode::MetadataTooLarge);
        }
    }

    #[test]
    fn fields_of_the_user_are_ascii_in_a_response() {
        let encoded = field_of_response("x-amz-meta-a", "grün");
        assert_eq!(encoded, "=?UTF-8?B?Z3LDvG4=?=");
        assert_eq!(field_of_response("x-amz-meta-a", "plain"), "plain");
        assert_eq!(field_of_response("content-language", "ü"), "ü");
    }

    #[test]
    fn a_failed_condition_is_named() {
        let named = |name, prefix| {
            let failure = precondition_failed(&headers(&[(name, "x")]), prefix);
            failure.elements.first().map(|(_, text)| text.clone())
        };
        assert_eq!(named("if-none-match", ""), Some("If-None-Match".to_owned()));
        assert_eq!(
            named("x-amz-copy-source-if-match", "x-amz-copy-source-"),
            Some("x-amz-copy-source-If-Match".to_owned())
        );
        assert_eq!(named("range", ""), None);
    }

    #[test]
    fn tags_without_quotes_are_compared_too() {
        for text in ["abc", "\"abc\""] {
            let conditions = conditions_of(&headers(&[("if-match", text)]));
            let tag = EntityTag::new_strong("abc");
            let current = CurrentRepresentation {
                etag: Some(&tag),
                last_modified: None,
            };
            assert_eq!(
                conditions.evaluate_write(Some(current)),
                ConditionOutcome::Proceed
            );
        }
    }
}
