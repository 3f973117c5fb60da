//! Request and response bodies: framing, byte counts, `Expect: 100-continue` and backpressure.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::*;
use crate::http_forwarding::OK;

/// The client gets 100 Continue when the server sends it, and the body is not sent to the server before.
#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it_from_the_server() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        // No byte of the body is sent before 100 Continue.
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), stream.read_u8());
        assert!(early.await.is_err());
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        stream.write_all(interim).await.unwrap();
        assert_eq!(read(&mut stream, 4).await, b"body");
        stream.write_all(OK.as_bytes()).await.unwrap();
    })
    .await;
    let post = format!(
        "POST http://{}/ HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        server.address
    );
    for upstream in [direct(), through_proxy(&server.proxy_url())] {
        let fixture = EngineFixture::http(upstream);
        let mut client = fixture.connect().await;
        send(&mut client, post.as_bytes()).await;
        assert_eq!(
            read_head(&mut client).await,
            "HTTP/1.1 100 Continue\r\n\r\n"
        );
        send(&mut client, b"body").await;
        let response = read_response(&mut client).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    }
}

/// The server rejects the request after reading its head, so the client does not send the body.
#[tokio::test]
async fn an_error_response_instead_of_100_continue_arrives_without_the_body() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno";
        stream.write_all(response).await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"");
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let post = format!(
        "POST http://{}/ HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        server.address
    );
    let response = fixture.http_request(post.as_bytes()).await;
    assert!(response.starts_with("HTTP/1.1 417 No\r\n"), "{response}");
}

/// An HTTP/1.0 server does not know `Expect`, so the wait for 100 Continue has a timeout.
#[tokio::test(start_paused = true)]
async fn a_body_is_sent_after_a_timeout_to_a_server_that_sends_no_100_continue() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        assert_eq!(read(&mut stream, 4).await, b"body");
        stream.write_all(OK.as_bytes()).await.unwrap();
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = tokio::net::TcpStream::connect(fixture.address)
        .await
        .unwrap();
    let post = format!(
        "POST http://{}/ HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody",
        server.address
    );
    client.write_all(post.as_bytes()).await.unwrap();
    let mut all = vec![0; 25];
    client.read_exact(&mut all).await.unwrap();
    assert_eq!(all, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.read_exact(&mut all).await.unwrap();
    assert!(all.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn logged_byte_counts_include_the_heads_that_were_sent() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        let head = read_head(&mut stream).await;
        if head.starts_with("POST") {
            read(&mut stream, 4).await;
        }
        let length = head.len();
        let response = format!("HTTP/1.1 200 OK\r\nX-Head: {length}\r\nConnection: close\r\n\r\n");
        stream.write_all(response.as_bytes()).await.unwrap();
    })
    .await;
    for upstream in [
        direct(),
        through_proxy(&server.proxy_url()),
        with_login(&server),
    ] {
        let fixture = EngineFixture::http(upstream);
        let mut client = fixture.connect().await;
        for (n, body) in ["", "body", "", "body"].into_iter().enumerate() {
            let method = if body.is_empty() { "GET" } else { "POST" };
            let length = body.len();
            let request = format!(
                "{method} http://{}/ HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}",
                server.address
            );
            send(&mut client, request.as_bytes()).await;
            let response = read_response(&mut client).await;
            let head: usize = header_value(&response, "x-head").unwrap().parse().unwrap();
            let counted = format!("\"up\":{},\"down\":{},", head + length, response.len());
            let line = fixture.log.line(n).await;
            assert!(line.contains(&counted), "{counted} {line}");
        }
    }
}

/// The server gets a body with unambiguous framing, whatever framing the client used.
#[tokio::test]
async fn a_request_body_is_sent_with_new_framing() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        let head = read_head(&mut stream).await;
        let is_chunked = header_value(&head, "transfer-encoding") == Some("chunked");
        let is_sized = header_value(&head, "content-length") == Some("4");
        assert!(is_chunked != is_sized, "{head}");
        let body = if is_chunked {
            read(&mut stream, 14).await
        } else {
            read(&mut stream, 4).await
        };
        let text = String::from_utf8(body).unwrap();
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(response.as_bytes()).await.unwrap();
        read_to_end(&mut stream).await;
    })
    .await;
    let chunks = "4;x=y\r\nbody\r\n0\r\n\r\n";
    for (fields, body, received) in [
        ("Content-Length: 4", "body", "body"),
        ("Content-Length: 4\r\nContent-Length: 4", "body", "body"),
        (
            "Transfer-Encoding: Chunked",
            chunks,
            "4\r\nbody\r\n0\r\n\r\n",
        ),
        // The chunks determine the length, and the connection is closed after the response (RFC 9112 section 6.1).
        (
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            chunks,
            "4\r\nbody\r\n0\r\n\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 3",
            chunks,
            "4\r\nbody\r\n0\r\n\r\n",
        ),
    ] {
        let fixture = EngineFixture::http(direct());
        let url = format!("http://{}/", server.address);
        let second = format!("GET {url} HTTP/1.1\r\n\r\n");
        let post = format!("POST {url} HTTP/1.1\r\n{fields}\r\n\r\n{body}{second}");
        let response = fixture.http_request(post.as_bytes()).await;
        assert!(
            response.ends_with(&format!("\r\n\r\n{received}")),
            "{fields}: {response}"
        );
    }
}

#[tokio::test]
async fn malformed_chunks_in_a_request_get_a_400() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_to_end(&mut stream).await;
    })
    .await;
    for chunks in [
        "4\r\nbodyGET",
        "x\r\n",
        "4\nbody\n",
        "fffffffffffffffff\r\n",
        "4\r\nbody\r\n-1\r\n",
    ] {
        let fixture = EngineFixture::http(direct());
        let post = format!(
            "POST http://{}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}",
            server.address
        );
        let response = fixture.request(post.as_bytes()).await;
        assert!(
            response.starts_with("HTTP/1.1 400 "),
            "{chunks}: {response}"
        );
        let line = fixture.log.line(0).await;
        assert!(
            line.contains("\"broken\"") && line.contains("client broke"),
            "{line}"
        );
    }
}

#[tokio::test]
async fn trailers_are_forwarded_in_both_directions() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        let head = read_head(&mut stream).await;
        assert_eq!(header_value(&head, "te"), Some("trailers"), "{head}");
        let body = read(&mut stream, "4\r\nbody\r\n0\r\nx-sum: 7\r\n\r\n".len()).await.to_ascii_lowercase();
        assert!(body.ends_with(b"0\r\nx-sum: 7\r\n\r\n"), "{body:?}");
        let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Digest\r\n\r\n2\r\nok\r\n0\r\nX-Digest: y\r\n\r\n";
        stream.write_all(response).await.unwrap();
        read_to_end(&mut stream).await;
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let post = format!(
        "POST http://{}/ HTTP/1.1\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n",
        server.address
    );
    let response = fixture.http_request(post.as_bytes()).await;
    assert!(
        response
            .to_ascii_lowercase()
            .ends_with("2\r\nok\r\n0\r\nx-digest: y\r\n\r\n"),
        "{response}"
    );
}

/// Bodies are not buffered: each chunk arrives before the next is sent.
#[tokio::test]
async fn bodies_are_streamed_in_both_directions_at_once() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n";
        stream.write_all(head).await.unwrap();
        echo_all(stream).await;
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let head = format!(
        "POST http://{}/ HTTP/1.1\r\nContent-Length: 20\r\n\r\n",
        server.address
    );
    send(&mut client, head.as_bytes()).await;
    read_head(&mut client).await;
    for _ in 0..5 {
        send(&mut client, b"four").await;
        assert_eq!(read(&mut client, 4).await, b"four");
    }
}

/// A slow client slows the server down, and the tunnel does not buffer the body.
#[tokio::test]
async fn a_client_that_does_not_read_stops_the_server() {
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&sent);
    let server = ScriptedServer::new(move |mut stream, _| {
        let count = std::sync::Arc::clone(&count);
        async move {
            read_head(&mut stream).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 256 << 20);
            stream.write_all(head.as_bytes()).await.unwrap();
            while stream.write_all(&[7; 1 << 16]).await.is_ok() {
                count.fetch_add(1 << 16, std::sync::atomic::Ordering::SeqCst);
            }
        }
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let get = format!("GET http://{}/ HTTP/1.1\r\n\r\n", server.address);
    send(&mut client, get.as_bytes()).await;
    read_head(&mut client).await;
    let (mut last_count, mut unchanged_polls) = (0, 0);
    while unchanged_polls < 2000 {
        tokio::task::yield_now().await;
        let sent_count = sent.load(std::sync::atomic::Ordering::SeqCst);
        unchanged_polls = if sent_count == last_count {
            unchanged_polls + 1
        } else {
            0
        };
        last_count = sent_count;
    }
    // Each socket buffer holds some megabytes.
    assert!(last_count < 64 << 20, "{last_count}");
    drop(client);
    let line = fixture.log.line(0).await;
    assert!(line.contains("\"reset_by_client\""), "{line}");
}

/// A server rejects an upload before it has read it, and closes. The client gets the response although it still sends.
#[tokio::test]
async fn a_response_that_is_sent_before_the_body_was_read_arrives() {
    let server = ScriptedServer::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response =
            b"HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much";
        stream.write_all(response).await.unwrap();
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let head = format!(
        "POST http://{}/ HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
        server.address
    );
    send(&mut client, head.as_bytes()).await;
    let (mut reader, mut writer) = client.split();
    let body = vec![b'x'; 1 << 20];
    let (_, response) = tokio::join!(writer.write_all(&body), read_response(&mut reader));
    assert!(
        response.starts_with("HTTP/1.1 413 ") && response.ends_with("too much"),
        "{response}"
    );
}
