//! Hashes a body and compares it with what was announced, in one pass.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_digest::{ComputedDigest, DigestSet, hex};
use haul_plan::DigestAlgorithm;

use super::algorithms::checksum_name;
use super::aws_chunked::TrailerField;
use super::expectations::{AnnouncedChecksum, BodyExpectations, field_of};
use crate::{PayloadMode, S3ErrorCode, S3Failure};

/// A body that is being hashed.
#[derive(Debug)]
pub(crate) struct BodyVerifier {
    digests: DigestSet,
    length: u64,
    expected_len: Option<u64>,
    /// `x-amz-content-sha256`.
    sha256: Option<[u8; 32]>,
    content_md5: Option<Vec<u8>>,
    checksum: Option<AnnouncedChecksum>,
}

/// The digests of a body that is as announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BodyDigests {
    /// Bytes of the body, decoded.
    pub length: u64,
    /// Which checksum the client sent.
    pub announced: Option<DigestAlgorithm>,
    digests: Vec<ComputedDigest>,
}

impl BodyDigests {
    /// The digest of an algorithm, if it was computed.
    pub(crate) fn get(&self, algorithm: DigestAlgorithm) -> Option<&[u8]> {
        let found = self
            .digests
            .iter()
            .find(|computed| computed.algorithm == algorithm);
        found.map(|computed| computed.digest.as_slice())
    }
}

impl BodyVerifier {
    /// Computes what `expectations` need, and the digests of `also`.
    pub(crate) fn new(
        expectations: BodyExpectations,
        also: impl IntoIterator<Item = DigestAlgorithm>,
    ) -> Self {
        let sha256 = match expectations.payload {
            PayloadMode::Sha256(digest) => Some(digest),
            PayloadMode::Unsigned | PayloadMode::Streaming(_) => None,
        };
        let announced = expectations.checksum.as_ref();
        let needed = [
            sha256.map(|_| DigestAlgorithm::Sha256),
            expectations
                .content_md5
                .as_ref()
                .map(|_| DigestAlgorithm::Md5),
            announced.map(AnnouncedChecksum::algorithm),
        ];
        Self {
            digests: DigestSet::new(needed.into_iter().flatten().chain(also)),
            length: 0,
            expected_len: expectations.length,
            sha256,
            content_md5: expectations.content_md5,
            checksum: expectations.checksum,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.digests.update(bytes);
    }

    /// Compares the whole body with what was announced, in its head and in its trailer.
    ///
    /// # Errors
    /// `IncompleteBody`, `XAmzContentSHA256Mismatch`, `BadDigest`; `MalformedTrailerError` when the
    /// trailer has other fields than announced.
    pub(crate) fn finish(self, trailer: &[TrailerField]) -> Result<BodyDigests, S3Failure> {
        if self
            .expected_len
            .is_some_and(|length| length != self.length)
        {
            return Err(S3ErrorCode::IncompleteBody.into());
        }
        let checksum = announced_checksum(self.checksum.as_ref(), trailer)?;
        let found = BodyDigests {
            length: self.length,
            announced: self.checksum.as_ref().map(AnnouncedChecksum::algorithm),
            digests: self.digests.finish(),
        };
        if let (Some(expected), Some(computed)) = (self.sha256, found.get(DigestAlgorithm::Sha256))
            && expected != computed
        {
            return Err(S3Failure::new(S3ErrorCode::XAmzContentSHA256Mismatch)
                .element("ClientComputedContentSHA256", hex(&expected))
                .element("S3ComputedContentSHA256", hex(computed)));
        }
        if let (Some(expected), Some(computed)) =
            (self.content_md5, found.get(DigestAlgorithm::Md5))
            && expected != computed
        {
            let message = "The Content-MD5 you specified did not match what was received.";
            return Err(bad_digest(message, &expected, computed));
        }
        if let Some((algorithm, expected)) = checksum
            && let Some(computed) = found.get(algorithm)
            && expected != computed
        {
            let name = checksum_name(algorithm).unwrap_or_default();
            let message =
                format!("The {name} you specified did not match the calculated checksum.");
            return Err(bad_digest(message, &expected, computed));
        }
        Ok(found)
    }
}

/// The checksum that was announced, from the head or the trailer.
fn announced_checksum(
    announced: Option<&AnnouncedChecksum>,
    trailer: &[TrailerField],
) -> Result<Option<(DigestAlgorithm, Vec<u8>)>, S3Failure> {
    let malformed = || S3Failure::new(S3ErrorCode::MalformedTrailerError);
    match (announced, trailer) {
        (Some(AnnouncedChecksum::Trailer(algorithm)), [field])
            if field.name == field_of(*algorithm) =>
        {
            let digest = algorithm.decode_base64(&field.value).ok_or_else(|| {
                let message = format!("Value for {} trailing header is invalid.", field.name);
                S3Failure::with_message(S3ErrorCode::InvalidRequest, message)
            })?;
            Ok(Some((*algorithm, digest)))
        }
        (Some(AnnouncedChecksum::Trailer(_)), _) => Err(malformed()),
        (Some(AnnouncedChecksum::Header(algorithm, digest)), []) => {
            Ok(Some((*algorithm, digest.clone())))
        }
        (None, []) => Ok(None),
        (_, [..]) => Err(malformed()),
    }
}

fn bad_digest(message: impl Into<String>, expected: &[u8], computed: &[u8]) -> S3Failure {
    S3Failure::with_message(S3ErrorCode::BadDigest, message.into())
        .element("ExpectedDigest", STANDARD.encode(expected))
        .element("CalculatedDigest", STANDARD.encode(computed))
}
