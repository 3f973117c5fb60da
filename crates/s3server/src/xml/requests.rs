//! The documents that operations take: completing a multipart upload, deleting many objects, tags,
//! and the region of a new bucket.
//!
//! An unknown element is skipped, since clients send elements that are newer than a server. A known
//! one that is missing, wrong or there twice is `MalformedXML`.

use haul_plan::{Checksum, DigestAlgorithm};

use super::reader::{DocumentReader, malformed};
use crate::tags::{ObjectTag, check_tags};
use crate::{S3ErrorCode, S3Failure, checksum_algorithm_of_name};

/// Maximum bytes of the list of parts: 10,000 with two checksums each, indented.
pub(crate) const MAX_COMPLETE_DOCUMENT: usize = 4 << 20;

/// Maximum bytes of the list of keys to delete: 1,000 keys of 1,024 bytes with their elements, and
/// as much again for escapes.
pub(crate) const MAX_DELETE_DOCUMENT: usize = 2 << 20;

/// Maximum bytes of other documents.
pub(crate) const MAX_SMALL_DOCUMENT: usize = 64 << 10;

/// Maximum keys of one request.
const MAX_DELETED_KEYS: usize = 1000;

/// Maximum parts of an upload, and the highest part number.
const MAX_PART_NUMBER: u16 = 10_000;

/// A part in the list that completes an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedPart {
    /// From 1 to 10,000.
    pub number: u16,
    /// Without quotes.
    pub etag: String,
    /// The checksums that the client knows of the part.
    pub checksums: Vec<Checksum>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectToDelete {
    /// The key as sent.
    pub key: String,
    /// Delete only this version of the bytes. Without quotes; `*` is any.
    pub etag: Option<String>,
    /// A version of a bucket with versions. `null` is the only one that buckets without have.
    pub version_id: Option<String>,
}

/// A request to delete many objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeleteRequest {
    /// From 1 to 1,000.
    pub objects: Vec<ObjectToDelete>,
    /// Whether the response lists failures alone.
    pub quiet: bool,
}

/// The parts of `CompleteMultipartUpload`, in the order of the document, which the operation
/// checks.
///
/// # Errors
/// `MalformedXML`, also without a part; `InvalidRequest` without a document; `InvalidArgument` for a number out of
/// range.
pub(crate) fn parse_complete_upload(document: &[u8]) -> Result<Vec<CompletedPart>, S3Failure> {
    if document.trim_ascii().is_empty() {
        let message = "You must specify at least one part";
        return Err(S3Failure::with_message(
            S3ErrorCode::InvalidRequest,
            message,
        ));
    }
    let root = "CompleteMultipartUpload";
    let mut reader = DocumentReader::begin(document, MAX_COMPLETE_DOCUMENT, root)?;
    let mut parts = Vec::new();
    while let Some(name) = reader.next_child()? {
        match name.as_str() {
            "Part" if parts.len() < usize::from(MAX_PART_NUMBER) => {
                parts.push(parse_part(&mut reader)?);
            }
            "Part" => return Err(malformed()),
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    if parts.is_empty() {
        Err(malformed())
    } else {
        Ok(parts)
    }
}

fn parse_part(reader: &mut DocumentReader<'_>) -> Result<CompletedPart, S3Failure> {
    let (mut number, mut etag, mut checksums) = (None, None, Vec::new());
    while let Some(name) = reader.next_child()? {
        match name.as_str() {
            "PartNumber" => set(&mut number, part_number(&reader.text()?)?)?,
            "ETag" => set(&mut etag, unquoted(&reader.text()?))?,
            name => match checksum_algorithm(name) {
                Some(algorithm) => checksums.push(checksum(algorithm, &reader.text()?)?),
                None => reader.skip()?,
            },
        }
    }
    Ok(CompletedPart {
        number: number.ok_or_else(malformed)?,
        etag: etag.ok_or_else(malformed)?,
        checksums,
    })
}

fn part_number(text: &str) -> Result<u16, S3Failure> {
    let number: i64 = text.trim().parse().map_err(|_| malformed())?;
    let number = u16::try_from(number).ok();
    number
        .filter(|number| (1..=MAX_PART_NUMBER).contains(number))
        .ok_or_else(|| {
            let message = "Part number must be an integer between 1 and 10000, inclusive";
            S3Failure::invalid_argument("partNumber", text.trim(), message)
        })
}

/// The algorithm of an element such as `ChecksumCRC32`.
fn checksum_algorithm(element: &str) -> Option<DigestAlgorithm> {
    checksum_algorithm_of_name(element.strip_prefix("Checksum")?)
}

fn checksum(algorithm: DigestAlgorithm, text: &str) -> Result<Checksum, S3Failure> {
    let digest = algorithm.decode_base64(text);
    Ok(Checksum {
        algorithm,
        digest: Some(digest.ok_or(S3ErrorCode::InvalidPart)?),
    })
}

/// The keys of `DeleteObjects`.
///
/// # Errors
/// `MalformedXML`, also without a key or with more than 1,000.
pub(crate) fn parse_delete(document: &[u8]) -> Result<DeleteRequest, S3Failure> {
    let mut reader = DocumentReader::begin(document, MAX_DELETE_DOCUMENT, "Delete")?;
    let (mut objects, mut quiet) = (Vec::new(), None);
    while let Some(name) = reader.next_child()? {
        match name.as_str() {
            "Object" if objects.len() < MAX_DELETED_KEYS => {
                objects.push(parse_object(&mut reader)?);
            }
            "Object" => return Err(malformed()),
            "Quiet" => set(&mut quiet, boolean(&reader.text()?)?)?,
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    if objects.is_empty() {
        return Err(malformed());
    }
    Ok(DeleteRequest {
        objects,
        quiet: quiet.unwrap_or(false),
    })
}

fn parse_object(reader: &mut DocumentReader<'_>) -> Result<ObjectToDelete, S3Failure> {
    let (mut key, mut etag, mut version_id) = (None, None, None);
    while let Some(name) = reader.next_child()? {
        match name.as_str() {
            "Key" => set(&mut key, reader.text()?)?,
            "ETag" => set(&mut etag, unquoted(&reader.text()?))?,
            "VersionId" => set(&mut version_id, reader.text()?)?,
            _ => reader.skip()?,
        }
    }
    Ok(ObjectToDelete {
        // Blanks count: they are part of a key.
        key: key
            .filter(|key: &String| !key.is_empty())
            .ok_or_else(malformed)?,
        etag,
        version_id,
    })
}

/// The tags of `PutObjectTagging`, in their order.
///
/// # Errors
/// `MalformedXML`, `InvalidTag`, or `BadRequest` for too many.
pub(crate) fn parse_tagging(document: &[u8]) -> Result<Vec<ObjectTag>, S3Failure> {
    let mut reader = DocumentReader::begin(document, MAX_SMALL_DOCUMENT, "Tagging")?;
    let mut tags = None;
    while let Some(name) = reader.next_child()? {
        match name.as_str() {
            "TagSet" => set(&mut tags, parse_tag_set(&mut reader)?)?,
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    let tags = tags.ok_or_else(malformed)?;
    check_tags(&tags)?;
    Ok(tags)
}

fn parse_tag_set(reader: &mut DocumentReader<'_>) -> Result<Vec<ObjectTag>, S3Failure> {
    let mut tags = Vec::new();
    while let Some(name) = reader.next_child()? {
        if name != "Tag" {
            reader.skip()?;
            continue;
        }
        let (mut key, mut value) = (None, None);
        while let Some(name) = reader.next_child()? {
            match name.as_str() {
                "Key" => set(&mut key, reader.text()?)?,
                "Value" => set(&mut value, reader.text()?)?,
                _ => reader.skip()?,
            }
        }
        tags.push(ObjectTag {
            key: key.ok_or_else(malformed)?,
            value: value.ok_or_else(malformed)?,
        });
    }
    Ok(tags)
}

/// The region of `CreateBucketConfiguration`; `None` for an empty body or none in it.
///
/// # Errors
/// `MalformedXML`.
pub(crate) fn parse_create_bucket(document: &[u8]) -> Result<Option<String>, S3Failure> {
    if document.trim_ascii().is_empty() {
        return Ok(None);
    }
    let root = "CreateBucketConfiguration";
    let mut reader = DocumentReader::begin(document, MAX_SMALL_DOCUMENT, root)?;
    let mut region = None;
    while let Some(name) = reader.next_child()? {
        match name.as_str() {
            "LocationConstraint" => set(&mut region, reader.text()?.trim().to_owned())?,
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    Ok(region.filter(|region| !region.is_empty()))
}

/// Sets what may be there once.
fn set<T>(place: &mut Option<T>, value: T) -> Result<(), S3Failure> {
    match place.replace(value) {
        Some(_) => Err(malformed()),
        None => Ok(()),
    }
}

fn boolean(text: &str) -> Result<bool, S3Failure> {
    match text.trim() {
        "true" | "TRUE" | "True" | "1" => Ok(true),
        "false" | "FALSE" | "False" | "0" => Ok(false),
        _ => Err(malformed()),
    }
}

/// An entity tag without its quotes: clients send it with and without.
fn unquoted(text: &str) -> String {
    text.trim().trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, S3Failure>) -> Option<S3ErrorCode> {
        result.err().map(|failure| failure.code)
    }

    #[test]
    fn a_list_of_parts_is_read() {
        let document = "<?xml version=\"1.0\"?>\
            <CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Part><ETag>&quot;abc&quot;</ETag><PartNumber> 1 </PartNumber>\
            <ChecksumCRC32>NSRBwg==</ChecksumCRC32></Part>\
            <Part><PartNumber>10000</PartNumber><Newer><X/></Newer><ETag>def</ETag></Part>\
            </CompleteMultipartUpload>";
        let parts = parse_complete_upload(document.as_bytes()).unwrap();
        assert_eq!((parts[0].number, parts[0].etag.as_str()), (1, "abc"));
        assert_eq!(
            parts[0].checksums,
            ["crc32:352441c2".parse::<Checksum>().unwrap()]
        );
        assert_eq!((parts[1].number, parts[1].etag.as_str()), (10_000, "def"));
    }

    #[test]
    fn g7_a_malformed_list_of_parts_is_refused() {
        let list = |parts: &str| {
            let document = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
            code(parse_complete_upload(document.as_bytes()))
        };
        let part =
            |number: &str| format!("<Part><PartNumber>{number}</PartNumber><ETag>a</ETag></Part>");
        assert_eq!(list(&part("1")), None);
        let malformed = Some(S3ErrorCode::MalformedXML);
        assert_eq!(list(""), malformed, "no part");
        let nothing = code(parse_complete_upload(b""));
        assert_eq!(nothing, Some(S3ErrorCode::InvalidRequest));
        assert_eq!(list(&part("x")), malformed);
        assert_eq!(list(&part("")), malformed);
        assert_eq!(list("<Part><ETag>a</ETag></Part>"), malformed);
        assert_eq!(list("<Part><PartNumber>1</PartNumber></Part>"), malformed);
        let twice =
            "<Part><PartNumber>1</PartNumber><PartNumber>2</PartNumber><ETag>a</ETag></Part>";
        assert_eq!(list(twice), malformed);
        for number in ["0", "-1", "10001", "70000"] {
            let expected = Some(S3ErrorCode::InvalidArgument);
            assert_eq!(list(&part(number)), expected, "{number}");
        }
        let checksum =
            "<Part><PartNumber>1</PartNumber><ETag>a</ETag><ChecksumSHA1>x</ChecksumSHA1></Part>";
        assert_eq!(list(checksum), Some(S3ErrorCode::InvalidPart));
        assert_eq!(list(&part("1").repeat(10_000)), None);
        assert_eq!(list(&part("1").repeat(10_001)), malformed);
    }

    #[test]
    fn keys_to_delete_are_read() {
        let document = b"<Delete><Quiet>true</Quiet>\
            <Object><Key> a&#10;b </Key><ETag>\"e\"</ETag></Object>\
            <Object><Key>c</Key><VersionId>null</VersionId><Size>3</Size></Object></Delete>";
        let request = parse_delete(document).unwrap();
        assert!(request.quiet);
        assert_eq!(request.objects[0].key, " a\nb ");
        assert_eq!(request.objects[0].etag.as_deref(), Some("e"));
        assert_eq!(request.objects[1].version_id.as_deref(), Some("null"));
        let list = |objects: &str| {
            code(parse_delete(
                format!("<Delete>{objects}</Delete>").as_bytes(),
            ))
        };
        let malformed = Some(S3ErrorCode::MalformedXML);
        assert_eq!(list(""), malformed);
        assert_eq!(list("<Object/>"), malformed);
        assert_eq!(list("<Object><Key></Key></Object>"), malformed);
        assert_eq!(
            list("<Quiet>maybe</Quiet><Object><Key>a</Key></Object>"),
            malformed
        );
        let object = "<Object><Key>a</Key></Object>";
        assert_eq!(list(&object.repeat(1000)), None);
        assert_eq!(list(&object.repeat(1001)), malformed);
    }

    #[test]
    fn tags_are_read_and_limited() {
        let tagging = |tags: &str| {
            let document = format!("<Tagging><TagSet>{tags}</TagSet></Tagging>");
            parse_tagging(document.as_bytes())
        };
        let tag =
            |key: &str, value: &str| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>");
        let tags = tagging(&tag("a&#64;", "1")).unwrap();
        assert_eq!((tags[0].key.as_str(), tags[0].value.as_str()), ("a@", "1"));
        assert_eq!(
            code(tagging(&tag("a&amp;", "1"))),
            Some(S3ErrorCode::InvalidTag)
        );
        assert_eq!(tagging("").unwrap(), []);
        let long = |length: usize| "é".repeat(length);
        assert_eq!(code(tagging(&tag(&long(128), &long(256)))), None);
        for wrong in [
            tag("", "1"),
            tag(&long(129), ""),
            tag("a", &long(257)),
            tag("a", "1") + &tag("a", "2"),
        ] {
            assert_eq!(
                code(tagging(&wrong)),
                Some(S3ErrorCode::InvalidTag),
                "{wrong}"
            );
        }
        let many: String = (0..11).map(|n| tag(&n.to_string(), "")).collect();
        assert_eq!(code(tagging(&many)), Some(S3ErrorCode::BadRequest));
        let malformed = Some(S3ErrorCode::MalformedXML);
        assert_eq!(code(parse_tagging(b"<Tagging></Tagging>")), malformed);
        assert_eq!(code(tagging("<Tag><Key>a</Key></Tag>")), malformed);
    }

    #[test]
    fn the_region_of_a_new_bucket_is_read() {
        assert_eq!(parse_create_bucket(b" "), Ok(None));
        let root = |inner: &str| {
            let name = "CreateBucketConfiguration";
            parse_create_bucket(format!("<{name}>{inner}</{name}>").as_bytes())
        };
        assert_eq!(root(""), Ok(None));
        let region = "<LocationConstraint>eu-west-1</LocationConstraint>";
        assert_eq!(root(region), Ok(Some("eu-west-1".to_owned())));
        assert_eq!(
            code(root("<LocationConstraint>")),
            Some(S3ErrorCode::MalformedXML)
        );
    }
}
