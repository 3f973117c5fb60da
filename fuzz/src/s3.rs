//! Both sides of S3: requests and their bodies, as the server reads them, and documents, as the client reads them.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use haul_net::RequestSecrets;
use haul_s3::{XmlNode, error_text, escaped_text};
use haul_serve::access::AccessRight;
use haul_serve::s3::xml::{
    XmlDocument, parse_complete_upload, parse_create_bucket, parse_delete, parse_tagging,
};
use haul_serve::s3::{
    AwsChunkedDecoder, BodyExpectations, PayloadMode, S3AuthRequest, S3Authentication,
    S3Authenticator, S3Failure, S3KeyRule, S3Keys, S3Operation, S3Options, S3Query, S3ResponseIds,
    StreamingPayload, TrailerField, check_tags, copied_range, parse_copy_source, parse_part_number,
    parse_tag_header,
};
use http::{HeaderMap, HeaderValue, Method, Uri, request};

use crate::input;

/// The head of a request whose chunks are signed: the inputs in `corpus/aws_chunked` continue its signature.
const CHUNKED_UPLOAD: &[u8] = include_bytes!("../corpus/s3_request/chunked-upload");

static OPTIONS: LazyLock<S3Options> = LazyLock::new(|| {
    let rule: S3KeyRule = "FUZZKEY:fuzzsecret:rw".parse().expect("a rule");
    let keys = S3Keys::new([rule]).expect("one secret for each key");
    S3Options {
        authenticator: S3Authenticator::new(keys, "us-east-1"),
        anonymous: Some(AccessRight::Read),
        is_http_on: true,
        domains: vec!["s3.example".to_owned()],
        upload_expiry: Duration::from_secs(3600),
    }
});

fn authenticate(head: &request::Parts) -> Result<S3Authentication, S3Failure> {
    let query = S3Query::parse(head.uri.query())?;
    OPTIONS.authenticator.authenticate(&S3AuthRequest {
        method: &head.method,
        uri: &head.uri,
        headers: &head.headers,
        query: &query,
        // 2026-01-01T00:00:30Z.
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_630),
    })
}

/// The head of a request: a signature in its header or its query is good for nothing else, and an error is a document.
pub(crate) fn request(data: &[u8]) {
    let Some(mut head) = input::request_head(data) else {
        return;
    };
    let authentication = authenticate(&head);
    match authentication {
        Ok(S3Authentication::Anonymous) => {}
        Ok(S3Authentication::Signed(identity)) => {
            assert_eq!(identity.access_key, "FUZZKEY");
            drop(BodyExpectations::parse(&head.headers, identity.payload));
            let other = if head.method == Method::PUT {
                Method::DELETE
            } else {
                Method::PUT
            };
            let method = std::mem::replace(&mut head.method, other);
            assert!(authenticate(&head).is_err(), "another method");
            head.method = method;
            let uri = head.uri.clone();
            let longer = format!("{}x?{}", uri.path(), uri.query().unwrap_or_default());
            head.uri = longer.parse::<Uri>().unwrap_or_default();
            assert!(authenticate(&head).is_err(), "another key");
            head.uri = uri;
            head.headers
                .append("x-amz-meta-other", HeaderValue::from_static("1"));
            assert!(authenticate(&head).is_err(), "a field that is not signed");
            head.headers.remove("x-amz-meta-other");
        }
        Err(failure) => assert_document(&failure, head.uri.path()),
    }
    let _ = OPTIONS.serves(&head.method, &head.headers, &head.uri);
    let _ = OPTIONS.is_http_upload(&head.method, &head.headers, &head.uri);
    let Ok(query) = S3Query::parse(head.uri.query()) else {
        return;
    };
    let headers = query
        .with_moved_fields(&head.headers)
        .unwrap_or(head.headers);
    if let Ok(target) = OPTIONS.target(&headers, &head.uri) {
        drop(S3Operation::parse(&head.method, &target, &query, &headers));
    }
    fields_of_request(&headers, &query);
}

fn fields_of_request(headers: &HeaderMap, query: &S3Query) {
    if let Ok((bucket, key)) = parse_copy_source(headers) {
        assert!(!bucket.is_empty() && !bucket.contains('/') && !key.is_empty());
    }
    if let Some(Ok(text)) = headers
        .get("x-amz-copy-source-range")
        .map(HeaderValue::to_str)
        && let Ok(range) = copied_range(text, 1000)
    {
        assert!(!range.is_empty() && range.end <= 1000);
    }
    if let Some(Ok(tags)) = headers
        .get("x-amz-tagging")
        .map(|value| parse_tag_header(value.as_bytes()))
    {
        assert!(check_tags(&tags).is_ok());
    }
    if let Some(Ok(number)) = query.get("partNumber").map(parse_part_number) {
        assert!((1..=10_000).contains(&number));
    }
    if let Ok(payload) = PayloadMode::anonymous(headers) {
        drop(BodyExpectations::parse(headers, payload));
    }
}

/// Checks that the client's parser reads an error, unless it has characters that XML cannot carry.
fn assert_document(failure: &S3Failure, resource: &str) {
    let ids = S3ResponseIds {
        request_id: "1",
        host_id: "2",
    };
    let document = failure.document(resource, ids);
    if document.contains("&#x") {
        return;
    }
    let root = XmlNode::parse(document.as_bytes()).expect("an error document");
    assert_eq!((&*root.name, root.text_of("Resource")), ("Error", resource));
    assert_eq!(root.text_of("Message"), failure.message());
}

/// A body in aws-chunked: a line with `signed` or `unsigned` and the length that it must have decoded, and the chunks. The pieces in which it
/// arrives make no difference, it has that length, and if it is signed it is the one body whose signatures these are.
pub(crate) fn aws_chunked(data: &[u8]) {
    let (line, body) = input::first_line(data);
    let line = input::text(line);
    let (kind, length) = line.split_once(' ').unwrap_or(("unsigned", &line));
    let length = length.trim().parse().unwrap_or(0);
    let is_signed = kind == "signed";
    let whole = unchunked(std::iter::once(body), length, is_signed);
    let in_pieces = unchunked(input::pieces(body), length, is_signed);
    assert!(whole.0.len() <= body.len() && whole.0.len() as u64 <= length);
    match (&whole.1, &in_pieces.1) {
        (Ok(_), Ok(_)) => assert_eq!(in_pieces, whole),
        (Err(_), Err(_)) => {}
        (whole, in_pieces) => panic!("{whole:?}, and in pieces {in_pieces:?}"),
    }
    if let Ok(trailer) = whole.1 {
        assert_eq!(whole.0.len() as u64, length);
        if is_signed {
            assert_eq!(whole.0, b"hello");
            assert_eq!(trailer.len(), 1);
        }
    }
}

/// The decoded bytes, and the trailer.
fn unchunked<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    length: u64,
    is_signed: bool,
) -> (Vec<u8>, Result<Vec<TrailerField>, String>) {
    let payload = match is_signed {
        true => signed_payload(),
        false => StreamingPayload {
            signatures: None,
            has_trailer: true,
        },
    };
    let mut decoder = AwsChunkedDecoder::new(payload, length);
    let mut decoded = Vec::new();
    for piece in pieces {
        let mut input = Bytes::copy_from_slice(piece);
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(bytes)) => decoded.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(failure) => return (decoded, Err(failure.to_string())),
            }
        }
    }
    let trailer = decoder.finish().map_err(|failure| failure.to_string());
    (decoded, trailer)
}

fn signed_payload() -> StreamingPayload {
    let head = input::request_head(CHUNKED_UPLOAD).expect("a head");
    match authenticate(&head) {
        Ok(S3Authentication::Signed(identity)) => match identity.payload {
            PayloadMode::Streaming(payload) => payload,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The documents of requests: limits hold, and keys to delete are the same when they are written and read again.
pub(crate) fn request_xml(data: &[u8]) {
    if let Ok(parts) = parse_complete_upload(data) {
        assert!((1..=10_000).contains(&parts.len()));
        for part in &parts {
            assert!((1..=10_000).contains(&part.number));
            for checksum in &part.checksums {
                assert_eq!(
                    checksum.digest.as_ref().map(Vec::len),
                    Some(checksum.algorithm.digest_len())
                );
            }
        }
    }
    if let Ok(tags) = parse_tagging(data) {
        assert!(check_tags(&tags).is_ok());
    }
    drop(parse_create_bucket(data));
    let Ok(request) = parse_delete(data) else {
        return;
    };
    assert!((1..=1000).contains(&request.objects.len()));
    let mut document = XmlDocument::new("Delete");
    for object in &request.objects {
        assert!(!object.key.is_empty());
        document.open("Object");
        document.text("Key", &object.key);
        document.optional("VersionId", object.version_id.as_deref());
        document.close();
    }
    let written = document.finish();
    // XML has no way to write most control characters.
    if written.contains("&#x") || written.len() > 2 << 20 {
        return;
    }
    let again = parse_delete(written.as_bytes()).expect("a document that was written");
    let keys = |objects: &[haul_serve::s3::xml::ObjectToDelete]| -> Vec<_> {
        objects
            .iter()
            .map(|object| (object.key.clone(), object.version_id.clone()))
            .collect()
    };
    assert_eq!(keys(&again.objects), keys(&request.objects));
}

/// A document of a store: it is not nested deeply, and is the same when it is written and read again.
pub(crate) fn response_xml(data: &[u8]) {
    let secrets = RequestSecrets::default();
    if let Some(text) = error_text(data, &secrets) {
        assert!(!text.is_empty());
    }
    let Ok(root) = XmlNode::parse(data) else {
        return;
    };
    assert!(depth(&root) <= 17);
    let mut written = String::new();
    if write(&root, &mut written) {
        assert_eq!(
            XmlNode::parse(written.as_bytes()).ok(),
            Some(root),
            "{written}"
        );
    }
}

fn depth(node: &XmlNode) -> usize {
    1 + node.children.iter().map(depth).max().unwrap_or(0)
}

/// Writes an element; false if its name is none that XML has.
fn write(node: &XmlNode, written: &mut String) -> bool {
    let is_name =
        !node.name.is_empty() && node.name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    written.extend(["<", &*node.name, ">", &*escaped_text(&node.text)]);
    let are_names = node.children.iter().all(|child| write(child, written));
    written.extend(["</", &*node.name, ">"]);
    is_name && are_names
}
