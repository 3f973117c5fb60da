//! Requests of S3 on the wire, and what they store. Clients of others send them in `tests/it/peers/s3`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use haul_s3server::{S3Authenticator, S3Dialect, S3Keys, S3Options};
use haul_serve::FileServerOptions;
use haul_serve::access::AccessRight;

use crate::client::{TestClient, TestResponse, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer};

/// A server of which everybody may demand anything of S3, with a bucket `b`.
fn start() -> TestServer {
    let keys = S3Keys::new(Vec::new()).unwrap();
    let s3 = S3Options {
        authenticator: S3Authenticator::new(keys, "us-east-1"),
        anonymous: Some(AccessRight::Write),
        is_http_on: false,
        domains: Vec::new(),
        upload_expiry: Duration::from_secs(3600),
    };
    let setup = ServerSetup {
        server: FileServerOptions {
            dialect: Some(Arc::new(S3Dialect::new(s3))),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let server = setup.start();
    fs::create_dir(server.root().join("b")).unwrap();
    server
}

fn send(
    server: &TestServer,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> TestResponse {
    let length = body.len().to_string();
    let fields = [fields, &[("Content-Length", length.as_str())]].concat();
    let mut client = TestClient::connect(server, TestTransport::Plain);
    client.send(request_head(method, path, &fields) + body);
    client.read_response_to(method)
}

fn element(response: &TestResponse, name: &str) -> String {
    let text = String::from_utf8(response.body.clone()).unwrap();
    let (_, rest) = text.split_once(&format!("<{name}>")).expect("the element");
    rest.split('<')
        .next()
        .unwrap_or_default()
        .replace("&quot;", "\"")
}

#[test]
fn g7_a_part_is_copied_from_exactly_the_range_that_was_named() {
    let server = start();
    let bytes = "0123456789abcdefghij";
    fs::write(server.root().join("b/from"), bytes).unwrap();
    for (range, expected) in [
        (Some("bytes=5-9"), &bytes[5..10]),
        (Some("bytes=0-0"), &bytes[..1]),
        (Some("bytes=19-19"), &bytes[19..]),
        (None, bytes),
    ] {
        let id = element(&send(&server, "POST", "/b/to?uploads", &[], ""), "UploadId");
        let mut fields = vec![("x-amz-copy-source", "/b/from")];
        fields.extend(range.map(|range| ("x-amz-copy-source-range", range)));
        let part = format!("/b/to?partNumber=1&uploadId={id}");
        let etag = element(&send(&server, "PUT", &part, &fields, ""), "ETag");
        let list = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let completed = send(&server, "POST", &format!("/b/to?uploadId={id}"), &[], &list);
        assert_eq!(completed.status, 200, "{completed:?}");
        let stored = fs::read_to_string(server.root().join("b/to")).unwrap();
        assert_eq!(stored, expected, "{range:?}");
    }
    for range in ["bytes=0-20", "bytes=20-20", "bytes=5-4"] {
        let id = element(&send(&server, "POST", "/b/to?uploads", &[], ""), "UploadId");
        let fields = [
            ("x-amz-copy-source", "/b/from"),
            ("x-amz-copy-source-range", range),
        ];
        let refused = send(
            &server,
            "PUT",
            &format!("/b/to?partNumber=1&uploadId={id}"),
            &fields,
            "",
        );
        assert!(
            (400..=416).contains(&refused.status),
            "{range}: {refused:?}"
        );
    }
}
