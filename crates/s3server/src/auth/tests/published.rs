//! The examples of the S3 API reference: "Signature Calculations for the Authorization Header",
//! "Using Query Parameters".

use haul_serve::access::AccessRight;

use super::*;

const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");

fn authorization(signed_headers: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20130524/us-east-1/s3/aws4_request,\
        SignedHeaders={signed_headers},Signature={signature}"
    )
}

fn get(target: &str, signature: &str) -> TestHead {
    let head = TestHead::new(
        Method::GET,
        target,
        &[
            HOST,
            ("x-amz-content-sha256", EMPTY_SHA256),
            ("x-amz-date", "20130524T000000Z"),
        ],
    );
    head.with(
        "authorization",
        &authorization("host;x-amz-content-sha256;x-amz-date", signature),
    )
}

#[test]
fn get_object_with_a_range() {
    let head = get("/test.txt", "").with("range", "bytes=0-9").with(
        "authorization",
        &authorization(
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
    );
    let identity = head.identity().unwrap();
    assert_eq!(identity.access_key, ACCESS_KEY);
    assert!(
        identity
            .permissions
            .allows(AccessRight::Read, "examplebucket")
    );
    assert!(
        !identity
            .permissions
            .allows(AccessRight::Write, "examplebucket")
    );
    assert!(matches!(identity.payload, PayloadMode::Sha256([0xe3, ..])));
}

#[test]
fn put_object() {
    let head = TestHead::new(
        Method::PUT,
        "/test$file.text",
        &[
            HOST,
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            (
                "x-amz-content-sha256",
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            ),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
    )
    .with(
        "authorization",
        &authorization(
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
    );
    assert!(head.identity().is_ok());
    let encoded = TestHead {
        target: "/test%24file.text".to_owned(),
        ..head
    };
    assert!(encoded.identity().is_ok(), "the same key");
}

#[test]
fn get_bucket_lifecycle() {
    let signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
    assert!(get("/?lifecycle", signature).identity().is_ok());
    assert!(get("/?lifecycle=", signature).identity().is_ok());
}

#[test]
fn list_objects() {
    let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
    assert!(get("/?max-keys=2&prefix=J", signature).identity().is_ok());
    assert!(get("/?prefix=J&max-keys=2", signature).identity().is_ok());
    let other = get("/?max-keys=2&prefix=K", signature).identity();
    assert_eq!(other.err(), Some(S3ErrorCode::SignatureDoesNotMatch));
}

#[test]
fn a_presigned_url() {
    let target = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
        &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let head = TestHead::new(Method::GET, target, &[HOST]);
    let identity = head.identity().unwrap();
    assert!(matches!(identity.payload, PayloadMode::Unsigned));
}

/// The heads of both chunked examples; their bodies are tested with the decoder.
pub(crate) fn chunked_upload(has_trailer: bool) -> PayloadMode {
    let (sha256, signature) = if has_trailer {
        (
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
        )
    } else {
        (
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        )
    };
    let mut head = TestHead::new(
        Method::PUT,
        "/examplebucket/chunkObject.txt",
        &[
            ("host", "s3.amazonaws.com"),
            ("content-encoding", "aws-chunked"),
            ("x-amz-content-sha256", sha256),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
    );
    let mut signed = "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
        x-amz-decoded-content-length;x-amz-storage-class"
        .to_owned();
    if has_trailer {
        head = head.with("x-amz-trailer", "x-amz-checksum-crc32c");
        signed = signed.replace("content-length;host", "host") + ";x-amz-trailer";
    } else {
        head = head.with("content-length", "66824")
    }
    let head = head.with("authorization", &authorization(&signed, signature));
    head.identity().unwrap().payload
}

#[test]
fn chunked_uploads() {
    for has_trailer in [false, true] {
        let PayloadMode::Streaming(streaming) = chunked_upload(has_trailer) else {
            panic!("the body is chunked");
        };
        assert_eq!(streaming.has_trailer, has_trailer);
        assert!(streaming.signatures.is_some());
    }
}
