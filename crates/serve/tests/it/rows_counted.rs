//! What is counted of requests, and how fast bytes may pass.

use std::sync::Arc;
use std::time::Duration;

use haul_plan::serving::TimeoutOptions;
use haul_serve::FileServerOptions;
use haul_serve::observe::ServeMetrics;
use tokio::time::Instant;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer, eventually, sample};

const SENT: &str = "haul_http_response_body_bytes_total";
const RECEIVED: &str = "haul_http_request_body_bytes_total";
const ABORTED: &str = "haul_errors_total{kind=\"aborted\"}";

fn requests(metrics: &ServeMetrics, method: &str, code: &str) -> u64 {
    let name = format!("haul_http_requests_total{{method=\"{method}\",code=\"{code}\"}}");
    sample(metrics, &name)
}

#[test]
fn bodies_are_counted_to_the_byte_on_every_road() {
    for road in RequestPathway::ALL {
        let (served, metrics) = ServerSetup::default().counted();
        for len in [1_u64, 1000, 700_001] {
            let (sent, received) = (sample(&metrics, SENT), sample(&metrics, RECEIVED));
            let body = vec![b'x'; usize::try_from(len).unwrap()];
            assert_eq!(served.put(road, &format!("/{len}"), &[], &body).status, 201);
            assert_eq!(served.ask(road, "GET", &format!("/{len}"), &[]).body, body);
            eventually("they are counted", || {
                sample(&metrics, SENT) - sent == len && sample(&metrics, RECEIVED) - received == len
            });
        }
        eventually("and their requests", || {
            requests(&metrics, "PUT", "2xx") == 3 && requests(&metrics, "GET", "2xx") == 3
        });
        assert_eq!(sample(&metrics, ABORTED), 0, "{road:?}");
    }
}

/// Who leaves is counted, with what there was until then.
#[test]
fn requests_that_break_off_are_counted_as_what_they_were() {
    for road in RequestPathway::FIRST {
        let (served, metrics) = ServerSetup::default().counted();
        served.file("large", vec![b'x'; 32 << 20]);
        let mut reader = TestClient::on(&served, road);
        reader.send(request("GET", "/large", &[]));
        assert_eq!(reader.take(100_000).unwrap().len(), 100_000);
        reader.reset();
        // The last that is counted of it.
        eventually("it is counted", || sample(&metrics, ABORTED) == 1);
        assert_eq!(requests(&metrics, "GET", "2xx"), 1, "{road:?}");
        let sent = sample(&metrics, SENT);
        assert!((90_000..32 << 20).contains(&sent), "{road:?} {sent}");
        let mut writer = TestClient::on(&served, road);
        writer.send(request("PUT", "/f", &[("Content-Length", "1000000")]));
        writer.send(vec![b'x'; 300_000]);
        eventually("it is being written", || served.temporaries() == 1);
        writer.reset();
        eventually("that, too", || requests(&metrics, "PUT", "4xx") == 1);
        eventually("and its bytes", || sample(&metrics, RECEIVED) > 60_000);
    }
}

/// A server of a file, with limits in bytes a second; of one connection, and of all.
fn limited(rate: Option<u64>, total_rate: Option<u64>) -> TestServer {
    let setup = ServerSetup {
        server: FileServerOptions {
            connection_rate: rate,
            total_rate,
            metrics: Arc::default(),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let served = setup.start();
    served.file("f", vec![b'x'; 400_000]);
    served
}

/// How long two take that do the same at one time.
fn two(served: &TestServer, what: impl Fn(&TestServer, usize) + Sync) -> Duration {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for index in 0..2 {
            let what = &what;
            scope.spawn(move || what(served, index));
        }
    });
    began.elapsed()
}

#[test]
fn bytes_pass_no_faster_than_they_may() {
    let get = |road: RequestPathway| {
        move |served: &TestServer, _: usize| {
            assert_eq!(served.ask(road, "GET", "/f", &[]).body.len(), 400_000);
        }
    };
    let put = |road: RequestPathway| {
        move |served: &TestServer, index: usize| {
            let put = served.put(road, &format!("/{index}"), &[], &[b'x'; 400_000]);
            assert_eq!(put.status, 201);
        }
    };
    // Half a second for each, less what may pass at once: an eighth before it is counted, and what was read with that.
    let whole = Duration::from_millis(200);
    for road in [
        RequestPathway::Plain,
        RequestPathway::Tls,
        RequestPathway::Http2,
    ] {
        let served = limited(Some(800_000), None);
        assert!(two(&served, get(road)) >= whole, "{road:?}");
        assert!(two(&served, put(road)) >= whole, "{road:?}");
        // Two share what one of them would have had.
        let served = limited(None, Some(800_000));
        assert!(two(&served, get(road)) >= 2 * whole, "{road:?}");
        assert!(two(&served, put(road)) >= 2 * whole, "{road:?}");
    }
}

/// Who is made to wait is not slow.
#[test]
fn d9_a_limit_is_not_the_peers_fault() {
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
    let served = setup.start();
    let body = vec![b'x'; 24 << 10];
    served.file("f", &body);
    std::thread::scope(|scope| {
        for road in RequestPathway::ALL {
            let (served, body) = (&served, &body);
            scope.spawn(move || {
                assert!(&served.ask(road, "GET", "/f", &[]).body == body, "{road:?}");
            });
            scope.spawn(move || {
                let put = served.put(road, &format!("/{road:?}"), &[], body);
                assert_eq!(put.status, 201, "{road:?}");
            });
        }
    });
}
