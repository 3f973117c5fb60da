//! D9: peers that take their time, while others are served.
//!
//! Limits are some hundred milliseconds here. A test waits for the server to give up, never for a time of its own.

use std::sync::Arc;
use std::time::Duration;

use haul_plan::serving::TimeoutOptions;
use haul_serve::FileServerOptions;
use haul_serve::accept::AcceptStrategy;
use haul_serve::observe::ServeMetrics;
use tokio::time::Instant;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{LIMIT, ServerSetup, TestServer, eventually, sample};

/// What is given to everything.
const SHORT: Duration = Duration::from_millis(300);

/// One thread, so that whoever kept it busy would be noticed.
fn served(patience: TimeoutOptions) -> TestServer {
    counted(patience).0
}

/// The same, with what it counts.
fn counted(patience: TimeoutOptions) -> (TestServer, Arc<ServeMetrics>) {
    let mut setup = ServerSetup::accept(AcceptStrategy::Single);
    let metrics = Arc::new(ServeMetrics::new());
    setup.server = FileServerOptions {
        timeouts: patience,
        metrics: Arc::clone(&metrics),
        ..FileServerOptions::default()
    };
    let served = setup.start();
    served.file("f", "here");
    served.file("large", vec![b'x'; 16 << 20]);
    (served, metrics)
}

/// How many readers were given up.
fn given_up(metrics: &ServeMetrics) -> u64 {
    sample(metrics, "haul_errors_total{kind=\"send_timeout\"}")
}

/// Patient but for one thing.
fn patient() -> TimeoutOptions {
    TimeoutOptions {
        handshake: LIMIT,
        request_head: LIMIT,
        idle: LIMIT,
        grace: LIMIT,
        ..TimeoutOptions::default()
    }
}

/// Serves others until somebody is given up, and says how long that took.
#[track_caller]
fn meanwhile(served: &TestServer, mut is_over: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    let mut other = TestClient::plain(served);
    eventually("it is given up", || {
        let asked = Instant::now();
        assert_eq!(other.ask("GET", "/f", &[]).text(), "here");
        assert!(asked.elapsed() < Duration::from_secs(5), "others do notice");
        is_over()
    });
    began.elapsed()
}

#[test]
fn d9_a_head_that_drips_is_given_up() {
    let served = served(TimeoutOptions {
        request_head: SHORT,
        ..patient()
    });
    for road in RequestPathway::FIRST {
        let mut slow = TestClient::on(&served, road);
        let mut bytes = "GET /f HTTP/1.1\r\nHost: store.test\r\nX: "
            .bytes()
            .chain(std::iter::repeat(b'y'));
        slow.send([bytes.next().unwrap()]);
        let took = meanwhile(&served, || {
            slow.try_send([bytes.next().unwrap()]).is_err() || slow.has_ended()
        });
        assert!(took >= SHORT, "{road:?} {took:?}");
        let said = slow.until_gone();
        assert!(
            said.is_empty() || said.starts_with(b"HTTP/1.1 408"),
            "{road:?} {}",
            said.escape_ascii()
        );
    }
}

#[test]
fn d9_a_second_head_has_its_own_time() {
    let served = served(TimeoutOptions {
        request_head: SHORT,
        ..patient()
    });
    let mut client = TestClient::plain(&served);
    let began = Instant::now();
    while began.elapsed() < 3 * SHORT {
        assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
    }
    client.send("GET /f HTTP/1.1\r\n");
    let took = meanwhile(&served, || client.has_ended());
    assert!(took >= SHORT, "{took:?}");
}

#[test]
fn d9_a_connection_without_a_request_ends() {
    let served = served(TimeoutOptions {
        idle: SHORT,
        ..patient()
    });
    for road in RequestPathway::FIRST {
        let mut used = TestClient::on(&served, road);
        assert_eq!(used.ask("GET", "/f", &[]).text(), "here");
        let took = meanwhile(&served, || used.has_ended());
        assert!(took >= SHORT / 2, "{road:?} {took:?}");
        used.ends();
    }
    let mut silent = TestClient::plain(&served);
    let took = meanwhile(&served, || silent.has_ended());
    assert!(took >= SHORT / 2, "{took:?}");
}

#[test]
fn d9_a_handshake_that_does_not_come_is_given_up() {
    let (served, metrics) = counted(TimeoutOptions {
        handshake: SHORT,
        ..patient()
    });
    let mut silent = TestClient::tcp(std::net::TcpStream::connect(served.tls).unwrap());
    let took = meanwhile(&served, || silent.has_ended());
    assert!(took >= SHORT / 2, "{took:?}");
    eventually("it is counted", || {
        sample(&metrics, "haul_errors_total{kind=\"tls_timeout\"}") == 1
    });
}

#[test]
fn d9_a_body_that_drips_is_given_up_and_changes_nothing() {
    let served = served(TimeoutOptions {
        grace: SHORT,
        min_body_rate: 1 << 20,
        ..patient()
    });
    for road in RequestPathway::FIRST {
        let mut slow = TestClient::on(&served, road);
        slow.send(request("PUT", "/f", &[("Content-Length", "1000000")]))
            .send(vec![b'x'; 100_000]);
        let took = meanwhile(&served, || {
            slow.try_send([b'x']).is_err() || slow.has_ended()
        });
        assert!(took >= SHORT, "{road:?} {took:?}");
        let said = slow.until_gone();
        assert!(
            said.is_empty() || said.starts_with(b"HTTP/1.1 408"),
            "{road:?} {}",
            said.escape_ascii()
        );
        eventually("temporaries are gone", || served.temporaries() == 0);
        assert_eq!(served.get("/f").text(), "here");
    }
}

#[test]
fn d9_a_body_that_stands_still_is_given_up() {
    let served = served(TimeoutOptions {
        grace: SHORT,
        ..patient()
    });
    for framing in [("Content-Length", "10"), ("Transfer-Encoding", "chunked")] {
        let mut slow = TestClient::plain(&served);
        slow.send(request("PUT", "/f", &[framing]));
        let took = meanwhile(&served, || slow.has_ended());
        assert!(took >= SHORT, "{took:?}");
        assert_eq!(served.get("/f").text(), "here");
    }
}

#[test]
fn d9_a_reader_that_never_reads_is_given_up() {
    let (served, metrics) = counted(TimeoutOptions {
        grace: SHORT,
        ..patient()
    });
    for (index, road) in RequestPathway::FIRST.into_iter().enumerate() {
        let mut slow = TestClient::on(&served, road);
        slow.send(request("GET", "/large", &[]));
        slow.take(1).unwrap();
        // That the server has gone shows here only behind all that it sent before.
        let took = meanwhile(&served, || given_up(&metrics) > index as u64);
        assert!(took >= SHORT, "{road:?} {took:?}");
        assert!(slow.until_gone().len() < 16 << 20, "{road:?}");
    }
}

/// Who is slow and steady is not who stands still.
#[test]
fn d9_a_slow_and_steady_reader_gets_all() {
    let served = served(TimeoutOptions {
        grace: 5 * SHORT,
        min_reader_rate: 1000,
        ..patient()
    });
    let mut slow = TestClient::plain(&served);
    slow.patient(2 * LIMIT);
    slow.send(request("GET", "/large", &[]));
    let head = slow.head();
    assert_eq!(head.status, 200);
    // A read of 64 KiB, and a word with somebody else, over and over.
    let mut other = TestClient::plain(&served);
    let mut came = 0;
    while came < 16 << 20 {
        came += slow.take(64 << 10).expect("it is not given up").len();
        assert_eq!(other.ask("GET", "/f", &[]).text(), "here");
    }
}

#[test]
fn d9_over_http2_too() {
    let (served, metrics) = counted(TimeoutOptions {
        grace: SHORT,
        idle: SHORT,
        request_head: SHORT,
        handshake: SHORT,
        ..patient()
    });
    for (index, road) in [RequestPathway::Http2, RequestPathway::Http2Tls]
        .into_iter()
        .enumerate()
    {
        let began = Instant::now();
        crate::http2::run(async {
            let stream = crate::http2::connect(&served, road).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            // Without a request it is idle.
            let _ = connection.await;
            drop(sender);
        });
        assert!(began.elapsed() >= SHORT, "{road:?}");
        crate::http2::run(async {
            let stream = crate::http2::connect(&served, road).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let mut sender = sender.ready().await.unwrap();
            let request = http::Request::get("http://store.test/large")
                .body(())
                .unwrap();
            let (answer, _stream) = sender.send_request(request, true).unwrap();
            // Its window is never opened.
            let stuck = async {
                let _incoming = answer.await.unwrap().into_body();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = connection => {}
                () = stuck => {}
            }
        });
        // It is counted when the connection has ended.
        eventually("a slow reader", || given_up(&metrics) == index as u64 + 1);
        assert_eq!(served.ask(road, "GET", "/f", &[]).text(), "here");
    }
}

#[test]
fn d9_a_reader_over_http2_that_is_slow_and_steady_is_waited_for() {
    let served = served(TimeoutOptions {
        grace: SHORT,
        ..patient()
    });
    for road in [RequestPathway::Http2, RequestPathway::Http2Tls] {
        crate::http2::run(async {
            let stream = crate::http2::connect(&served, road).await;
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            let reading = async {
                let mut sender = sender.ready().await.unwrap();
                let request = http::Request::get("http://store.test/large");
                let request = request.body(()).unwrap();
                let (answer, _stream) = sender.send_request(request, true).unwrap();
                let mut body = answer.await.unwrap().into_body();
                let began = Instant::now();
                // Its window lets less through than the socket would take.
                while began.elapsed() < SHORT * 5 {
                    let piece = body.data().await.unwrap().expect("it is waited for");
                    body.flow_control().release_capacity(piece.len()).unwrap();
                    tokio::time::sleep(SHORT / 10).await;
                }
            };
            tokio::select! {
                ended = connection => panic!("{road:?}: it was given up: {ended:?}"),
                () = reading => {}
            }
        });
    }
}

#[test]
fn d9_a_limit_makes_no_idle_connection_immortal() {
    let mut setup = ServerSetup::accept(AcceptStrategy::Single);
    setup.server = FileServerOptions {
        timeouts: TimeoutOptions {
            idle: SHORT,
            ..patient()
        },
        // Its head takes longer than it may be idle.
        connection_rate: Some(8 << 10),
        ..FileServerOptions::default()
    };
    let served = setup.start();
    served.file("f", "here");
    let mut client = TestClient::plain(&served);
    let padding = "x".repeat(12 << 10);
    assert_eq!(
        client.ask("GET", "/f", &[("x-padding", &padding)]).text(),
        "here"
    );
    assert_eq!(client.rest(), b"", "it ends");
}
