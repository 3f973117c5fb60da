//! Presigned URLs in the hands of curl, and objects that are stored only under a condition.

use super::{S3StoreTest, content};

#[tokio::test]
async fn curl_puts_reads_and_deletes_with_presigned_urls() {
    let test = S3StoreTest::start().await;
    test.dir.write("file", "bytes");
    let address = "s3://bucket/it's a+b%20~é";
    let curl = async |method: &str, flags: &str| {
        let url = test.haul(&["presign", address, "--method", method]).await;
        let line = format!("curl -sSf --noproxy '*' {flags} '{}'", url.trim());
        test.shell(&line).await
    };
    curl("PUT", "-T file").await;
    assert_eq!(test.haul(&["get", "-q", address, "-o", "-"]).await, "bytes");
    assert_eq!(curl("GET", "").await, "bytes");
    assert!(curl("HEAD", "-I").await.contains("200 OK"));
    curl("DELETE", "-X DELETE").await;
    assert_eq!(test.dir.run(&["ls", "s3://bucket/"]).await.stdout, "");
}

#[tokio::test]
async fn an_object_that_exists_is_replaced_only_by_whom_its_entity_tag_names() {
    let test = S3StoreTest::start().await;
    test.dir.write("small", "first");
    test.dir.write("large", content(17_000_003));
    let result = test
        .haul(&[
            "put",
            "small",
            "s3://bucket/key",
            "--if-none-match",
            "--json",
        ])
        .await;
    let etag = result
        .split_once("\"etag\":\"")
        .unwrap()
        .1
        .trim_start_matches("\\\"")
        .split(['\\', '"'])
        .next()
        .unwrap();
    // moto ignores If-Match at the end of an upload in parts.
    for (file, condition) in [
        ("small", &["--if-none-match"][..]),
        ("large", &["--if-none-match"]),
        ("small", &["--if-match", "0123"]),
    ] {
        let args = [&["put", file, "s3://bucket/key"], condition].concat();
        let refused = test.dir.run(&args).await;
        assert_eq!(refused.code, 5, "{refused:#?}");
    }
    let stored = test
        .haul(&["get", "-q", "s3://bucket/key", "-o", "-"])
        .await;
    assert_eq!(stored, "first");
    test.dir.write("small", "second");
    test.haul(&["put", "small", "s3://bucket/key", "--if-match", etag])
        .await;
    let stored = test
        .haul(&["get", "-q", "s3://bucket/key", "-o", "-"])
        .await;
    assert_eq!(stored, "second");
}
