//! What fuzz targets need of this crate: parsers of requests and of their bodies. Not an interface for anything else.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use haul_plan::Checksum;
use http::HeaderMap;
use http::request::Parts;

use crate::tags::check_tags;
use crate::xml::{
    XmlDocument, parse_complete_upload, parse_create_bucket, parse_delete, parse_tagging,
};
use crate::{
    AwsChunkedDecoder, BodyExpectations, PayloadMode, S3AuthRequest, S3Authentication, S3Failure,
    S3Operation, S3Options, S3Query, S3ResponseIds, StreamingPayload,
};

#[derive(Debug)]
pub struct RefusedRequest {
    pub message: String,
    /// The error's document.
    pub document: String,
}

/// An object to delete: its key and its version.
pub type DeletedObject = (String, Option<String>);

/// The bytes that were decoded, and the names and values of the trailer or why the body is refused.
pub type DecodedBody = (Vec<u8>, Result<Vec<(String, String)>, String>);

fn authenticate(
    options: &S3Options,
    head: &Parts,
    now: SystemTime,
) -> Result<S3Authentication, S3Failure> {
    let query = S3Query::parse(head.uri.query())?;
    options.authenticator.authenticate(&S3AuthRequest {
        method: &head.method,
        uri: &head.uri,
        headers: &head.headers,
        query: &query,
        now,
    })
}

/// The access key that signed a request, whose head is also read for what it says of the body; `None` if it is not signed.
///
/// # Errors
/// The signature is refused.
pub fn access_key(
    options: &S3Options,
    head: &Parts,
    now: SystemTime,
) -> Result<Option<String>, RefusedRequest> {
    match authenticate(options, head, now) {
        Ok(S3Authentication::Anonymous) => Ok(None),
        Ok(S3Authentication::Signed(identity)) => {
            drop(BodyExpectations::parse(&head.headers, identity.payload));
            Ok(Some(identity.access_key))
        }
        Err(failure) => {
            let ids = S3ResponseIds {
                request_id: "1",
                host_id: "2",
            };
            Err(RefusedRequest {
                message: failure.message().to_owned(),
                document: failure.document(head.uri.path(), ids),
            })
        }
    }
}

/// Reads what a request asks for. The header fields are returned with those that the query carries; `None` if the query cannot be decoded.
#[must_use]
pub fn operation(options: &S3Options, head: &Parts) -> Option<HeaderMap> {
    let Parts {
        method,
        uri,
        headers,
        ..
    } = head;
    let _ = options.serves(method, headers, uri);
    let _ = options.is_http_upload(method, headers, uri);
    let query = S3Query::parse(uri.query()).ok()?;
    let headers = query
        .with_moved_fields(headers)
        .unwrap_or_else(|| headers.clone());
    if let Ok(target) = options.target(&headers, uri) {
        drop(S3Operation::parse(method, &target, &query, &headers));
    }
    if let Ok(payload) = PayloadMode::anonymous(&headers) {
        drop(BodyExpectations::parse(&headers, payload));
    }
    Some(headers)
}

/// The bucket and the key that a request copies.
#[must_use]
pub fn copy_source(headers: &HeaderMap) -> Option<(String, String)> {
    crate::parse_copy_source(headers).ok()
}

/// The range that a request copies of an object of `len` bytes.
#[must_use]
pub fn copied_range(text: &str, len: u64) -> Option<Range<u64>> {
    crate::copied_range(text, len).ok()
}

/// Whether tags in a header field can be read, and if so whether an object may have them.
#[must_use]
pub fn header_tags(value: &[u8]) -> Option<bool> {
    let tags = crate::parse_tag_header(value).ok()?;
    Some(check_tags(&tags).is_ok())
}

/// Whether tags in a document can be read, and if so whether an object may have them.
#[must_use]
pub fn document_tags(document: &[u8]) -> Option<bool> {
    let tags = parse_tagging(document).ok()?;
    Some(check_tags(&tags).is_ok())
}

/// The number of the part that a query names.
#[must_use]
pub fn part_number(query: Option<&str>) -> Option<u16> {
    let query = S3Query::parse(query).ok()?;
    crate::parse_part_number(query.get("partNumber")?).ok()
}

/// Decodes a body in aws-chunked that arrives in pieces. With `signer`, the head of a request and when it arrives, its chunks continue the
/// signature of that head; `None` if that is not one of such a body.
pub fn decode_chunked<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    length: u64,
    signer: Option<(&S3Options, &Parts, SystemTime)>,
) -> Option<DecodedBody> {
    let payload = match signer {
        Some((options, head, now)) => match authenticate(options, head, now) {
            Ok(S3Authentication::Signed(identity)) => match identity.payload {
                PayloadMode::Streaming(payload) => payload,
                _ => return None,
            },
            _ => return None,
        },
        None => StreamingPayload {
            signatures: None,
            has_trailer: true,
        },
    };
    let mut decoded = Vec::new();
    let trailer = decode(
        AwsChunkedDecoder::new(payload, length),
        pieces,
        &mut decoded,
    );
    Some((decoded, trailer.map_err(|failure| failure.to_string())))
}

fn decode<'a>(
    mut decoder: AwsChunkedDecoder,
    pieces: impl Iterator<Item = &'a [u8]>,
    decoded: &mut Vec<u8>,
) -> Result<Vec<(String, String)>, S3Failure> {
    for piece in pieces {
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(bytes) = decoder.decode(&mut input)? {
            decoded.extend_from_slice(&bytes);
        }
    }
    let trailer = decoder.finish()?;
    Ok(trailer
        .into_iter()
        .map(|field| (field.name, field.value))
        .collect())
}

/// The numbers of the parts that complete an upload, and their checksums.
#[must_use]
pub fn complete_upload(document: &[u8]) -> Option<Vec<(u16, Vec<Checksum>)>> {
    let parts = parse_complete_upload(document).ok()?;
    Some(
        parts
            .into_iter()
            .map(|part| (part.number, part.checksums))
            .collect(),
    )
}

/// The region of a new bucket, if the document can be read and names one.
#[must_use]
pub fn create_bucket(document: &[u8]) -> Option<String> {
    parse_create_bucket(document).ok()?
}

#[must_use]
pub fn delete(document: &[u8]) -> Option<Vec<DeletedObject>> {
    let request = parse_delete(document).ok()?;
    Some(
        request
            .objects
            .into_iter()
            .map(|object| (object.key, object.version_id))
            .collect(),
    )
}

/// A document that asks to delete these objects.
#[must_use]
pub fn delete_document(objects: &[DeletedObject]) -> String {
    let mut document = XmlDocument::new("Delete");
    for (key, version_id) in objects {
        document.open("Object");
        document.text("Key", key);
        document.optional("VersionId", version_id.as_deref());
        document.close();
    }
    document.finish()
}
