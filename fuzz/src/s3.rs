//! Both sides of S3: requests and their bodies, as the server reads them, and documents, as the client reads them.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use haul_net::RequestSecrets;
use haul_s3::{XmlNode, error_text, escaped_text};
use haul_s3server::fuzzing::{self, DecodedBody, RefusedRequest};
use haul_s3server::{S3Authenticator, S3KeyRule, S3Keys, S3Options};
use haul_serve::access::AccessRight;
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

/// 2026-01-01T00:00:30Z.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_630)
}

fn authenticate(head: &request::Parts) -> Result<Option<String>, RefusedRequest> {
    fuzzing::access_key(&OPTIONS, head, now())
}

/// The head of a request: a signature in its header or its query is good for nothing else, and an error is a document.
pub(crate) fn request(data: &[u8]) {
    let Some(mut head) = input::request_head(data) else {
        return;
    };
    match authenticate(&head) {
        Ok(None) => {}
        Ok(Some(access_key)) => {
            assert_eq!(access_key, "FUZZKEY");
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
        Err(refusal) => assert_document(&refusal, head.uri.path()),
    }
    if let Some(headers) = fuzzing::operation(&OPTIONS, &head) {
        fields_of_request(&headers, head.uri.query());
    }
}

fn fields_of_request(headers: &HeaderMap, query: Option<&str>) {
    if let Some((bucket, key)) = fuzzing::copy_source(headers) {
        assert!(!bucket.is_empty() && !bucket.contains('/') && !key.is_empty());
    }
    if let Some(Ok(text)) = headers
        .get("x-amz-copy-source-range")
        .map(HeaderValue::to_str)
        && let Some(range) = fuzzing::copied_range(text, 1000)
    {
        assert!(!range.is_empty() && range.end <= 1000);
    }
    if let Some(value) = headers.get("x-amz-tagging") {
        assert_ne!(fuzzing::header_tags(value.as_bytes()), Some(false));
    }
    if let Some(number) = fuzzing::part_number(query) {
        assert!((1..=10_000).contains(&number));
    }
}

/// Checks that the client's parser reads an error, unless it has characters that XML cannot carry.
fn assert_document(refusal: &RefusedRequest, resource: &str) {
    let document = &refusal.document;
    if document.contains("&#x") {
        return;
    }
    let root = XmlNode::parse(document.as_bytes()).expect("an error document");
    assert_eq!((&*root.name, root.text_of("Resource")), ("Error", resource));
    assert_eq!(root.text_of("Message"), refusal.message);
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

fn unchunked<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    length: u64,
    is_signed: bool,
) -> DecodedBody {
    let head = input::request_head(CHUNKED_UPLOAD).expect("a head");
    let signer = is_signed.then_some((&*OPTIONS, &head, now()));
    fuzzing::decode_chunked(pieces, length, signer).expect("a signed head")
}

/// The documents of requests: limits hold, and keys to delete are the same when they are written and read again.
pub(crate) fn request_xml(data: &[u8]) {
    if let Some(parts) = fuzzing::complete_upload(data) {
        assert!((1..=10_000).contains(&parts.len()));
        for (number, checksums) in &parts {
            assert!((1..=10_000).contains(number));
            for checksum in checksums {
                assert_eq!(
                    checksum.digest.as_ref().map(Vec::len),
                    Some(checksum.algorithm.digest_len())
                );
            }
        }
    }
    assert_ne!(fuzzing::document_tags(data), Some(false));
    let _ = fuzzing::create_bucket(data);
    let Some(objects) = fuzzing::delete(data) else {
        return;
    };
    assert!((1..=1000).contains(&objects.len()));
    assert!(objects.iter().all(|(key, _)| !key.is_empty()));
    let written = fuzzing::delete_document(&objects);
    // XML has no way to write most control characters.
    if written.contains("&#x") || written.len() > 2 << 20 {
        return;
    }
    let again = fuzzing::delete(written.as_bytes()).expect("a document that was written");
    assert_eq!(again, objects);
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
