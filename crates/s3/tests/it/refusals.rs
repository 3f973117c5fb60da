//! What the client does after refusals, and what it never does.

use std::time::{Duration, SystemTime};

use haul_lab::within;
use haul_s3::{S3Address, S3Config};

use crate::script::{LIMIT, ScriptedStore, config, connect, error, response};

fn object() -> S3Address {
    S3Address::new("bucket", "key")
}

const OK: &str = "200 OK";

#[tokio::test]
async fn f5_a_bucket_in_another_region_is_asked_there_once_and_remembered() {
    let elsewhere = "x-amz-bucket-region: eu-central-1\r\n";
    for refusal in [
        response("301 Moved", elsewhere, ""),
        error("400 Bad", elsewhere, "AuthorizationHeaderMalformed"),
        response(
            "400 Bad",
            "",
            "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>",
        ),
    ] {
        let found = response(OK, "ETag: \"e\"\r\n", "");
        let server = ScriptedStore::start(vec![refusal, found]).await;
        let client = connect(config(&server.url)).await;
        for _ in 0..2 {
            within(LIMIT, Box::pin(client.delete_object(&object())))
                .await
                .unwrap();
        }
        let heads = server.heads();
        let regions: Vec<bool> = heads
            .iter()
            .map(|head| head.contains("/eu-central-1/s3/"))
            .collect();
        assert_eq!(regions, [false, true, true], "{heads:#?}");
    }
}

#[tokio::test]
async fn f5_a_store_that_always_says_elsewhere_is_not_asked_for_ever() {
    let refusal = response("301 Moved", "x-amz-bucket-region: eu-central-1\r\n", "");
    let server = ScriptedStore::start(vec![refusal]).await;
    let client = connect(config(&server.url)).await;
    let error = within(LIMIT, Box::pin(client.delete_object(&object())))
        .await
        .unwrap_err();
    assert_eq!(error.status().unwrap(), 301);
    assert_eq!(server.heads().len(), 3);
}

/// The region may be learned from a refusal, so what names an upload in a later run has none.
#[tokio::test]
async fn f5_the_name_of_an_object_has_no_region() {
    let name = async |endpoint: Option<&str>, region: &str| {
        let config = S3Config {
            endpoint_url: endpoint.map(|url| url.parse().unwrap()),
            region: Some(region.to_owned()),
            ..config("http://unused")
        };
        connect(config).await.object_name(&object())
    };
    let aws = name(None, "us-east-1").await;
    assert_eq!(aws, name(None, "eu-central-1").await);
    let other = name(Some("http://store.test"), "us-east-1").await;
    assert_ne!(aws, other);
    assert_ne!(other, name(Some("http://else.test"), "us-east-1").await);
}

#[tokio::test]
async fn f4_a_wrong_clock_is_corrected_by_the_stores() {
    let later = SystemTime::now() + Duration::from_secs(3600);
    let date = format!("Date: {}\r\n", httpdate::fmt_http_date(later));
    let refusal = error("403 Forbidden", &date, "RequestTimeTooSkewed");
    let server = ScriptedStore::start(vec![refusal, response(OK, "", "")]).await;
    let client = connect(config(&server.url)).await;
    within(LIMIT, Box::pin(client.delete_object(&object())))
        .await
        .unwrap();
    let offset = client.clock_offset().unwrap();
    assert!((3590..=3610).contains(&offset), "{offset}");
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn f6_nothing_goes_where_a_response_points() {
    let other = ScriptedStore::start(vec![response(OK, "", "")]).await;
    let location = format!("Location: {}/bucket/key\r\n", other.url);
    for fields in [
        location.clone(),
        format!("{location}x-amz-bucket-region: evil.test/\r\n"),
    ] {
        for status in ["301 Moved", "307 Temporary Redirect", "302 Found"] {
            let server = ScriptedStore::start(vec![response(status, &fields, "")]).await;
            let client = connect(config(&server.url)).await;
            let result = within(LIMIT, Box::pin(client.head_object(&object()))).await;
            assert!(result.is_err());
            assert!(
                server
                    .heads()
                    .iter()
                    .all(|head| head.contains("signature="))
            );
        }
    }
    assert_eq!(other.heads().len(), 0);
}

#[tokio::test]
async fn f18_the_reason_of_a_refused_head_is_asked_for_by_a_get() {
    let refusal = response("403 Forbidden", "", "");
    let reason = error("403 Forbidden", "", "AccessDenied");
    let server = ScriptedStore::start(vec![refusal, reason]).await;
    let client = connect(config(&server.url)).await;
    let failed = within(LIMIT, Box::pin(client.head_object(&object())))
        .await
        .unwrap_err();
    assert_eq!(failed.code(), "AccessDenied");
    let heads = server.heads();
    assert!(
        heads[0].starts_with("head ") && heads[1].starts_with("get "),
        "{heads:#?}"
    );
    assert!(heads[1].contains("range: bytes=0-0\r\n"));
}

#[tokio::test]
async fn f19_the_requester_pays_if_told_to() {
    let server = ScriptedStore::start(vec![response(OK, "", "")]).await;
    let paying = S3Config {
        request_payer: true,
        ..config(&server.url)
    };
    let client = connect(paying).await;
    within(LIMIT, Box::pin(client.delete_object(&object())))
        .await
        .unwrap();
    let head = &server.heads()[0];
    assert!(
        head.contains("x-amz-request-payer: requester\r\n"),
        "{head}"
    );
    let signed = head.split("signedheaders=").nth(1).unwrap();
    assert!(signed.contains("x-amz-request-payer"), "{head}");
}

#[tokio::test]
async fn f26_accept_encoding_is_not_signed() {
    let server = ScriptedStore::start(vec![response(OK, "", "")]).await;
    let client = connect(config(&server.url)).await;
    within(LIMIT, Box::pin(client.head_object(&object())))
        .await
        .unwrap();
    let head = &server.heads()[0];
    let signed = head
        .split("signedheaders=")
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    assert_eq!(
        signed,
        "host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date"
    );
}

/// Keys that the response does not list as failed count as deleted, so it has to be such a list.
#[tokio::test]
async fn f28_another_document_does_not_say_that_all_was_deleted() {
    let keys = ["a".to_owned()];
    for (body, is_deleted) in [
        ("<DeleteResult></DeleteResult>", true),
        ("<html><body>welcome</body></html>", false),
    ] {
        let server = ScriptedStore::start(vec![response(OK, "", body)]).await;
        let client = connect(config(&server.url)).await;
        let result = within(LIMIT, Box::pin(client.delete_objects("bucket", &keys))).await;
        assert_eq!(result.is_ok(), is_deleted, "{body}");
    }
}

#[tokio::test]
async fn an_unsigned_request_has_no_signature() {
    let server = ScriptedStore::start(vec![response(OK, "", "")]).await;
    let public = S3Config {
        no_sign_request: true,
        ..config(&server.url)
    };
    let client = connect(public).await;
    within(LIMIT, Box::pin(client.head_object(&object())))
        .await
        .unwrap();
    assert!(!server.heads()[0].contains("authorization"));
}

#[tokio::test]
async fn f27_an_archived_object_is_said_and_not_asked_for_again() {
    let refusal = error("403 Forbidden", "", "InvalidObjectState");
    let server = ScriptedStore::start(vec![refusal]).await;
    let client = connect(config(&server.url)).await;
    let failed = within(LIMIT, Box::pin(client.delete_object(&object())))
        .await
        .unwrap_err();
    assert!(!failed.is_transient());
    assert!(
        failed.to_string().contains("InvalidObjectState"),
        "{failed}"
    );
}
