//! Odd and hostile heads.

use haul_lab::{OriginResource, RequestMatcher, faults};

use crate::raw::{ConnectionEnd, RawConnection, content, get, part, serve};

/// A resource with a rule for all its responses.
async fn broken(
    change: impl Fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse) + Send + Sync + 'static,
) -> haul_lab::Origin {
    serve(OriginResource::new(content()).rule(RequestMatcher::always(), change)).await
}

#[tokio::test]
async fn a22_http_1_0_closes_the_connection() {
    let origin = broken(faults::http10).await;
    let response = get(&origin, &["Range: bytes=5-9"]).await;
    assert!(
        response
            .head
            .starts_with("HTTP/1.0 206 Partial Content\r\n"),
        "{}",
        response.head
    );
    assert_eq!(
        (response.body, response.end),
        (part(5..10), ConnectionEnd::Closed)
    );
}

#[tokio::test]
async fn a22_names_are_in_lower_case() {
    let origin = broken(faults::lower_case_names).await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send_request("GET /f.bin", &["Range: bytes=5-9"]).await;
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
    let response = get(&broken(faults::folded_header).await, &["Range: bytes=5-9"]).await;
    assert!(
        response
            .head
            .contains("\r\nX-Folded: the first line\r\n and the second\r\n"),
        "{}",
        response.head
    );
    assert_eq!(response.body, part(5..10));
}

#[tokio::test]
async fn a22_interim_responses_come_first() {
    for status in [100, 103] {
        let origin = broken(faults::interim_response(status)).await;
        let mut raw = RawConnection::to(origin.address()).await;
        raw.send_request("GET /f.bin", &["Range: bytes=5-9"]).await;
        let interim = raw.head().await.unwrap();
        assert!(
            interim.starts_with(&format!("HTTP/1.1 {status} ")),
            "{interim}"
        );
        let response = raw.read_response(false).await;
        assert_eq!((response.status(), response.body), (206, part(5..10)));
    }
}

#[tokio::test]
async fn a23_heads_never_end() {
    let mut raw = RawConnection::to(broken(faults::endless_head).await.address()).await;
    raw.send("GET /f.bin HTTP/1.1\r\n\r\n").await;
    // The origin was a temporary value and is dropped.
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
async fn a23_heads_are_huge_or_contain_invalid_bytes() {
    let response = get(
        &broken(faults::huge_header(1 << 20)).await,
        &["Range: bytes=5-9"],
    )
    .await;
    assert_eq!(response.field("X-Huge").map(str::len), Some(1 << 20));
    assert_eq!(response.body, part(5..10));
    let response = get(&broken(faults::nul_in_header).await, &[]).await;
    assert_eq!(response.field("X-Nul"), Some("a\0b"));
    let response = get(&broken(faults::invalid_header_name).await, &[]).await;
    assert!(
        response.head.contains("\r\nBad Name: x\r\n"),
        "{}",
        response.head
    );
    let mut raw = RawConnection::to(broken(faults::response_splitting).await.address()).await;
    assert_eq!(raw.rest().await.0, b"");
    let origin = broken(faults::response_splitting).await;
    let mut raw = RawConnection::to(origin.address()).await;
    let first = raw.exchange("GET /f.bin", &["Range: bytes=5-9"]).await;
    assert_eq!(first.body, b"x");
    assert!(raw.buffer.starts_with(b"\r\nHTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a25_file_names_are_not_changed() {
    for name in ["../../x", "/etc/passwd", "a\\\"b", &"n".repeat(300), "CON"] {
        let response = get(&broken(faults::content_disposition(name)).await, &[]).await;
        let expected = format!("attachment; filename=\"{name}\"");
        assert_eq!(
            response.field("Content-Disposition"),
            Some(expected.as_str())
        );
    }
    let extended = "attachment; filename*=UTF-8''na%C3%AFve.bin";
    let response = get(
        &broken(faults::header("Content-Disposition", extended)).await,
        &[],
    )
    .await;
    assert_eq!(response.field("Content-Disposition"), Some(extended));
}

#[tokio::test]
async fn heads_come_in_small_pieces() {
    let origin = broken(faults::trickled_head(1)).await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send_request("GET /f.bin", &["Range: bytes=5-9"]).await;
    raw.fill(1).await;
    assert!(raw.buffer.len() < 100, "{} bytes at once", raw.buffer.len());
    let response = raw.read_response(false).await;
    assert_eq!((response.status(), response.body), (206, part(5..10)));
}
