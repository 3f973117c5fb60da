//! Several requests on one connection: of the client, and to where they go.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

/// The first lines of the requests that a server received, each with the number of its connection.
type RequestLines = Arc<Mutex<Vec<(usize, String)>>>;

/// A server that keeps its connections.
async fn keeping() -> (ScriptedTarget, RequestLines) {
    let lines = RequestLines::default();
    let seen = Arc::clone(&lines);
    let server = ScriptedTarget::new(move |mut stream, number| {
        let seen = Arc::clone(&seen);
        async move {
            loop {
                let head = read_head(&mut stream).await;
                let length = field(&head, "content-length").map_or(0, |text| text.parse().unwrap());
                read(&mut stream, length).await;
                let line = head.lines().next().unwrap().to_owned();
                seen.lock().unwrap().push((number, line));
                let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                stream.write_all(response).await.unwrap();
            }
        }
    })
    .await;
    (server, lines)
}

async fn request(client: &mut TcpStream, method: &str, url: &str, body: &str) -> String {
    let length = body.len();
    let request = format!("{method} {url} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
    send(client, request.as_bytes()).await;
    read_response(client).await
}

#[tokio::test]
async fn requests_of_a_client_share_its_connection_and_the_one_to_the_origin() {
    let (server, lines) = keeping().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    for n in 0..3 {
        let url = format!("http://{}/{n}", server.address);
        let response = request(&mut client, "GET", &url, "").await;
        assert!(response.ends_with("ok"), "{response}");
        // A line for each of them.
        let line = fixture.log.line(n).await;
        let is_its = line.contains(&server.address.to_string()) && line.contains("\"closed\"");
        assert!(is_its, "{line}");
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(lines.lock().unwrap().len(), 3);
    assert_eq!(fixture.engine.connection_count(), 1);
    // Between requests it leads nowhere, and its end is no line of the log.
    assert_eq!(fixture.status().connections[0].up, 0);
    drop(client);
    fixture.wait_for_connections(0).await;
    assert_eq!(fixture.log.count(), 3);
}

#[tokio::test]
async fn a_proxy_gets_requests_for_several_origins_over_one_connection() {
    let (proxy, lines) = keeping().await;
    let fixture = EngineFixture::http(through(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    for host in ["one.test", "two.test"] {
        request(&mut client, "GET", &format!("http://{host}/"), "").await;
    }
    assert_eq!(proxy.accepted(), 1);
    let lines = lines.lock().unwrap();
    assert_eq!(lines[1], (0, "GET http://two.test/ HTTP/1.1".to_owned()));
}

/// Requests of two origins alternate on the client's connection: each origin sees its own.
#[tokio::test]
async fn a_request_never_reaches_another_requests_origin() {
    let ((one, one_lines), (two, two_lines)) = (keeping().await, keeping().await);
    let fixture = EngineFixture::http(direct());
    for is_pipelined in [false, true] {
        let mut client = fixture.connect().await;
        for (fields, body) in [
            ("", &b""[..]),
            ("Content-Length: 4\r\n", b"body"),
            ("X: y\r\n", b""),
        ] {
            let first = format!("POST http://{}/first HTTP/1.1\r\n{fields}\r\n", one.address);
            let first = [first.as_bytes(), body].concat();
            let second = format!("GET http://{}/second HTTP/1.1\r\n\r\n", two.address);
            if is_pipelined {
                send(&mut client, &[&first, second.as_bytes()].concat()).await;
                read_response(&mut client).await;
            } else {
                send(&mut client, &first).await;
                read_response(&mut client).await;
                send(&mut client, second.as_bytes()).await;
            }
            assert!(read_response(&mut client).await.ends_with("ok"));
        }
    }
    let are_all = |lines: &RequestLines, path: &str| {
        let lines = lines.lock().unwrap();
        lines.len() == 6 && lines.iter().all(|(_, line)| line.contains(path))
    };
    assert!(are_all(&one_lines, " /first "), "{one_lines:?}");
    assert!(are_all(&two_lines, " /second "), "{two_lines:?}");
}

/// A kept connection may be closed at any time, and what cannot be sent twice must not be lost.
#[tokio::test]
async fn a_request_that_cannot_be_sent_twice_has_a_connection_of_its_own() {
    let (server, lines) = keeping().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let url = format!("http://{}/", server.address);
    request(&mut client, "GET", &url, "").await;
    request(&mut client, "POST", &url, "body").await;
    request(&mut client, "POST", &url, "").await;
    // PUT can, but its body cannot.
    request(&mut client, "PUT", &url, "body").await;
    // It goes over the last one.
    request(&mut client, "GET", &url, "").await;
    let connections: Vec<usize> = lines.lock().unwrap().iter().map(|(n, _)| *n).collect();
    assert_eq!(connections, [0, 1, 2, 3, 3]);
}

/// The server closes after each response without saying so.
#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_replaced() {
    let server = ScriptedTarget::new(|mut stream, _| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(response).await.unwrap();
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let url = format!("http://{}/", server.address);
    for n in 0..5 {
        let response = request(&mut client, "GET", &url, "").await;
        assert!(response.ends_with("ok"), "{n}: {response}");
    }
    assert_eq!(server.accepted(), 5);
}

/// The server closes when the next request comes, before it has read it.
#[tokio::test]
async fn a_request_that_a_closing_connection_swallows_is_sent_again() {
    let server = ScriptedTarget::new(|mut stream, number| async move {
        read_head(&mut stream).await;
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(response).await.unwrap();
        if number == 0 {
            stream.readable().await.unwrap();
            stream.set_zero_linger().unwrap();
        } else {
            read_to_end(&mut stream).await;
        }
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let url = format!("http://{}/", server.address);
    for _ in 0..2 {
        let response = request(&mut client, "GET", &url, "").await;
        assert!(response.ends_with("ok"), "{response}");
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_client_that_says_so_is_closed_after_its_response() {
    let (server, _) = keeping().await;
    let fixture = EngineFixture::http(direct());
    for head in [
        format!(
            "GET http://{}/ HTTP/1.1\r\nConnection: close\r\n\r\n",
            server.address
        ),
        format!("GET http://{}/ HTTP/1.0\r\n\r\n", server.address),
    ] {
        let response = fixture.request(head.as_bytes()).await;
        assert!(response.ends_with("ok"), "{response}");
    }
    fixture.wait_for_connections(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_idle_between_requests_is_closed_in_time() {
    let (server, _) = keeping().await;
    let fixture = EngineFixture::http(direct());
    let mut client = TcpStream::connect(fixture.address).await.unwrap();
    let get = format!("GET http://{}/ HTTP/1.1\r\n\r\n", server.address);
    client.write_all(get.as_bytes()).await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert!(all.ends_with(b"ok"));
    let waited = begun.elapsed().as_secs();
    assert!((29..60).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_client_between_requests_does_not_delay_the_end() {
    let (server, _) = keeping().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let url = format!("http://{}/", server.address);
    request(&mut client, "GET", &url, "").await;
    assert_eq!(within(LIMIT, fixture.engine.shut_down(LIMIT)).await, 0);
    assert_eq!(read_to_end(&mut client).await, b"");
}

/// The current request has its response. Later requests come over a new connection, by the new config.
#[tokio::test]
async fn a_new_config_ends_connections_after_the_request_under_way() {
    let (received, go) = (
        Arc::new(tokio::sync::Notify::new()),
        Arc::new(tokio::sync::Notify::new()),
    );
    let (received_by_server, go_of_server) = (Arc::clone(&received), Arc::clone(&go));
    let slow = ScriptedTarget::new(move |mut stream, _| {
        let (received, go) = (Arc::clone(&received_by_server), Arc::clone(&go_of_server));
        async move {
            read_head(&mut stream).await;
            received.notify_one();
            go.notified().await;
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(response).await.unwrap();
            read_to_end(&mut stream).await;
        }
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let get = format!("GET http://{}/ HTTP/1.1\r\n\r\n", slow.address);
    send(&mut client, get.as_bytes()).await;
    within(LIMIT, received.notified()).await;
    fixture
        .listener
        .reconfigure(config(haul_tunnel::ListenerKind::Http, direct()));
    // Its task sees that before the response comes.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go.notify_one();
    let response = String::from_utf8(read_to_end(&mut client).await).unwrap();
    assert_eq!(field(&response, "connection"), Some("close"), "{response}");
    assert!(response.ends_with("ok"), "{response}");
}

#[tokio::test]
async fn the_end_cuts_off_a_request_under_way() {
    let mute = ScriptedTarget::new(|mut stream, _| async move {
        read_to_end(&mut stream).await;
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let get = format!("GET http://{}/ HTTP/1.1\r\n\r\n", mute.address);
    send(&mut client, get.as_bytes()).await;
    wait_until(|| mute.accepted() == 1).await;
    let left = within(LIMIT, fixture.engine.shut_down(Duration::from_millis(20))).await;
    assert_eq!(left, 1);
    assert!(!matches!(client.read(&mut [0; 1]).await, Ok(1..)));
    assert!(fixture.log.line(0).await.contains("\"stopped\""));
}
