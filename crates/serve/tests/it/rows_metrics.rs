//! Metrics of requests, and rate limits.

use std::sync::Arc;
use std::time::Duration;

use haul_serve::observe::ServeMetrics;
use haul_serve::{FileServerOptions, TimeoutOptions};
use tokio::time::Instant;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer, metric, wait_until};

const SENT: &str = "haul_http_response_body_bytes_total";
const RECEIVED: &str = "haul_http_request_body_bytes_total";
const ABORTED: &str = "haul_errors_total{kind=\"aborted\"}";

fn requests(metrics: &ServeMetrics, method: &str, code: &str) -> u64 {
    let name = format!("haul_http_requests_total{{method=\"{method}\",code=\"{code}\"}}");
    metric(metrics, &name)
}

#[test]
fn bodies_are_counted_exactly_on_every_transport() {
    for transport in TestTransport::ALL {
        let (server, metrics) = ServerSetup::default().start_with_metrics();
        for len in [1_u64, 1000, 700_001] {
            let (sent, received) = (metric(&metrics, SENT), metric(&metrics, RECEIVED));
            let body = vec![b'x'; usize::try_from(len).unwrap()];
            assert_eq!(
                server.put(transport, &format!("/{len}"), &[], &body).status,
                201
            );
            assert_eq!(
                server
                    .request(transport, "GET", &format!("/{len}"), &[])
                    .body,
                body
            );
            wait_until("they are counted", || {
                metric(&metrics, SENT) - sent == len && metric(&metrics, RECEIVED) - received == len
            });
        }
        wait_until("and their requests", || {
            requests(&metrics, "PUT", "2xx") == 3 && requests(&metrics, "GET", "2xx") == 3
        });
        assert_eq!(metric(&metrics, ABORTED), 0, "{transport:?}");
    }
}

/// An aborted request is counted with the bytes sent until then.
#[test]
fn aborted_requests_are_counted() {
    for transport in TestTransport::HTTP1 {
        let (server, metrics) = ServerSetup::default().start_with_metrics();
        server.write_file("large", vec![b'x'; 32 << 20]);
        let mut reader = TestClient::connect(&server, transport);
        reader.send(request_head("GET", "/large", &[]));
        assert_eq!(reader.take(100_000).unwrap().len(), 100_000);
        reader.reset();
        // This metric is updated last.
        wait_until("the metric is updated", || metric(&metrics, ABORTED) == 1);
        assert_eq!(requests(&metrics, "GET", "2xx"), 1, "{transport:?}");
        let sent = metric(&metrics, SENT);
        assert!((90_000..32 << 20).contains(&sent), "{transport:?} {sent}");
        let mut writer = TestClient::connect(&server, transport);
        writer.send(request_head("PUT", "/f", &[("Content-Length", "1000000")]));
        writer.send(vec![b'x'; 300_000]);
        wait_until("the upload has a temporary file", || {
            server.temporary_files() == 1
        });
        writer.reset();
        wait_until("that, too", || requests(&metrics, "PUT", "4xx") == 1);
        wait_until("and its bytes", || metric(&metrics, RECEIVED) > 60_000);
    }
}

/// A server with one file and with rate limits per connection and in total.
fn rate_limited_server(rate: Option<u64>, total_rate: Option<u64>) -> TestServer {
    let setup = ServerSetup {
        server: FileServerOptions {
            connection_rate: rate,
            total_rate,
            metrics: Arc::default(),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let server = setup.start();
    server.write_file("f", vec![b'x'; 400_000]);
    server
}

/// The time that two clients take for the same work in parallel.
fn time_two_clients(server: &TestServer, work: impl Fn(&TestServer, usize) + Sync) -> Duration {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for index in 0..2 {
            let work = &work;
            scope.spawn(move || work(server, index));
        }
    });
    started.elapsed()
}

#[test]
fn rate_limits_hold() {
    let get = |transport: TestTransport| {
        move |server: &TestServer, _: usize| {
            assert_eq!(
                server.request(transport, "GET", "/f", &[]).body.len(),
                400_000
            );
        }
    };
    let put = |transport: TestTransport| {
        move |server: &TestServer, index: usize| {
            let put = server.put(transport, &format!("/{index}"), &[], &[b'x'; 400_000]);
            assert_eq!(put.status, 201);
        }
    };
    // Half a second for each, less the burst: an eighth before the limit applies, and the bytes read
    // together with that.
    let whole = Duration::from_millis(200);
    for transport in [
        TestTransport::Plain,
        TestTransport::Tls,
        TestTransport::Http2,
    ] {
        let server = rate_limited_server(Some(800_000), None);
        assert!(
            time_two_clients(&server, get(transport)) >= whole,
            "{transport:?}"
        );
        assert!(
            time_two_clients(&server, put(transport)) >= whole,
            "{transport:?}"
        );
        // The total rate is shared by two connections.
        let server = rate_limited_server(None, Some(800_000));
        assert!(
            time_two_clients(&server, get(transport)) >= 2 * whole,
            "{transport:?}"
        );
        assert!(
            time_two_clients(&server, put(transport)) >= 2 * whole,
            "{transport:?}"
        );
    }
}

/// A client that waits for a rate limit is not slow.
#[test]
fn d9_a_rate_limit_does_not_make_a_client_slow() {
    let setup = ServerSetup {
        server: FileServerOptions {
            connection_rate: Some(8 << 10),
            timeouts: TimeoutOptions {
                grace: Duration::from_millis(500),
                min_body_rate: 1 << 20,
                min_reader_rate: 1 << 20,
                ..TimeoutOptions::default()
            },
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let server = setup.start();
    let body = vec![b'x'; 24 << 10];
    server.write_file("f", &body);
    std::thread::scope(|scope| {
        for transport in TestTransport::ALL {
            let (server, body) = (&server, &body);
            scope.spawn(move || {
                assert!(
                    &server.request(transport, "GET", "/f", &[]).body == body,
                    "{transport:?}"
                );
            });
            scope.spawn(move || {
                let put = server.put(transport, &format!("/{transport:?}"), &[], body);
                assert_eq!(put.status, 201, "{transport:?}");
            });
        }
    });
}
