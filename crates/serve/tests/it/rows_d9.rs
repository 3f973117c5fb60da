//! D9: slow clients time out, and other clients are served meanwhile.
//!
//! Timeouts are a few hundred milliseconds here. A test waits until the server closes the
//! connection, never for a fixed time.

use std::sync::Arc;
use std::time::Duration;

use haul_serve::accept::AcceptStrategy;
use haul_serve::observe::ServeMetrics;
use haul_serve::{FileServerOptions, TimeoutOptions};
use tokio::time::Instant;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, ServerSetup, TestServer, metric, wait_until};

/// The timeout that a test shortens to this value.
const SHORT: Duration = Duration::from_millis(300);

/// A server with one thread, so that a blocked thread would delay all clients.
fn start_server(timeouts: TimeoutOptions) -> TestServer {
    start_with_metrics(timeouts).0
}

/// The same, with its metrics.
fn start_with_metrics(timeouts: TimeoutOptions) -> (TestServer, Arc<ServeMetrics>) {
    let mut setup = ServerSetup::with_strategy(AcceptStrategy::Single);
    let metrics = Arc::new(ServeMetrics::default());
    setup.server = FileServerOptions {
        timeouts,
        metrics: Arc::clone(&metrics),
        ..FileServerOptions::default()
    };
    let server = setup.start();
    server.write_file("f", "here");
    server.write_file("large", vec![b'x'; 16 << 20]);
    (server, metrics)
}

/// The number of clients that timed out while they read a response.
fn timed_out_readers(metrics: &ServeMetrics) -> u64 {
    metric(metrics, "haul_errors_total{kind=\"send_timeout\"}")
}

/// Timeouts that never expire in a test. Each test shortens one.
fn long_timeouts() -> TimeoutOptions {
    TimeoutOptions {
        handshake: LIMIT,
        request_head: LIMIT,
        idle: LIMIT,
        grace: LIMIT,
        ..TimeoutOptions::default()
    }
}

/// Serves other clients until a condition holds.
#[track_caller]
fn serve_others_until(server: &TestServer, mut is_over: impl FnMut() -> bool) {
    let mut other = TestClient::connect_plain(server);
    wait_until("the connection times out", || {
        let request = Instant::now();
        assert_eq!(other.request("GET", "/f", &[]).text(), "here");
        assert!(
            request.elapsed() < Duration::from_secs(5),
            "others do notice"
        );
        is_over()
    });
}

#[test]
fn d9_a_head_that_arrives_too_slowly_times_out() {
    let server = start_server(TimeoutOptions {
        request_head: SHORT,
        ..long_timeouts()
    });
    for transport in TestTransport::HTTP1 {
        let started = Instant::now();
        let mut slow = TestClient::connect(&server, transport);
        let mut bytes = "GET /f HTTP/1.1\r\nHost: store.test\r\nX: "
            .bytes()
            .chain(std::iter::repeat(b'y'));
        slow.send([bytes.next().unwrap()]);
        serve_others_until(&server, || {
            slow.try_send([bytes.next().unwrap()]).is_err() || slow.has_ended()
        });
        assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
        let received = slow.read_until_closed();
        assert!(
            received.is_empty() || received.starts_with(b"HTTP/1.1 408"),
            "{transport:?} {}",
            received.escape_ascii()
        );
    }
}

#[test]
fn d9_the_head_timeout_starts_again_for_a_second_request() {
    let server = start_server(TimeoutOptions {
        request_head: SHORT,
        ..long_timeouts()
    });
    let mut client = TestClient::connect_plain(&server);
    let started = Instant::now();
    while started.elapsed() < 3 * SHORT {
        assert_eq!(client.request("GET", "/f", &[]).text(), "here");
    }
    let started = Instant::now();
    client.send("GET /f HTTP/1.1\r\n");
    serve_others_until(&server, || client.has_ended());
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
}

#[test]
fn d9_a_connection_without_a_request_times_out() {
    let server = start_server(TimeoutOptions {
        idle: SHORT,
        ..long_timeouts()
    });
    for transport in TestTransport::HTTP1 {
        let started = Instant::now();
        let mut used = TestClient::connect(&server, transport);
        assert_eq!(used.request("GET", "/f", &[]).text(), "here");
        serve_others_until(&server, || used.has_ended());
        assert!(started.elapsed() >= SHORT / 2, "{:?}", started.elapsed());
        used.assert_closed();
    }
    let started = Instant::now();
    let mut silent = TestClient::connect_plain(&server);
    serve_others_until(&server, || silent.has_ended());
    assert!(started.elapsed() >= SHORT / 2, "{:?}", started.elapsed());
}

#[test]
fn d9_a_missing_handshake_times_out() {
    let (server, metrics) = start_with_metrics(TimeoutOptions {
        handshake: SHORT,
        ..long_timeouts()
    });
    let started = Instant::now();
    let mut silent = TestClient::from_tcp(std::net::TcpStream::connect(server.tls).unwrap());
    serve_others_until(&server, || silent.has_ended());
    assert!(started.elapsed() >= SHORT / 2, "{:?}", started.elapsed());
    wait_until("the metric is updated", || {
        metric(&metrics, "haul_errors_total{kind=\"tls_timeout\"}") == 1
    });
}

#[test]
fn d9_a_body_that_arrives_too_slowly_times_out_and_changes_nothing() {
    let server = start_server(TimeoutOptions {
        grace: SHORT,
        min_body_rate: 1 << 20,
        ..long_timeouts()
    });
    for transport in TestTransport::HTTP1 {
        let started = Instant::now();
        let mut slow = TestClient::connect(&server, transport);
        slow.send(request_head("PUT", "/f", &[("Content-Length", "1000000")]))
            .send(vec![b'x'; 100_000]);
        serve_others_until(&server, || {
            slow.try_send([b'x']).is_err() || slow.has_ended()
        });
        assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
        let received = slow.read_until_closed();
        assert!(
            received.is_empty() || received.starts_with(b"HTTP/1.1 408"),
            "{transport:?} {}",
            received.escape_ascii()
        );
        wait_until("the temporary files are removed", || {
            server.temporary_files() == 0
        });
        assert_eq!(server.get("/f").text(), "here");
    }
}

#[test]
fn d9_a_stalled_body_times_out() {
    let server = start_server(TimeoutOptions {
        grace: SHORT,
        ..long_timeouts()
    });
    for framing in [("Content-Length", "10"), ("Transfer-Encoding", "chunked")] {
        let started = Instant::now();
        let mut slow = TestClient::connect_plain(&server);
        slow.send(request_head("PUT", "/f", &[framing]));
        serve_others_until(&server, || slow.has_ended());
        assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
        assert_eq!(server.get("/f").text(), "here");
    }
}

#[test]
fn d9_a_client_that_never_reads_times_out() {
    let (server, metrics) = start_with_metrics(TimeoutOptions {
        grace: SHORT,
        ..long_timeouts()
    });
    for (index, transport) in TestTransport::HTTP1.into_iter().enumerate() {
        let started = Instant::now();
        let mut slow = TestClient::connect(&server, transport);
        slow.send(request_head("GET", "/large", &[]));
        slow.take(1).unwrap();
        // The client sees the end of the connection only after everything that was sent before.
        serve_others_until(&server, || timed_out_readers(&metrics) > index as u64);
        assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
        assert!(slow.read_until_closed().len() < 16 << 20, "{transport:?}");
    }
}

/// Slow and steady progress is not a stall.
#[test]
fn d9_a_slow_and_steady_reader_gets_everything() {
    let server = start_server(TimeoutOptions {
        grace: 5 * SHORT,
        min_reader_rate: 1000,
        ..long_timeouts()
    });
    let mut slow = TestClient::connect_plain(&server);
    slow.set_deadline(2 * LIMIT);
    slow.send(request_head("GET", "/large", &[]));
    let head = slow.read_head();
    assert_eq!(head.status, 200);
    // A read of 64 KiB and a request of another client, in turn.
    let mut other = TestClient::connect_plain(&server);
    let mut received = 0;
    while received < 16 << 20 {
        received += slow
            .take(64 << 10)
            .expect("the connection has not timed out")
            .len();
        assert_eq!(other.request("GET", "/f", &[]).text(), "here");
    }
}

#[test]
fn d9_http2_clients_time_out() {
    let (server, metrics) = start_with_metrics(TimeoutOptions {
        grace: SHORT,
        idle: SHORT,
        request_head: SHORT,
        handshake: SHORT,
        ..long_timeouts()
    });
    for (index, transport) in [TestTransport::Http2, TestTransport::Http2Tls]
        .into_iter()
        .enumerate()
    {
        let started = Instant::now();
        crate::http2::block_on(async {
            let stream = crate::http2::connect(&server, transport).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            // Without a request the connection is idle.
            let _ = connection.await;
            drop(sender);
        });
        assert!(started.elapsed() >= SHORT, "{transport:?}");
        crate::http2::block_on(async {
            let stream = crate::http2::connect(&server, transport).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let mut sender = sender.ready().await.unwrap();
            let request = http::Request::get("http://store.test/large")
                .body(())
                .unwrap();
            let (response, _stream) = sender.send_request(request, true).unwrap();
            // The client does not enlarge the window.
            let unread_client = async {
                let _incoming = response.await.unwrap().into_body();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = connection => {}
                () = unread_client => {}
            }
        });
        // The timeout is counted when the connection has ended.
        wait_until("a slow reader", || {
            timed_out_readers(&metrics) == index as u64 + 1
        });
        assert_eq!(server.request(transport, "GET", "/f", &[]).text(), "here");
    }
}

#[test]
fn d9_a_slow_and_steady_http2_reader_does_not_time_out() {
    let server = start_server(TimeoutOptions {
        grace: SHORT,
        ..long_timeouts()
    });
    for transport in [TestTransport::Http2, TestTransport::Http2Tls] {
        crate::http2::block_on(async {
            let stream = crate::http2::connect(&server, transport).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let reading = async {
                let mut sender = sender.ready().await.unwrap();
                let request = http::Request::get("http://store.test/large")
                    .body(())
                    .unwrap();
                let (response, _stream) = sender.send_request(request, true).unwrap();
                let mut body = response.await.unwrap().into_body();
                let started = Instant::now();
                // The HTTP/2 window allows less than the socket would accept.
                while started.elapsed() < SHORT * 5 {
                    let chunk = body
                        .data()
                        .await
                        .unwrap()
                        .expect("the response has not timed out");
                    body.flow_control().release_capacity(chunk.len()).unwrap();
                    tokio::time::sleep(SHORT / 10).await;
                }
            };
            tokio::select! {
                ended = connection => panic!("{transport:?}: the connection timed out: {ended:?}"),
                () = reading => {}
            }
        });
    }
}

#[test]
fn d9_a_rate_limited_idle_connection_times_out() {
    let mut setup = ServerSetup::with_strategy(AcceptStrategy::Single);
    setup.server = FileServerOptions {
        timeouts: TimeoutOptions {
            idle: SHORT,
            ..long_timeouts()
        },
        // The head takes longer than the idle timeout.
        connection_rate: Some(8 << 10),
        ..FileServerOptions::default()
    };
    let server = setup.start();
    server.write_file("f", "here");
    let mut client = TestClient::connect_plain(&server);
    let padding = "x".repeat(12 << 10);
    assert_eq!(
        client
            .request("GET", "/f", &[("x-padding", &padding)])
            .text(),
        "here"
    );
    assert_eq!(client.read_to_end(), b"", "the connection is closed");
}
