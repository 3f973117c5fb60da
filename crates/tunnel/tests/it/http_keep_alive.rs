//! Several requests on one connection, both of the client and to the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

/// The request lines that a server received, each with the number of its connection.
type RequestLines = Arc<Mutex<Vec<(usize, String)>>>;

/// A server that keeps its connections open, and the requests that it received.
async fn keep_alive_server() -> (ScriptedServer, RequestLines) {
    let lines = RequestLines::default();
    let seen = Arc::clone(&lines);
    let server = ScriptedServer::new(move |mut stream, number| {
        let seen = Arc::clone(&seen);
        async move {
            loop {
                let head = read_head(&mut stream).await;
                let length =
                    header_value(&head, "content-length").map_or(0, |text| text.parse().unwrap());
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
    let (server, lines) = keep_alive_server().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    for n in 0..3 {
        let url = format!("http://{}/{n}", server.address);
        let response = request(&mut client, "GET", &url, "").await;
        assert!(response.ends_with("ok"), "{response}");
        // The log has a line for each request.
        let line = fixture.log.line(n).await;
        let is_logged = line.contains(&server.address.to_string()) && line.contains("\"closed\"");
        assert!(is_logged, "{line}");
    }
    assert_eq!(server.accepted(), 1);
    assert_eq!(lines.lock().unwrap().len(), 3);
    assert_eq!(fixture.engine.connection_count(), 1);
    // Between requests the connection has no target, and its end is not logged.
    assert_eq!(fixture.status().connections[0].up, 0);
    drop(client);
    fixture.wait_for_connections(0).await;
    assert_eq!(fixture.log.count(), 3);
}

#[tokio::test]
async fn a_proxy_gets_requests_for_several_origins_over_one_connection() {
    let (proxy, lines) = keep_alive_server().await;
    let fixture = EngineFixture::http(through_proxy(&proxy.proxy_url()));
    let mut client = fixture.connect().await;
    for host in ["one.test", "two.test"] {
        request(&mut client, "GET", &format!("http://{host}/"), "").await;
    }
    assert_eq!(proxy.accepted(), 1);
    let lines = lines.lock().unwrap();
    assert_eq!(lines[1], (0, "GET http://two.test/ HTTP/1.1".to_owned()));
}

/// Requests to two origins alternate on the connection of the client. Each origin gets only its own.
#[tokio::test]
async fn a_request_never_reaches_the_origin_of_another_request() {
    let ((one, one_lines), (two, two_lines)) =
        (keep_alive_server().await, keep_alive_server().await);
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

/// A server may close an idle connection at any time, so only requests that can be sent again use one.
#[tokio::test]
async fn a_request_that_cannot_be_sent_again_gets_a_new_connection() {
    let (server, lines) = keep_alive_server().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let url = format!("http://{}/", server.address);
    request(&mut client, "GET", &url, "").await;
    request(&mut client, "POST", &url, "body").await;
    request(&mut client, "POST", &url, "").await;
    // PUT is idempotent, but its body cannot be sent again.
    request(&mut client, "PUT", &url, "body").await;
    // GET uses the last connection.
    request(&mut client, "GET", &url, "").await;
    let connections: Vec<usize> = lines.lock().unwrap().iter().map(|(n, _)| *n).collect();
    assert_eq!(connections, [0, 1, 2, 3, 3]);
}

/// The server closes after each response without `Connection: close`.
#[tokio::test]
async fn an_idle_connection_that_the_server_closed_is_replaced() {
    let server = ScriptedServer::new(|mut stream, _| async move {
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

/// The server closes when the second request arrives, before it has read it.
#[tokio::test]
async fn a_request_on_a_connection_that_is_just_closed_is_sent_again() {
    let server = ScriptedServer::new(|mut stream, number| async move {
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
async fn connection_close_and_http_1_0_close_the_client_after_the_response() {
    let (server, _) = keep_alive_server().await;
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
async fn a_client_that_is_idle_between_requests_is_closed_after_a_timeout() {
    let (server, _) = keep_alive_server().await;
    let fixture = EngineFixture::http(direct());
    let mut client = TcpStream::connect(fixture.address).await.unwrap();
    let get = format!("GET http://{}/ HTTP/1.1\r\n\r\n", server.address);
    client.write_all(get.as_bytes()).await.unwrap();
    let started = tokio::time::Instant::now();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert!(all.ends_with(b"ok"));
    let waited = started.elapsed().as_secs();
    assert!((29..60).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_client_between_requests_does_not_delay_shutdown() {
    let (server, _) = keep_alive_server().await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let url = format!("http://{}/", server.address);
    request(&mut client, "GET", &url, "").await;
    assert_eq!(within(LIMIT, fixture.engine.shut_down(LIMIT)).await, 0);
    assert_eq!(read_to_end(&mut client).await, b"");
}

/// The current request gets its response. The connection is closed then, so that later requests use the new configuration.
#[tokio::test]
async fn a_new_configuration_closes_connections_after_the_current_request() {
    let (received, respond) = (
        Arc::new(tokio::sync::Notify::new()),
        Arc::new(tokio::sync::Notify::new()),
    );
    let (received_by_server, respond_of_server) = (Arc::clone(&received), Arc::clone(&respond));
    let slow = ScriptedServer::new(move |mut stream, _| {
        let (received, respond) = (
            Arc::clone(&received_by_server),
            Arc::clone(&respond_of_server),
        );
        async move {
            read_head(&mut stream).await;
            received.notify_one();
            respond.notified().await;
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
    // The task of the connection sees the new configuration before the response arrives.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    respond.notify_one();
    let response = String::from_utf8(read_to_end(&mut client).await).unwrap();
    assert_eq!(
        header_value(&response, "connection"),
        Some("close"),
        "{response}"
    );
    assert!(response.ends_with("ok"), "{response}");
}

#[tokio::test]
async fn shutdown_cuts_off_a_request_after_its_timeout() {
    let unresponsive = ScriptedServer::new(|mut stream, _| async move {
        read_to_end(&mut stream).await;
    })
    .await;
    let fixture = EngineFixture::http(direct());
    let mut client = fixture.connect().await;
    let get = format!("GET http://{}/ HTTP/1.1\r\n\r\n", unresponsive.address);
    send(&mut client, get.as_bytes()).await;
    wait_until(|| unresponsive.accepted() == 1).await;
    let open_count = within(LIMIT, fixture.engine.shut_down(Duration::from_millis(20))).await;
    assert_eq!(open_count, 1);
    assert!(!matches!(client.read(&mut [0; 1]).await, Ok(1..)));
    assert!(fixture.log.line(0).await.contains("\"stopped\""));
}
