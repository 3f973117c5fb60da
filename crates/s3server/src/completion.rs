//! What completes an upload in parts: which parts, and what the object is that they make.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_digest::{Crc32, Crc32c, Crc64Nvme, DigestSet, hex};
use haul_plan::{DigestAlgorithm, decode_hex};
use haul_serve::store::{
    ObjectAttributes, ObjectChecksum, ObjectPart, StoredPart, StoredUploadInfo,
};
use http::HeaderMap;

use super::xml::CompletedPart;
use super::{S3ErrorCode, S3Failure, checksum_algorithm_of_name};

/// Minimum bytes of all parts but the last.
const MIN_PART: u64 = 5 << 20;

/// The number of a part, in the query.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn parse_part_number(text: &str) -> Result<u16, S3Failure> {
    let number = text.parse::<u16>().ok();
    let number = number.filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| {
        let message = "Part number must be an integer between 1 and 10000, inclusive";
        S3Failure::invalid_argument("partNumber", text, message)
    })
}

/// The header fields without checksums: those of a request that completes an upload are about the object, and not
/// about the document.
pub(crate) fn without_checksums(headers: &HeaderMap) -> HeaderMap {
    let is_checksum =
        |name: &str| name.starts_with("x-amz-checksum-") || name == "x-amz-sdk-checksum-algorithm";
    headers
        .iter()
        .filter(|(name, _)| !is_checksum(name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The parts that a client lists, as they are stored.
///
/// # Errors
/// `InvalidPartOrder`, `InvalidPart`, `EntityTooSmall`; `BadDigest` and `InvalidRequest` for checksums of parts.
pub(crate) fn chosen_parts(
    listed: &[CompletedPart],
    info: &StoredUploadInfo,
    stored: &BTreeMap<u16, StoredPart>,
) -> Result<Vec<StoredPart>, S3Failure> {
    if !listed.is_sorted_by(|one, next| one.number < next.number) {
        return Err(S3ErrorCode::InvalidPartOrder.into());
    }
    let mut parts = Vec::with_capacity(listed.len());
    for (at, wanted) in listed.iter().enumerate() {
        let part = stored
            .get(&wanted.number)
            .filter(|part| part.etag == wanted.etag)
            .ok_or_else(|| invalid_part(wanted))?;
        check_part(wanted, info, part)?;
        if at + 1 < listed.len() && part.len < MIN_PART {
            return Err(S3Failure::new(S3ErrorCode::EntityTooSmall)
                .element("PartNumber", wanted.number.to_string())
                .element("ProposedSize", part.len.to_string())
                .element("MinSizeAllowed", MIN_PART.to_string()));
        }
        parts.push(part.clone());
    }
    Ok(parts)
}

fn invalid_part(wanted: &CompletedPart) -> S3Failure {
    S3Failure::new(S3ErrorCode::InvalidPart)
        .element("PartNumber", wanted.number.to_string())
        .element("ETag", &wanted.etag)
}

/// Compares the checksums that a client has of a part. A composite checksum needs each of them.
fn check_part(
    wanted: &CompletedPart,
    info: &StoredUploadInfo,
    part: &StoredPart,
) -> Result<(), S3Failure> {
    let algorithm = checksum_algorithm_of_name(&info.algorithm);
    let mut is_compared = false;
    for checksum in &wanted.checksums {
        if Some(checksum.algorithm) == algorithm {
            let digest = checksum.digest.as_deref().unwrap_or_default();
            if STANDARD.encode(digest) != part.checksum {
                return Err(invalid_part(wanted));
            }
            is_compared = true;
        } else if !info.has_default_checksum {
            let (name, number) = (checksum.algorithm.name(), wanted.number);
            let message = format!(
                "The {name} you specified for part {number} did not match what we received."
            );
            return Err(S3Failure::with_message(S3ErrorCode::BadDigest, message));
        }
    }
    if info.is_composite && !is_compared {
        let message = format!(
            "The upload was created using a {} checksum. The complete request must include the checksum for each \
             part. It was missing for part {} in the request.",
            info.algorithm.to_lowercase(),
            wanted.number,
        );
        return Err(S3Failure::with_message(
            S3ErrorCode::InvalidRequest,
            message,
        ));
    }
    Ok(())
}

/// The attributes of a complete object: its entity tag and checksum are made of those of its parts.
pub(crate) fn completed_attributes(
    upload_id: &str,
    info: &StoredUploadInfo,
    parts: &[StoredPart],
) -> ObjectAttributes {
    let md5 = parts
        .iter()
        .flat_map(|part| decode_hex(&part.etag).unwrap_or_default())
        .collect::<Vec<u8>>();
    let etag = digest_of(DigestAlgorithm::Md5, &md5);
    let part = |part: &StoredPart| ObjectPart {
        number: part.number,
        len: part.len,
        checksum: Some(part.checksum.clone()),
    };
    ObjectAttributes {
        etag: format!("{}-{}", hex(&etag), parts.len()),
        checksum: object_checksum(info, parts),
        parts: parts.iter().map(part).collect(),
        upload_id: Some(upload_id.to_owned()),
        ..info.attributes.clone()
    }
}

fn object_checksum(info: &StoredUploadInfo, parts: &[StoredPart]) -> Option<ObjectChecksum> {
    let algorithm = checksum_algorithm_of_name(&info.algorithm)?;
    let digests: Vec<(Vec<u8>, u64)> = parts
        .iter()
        .map(|part| Some((STANDARD.decode(&part.checksum).ok()?, part.len)))
        .collect::<Option<_>>()?;
    let value = if info.is_composite {
        let all = digests
            .into_iter()
            .flat_map(|(digest, _)| digest)
            .collect::<Vec<u8>>();
        format!(
            "{}-{}",
            STANDARD.encode(digest_of(algorithm, &all)),
            parts.len()
        )
    } else {
        let mut digests = digests.into_iter();
        let (first, _) = digests.next()?;
        let whole = digests.try_fold(first, |sum, (next, len)| {
            combine(algorithm, &sum, &next, len)
        });
        STANDARD.encode(whole?)
    };
    Some(ObjectChecksum {
        algorithm: info.algorithm.clone(),
        value,
        is_composite: info.is_composite,
    })
}

/// The CRC of two runs of bytes, from theirs; the second one has `len` bytes.
fn combine(algorithm: DigestAlgorithm, first: &[u8], second: &[u8], len: u64) -> Option<Vec<u8>> {
    let small = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let large = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
    Some(match algorithm {
        DigestAlgorithm::Crc32 => Crc32::combine(small(first)?, small(second)?, len)
            .to_be_bytes()
            .to_vec(),
        DigestAlgorithm::Crc32c => Crc32c::combine(small(first)?, small(second)?, len)
            .to_be_bytes()
            .to_vec(),
        DigestAlgorithm::Crc64Nvme => Crc64Nvme::combine(large(first)?, large(second)?, len)
            .to_be_bytes()
            .to_vec(),
        _ => return None,
    })
}

fn digest_of(algorithm: DigestAlgorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digests = DigestSet::new([algorithm]);
    digests.update(bytes);
    digests
        .finish()
        .pop()
        .map(|computed| computed.digest.to_vec())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(number: u16, bytes: &[u8], algorithm: DigestAlgorithm) -> StoredPart {
        let part = serde_json::json!({
            "number": number,
            "len": bytes.len(),
            "etag": hex(&digest_of(DigestAlgorithm::Md5, bytes)),
            "checksum": STANDARD.encode(digest_of(algorithm, bytes)),
            "modified": 0,
            "file": "data",
            "offset": 0,
        });
        serde_json::from_value(part).expect("a part")
    }

    fn listed(number: u16, etag: &str) -> CompletedPart {
        CompletedPart {
            number,
            etag: etag.to_owned(),
            checksums: Vec::new(),
        }
    }

    fn info(algorithm: &str, is_composite: bool) -> StoredUploadInfo {
        StoredUploadInfo {
            bucket: String::new(),
            key: String::new(),
            initiated: 0,
            attributes: ObjectAttributes::default(),
            algorithm: algorithm.to_owned(),
            is_composite,
            has_default_checksum: false,
        }
    }

    #[test]
    fn g7_parts_must_be_there_in_order_and_large_enough() {
        let mut large = stored(1, b"a", DigestAlgorithm::Crc32);
        large.len = MIN_PART;
        let small = stored(3, b"b", DigestAlgorithm::Crc32);
        let all = BTreeMap::from([(1, large.clone()), (3, small.clone())]);
        let choose = |parts: &[(u16, &str)]| {
            let parts: Vec<_> = parts
                .iter()
                .map(|(number, etag)| listed(*number, etag))
                .collect();
            chosen_parts(&parts, &info("CRC32", false), &all).map_err(|failure| failure.code)
        };
        let (first, last) = (large.etag.as_str(), small.etag.as_str());
        assert_eq!(
            choose(&[(1, first), (3, last)]),
            Ok(vec![large.clone(), small.clone()])
        );
        for (parts, expected) in [
            (&[(3, last), (1, first)][..], S3ErrorCode::InvalidPartOrder),
            (&[(1, first), (1, first)], S3ErrorCode::InvalidPartOrder),
            (&[(1, first), (2, last)], S3ErrorCode::InvalidPart),
            (&[(1, last)], S3ErrorCode::InvalidPart),
            (&[(3, last), (4, last)], S3ErrorCode::EntityTooSmall),
        ] {
            assert_eq!(choose(parts), Err(expected), "{parts:?}");
        }
        let mut other = listed(1, first);
        other.checksums = vec!["crc32:00000000".parse().expect("a checksum")];
        let failure =
            chosen_parts(&[other], &info("CRC32", false), &all).expect_err("another checksum");
        assert_eq!(failure.code, S3ErrorCode::InvalidPart);
    }

    #[test]
    fn g7_checksums_of_parts_are_those_of_the_upload() {
        let part = stored(1, b"a", DigestAlgorithm::Crc32);
        let all = BTreeMap::from([(1, part.clone())]);
        let crc = format!("crc32:{}", hex(&digest_of(DigestAlgorithm::Crc32, b"a")));
        let sha = format!("sha256:{}", hex(&digest_of(DigestAlgorithm::Sha256, b"a")));
        let choose = |checksums: &[&str], info: &StoredUploadInfo| {
            let mut wanted = listed(1, &part.etag);
            wanted.checksums = checksums
                .iter()
                .map(|text| text.parse().expect("a checksum"))
                .collect();
            let chosen = chosen_parts(&[wanted], info, &all);
            chosen.map(drop).map_err(|failure| failure.code)
        };
        let (composite, full) = (info("CRC32", true), info("CRC32", false));
        assert_eq!(choose(&[&crc], &composite), Ok(()));
        assert_eq!(choose(&[], &composite), Err(S3ErrorCode::InvalidRequest));
        assert_eq!(choose(&[], &full), Ok(()));
        assert_eq!(choose(&[&sha], &full), Err(S3ErrorCode::BadDigest));
        let default = StoredUploadInfo {
            has_default_checksum: true,
            ..info("CRC64NVME", false)
        };
        assert_eq!(choose(&[&crc], &default), Ok(()), "of the client alone");
    }

    proptest! {
        /// The checksum of the whole is that of its bytes, however they were cut.
        #[test]
        fn f8_checksums_of_parts_make_that_of_the_whole(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..6),
        ) {
            for algorithm in [DigestAlgorithm::Crc32, DigestAlgorithm::Crc32c, DigestAlgorithm::Crc64Nvme] {
                let name = crate::checksum_name(algorithm).expect("a name");
                let rows: Vec<_> = (1..).zip(&parts).map(|(number, bytes)| stored(number, bytes, algorithm)).collect();
                let object = completed_attributes("id", &info(name, false), &rows);
                let expected = STANDARD.encode(digest_of(algorithm, &parts.concat()));
                prop_assert_eq!(object.checksum.expect("a checksum").value, expected);
                let etags: Vec<u8> = parts.iter().flat_map(|part| digest_of(DigestAlgorithm::Md5, part)).collect();
                let etag = format!("{}-{}", hex(&digest_of(DigestAlgorithm::Md5, &etags)), parts.len());
                prop_assert_eq!(object.etag, etag);
            }
        }
    }
}
