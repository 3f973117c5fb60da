//! HTTP/2 only: connection start, flow control, GOAWAY, and slow readers of responses that hyper has buffered.

use std::sync::Arc;
use std::time::Duration;

use haul_serve::observe::ServeMetrics;
use haul_serve::{FileServerOptions, TimeoutOptions};
use tokio::time::Instant;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, ServerSetup, TestServer, metric, wait_until};
use crate::http2::frames::{
    DATA, END_STREAM, GOAWAY, Http2Frame, PREFACE, SETTINGS, WINDOW_UPDATE,
};

/// The timeout that a test shortens to this value.
const SHORT: Duration = Duration::from_millis(300);

/// A server with long timeouts except for these, and its metrics.
fn start_server(timeouts: TimeoutOptions) -> (TestServer, Arc<ServeMetrics>) {
    let metrics = Arc::new(ServeMetrics::default());
    let setup = ServerSetup {
        server: FileServerOptions {
            timeouts,
            metrics: Arc::clone(&metrics),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    (setup.start(), metrics)
}

fn long_timeouts() -> TimeoutOptions {
    TimeoutOptions {
        handshake: LIMIT,
        request_head: LIMIT,
        idle: LIMIT,
        grace: LIMIT,
        ..TimeoutOptions::default()
    }
}

/// If HTTP/2 could start after a request, a client of a proxy that shares connections could capture requests of others.
#[test]
fn d10_http2_is_accepted_only_at_the_start_of_a_connection() {
    let server = TestServer::start();
    server.write_file("f", "here");
    let get = request_head("GET", "/f", &[]);
    for transport in TestTransport::HTTP1 {
        for is_at_once in [true, false] {
            let mut client = TestClient::connect(&server, transport);
            if is_at_once {
                client.send([get.as_bytes(), PREFACE].concat());
                assert_eq!(client.read_response().text(), "here");
            } else {
                assert_eq!(client.request("GET", "/f", &[]).text(), "here");
                client.send(PREFACE);
            }
            let rest = client.read_to_end();
            assert!(
                rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"),
                "{transport:?} {is_at_once}: {}",
                rest.escape_ascii()
            );
        }
        if transport != TestTransport::Tls {
            let mut client = TestClient::connect(&server, transport);
            client.send(PREFACE).send(Http2Frame::get(1, "/f").bytes());
            assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, b"here");
        }
    }
}

/// hyper alone would take a part of the preface for a malformed HTTP/1 request.
#[test]
fn the_http2_preface_may_arrive_in_pieces() {
    let server = TestServer::start();
    server.write_file("f", "here");
    for transport in [TestTransport::Plain, TestTransport::Unix] {
        for cut in [1, 3, 14, 16, 18, 23] {
            let mut client = TestClient::connect(&server, transport);
            client.send(&PREFACE[..cut]);
            assert!(client.has_nothing(), "{transport:?} {cut}");
            client.send(&PREFACE[cut..]);
            client.send(Http2Frame::get(1, "/f").bytes());
            assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, b"here");
        }
        // A request that only begins like the preface is an ordinary request.
        let mut client = TestClient::connect(&server, transport);
        client.send("P");
        assert!(client.has_nothing());
        client.send("UT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
        assert!([201, 204].contains(&client.read_response_to("PUT").status));
    }
}

/// The window limits the bytes of an upload per round trip.
#[test]
fn windows_are_wide_and_bounded() {
    let server = TestServer::start();
    let mut client = TestClient::connect_plain(&server);
    client.send(PREFACE);
    let settings = Http2Frame::next_of(&mut client, SETTINGS).payload;
    let events = |name: u16| {
        let mut completed_requests = settings.chunks_exact(6);
        let found = completed_requests.find(|one| one[..2] == name.to_be_bytes());
        found.map(|one| u32::from_be_bytes(one[2..].try_into().unwrap()))
    };
    assert_eq!(events(3), Some(100), "streams");
    assert_eq!(events(4), Some(4 << 20), "a stream's window");
    assert_eq!(events(5).unwrap_or(16 << 10), 16 << 10, "a frame");
    assert_eq!(events(6), Some(64 << 10), "a head");
    let more = Http2Frame::next_of(&mut client, WINDOW_UPDATE);
    let more = (
        more.stream,
        u32::from_be_bytes(more.payload.try_into().unwrap()),
    );
    assert_eq!(more, (0, (8 << 20) - 65_535), "the connection's window");
}

#[test]
fn heads_have_the_same_limit_on_every_transport() {
    let server = TestServer::start();
    server.write_file("f", "here");
    for transport in TestTransport::ALL {
        // Several headers, since some clients limit each header to a frame.
        let (name, value) = ("x-long", "y".repeat(8 << 10));
        let fields = |count| vec![(name, &*value); count];
        let within_limit = server.request(transport, "GET", "/f", &fields(6));
        assert_eq!(
            (within_limit.status, within_limit.text().as_str()),
            (200, "here"),
            "{transport:?}"
        );
        let is_too_long = server.request(transport, "GET", "/f", &fields(9));
        assert_eq!(is_too_long.status, 431, "{transport:?}");
    }
}

/// The GOAWAY frame arrives although the client is still sending.
#[test]
fn a_client_that_keeps_sending_gets_the_goaway() {
    let server = TestServer::start();
    for transport in [TestTransport::Plain, TestTransport::Unix] {
        let mut client = TestClient::connect(&server, transport);
        client.send(PREFACE);
        // A DATA frame on stream 0 is a connection error.
        client.send(Http2Frame::new(DATA, 0, 0, *b"x").bytes());
        let received = Http2Frame::next_of(&mut client, GOAWAY);
        assert_eq!(received.payload[4..8], [0, 0, 0, 1], "a protocol error");
        // More than all buffers in between hold, so the server must be reading.
        for _ in 0..256 {
            client.send(vec![0; 64 << 10]);
        }
        client.finish();
        assert_eq!(Http2Frame::next(&mut client), None, "{transport:?}");
    }
}

/// GOAWAY tells a client that sends a request just then that the server has not processed it.
#[test]
fn an_idle_http2_connection_ends_with_goaway() {
    let (server, metrics) = start_server(TimeoutOptions {
        idle: SHORT,
        ..long_timeouts()
    });
    server.write_file("f", "here");
    let mut client = TestClient::connect_plain(&server);
    let started = Instant::now();
    client.send(PREFACE).send(Http2Frame::get(1, "/f").bytes());
    assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, b"here");
    let received = Http2Frame::next_of(&mut client, GOAWAY);
    assert_eq!(received.payload[4..8], [0; 4], "no error");
    assert!(started.elapsed() >= SHORT);
    wait_until("the metric is updated", || {
        metric(&metrics, "haul_errors_total{kind=\"idle_timeout\"}") == 1
    });
}

/// A sleeping client does not acknowledge GOAWAY.
#[test]
fn d14_a_silent_client_does_not_delay_the_shutdown() {
    let mut server = TestServer::start();
    server.write_file("f", "here");
    let mut silent = [TestTransport::Plain, TestTransport::Unix]
        .map(|transport| TestClient::connect(&server, transport));
    for client in &mut silent {
        client.send(PREFACE).send(Http2Frame::get(1, "/f").bytes());
        assert_eq!(Http2Frame::next_of(client, DATA).payload, b"here");
    }
    let started = Instant::now();
    assert_eq!(server.shut_down(LIMIT), 0);
    assert!(started.elapsed() < LIMIT / 3, "{:?}", started.elapsed());
    for client in &mut silent {
        assert_eq!(Http2Frame::next_of(client, GOAWAY).payload[4..8], [0; 4]);
    }
}

/// A client with this HTTP/2 window for each response.
fn with_window(server: &TestServer, bytes: u32) -> TestClient {
    let mut client = TestClient::connect_plain(server);
    client
        .send(PREFACE)
        .send(Http2Frame::setting(4, bytes).bytes());
    client
}

/// A response that hyper has accepted is not yet received by the client.
#[test]
fn d9_a_client_that_never_reads_a_small_response_times_out() {
    let (server, metrics) = start_server(TimeoutOptions {
        grace: SHORT,
        ..long_timeouts()
    });
    server.write_file("f", vec![b'x'; 20_000]);
    let mut client = with_window(&server, 10);
    client.send(Http2Frame::get(1, "/f").bytes());
    assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, [b'x'; 10]);
    wait_until("the connection times out", || {
        metric(&metrics, "haul_errors_total{kind=\"send_timeout\"}") == 1
    });
}

#[test]
fn d9_a_slow_reader_of_a_small_response_is_not_idle() {
    let (server, metrics) = start_server(TimeoutOptions {
        idle: SHORT,
        ..long_timeouts()
    });
    server.write_file("f", vec![b'x'; 20_000]);
    let mut client = with_window(&server, 1000);
    client.send(Http2Frame::get(1, "/f").bytes());
    let (started, mut received) = (Instant::now(), 0);
    let completed_requests = || {
        metric(
            &metrics,
            "haul_http_requests_total{method=\"GET\",code=\"2xx\"}",
        )
    };
    loop {
        let chunk = Http2Frame::next_of(&mut client, DATA);
        received += chunk.payload.len();
        if chunk.flags & END_STREAM != 0 {
            break;
        }
        assert_eq!(
            completed_requests(),
            0,
            "the request is not complete before the client has read it"
        );
        // Twenty chunks take three times the timeout.
        let due = started + SHORT * u32::try_from(received / 1000).unwrap() * 3 / 20;
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        client.send(Http2Frame::window_update(1, 1000).bytes());
    }
    assert_eq!(received, 20_000);
    assert!(started.elapsed() > SHORT * 2, "the client reads slowly");
    wait_until("the metric is updated", || completed_requests() == 1);
}
