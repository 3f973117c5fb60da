//! Responses without the resource, logins and digests.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haul_lab::faults::{DigestHeader, RequiredLogin};
use haul_lab::{
    Origin, OriginResource, OriginResponse, RecordedRequest, RequestMatcher, faults, within,
};
use sha2::{Digest as _, Sha256};

use crate::raw::{ConnectionEnd, LIMIT, RawConnection, content, get, part, serve};

type TestReplyRule = fn(&RecordedRequest, &mut OriginResponse);

async fn broken(
    change: impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + 'static,
) -> Origin {
    serve(OriginResource::new(content()).rule(RequestMatcher::always(), change)).await
}

#[tokio::test]
async fn a16_redirects_have_a_location() {
    for code in [301, 302, 303, 307, 308] {
        let response = get(
            &broken(faults::redirect(code, "http://h.test/x")).await,
            &[],
        )
        .await;
        assert_eq!(
            (response.status(), response.field("Location")),
            (code, Some("http://h.test/x"))
        );
        assert!(response.body.is_empty() && response.complete);
    }
}

#[tokio::test]
async fn a16_tokens_expire_after_their_uses() {
    let origin = broken(faults::expiring_token(2)).await;
    let mut raw = RawConnection::to(origin.address()).await;
    for (token, status) in [
        (0, 200),
        (0, 200),
        (1, 200),
        (0, 403),
        (1, 200),
        (1, 403),
        (0, 403),
    ] {
        let response = raw
            .exchange(&format!("GET /f.bin?token={token}"), &[])
            .await;
        assert_eq!(response.status(), status, "token {token}");
    }
    let near = broken(faults::redirect_with_token(302, "/t")).await;
    for number in 0..3 {
        let expected = format!("/t?token={number}");
        assert_eq!(
            get(&near, &[]).await.field("Location"),
            Some(expected.as_str())
        );
    }
}

#[tokio::test]
async fn a17_overloaded_origins_send_retry_after() {
    for (code, when) in [
        (429, Some("7")),
        (503, Some("Fri, 31 Dec 2999 23:59:59 GMT")),
        (503, None),
    ] {
        let response = get(
            &broken(faults::overloaded(code, when)).await,
            &["Range: bytes=5-9"],
        )
        .await;
        assert_eq!(
            (response.status(), response.field("Retry-After")),
            (code, when)
        );
        assert_eq!(response.field("Content-Range"), None);
    }
}

#[tokio::test]
async fn a18_the_third_connection_is_reset_until_another_closes() {
    let refused: [(TestReplyRule, _); 2] = [
        (faults::reset_connection, None),
        (
            |request, reply| faults::status(403)(request, reply),
            Some(403),
        ),
    ];
    for (rule, status) in refused {
        let origin = serve(
            OriginResource::new(content()).rule(RequestMatcher::above_open_connections(2), rule),
        )
        .await;
        let mut first = RawConnection::to(origin.address()).await;
        let mut second = RawConnection::to(origin.address()).await;
        assert!(first.exchange("GET /f.bin", &[]).await.complete);
        assert!(second.exchange("GET /f.bin", &[]).await.complete);
        let third = get(&origin, &[]).await;
        match status {
            None => assert_eq!(third.end, ConnectionEnd::Reset),
            Some(status) => assert_eq!(third.status(), status),
        }
        assert_eq!(origin.requests()[2].open_connections, 3);
        assert_eq!(origin.requests()[2].status, status.unwrap_or(0));
        drop(first);
        within(LIMIT, async {
            while origin.open_connections() > 1 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(get(&origin, &[]).await.status(), 200);
    }
}

#[tokio::test]
async fn a21_basic_and_bearer_are_checked() {
    let basic = broken(RequiredLogin::basic("u", "p").realm("vault").rule()).await;
    let response = get(&basic, &[]).await;
    assert_eq!(
        (response.status(), response.field("WWW-Authenticate")),
        (401, Some("Basic realm=\"vault\""))
    );
    assert_eq!(
        get(&basic, &["Authorization: Basic dTpw"]).await.status(),
        200
    );
    assert_eq!(
        get(&basic, &["Authorization: Basic dTpx"]).await.status(),
        401
    );
    let bearer = broken(faults::require_bearer_token("t0k")).await;
    let response = get(&bearer, &["Authorization: Basic dTpw"]).await;
    assert_eq!(
        (response.status(), response.field("WWW-Authenticate")),
        (401, Some("Bearer realm=\"lab\""))
    );
    assert_eq!(
        get(&bearer, &["Authorization: Bearer t0k"]).await.status(),
        200
    );
}

fn hash(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn a21_digest_is_verified() {
    let origin = broken(RequiredLogin::digest("u", "p").realm("vault").rule()).await;
    let challenged = get(&origin, &[]).await;
    assert_eq!(challenged.status(), 401);
    let challenge = challenged.field("WWW-Authenticate").unwrap();
    let nonce = challenge
        .split("nonce=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let shown = |password: &str, uri: &str| {
        let user = hash(&format!("u:vault:{password}"));
        let response = hash(&format!(
            "{user}:{nonce}:00000001:c:auth:{}",
            hash(&format!("GET:{uri}"))
        ));
        format!(
            "Authorization: Digest username=\"u\", realm=\"vault\", nonce=\"{nonce}\", uri=\"{uri}\", \
             qop=auth, nc=00000001, cnonce=\"c\", algorithm=SHA-256, response=\"{response}\""
        )
    };
    assert_eq!(get(&origin, &[&shown("p", "/f.bin")]).await.status(), 200);
    assert_eq!(get(&origin, &[&shown("q", "/f.bin")]).await.status(), 401);
    assert_eq!(get(&origin, &[&shown("p", "/other")]).await.status(), 401);
}

#[tokio::test]
async fn a24_error_pages_look_like_success() {
    let response = get(&broken(faults::error_page).await, &["Range: bytes=5-9"]).await;
    assert_eq!(
        (response.status(), response.field("Content-Type")),
        (200, Some("text/html; charset=utf-8"))
    );
    assert_eq!(
        (response.field("ETag"), response.field("Content-Range")),
        (None, None)
    );
    assert!(response.body.starts_with(b"<!doctype html>") && response.complete);
}

#[tokio::test]
async fn a26_digests_are_right_or_wrong() {
    let base64 = |bytes: &[u8]| BASE64_STANDARD.encode(Sha256::digest(bytes));
    let (whole, some) = (base64(&content().to_vec()), base64(&part(5..10)));
    for (field, name, value) in [
        (
            DigestHeader::Repr,
            "Repr-Digest",
            format!("sha-256=:{whole}:"),
        ),
        (
            DigestHeader::Content,
            "Content-Digest",
            format!("sha-256=:{some}:"),
        ),
        (DigestHeader::Obsolete, "Digest", format!("SHA-256={whole}")),
        (DigestHeader::Amazon, "x-amz-checksum-sha256", whole.clone()),
    ] {
        let right = get(
            &broken(faults::right_digest(field)).await,
            &["Range: bytes=5-9"],
        )
        .await;
        assert_eq!(right.field(name), Some(value.as_str()));
        let wrong = get(
            &broken(faults::wrong_digest(field)).await,
            &["Range: bytes=5-9"],
        )
        .await;
        assert_ne!(wrong.field(name), Some(value.as_str()));
        assert_eq!(wrong.field(name).map(str::len), Some(value.len()));
        assert_eq!(wrong.body, part(5..10));
    }
    let abc = OriginResource::new(haul_lab::ResourceContent::fixed("abc")).rule(
        RequestMatcher::always(),
        faults::right_digest(DigestHeader::Md5),
    );
    // RFC 1321 A.5, in base64.
    assert_eq!(
        get(&serve(abc).await, &[]).await.field("Content-MD5"),
        Some("kAFQmDzST7DWlj99KOF/cg==")
    );
}
