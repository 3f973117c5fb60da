//! The requests that an origin records, and scripts that panic, which fail their tests.

use std::panic::AssertUnwindSafe;

use haul_lab::{Origin, OriginResource, RecordedRequest, RequestMatcher, ResourceContent, within};

use crate::raw::{ConnectionEnd, LIMIT, RawConnection, content, get, part, serve};

/// A request's number for its path, its connection, its path, and its response's status and body length.
fn outcome(request: &RecordedRequest) -> (usize, usize, &str, u16, u64) {
    let RecordedRequest {
        number_for_path,
        connection,
        status,
        bytes_sent,
        ..
    } = *request;
    (
        number_for_path,
        connection,
        request.path(),
        status,
        bytes_sent,
    )
}

#[tokio::test]
async fn requests_are_recorded() {
    let origin = Origin::builder()
        .resource("/a", OriginResource::new(content()))
        .resource("/b", OriginResource::new(ResourceContent::fixed("b")))
        .start()
        .await;
    let mut first = RawConnection::to(origin.address()).await;
    first
        .exchange("GET /a?q=1", &["Range: bytes=5-9", "X-Mixed: Case"])
        .await;
    first.exchange("GET /b", &[]).await;
    let mut second = RawConnection::to(origin.address()).await;
    second.exchange("GET /a", &[]).await;
    second.exchange("GET /nowhere", &[]).await;

    let requests = origin.requests();
    let seen: Vec<_> = requests.iter().map(outcome).collect();
    let whole = content().length();
    assert_eq!(
        seen,
        [
            (0, 0, "/a", 206, 5),
            (0, 0, "/b", 200, 1),
            (1, 1, "/a", 200, whole),
            (0, 1, "/nowhere", 404, 17)
        ]
    );
    assert_eq!(
        (requests[0].target.as_str(), requests[0].range(whole)),
        ("/a?q=1", Some(5..10))
    );
    assert_eq!(
        (requests[0].header("x-mixed"), requests[0].header("X-Mixed")),
        (Some("Case"), None)
    );
    assert_eq!(requests[0].method, "GET");
    let served_before: Vec<u64> = requests.iter().map(|r| r.bytes_served_before).collect();
    assert_eq!(served_before, [0, 5, 6, whole + 6]);
    assert_eq!(
        (origin.connection_count(), origin.open_connections()),
        (2, 2)
    );
    assert_eq!(
        origin.bytes_sent(),
        requests.iter().map(|r| r.bytes_sent).sum::<u64>()
    );
    assert_eq!(origin.stop().await.len(), 4);
}

#[tokio::test]
async fn rules_apply_to_matching_requests() {
    for (when, hits) in [
        (RequestMatcher::always(), [true, true, true, true]),
        (RequestMatcher::nth(1), [false, true, false, false]),
        (RequestMatcher::after_first(2), [false, false, true, true]),
        (RequestMatcher::first(2), [true, true, false, false]),
        (RequestMatcher::with_range(), [false, true, true, false]),
        (RequestMatcher::mid_file(), [false, false, true, false]),
        (
            RequestMatcher::on_connection(1),
            [false, false, false, true],
        ),
        (!RequestMatcher::on_connection(1), [true, true, true, false]),
        (
            RequestMatcher::with_range().and(RequestMatcher::first(2)),
            [false, true, false, false],
        ),
        (
            RequestMatcher::matching(|request| request.target.ends_with("?x")),
            [false, false, false, true],
        ),
        (
            RequestMatcher::after_bytes_sent(300_006),
            [false, false, true, true],
        ),
    ] {
        let description = format!("{when:?} {hits:?}");
        let resource =
            OriginResource::new(content()).rule(when, |_, reply| reply.set_header("X-Hit", "yes"));
        let origin = serve(resource).await;
        let mut first = RawConnection::to(origin.address()).await;
        let mut found = Vec::new();
        for fields in [&[][..], &["Range: bytes=0-4"], &["Range: bytes=5-9"]] {
            found.push(first.exchange("GET /f.bin", fields).await);
        }
        found.push(
            RawConnection::to(origin.address())
                .await
                .exchange("GET /f.bin?x", &[])
                .await,
        );
        let found: Vec<bool> = found
            .iter()
            .map(|response| response.field("X-Hit").is_some())
            .collect();
        assert_eq!(found, hits, "{description}");
    }
}

#[tokio::test]
async fn connections_end_when_clients_request_it() {
    let origin = serve(OriginResource::new(content())).await;
    for request in [
        "GET /f.bin HTTP/1.1\r\nRange: bytes=5-9\r\nConnection: Close\r\n\r\n",
        "GET /f.bin HTTP/1.0\r\nRange: bytes=5-9\r\n\r\n",
    ] {
        let mut raw = RawConnection::to(origin.address()).await;
        raw.send(request).await;
        let response = raw.read_response(false).await;
        assert_eq!((response.body, response.complete), (part(5..10), true));
        assert_eq!(response.head.matches("Connection: close\r\n").count(), 1);
        assert_eq!(raw.rest().await, (vec![], ConnectionEnd::Closed));
    }
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send("this is no HTTP\r\n\r\n").await;
    let (response, end) = raw.rest().await;
    assert!(response.starts_with(b"HTTP/1.1 400 ") && end == ConnectionEnd::Closed);
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn dropping_an_origin_ends_its_connections() {
    let origin = serve(OriginResource::new(content())).await;
    let mut raw = RawConnection::to(origin.address()).await;
    assert!(raw.exchange("GET /f.bin", &[]).await.complete);
    let address = origin.address();
    drop(origin);
    assert_eq!(raw.rest().await, (vec![], ConnectionEnd::Closed));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_panic_of_a_script_resets_the_connection_and_goes_on_when_the_origin_is_dropped() {
    let broken = |_: &_, _: &mut _| panic!("the script is wrong");
    let origin = serve(OriginResource::new(content()).rule(RequestMatcher::nth(0), broken)).await;
    assert_eq!(get(&origin, &[]).await.end, ConnectionEnd::Reset);
    // It still serves other connections, so that the test can fail with its own message.
    assert!(get(&origin, &[]).await.complete);
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| drop(origin))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the script is wrong"));
}

#[tokio::test]
async fn a_strict_origin_panics_for_an_unknown_path() {
    let origin = serve(OriginResource::new(content())).await;
    let response = RawConnection::to(origin.address())
        .await
        .exchange("GET /other", &[])
        .await;
    assert_eq!(response.end, ConnectionEnd::Reset);
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| drop(origin)))
        .unwrap_err()
        .downcast::<String>()
        .unwrap();
    assert!(panic.contains("/other"), "{panic}");
}

#[tokio::test]
#[should_panic(expected = "not done within 10ms, the limit at crates/lab/tests/it/scripts.rs:")]
async fn an_exceeded_limit_names_its_caller() {
    within(
        std::time::Duration::from_millis(10),
        std::future::pending::<()>(),
    )
    .await;
}

#[tokio::test]
async fn a_kept_limit_does_nothing() {
    assert_eq!(within(LIMIT, async { 7 }).await, 7);
}

#[tokio::test]
async fn other_addresses_can_be_listened_on() {
    let builder = Origin::builder().resource("/f.bin", OriginResource::new(content()));
    let origin = builder
        .listen_on("127.0.0.2".parse().unwrap())
        .start()
        .await;
    assert!(origin.url("/f.bin").starts_with("http://127.0.0.2:"));
    assert!(get(&origin, &[]).await.complete);
}
