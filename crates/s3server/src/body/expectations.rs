//! What a request's head says about its body.
//!
//! A field that cannot be read is refused before the body is asked for: a client that sends a
//! checksum wants its bytes compared with it, so nothing may be stored unchecked.

use haul_plan::DigestAlgorithm;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};

use super::algorithms::{checksum_algorithm_of_name, checksum_field};
use crate::{PayloadMode, S3ErrorCode, S3Failure, StreamingPayload};

/// Fields that begin like a checksum and say something about it.
const CHECKSUM_PREFIX: &str = "x-amz-checksum-";
const CHECKSUM_ATTRIBUTES: [&str; 3] = ["algorithm", "mode", "type"];

/// The coding that is S3's own, and never stored.
const AWS_CHUNKED: &str = "aws-chunked";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnnouncedChecksum {
    Header(DigestAlgorithm, Vec<u8>),
    /// In a field that follows the body.
    Trailer(DigestAlgorithm),
}

/// What the body of a request must be.
#[derive(Debug)]
pub(crate) struct BodyExpectations {
    /// How the body is signed.
    pub payload: PayloadMode,
    pub content_md5: Option<Vec<u8>>,
    /// At most one, as S3 has it.
    pub checksum: Option<AnnouncedChecksum>,
    /// Bytes of the object, if the head says so: Content-Length, or
    /// `x-amz-decoded-content-length` for aws-chunked.
    pub length: Option<u64>,
}

impl AnnouncedChecksum {
    pub(crate) fn algorithm(&self) -> DigestAlgorithm {
        match self {
            Self::Header(algorithm, _) | Self::Trailer(algorithm) => *algorithm,
        }
    }
}

impl BodyExpectations {
    /// Parses the fields of a request that has a body.
    ///
    /// # Errors
    /// `InvalidDigest` for Content-MD5, `MissingContentLength` for aws-chunked without the decoded
    /// length, `InvalidRequest` for the other fields.
    pub(crate) fn parse(headers: &HeaderMap, payload: PayloadMode) -> Result<Self, S3Failure> {
        let checksum = match (header_checksum(headers)?, trailer_checksum(headers)?) {
            (Some(_), Some(_)) => return Err(several_checksums()),
            (in_header, in_trailer) => in_header.or(in_trailer),
        };
        check_sdk_algorithm(headers, checksum.as_ref())?;
        let length = match &payload {
            PayloadMode::Streaming(_) => Some(decoded_length(headers)?),
            _ => text(headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok()),
        };
        Ok(Self {
            payload,
            content_md5: content_md5(headers)?,
            checksum,
            length,
        })
    }

    /// How an aws-chunked body is signed, and its decoded length.
    pub(crate) fn take_streaming(&mut self) -> Option<(StreamingPayload, u64)> {
        match std::mem::replace(&mut self.payload, PayloadMode::Unsigned) {
            PayloadMode::Streaming(streaming) => Some((streaming, self.length.unwrap_or(0))),
            other => {
                self.payload = other;
                None
            }
        }
    }
}

/// Content-Encoding as it is stored: without aws-chunked, which is about the request alone. `None`
/// if nothing is left.
pub(crate) fn stored_content_encoding(headers: &HeaderMap) -> Option<String> {
    let values: Vec<&str> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let codings = values.iter().flat_map(|value| value.split(','));
    let kept: Vec<&str> = codings
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(AWS_CHUNKED))
        .collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn invalid(message: impl Into<String>) -> S3Failure {
    S3Failure::with_message(S3ErrorCode::InvalidRequest, message.into())
}

fn several_checksums() -> S3Failure {
    invalid("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
}

fn content_md5(headers: &HeaderMap) -> Result<Option<Vec<u8>>, S3Failure> {
    let Some(value) = headers.get("content-md5") else {
        return Ok(None);
    };
    let value = value.to_str().unwrap_or_default();
    match DigestAlgorithm::Md5.decode_base64(value) {
        Some(digest) => Ok(Some(digest)),
        None => Err(S3Failure::new(S3ErrorCode::InvalidDigest).element("Content-MD5", value)),
    }
}

fn field_algorithm(field: &str) -> Option<DigestAlgorithm> {
    checksum_algorithm_of_name(field.strip_prefix(CHECKSUM_PREFIX)?)
}

/// The checksum in the header: its field, its algorithm, and the value as it was sent.
///
/// # Errors
/// `InvalidRequest` for several, `NotImplemented` for an algorithm that S3 does not have.
pub(crate) fn checksum_in_header(
    headers: &HeaderMap,
) -> Result<Option<(&str, DigestAlgorithm, &str)>, S3Failure> {
    let mut found = None;
    for (name, value) in headers {
        let Some(kind) = name.as_str().strip_prefix(CHECKSUM_PREFIX) else {
            continue;
        };
        if CHECKSUM_ATTRIBUTES.contains(&kind) {
            continue;
        }
        let Some(algorithm) = field_algorithm(name.as_str()) else {
            // The client relies on a check that cannot be made.
            let message = format!("Checksums of the kind {kind} are not implemented.");
            return Err(S3Failure::with_message(
                S3ErrorCode::NotImplemented,
                message,
            ));
        };
        let value = value.to_str().unwrap_or_default();
        if found.replace((name.as_str(), algorithm, value)).is_some() {
            return Err(several_checksums());
        }
    }
    Ok(found)
}

/// The checksum in the header, decoded.
fn header_checksum(headers: &HeaderMap) -> Result<Option<AnnouncedChecksum>, S3Failure> {
    let Some((field, algorithm, value)) = checksum_in_header(headers)? else {
        return Ok(None);
    };
    match algorithm.decode_base64(value) {
        Some(digest) => Ok(Some(AnnouncedChecksum::Header(algorithm, digest))),
        None => Err(invalid(format!("Value for {field} header is invalid."))),
    }
}

/// The checksum that `x-amz-trailer` announces. S3 takes no other fields there.
fn trailer_checksum(headers: &HeaderMap) -> Result<Option<AnnouncedChecksum>, S3Failure> {
    let mut found = None;
    for value in headers.get_all("x-amz-trailer") {
        let names = value.to_str().unwrap_or("?").split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            let algorithm = field_algorithm(&name.to_ascii_lowercase()).ok_or_else(|| {
                invalid("The value specified in the x-amz-trailer header is not supported")
            })?;
            if found
                .replace(AnnouncedChecksum::Trailer(algorithm))
                .is_some()
            {
                return Err(several_checksums());
            }
        }
    }
    Ok(found)
}

/// Compares what a client's library says it computes with what it sends.
fn check_sdk_algorithm(
    headers: &HeaderMap,
    checksum: Option<&AnnouncedChecksum>,
) -> Result<(), S3Failure> {
    let field = "x-amz-sdk-checksum-algorithm";
    let Some(name) = headers.get(field) else {
        return Ok(());
    };
    let named = checksum_algorithm_of_name(name.to_str().unwrap_or_default());
    match (named, checksum) {
        (Some(_), None) => Err(invalid(format!(
            "{field} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
        ))),
        (Some(named), Some(checksum)) if named == checksum.algorithm() => Ok(()),
        _ => Err(invalid(format!("Value for {field} header is invalid."))),
    }
}

fn decoded_length(headers: &HeaderMap) -> Result<u64, S3Failure> {
    let field = "x-amz-decoded-content-length";
    let value = headers
        .get(field)
        .ok_or(S3ErrorCode::MissingContentLength)?
        .to_str()
        .unwrap_or_default();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let length = value.parse().ok().filter(|_| is_number);
    length.ok_or_else(|| S3Failure::invalid_argument(field, value, "It is not a length."))
}

/// The field of an algorithm that S3 has.
pub(super) fn field_of(algorithm: DigestAlgorithm) -> &'static str {
    checksum_field(algorithm).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        let mut headers = HeaderMap::new();
        fields.iter().map(field).for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn parse(fields: &[(&'static str, &'static str)]) -> Result<BodyExpectations, S3ErrorCode> {
        BodyExpectations::parse(&headers(fields), PayloadMode::Unsigned)
            .map_err(|failure| failure.code)
    }

    #[test]
    fn announced_digests_are_read() {
        let found = parse(&[
            ("content-md5", "kAFQmDzST7DWlj99KOF/cg=="),
            ("x-amz-checksum-crc32", "NSRBwg=="),
            ("x-amz-checksum-type", "FULL_OBJECT"),
            ("x-amz-checksum-algorithm", "CRC32"),
            ("x-amz-sdk-checksum-algorithm", "CRC32"),
            ("content-length", "3"),
        ])
        .unwrap();
        assert_eq!(found.content_md5.unwrap()[..2], [0x90, 0x01]);
        let digest = vec![0x35, 0x24, 0x41, 0xc2];
        let crc = AnnouncedChecksum::Header(DigestAlgorithm::Crc32, digest);
        assert_eq!((found.checksum, found.length), (Some(crc), Some(3)));
        let found = parse(&[("x-amz-trailer", " X-Amz-Checksum-Crc64nvme")]).unwrap();
        let trailer = AnnouncedChecksum::Trailer(DigestAlgorithm::Crc64Nvme);
        assert_eq!(found.checksum, Some(trailer));
        let none = parse(&[]).unwrap();
        assert_eq!(
            (none.checksum, none.content_md5, none.length),
            (None, None, None)
        );
    }

    #[test]
    fn g1_malformed_digests_are_refused_before_the_body() {
        use S3ErrorCode::{InvalidDigest, InvalidRequest, NotImplemented};
        let cases: [(&[(&str, &str)], S3ErrorCode); 14] = [
            (&[("content-md5", "")], InvalidDigest),
            (&[("content-md5", "kAFQmDzST7DWlj99KOF/cg")], InvalidDigest),
            (&[("content-md5", "NSRBwg==")], InvalidDigest),
            (&[("x-amz-checksum-crc32", "NSRBwg")], InvalidRequest),
            (&[("x-amz-checksum-crc32", "")], InvalidRequest),
            (&[("x-amz-checksum-sha256", "NSRBwg==")], InvalidRequest),
            (&[("x-amz-checksum-xxhash64", "x")], NotImplemented),
            (
                &[
                    ("x-amz-checksum-crc32", "NSRBwg=="),
                    ("x-amz-checksum-crc32c", "NSRBwg=="),
                ],
                InvalidRequest,
            ),
            (
                &[
                    ("x-amz-checksum-crc32", "NSRBwg=="),
                    ("x-amz-trailer", "x-amz-checksum-crc32"),
                ],
                InvalidRequest,
            ),
            (&[("x-amz-trailer", "x-amz-meta-a")], InvalidRequest),
            (
                &[("x-amz-trailer", "x-amz-checksum-crc32, x-amz-checksum-sha1")],
                InvalidRequest,
            ),
            (&[("x-amz-sdk-checksum-algorithm", "CRC32")], InvalidRequest),
            (&[("x-amz-sdk-checksum-algorithm", "CRC16")], InvalidRequest),
            (
                &[
                    ("x-amz-sdk-checksum-algorithm", "SHA1"),
                    ("x-amz-checksum-crc32", "NSRBwg=="),
                ],
                InvalidRequest,
            ),
        ];
        for (fields, expected) in cases {
            let fields: Vec<(&'static str, &'static str)> = fields.to_vec();
            assert_eq!(parse(&fields).map(drop), Err(expected), "{fields:?}");
        }
    }

    #[test]
    fn an_aws_chunked_body_needs_its_decoded_length() {
        let parse = |fields: &[(&'static str, &'static str)]| {
            let streaming = StreamingPayload {
                signatures: None,
                has_trailer: true,
            };
            BodyExpectations::parse(&headers(fields), PayloadMode::Streaming(streaming))
                .map(|found| found.length)
                .map_err(|failure| failure.code)
        };
        let missing = Err(S3ErrorCode::MissingContentLength);
        assert_eq!(parse(&[("content-length", "9")]), missing);
        assert_eq!(parse(&[("x-amz-decoded-content-length", "7")]), Ok(Some(7)));
        for wrong in ["", "-1", "+1", "x", "99999999999999999999"] {
            let code = parse(&[("x-amz-decoded-content-length", wrong)]);
            assert_eq!(code, Err(S3ErrorCode::InvalidArgument), "{wrong}");
        }
    }

    #[test]
    fn g3_aws_chunked_is_not_stored() {
        for (values, stored) in [
            (&["aws-chunked"][..], None),
            (&["gzip, aws-chunked"], Some("gzip")),
            (&["aws-chunked,gzip"], Some("gzip")),
            (&["AWS-Chunked", "br , gzip"], Some("br, gzip")),
            (&["gzip"], Some("gzip")),
            (&[""], None),
            (&[], None),
        ] {
            let fields: Vec<_> = values
                .iter()
                .map(|value| ("content-encoding", *value))
                .collect();
            let found = stored_content_encoding(&headers(&fields));
            assert_eq!(found.as_deref(), stored, "{values:?}");
        }
    }
}
