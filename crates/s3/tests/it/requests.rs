//! Each operation as it is on the wire, and what its response becomes.

use haul_lab::within;
use haul_net::RequestBody;
use haul_plan::{Checksum, DigestAlgorithm};
use haul_s3::{
    CopySource, MultipartUpload, ObjectListRequest, S3Address, S3Client, S3Error, UploadedPart,
};
use http::{HeaderMap, HeaderValue};

use crate::script::{LIMIT, ScriptedStore, config, connect, response};

/// Runs an operation whose response is this one, and returns its request and its result.
async fn exchange<T>(
    fields: &str,
    body: &str,
    operation: impl AsyncFnOnce(S3Client) -> Result<T, S3Error>,
) -> (String, T) {
    let server = ScriptedStore::start(vec![response("200 OK", fields, body)]).await;
    let client = connect(config(&server.url)).await;
    let result = within(LIMIT, Box::pin(operation(client))).await.unwrap();
    (server.only_request(), result)
}

fn object() -> S3Address {
    S3Address::new("bucket", "a folder/key+1")
}

fn upload() -> MultipartUpload {
    MultipartUpload {
        address: object(),
        upload_id: "id/+=".to_owned(),
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("text/plain"));
    headers.insert("x-amz-meta-a", HeaderValue::from_static("b"));
    headers
}

fn crc32c() -> Checksum {
    Checksum {
        algorithm: DigestAlgorithm::Crc32c,
        digest: Some(vec![1, 2, 3, 4]),
    }
}

#[tokio::test]
async fn put_object() {
    let fields = "ETag: \"e\"\r\nx-amz-version-id: v\r\n";
    let (request, stored) = exchange(fields, "", async |client| {
        let body = RequestBody::Bytes("hello".into());
        client.put_object(&object(), body, headers()).await
    })
    .await;
    assert_eq!(
        request,
        "PUT /bucket/a%20folder/key%2B1\n\
        content-length: 5\n\
        content-type: text/plain\n\
        x-amz-meta-a: b\n\
        hello"
    );
    assert_eq!(
        (&*stored.etag, stored.version_id.as_deref()),
        ("e", Some("v"))
    );
}

#[tokio::test]
async fn head_object() {
    let server = "ETag: \"e\"\r\nx-amz-storage-class: GLACIER\r\nx-amz-version-id: v\r\n";
    let (request, found) = exchange(server, "", async |client| {
        client.head_object(&object()).await
    })
    .await;
    assert_eq!(
        request,
        "HEAD /bucket/a%20folder/key%2B1\n\
        x-amz-checksum-mode: ENABLED\n\
        "
    );
    assert_eq!((&*found.etag, &*found.storage_class), ("e", "GLACIER"));
    assert_eq!(found.version_id.as_deref(), Some("v"));
}

#[tokio::test]
async fn object_tagging() {
    let document =
        "<Tagging><TagSet><Tag><Key>a b</Key><Value>c&amp;d</Value></Tag></TagSet></Tagging>";
    let (request, tags) = exchange("", document, async |client| {
        client.object_tagging(&object()).await
    })
    .await;
    assert_eq!(
        request,
        "GET /bucket/a%20folder/key%2B1?tagging=\n\
        x-amz-checksum-mode: ENABLED\n\
        "
    );
    assert_eq!(tags, "a+b=c%26d");
}

#[tokio::test]
async fn delete_object() {
    let (request, ()) =
        exchange("", "", async |client| client.delete_object(&object()).await).await;
    assert_eq!(
        request,
        "DELETE /bucket/a%20folder/key%2B1\n\
        "
    );
}

#[tokio::test]
async fn copy_object() {
    let document = "<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>";
    let (request, stored) = exchange("", document, async |client| {
        let source = CopySource {
            address: &S3Address::new("other", "x y"),
            if_match: Some("old"),
        };
        client.copy_object(source, &object(), headers()).await
    })
    .await;
    assert_eq!(
        request,
        "PUT /bucket/a%20folder/key%2B1\n\
        content-length: 0\n\
        content-type: text/plain\n\
        x-amz-copy-source: /other/x%20y\n\
        x-amz-copy-source-if-match: \"old\"\n\
        x-amz-meta-a: b\n\
        "
    );
    assert_eq!(stored.etag, "e");
}

#[tokio::test]
async fn create_multipart_upload() {
    let document =
        "<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>";
    let (request, upload) = exchange("", document, async |client| {
        client
            .create_multipart_upload(&object(), Some(DigestAlgorithm::Crc32c), headers())
            .await
    })
    .await;
    assert_eq!(
        request,
        "POST /bucket/a%20folder/key%2B1?uploads=\n\
        content-length: 0\n\
        content-type: text/plain\n\
        x-amz-checksum-algorithm: CRC32C\n\
        x-amz-checksum-type: FULL_OBJECT\n\
        x-amz-meta-a: b\n\
        "
    );
    assert_eq!(upload.upload_id, "id");
    let (request, _) = exchange("", document, async |client| {
        client
            .create_multipart_upload(&object(), Some(DigestAlgorithm::Sha256), HeaderMap::new())
            .await
    })
    .await;
    assert_eq!(
        request,
        "POST /bucket/a%20folder/key%2B1?uploads=\n\
        content-length: 0\n\
        x-amz-checksum-algorithm: SHA256\n\
        x-amz-checksum-type: COMPOSITE\n\
        "
    );
}

#[tokio::test]
async fn upload_part() {
    let fields = "ETag: \"e\"\r\nx-amz-checksum-crc32c: AQIDBA==\r\n";
    let (request, part) = exchange(fields, "", async |client| {
        let body = RequestBody::Bytes("hello".into());
        client.upload_part(&upload(), 7, body, &[crc32c()]).await
    })
    .await;
    assert_eq!(
        request,
        "PUT /bucket/a%20folder/key%2B1?partNumber=7&uploadId=id%2F%2B%3D\n\
        content-length: 5\n\
        x-amz-checksum-crc32c: AQIDBA==\n\
        hello"
    );
    let expected = UploadedPart {
        number: 7,
        size: 5,
        etag: "e".to_owned(),
        checksums: vec![crc32c()],
    };
    assert_eq!(part, expected);
}

#[tokio::test]
async fn upload_part_copy() {
    let document = "<CopyPartResult><ETag>&quot;e&quot;</ETag></CopyPartResult>";
    let (request, part) = exchange("", document, async |client| {
        let source = CopySource {
            address: &S3Address::new("other", "x y"),
            if_match: None,
        };
        client.upload_part_copy(&upload(), 3, source, 5..10).await
    })
    .await;
    assert_eq!(
        request,
        "PUT /bucket/a%20folder/key%2B1?partNumber=3&uploadId=id%2F%2B%3D\n\
        content-length: 0\n\
        x-amz-copy-source: /other/x%20y\n\
        x-amz-copy-source-range: bytes=5-9\n\
        "
    );
    assert_eq!((part.number, part.size, &*part.etag), (3, 5, "e"));
}

#[tokio::test]
async fn complete_multipart_upload() {
    let document =
        "<CompleteMultipartUploadResult><ETag>\"e-2\"</ETag></CompleteMultipartUploadResult>";
    let (request, stored) = exchange("", document, async |client| {
        let part = |number, checksums| UploadedPart {
            number,
            size: 5,
            etag: format!("e<{number}"),
            checksums,
        };
        let parts = [part(1, vec![crc32c()]), part(2, Vec::new())];
        client
            .complete_multipart_upload(&upload(), &parts, headers())
            .await
    })
    .await;
    assert_eq!(
        request,
        "POST /bucket/a%20folder/key%2B1?uploadId=id%2F%2B%3D\n\
        content-length: 280\n\
        content-type: application/xml\n\
        x-amz-meta-a: b\n\
        <CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><PartNumber>1</PartNumber><ETag>&quot;e&lt;1&quot;</ETag><ChecksumCRC32C>AQIDBA==</ChecksumCRC32C></Part><Part><PartNumber>2</PartNumber><ETag>&quot;e&lt;2&quot;</ETag></Part></CompleteMultipartUpload>"
    );
    assert_eq!(stored.etag, "e-2");
}

#[tokio::test]
async fn abort_multipart_upload() {
    let (request, ()) = exchange("", "", async |client| {
        client.abort_multipart_upload(&upload()).await
    })
    .await;
    assert_eq!(
        request,
        "DELETE /bucket/a%20folder/key%2B1?uploadId=id%2F%2B%3D\n\
        "
    );
}

#[tokio::test]
async fn list_parts() {
    let document = "<ListPartsResult><Part><PartNumber>2</PartNumber><Size>5</Size><ETag>&quot;e&quot;</ETag>\
        <ChecksumCRC32C>AQIDBA==</ChecksumCRC32C></Part></ListPartsResult>";
    let (request, parts) = exchange("", document, async |client| {
        client.list_parts(&upload()).await
    })
    .await;
    assert_eq!(
        request,
        "GET /bucket/a%20folder/key%2B1?uploadId=id%2F%2B%3D\n\
        x-amz-checksum-mode: ENABLED\n\
        "
    );
    let expected = UploadedPart {
        number: 2,
        size: 5,
        etag: "e".to_owned(),
        checksums: vec![crc32c()],
    };
    assert_eq!(parts, [expected]);
}

#[tokio::test]
async fn list_multipart_uploads() {
    let document = "<ListMultipartUploadsResult><Upload><Key>a folder/key+1.txt</Key><UploadId>id</UploadId><Initiated>t</Initiated>\
        <StorageClass>s</StorageClass></Upload></ListMultipartUploadsResult>";
    let (request, uploads) = exchange("", document, async |client| {
        client.list_multipart_uploads(&object()).await
    })
    .await;
    assert_eq!(
        request,
        "GET /bucket/?uploads=&prefix=a%20folder%2Fkey%2B1\n\
        x-amz-checksum-mode: ENABLED\n\
        "
    );
    let [upload] = &uploads[..] else {
        panic!("{uploads:?}");
    };
    assert_eq!(
        (&*upload.key, &*upload.upload_id),
        ("a folder/key+1.txt", "id")
    );
    assert_eq!((&*upload.initiated, &*upload.storage_class), ("t", "s"));
}

#[tokio::test]
async fn list_objects() {
    let document = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>next</NextContinuationToken><Contents><Key>p%2Ba%20b</Key><Size>7</Size>\
        <ETag>&quot;e&quot;</ETag><LastModified>t</LastModified><StorageClass>s</StorageClass></Contents>\
        <CommonPrefixes><Prefix>p%2B%2F</Prefix></CommonPrefixes></ListBucketResult>";
    let (request, page) = exchange("", document, async |client| {
        let list = ObjectListRequest {
            prefix: "p+".to_owned(),
            delimiter: "/".to_owned(),
            start_after: "s".to_owned(),
            token: Some("t".to_owned()),
            max_keys: 9,
        };
        client.list_objects("bucket", &list).await
    })
    .await;
    assert_eq!(
        request,
        "GET /bucket/?list-type=2&encoding-type=url&prefix=p%2B&delimiter=%2F&start-after=s&continuation-token=t&max-keys=9\n\
        x-amz-checksum-mode: ENABLED\n\
        "
    );
    assert_eq!(page.next_token.as_deref(), Some("next"));
    assert_eq!(page.prefixes, ["p+/"]);
    let [found] = &page.objects[..] else {
        panic!("{page:?}");
    };
    assert_eq!((&*found.key, found.size, &*found.etag), ("p+a b", 7, "e"));
    assert_eq!((&*found.last_modified, &*found.storage_class), ("t", "s"));
}

#[tokio::test]
async fn delete_objects() {
    let document = "<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>";
    let (request, failures) = exchange("", document, async |client| {
        let keys = ["a".to_owned(), "b<c".to_owned()];
        client.delete_objects("bucket", &keys).await
    })
    .await;
    assert_eq!(
        request,
        "POST /bucket/?delete=\n\
        content-length: 147\n\
        content-md5: NLruEGHZ9U+S+Y3J2dKiCA==\n\
        content-type: application/xml\n\
        <Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet><Object><Key>a</Key></Object><Object><Key>b&lt;c</Key></Object></Delete>"
    );
    let [failure] = &failures[..] else {
        panic!("{failures:?}");
    };
    assert_eq!(
        (&*failure.key, &*failure.code, &*failure.message),
        ("a", "AccessDenied", "no")
    );
}

#[tokio::test]
async fn buckets() {
    let document = "<ListAllMyBucketsResult><Buckets><Bucket><Name>n</Name><CreationDate>c</CreationDate></Bucket>\
        </Buckets></ListAllMyBucketsResult>";
    let (request, buckets) =
        exchange("", document, async |client| client.list_buckets().await).await;
    assert_eq!(
        request,
        "GET /\n\
        x-amz-checksum-mode: ENABLED\n\
        "
    );
    assert_eq!(
        (&*buckets[0].name, &*buckets[0].created, buckets.len()),
        ("n", "c", 1)
    );
}

/// Documents with which nothing can have been stored or listed.
#[tokio::test]
async fn a_document_that_is_no_result_is_an_error() {
    const LISTED: &str =
        "<ListBucketResult><Contents><Key>other</Key></Contents></ListBucketResult>";
    const GROUP: &str = "<ListBucketResult><CommonPrefixes><Prefix>other/</Prefix></CommonPrefixes></ListBucketResult>";
    const UPLOADS: &str = "<ListMultipartUploadsResult><Upload><Key>other</Key></Upload></ListMultipartUploadsResult>";
    const PAGE: &str = "<html><body>Sign in</body></html>";
    const ERROR: &str = "<ErrorResponse><Error><Code>Other</Code></Error></ErrorResponse>";
    let source = S3Address::new("other", "x");
    let copy = || CopySource {
        address: &source,
        if_match: None,
    };
    for body in [LISTED, GROUP, UPLOADS, PAGE, ERROR, "<CopyObjectResult/>"] {
        let server = ScriptedStore::start(vec![response("200 OK", "", body)]).await;
        let client = connect(config(&server.url)).await;
        let list = ObjectListRequest {
            prefix: "photos/".to_owned(),
            ..ObjectListRequest::default()
        };
        let results = within(LIMIT, async {
            [
                client
                    .copy_object(copy(), &object(), HeaderMap::new())
                    .await
                    .map(drop),
                client
                    .upload_part_copy(&upload(), 1, copy(), 0..5)
                    .await
                    .map(drop),
                client
                    .complete_multipart_upload(&upload(), &[], HeaderMap::new())
                    .await
                    .map(drop),
                client.list_objects("bucket", &list).await.map(drop),
            ]
        })
        .await;
        assert!(results.iter().all(Result::is_err), "{body}: {results:?}");
        let uploads = within(LIMIT, client.list_multipart_uploads(&object())).await;
        assert_eq!(uploads.is_err(), body == UPLOADS, "{body}: {uploads:?}");
    }
}
