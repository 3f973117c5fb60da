//! Heads that are odd, and heads that are hostile.

use haul_lab::{OriginResource, RequestMatcher, faults};

use crate::raw::{ConnectionEnd, RawConnection, content, get, part, serve};

/// A resource whose every answer is changed so.
async fn broken(
    change: impl Fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse) + Send + Sync + 'static,
) -> haul_lab::Origin {
    serve(OriginResource::new(content()).rule(RequestMatcher::always(), change)).await
}

#[tokio::test]
async fn a22_old_http_closes() {
    let origin = broken(faults::http10).await;
    let answer = get(&origin, &["Range: bytes=5-9"]).await;
    assert!(
        answer.head.starts_with("HTTP/1.0 206 Partial Content\r\n"),
        "{}",
        answer.head
    );
    assert_eq!(
        (answer.body, answer.end),
        (part(5..10), ConnectionEnd::Closed)
    );
}

#[tokio::test]
async fn a22_names_are_in_lower_case() {
    let origin = broken(faults::lower_case_names).await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.request("GET /f.bin", &["Range: bytes=5-9"]).await;
    let head = raw.head().await.unwrap();
    let names: Vec<&str> = head
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    assert!(
        names.contains(&"content-length") && names.contains(&"content-range"),
        "{head}"
    );
    assert!(
        names.iter().all(|name| *name == name.to_lowercase()),
        "{head}"
    );
    assert!(head.contains("etag: \"v1\"\r\n"), "{head}");
}

#[tokio::test]
async fn a22_fields_are_folded() {
    let answer = get(&broken(faults::folded_header).await, &["Range: bytes=5-9"]).await;
    assert!(
        answer
            .head
            .contains("\r\nX-Folded: the first line\r\n and the second\r\n"),
        "{}",
        answer.head
    );
    assert_eq!(answer.body, part(5..10));
}

#[tokio::test]
async fn a22_interim_responses_come_first() {
    for status in [100, 103] {
        let origin = broken(faults::interim_response(status)).await;
        let mut raw = RawConnection::to(origin.address()).await;
        raw.request("GET /f.bin", &["Range: bytes=5-9"]).await;
        let interim = raw.head().await.unwrap();
        assert!(
            interim.starts_with(&format!("HTTP/1.1 {status} ")),
            "{interim}"
        );
        let answer = raw.answer(false).await;
        assert_eq!((answer.status(), answer.body), (206, part(5..10)));
    }
}

#[tokio::test]
async fn a23_heads_never_end() {
    let mut raw = RawConnection::to(broken(faults::endless_head).await.address()).await;
    raw.send("GET /f.bin HTTP/1.1\r\n\r\n").await;
    // The origin is gone by now: a temporary.
    let (bytes, _) = raw.rest().await;
    assert!(bytes.is_empty());

    let origin = broken(faults::endless_head).await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send("GET /f.bin HTTP/1.1\r\n\r\n").await;
    assert_eq!(raw.fill(4 << 20).await, ConnectionEnd::Open);
    assert!(raw.buffer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(!raw.buffer.windows(4).any(|four| four == b"\r\n\r\n"));
}

#[tokio::test]
async fn a23_heads_are_huge_or_hold_what_they_must_not() {
    let answer = get(
        &broken(faults::huge_header(1 << 20)).await,
        &["Range: bytes=5-9"],
    )
    .await;
    assert_eq!(answer.field("X-Huge").map(str::len), Some(1 << 20));
    assert_eq!(answer.body, part(5..10));
    let answer = get(&broken(faults::nul_in_header).await, &[]).await;
    assert_eq!(answer.field("X-Nul"), Some("a\0b"));
    let answer = get(&broken(faults::invalid_header_name).await, &[]).await;
    assert!(
        answer.head.contains("\r\nBad Name: x\r\n"),
        "{}",
        answer.head
    );
    let mut raw = RawConnection::to(broken(faults::response_splitting).await.address()).await;
    assert_eq!(raw.rest().await.0, b"");
    let origin = broken(faults::response_splitting).await;
    let mut raw = RawConnection::to(origin.address()).await;
    let first = raw.ask("GET /f.bin", &["Range: bytes=5-9"]).await;
    assert_eq!(first.body, b"x");
    assert!(raw.buffer.starts_with(b"\r\nHTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a25_names_are_as_given() {
    for name in ["../../x", "/etc/passwd", "a\\\"b", &"n".repeat(300), "CON"] {
        let answer = get(&broken(faults::content_disposition(name)).await, &[]).await;
        let expected = format!("attachment; filename=\"{name}\"");
        assert_eq!(answer.field("Content-Disposition"), Some(expected.as_str()));
    }
    let extended = "attachment; filename*=UTF-8''na%C3%AFve.bin";
    let answer = get(
        &broken(faults::header("Content-Disposition", extended)).await,
        &[],
    )
    .await;
    assert_eq!(answer.field("Content-Disposition"), Some(extended));
}

#[tokio::test]
async fn heads_come_in_small_pieces() {
    let origin = broken(faults::trickled_head(1)).await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.request("GET /f.bin", &["Range: bytes=5-9"]).await;
    raw.fill(1).await;
    assert!(raw.buffer.len() < 100, "{} bytes at once", raw.buffer.len());
    let answer = raw.answer(false).await;
    assert_eq!((answer.status(), answer.body), (206, part(5..10)));
}
