//! What an origin tells of its requests, and that a script which breaks fails its test.

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
        .ask("GET /a?q=1", &["Range: bytes=5-9", "X-Mixed: Case"])
        .await;
    first.ask("GET /b", &[]).await;
    let mut second = RawConnection::to(origin.address()).await;
    second.ask("GET /a", &[]).await;
    second.ask("GET /nowhere", &[]).await;

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
async fn rules_find_their_requests() {
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
            RequestMatcher::matching(|asked| asked.target.ends_with("?x")),
            [false, false, false, true],
        ),
        (
            RequestMatcher::after_bytes_sent(300_006),
            [false, false, true, true],
        ),
    ] {
        let said = format!("{when:?} {hits:?}");
        let resource =
            OriginResource::new(content()).rule(when, |_, reply| reply.set_header("X-Hit", "yes"));
        let origin = serve(resource).await;
        let mut first = RawConnection::to(origin.address()).await;
        let mut found = Vec::new();
        for fields in [&[][..], &["Range: bytes=0-4"], &["Range: bytes=5-9"]] {
            found.push(first.ask("GET /f.bin", fields).await);
        }
        found.push(
            RawConnection::to(origin.address())
                .await
                .ask("GET /f.bin?x", &[])
                .await,
        );
        let found: Vec<bool> = found
            .iter()
            .map(|answer| answer.field("X-Hit").is_some())
            .collect();
        assert_eq!(found, hits, "{said}");
    }
}

#[tokio::test]
async fn connections_end_when_clients_ask_for_it() {
    let origin = serve(OriginResource::new(content())).await;
    for request in [
        "GET /f.bin HTTP/1.1\r\nRange: bytes=5-9\r\nConnection: Close\r\n\r\n",
        "GET /f.bin HTTP/1.0\r\nRange: bytes=5-9\r\n\r\n",
    ] {
        let mut raw = RawConnection::to(origin.address()).await;
        raw.send(request).await;
        let answer = raw.answer(false).await;
        assert_eq!((answer.body, answer.complete), (part(5..10), true));
        assert_eq!(answer.head.matches("Connection: close\r\n").count(), 1);
        assert_eq!(raw.rest().await, (vec![], ConnectionEnd::Closed));
    }
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send("this is no HTTP\r\n\r\n").await;
    let (answer, end) = raw.rest().await;
    assert!(answer.starts_with(b"HTTP/1.1 400 ") && end == ConnectionEnd::Closed);
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn dropping_an_origin_ends_its_connections() {
    let origin = serve(OriginResource::new(content())).await;
    let mut raw = RawConnection::to(origin.address()).await;
    assert!(raw.ask("GET /f.bin", &[]).await.complete);
    let address = origin.address();
    drop(origin);
    assert_eq!(raw.rest().await, (vec![], ConnectionEnd::Closed));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_script_that_panics_resets_its_connection_and_panics_in_whoever_drops_the_origin() {
    let broken = |_: &_, _: &mut _| panic!("the script is wrong");
    let origin = serve(OriginResource::new(content()).rule(RequestMatcher::nth(0), broken)).await;
    assert_eq!(get(&origin, &[]).await.end, ConnectionEnd::Reset);
    // It goes on for others, so that the test ends in its own words.
    assert!(get(&origin, &[]).await.complete);
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| drop(origin))).unwrap_err();
    assert_eq!(told.downcast_ref(), Some(&"the script is wrong"));
}

#[tokio::test]
async fn a_strict_origin_panics_for_what_it_does_not_have() {
    let origin = serve(OriginResource::new(content())).await;
    let answer = RawConnection::to(origin.address())
        .await
        .ask("GET /other", &[])
        .await;
    assert_eq!(answer.end, ConnectionEnd::Reset);
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| drop(origin))).unwrap_err();
    let told: &String = told.downcast_ref().unwrap();
    assert!(told.contains("/other"), "{told}");
}

#[tokio::test]
#[should_panic(expected = "not done within 10ms, as crates/lab/tests/it/scripts.rs:")]
async fn a_limit_names_the_place() {
    within(
        std::time::Duration::from_millis(10),
        std::future::pending::<()>(),
    )
    .await;
}

#[tokio::test]
async fn a_limit_that_is_kept_says_nothing() {
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
