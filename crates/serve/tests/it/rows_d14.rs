//! D14: shutdown with unfinished requests.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use haul_lab::ResourceContent;
use haul_serve::accept::AcceptStrategy;
use tokio::time::Instant;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, ServerSetup, TestServer, wait_until};

/// More than both ends' socket buffers hold.
const LARGE: u64 = 16 << 20;

#[test]
#[expect(clippy::too_many_lines, reason = "one sequence of steps")]
fn d14_shutdown_finishes_open_requests_and_accepts_no_new_ones() {
    let file = ResourceContent::random(14, LARGE).to_vec();
    for accept in AcceptStrategy::ALL {
        let mut server = ServerSetup::with_strategy(accept).start();
        server.write_file("f", &file);
        let mut idle: Vec<_> = TestTransport::HTTP1
            .map(|transport| TestClient::connect(&server, transport))
            .into();
        for client in &mut idle {
            assert_eq!(client.request("HEAD", "/f", &[]).status, 200);
        }
        // A connection on which nothing was sent.
        idle.push(TestClient::connect_plain(&server));
        let mut readers =
            TestTransport::HTTP1.map(|transport| TestClient::connect(&server, transport));
        for reader in &mut readers {
            reader.send(request_head("GET", "/f", &[]));
            reader.take(1).unwrap();
        }
        let mut writers =
            TestTransport::HTTP1.map(|transport| TestClient::connect(&server, transport));
        for (index, writer) in writers.iter_mut().enumerate() {
            let path = format!("/put-{index}");
            writer
                .send(request_head("PUT", &path, &[("Content-Length", "1000000")]))
                .send(vec![b'x'; 500_000]);
        }
        wait_until("all are being written", || {
            server.temporary_files() == writers.len()
        });
        // An incomplete head is not a request.
        let mut with_partial_head = TestClient::connect_plain(&server);
        with_partial_head.send("GET /f HTTP/1.1\r\nHost: x\r\n");
        let (plain, unix) = (server.plain, server.unix.clone());
        server.stop_token().cancel();
        wait_until("idle connections end", || {
            idle.iter_mut().all(|client| matches!(client.read(), Ok(0)))
        });
        wait_until("no more are accepted", || {
            is_refused(TcpStream::connect(plain))
        });
        wait_until("nor there", || is_refused(UnixStream::connect(&unix)));
        std::thread::scope(|scope| {
            let outcome = scope.spawn(|| server.shut_down(LIMIT));
            for (index, writer) in writers.iter_mut().enumerate() {
                writer.send(vec![b'x'; 500_000]);
                let response = writer.read_response_to("PUT");
                assert_eq!(response.status, 201, "{accept} {index}");
                assert_eq!(response.header("connection"), Some("close"));
                writer.assert_closed();
            }
            for reader in &mut readers {
                let all = reader.read_to_end();
                assert!(
                    all.ends_with(&file[1000..]),
                    "{accept}: {} bytes",
                    all.len()
                );
            }
            drop(with_partial_head);
            assert_eq!(outcome.join().unwrap(), 0, "{accept}");
        });
        for index in 0..writers.len() {
            assert_eq!(
                server.read_file(&format!("put-{index}")).unwrap().len(),
                1_000_000
            );
        }
        assert_eq!(server.temporary_files(), 0);
    }
}

/// Whether connections are refused. A connection that was queued before and is dropped counts, too.
fn is_refused<S>(connected: std::io::Result<S>) -> bool {
    connected.is_err()
}

#[test]
fn d14_requests_beyond_the_grace_period_are_aborted() {
    let file = ResourceContent::random(14, LARGE).to_vec();
    for accept in AcceptStrategy::ALL {
        for transport in TestTransport::HTTP1 {
            let mut server = ServerSetup::with_strategy(accept).start();
            server.write_file("f", &file);
            server.write_file("key", "old");
            let mut unread_client = TestClient::connect(&server, transport);
            unread_client.send(request_head("GET", "/f", &[]));
            unread_client.take(1).unwrap();
            let mut writer = TestClient::connect(&server, transport);
            writer
                .send(request_head(
                    "PUT",
                    "/key",
                    &[("Content-Length", "1000000")],
                ))
                .send(vec![b'x'; 500_000]);
            wait_until("the upload has a temporary file", || {
                server.temporary_files() == 1
            });
            let started = Instant::now();
            assert_eq!(
                server.shut_down(Duration::from_millis(300)),
                2,
                "{accept} {transport:?}"
            );
            let elapsed = started.elapsed();
            assert!(
                elapsed >= Duration::from_millis(300) && elapsed < Duration::from_secs(10),
                "{elapsed:?}"
            );
            // The client can see that the response is incomplete.
            assert!(unread_client.read_until_closed().len() < file.len());
            assert_eq!(
                server.read_file("key").unwrap(),
                b"old",
                "{accept} {transport:?}"
            );
            assert_eq!(server.temporary_files(), 0, "{accept} {transport:?}");
        }
    }
}

#[test]
fn d14_an_idle_server_shuts_down_at_once() {
    for accept in AcceptStrategy::ALL {
        let mut server = ServerSetup::with_strategy(accept).start();
        let _idle = TestTransport::HTTP1.map(|transport| TestClient::connect(&server, transport));
        let started = Instant::now();
        assert_eq!(server.shut_down(LIMIT), 0, "{accept}");
        assert!(
            started.elapsed() < LIMIT / 3,
            "{accept}: {:?}",
            started.elapsed()
        );
    }
}

#[test]
fn d14_http2_streams_are_finished_at_shutdown() {
    let file = ResourceContent::random(14, LARGE).to_vec();
    let file = &file[..3 << 20];
    for transport in [TestTransport::Http2, TestTransport::Http2Tls] {
        let mut server = TestServer::start();
        server.write_file("f", file);
        let stopper = server.stop_token();
        let body = crate::http2::block_on(async {
            let stream = crate::http2::connect(&server, transport).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let download = async {
                let mut sender = sender.ready().await.unwrap();
                let request = http::Request::get("http://store.test/f").body(()).unwrap();
                let (response, _) = sender.send_request(request, true).unwrap();
                let mut incoming = response.await.unwrap().into_body();
                stopper.cancel();
                let mut body = Vec::new();
                while let Some(data) = incoming.data().await {
                    let data = data.unwrap();
                    incoming
                        .flow_control()
                        .release_capacity(data.len())
                        .unwrap();
                    body.extend_from_slice(&data);
                }
                body
            };
            // The connection ends after its last stream.
            let (outcome, body) = tokio::join!(connection, download);
            outcome.unwrap();
            body
        });
        assert!(body == file, "{transport:?}");
        assert_eq!(server.shut_down(LIMIT), 0, "{transport:?}");
    }
}
