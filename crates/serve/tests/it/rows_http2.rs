//! What only HTTP/2 has: where it may begin, how much it lets come, how it ends, and readers whose answers hyper holds.

use std::sync::Arc;
use std::time::Duration;

use haul_plan::serving::TimeoutOptions;
use haul_serve::FileServerOptions;
use haul_serve::accept::ShutdownOutcome;
use haul_serve::observe::ServeMetrics;
use tokio::time::Instant;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{LIMIT, ServerSetup, TestServer, eventually, sample};
use crate::http2::frames::{
    BEGINNING, DATA, END_STREAM, GOAWAY, Http2Frame, SETTINGS, WINDOW_UPDATE,
};

/// What is given to what must end.
const SHORT: Duration = Duration::from_millis(300);

/// A server that is patient but for these, and what it counts.
fn served(patience: TimeoutOptions) -> (TestServer, Arc<ServeMetrics>) {
    let metrics = Arc::new(ServeMetrics::new());
    let setup = ServerSetup {
        server: FileServerOptions {
            timeouts: patience,
            metrics: Arc::clone(&metrics),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    (setup.start(), metrics)
}

fn patient() -> TimeoutOptions {
    TimeoutOptions {
        handshake: LIMIT,
        request_head: LIMIT,
        idle: LIMIT,
        grace: LIMIT,
        ..TimeoutOptions::default()
    }
}

/// Behind a request, whoever shares a connection with others could take it from them.
#[test]
fn d10_http2_begins_a_connection_or_does_not_begin() {
    let served = TestServer::start();
    served.file("f", "here");
    let get = request("GET", "/f", &[]);
    for road in RequestPathway::FIRST {
        for is_at_once in [true, false] {
            let mut client = TestClient::on(&served, road);
            if is_at_once {
                client.send([get.as_bytes(), BEGINNING].concat());
                assert_eq!(client.answer().text(), "here");
            } else {
                assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
                client.send(BEGINNING);
            }
            let rest = client.rest();
            assert!(
                rest.is_empty() || rest.starts_with(b"HTTP/1.1 400"),
                "{road:?} {is_at_once}: {}",
                rest.escape_ascii()
            );
        }
        if road != RequestPathway::Tls {
            let mut client = TestClient::on(&served, road);
            client
                .send(BEGINNING)
                .send(Http2Frame::get(1, "/f").bytes());
            assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, b"here");
        }
    }
}

/// However it is cut, of which hyper would take a part for a bad request.
#[test]
fn http2_may_begin_in_pieces() {
    let served = TestServer::start();
    served.file("f", "here");
    for road in [RequestPathway::Plain, RequestPathway::Unix] {
        for cut in [1, 3, 14, 16, 18, 23] {
            let mut client = TestClient::on(&served, road);
            client.send(&BEGINNING[..cut]);
            assert!(client.has_nothing(), "{road:?} {cut}");
            client.send(&BEGINNING[cut..]);
            client.send(Http2Frame::get(1, "/f").bytes());
            assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, b"here");
        }
        // What only begins like it is a request like any other.
        let mut client = TestClient::on(&served, road);
        client.send("P");
        assert!(client.has_nothing());
        client.send("UT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
        assert!([201, 204].contains(&client.answer_to("PUT").status));
    }
}

/// An upload gets one window for each round trip.
#[test]
fn windows_are_wide_and_bounded() {
    let served = TestServer::start();
    let mut client = TestClient::plain(&served);
    client.send(BEGINNING);
    let settings = Http2Frame::next_of(&mut client, SETTINGS).payload;
    let told = |name: u16| {
        let mut all = settings.chunks_exact(6);
        let found = all.find(|one| one[..2] == name.to_be_bytes());
        found.map(|one| u32::from_be_bytes(one[2..].try_into().unwrap()))
    };
    assert_eq!(told(3), Some(100), "streams");
    assert_eq!(told(4), Some(4 << 20), "a stream's window");
    assert_eq!(told(5).unwrap_or(16 << 10), 16 << 10, "a frame");
    assert_eq!(told(6), Some(64 << 10), "a head");
    let more = Http2Frame::next_of(&mut client, WINDOW_UPDATE);
    let more = (
        more.stream,
        u32::from_be_bytes(more.payload.try_into().unwrap()),
    );
    assert_eq!(more, (0, (8 << 20) - 65_535), "the connection's window");
}

#[test]
fn a_head_may_be_as_long_on_every_road() {
    let served = TestServer::start();
    served.file("f", "here");
    for road in RequestPathway::ALL {
        // Several fields, as each of them is bounded by a frame in some clients.
        let (name, value) = ("x-long", "y".repeat(8 << 10));
        let fields = |count| vec![(name, &*value); count];
        let fits = served.ask(road, "GET", "/f", &fields(6));
        assert_eq!(
            (fits.status, fits.text().as_str()),
            (200, "here"),
            "{road:?}"
        );
        let is_too_long = served.ask(road, "GET", "/f", &fields(9));
        assert_eq!(is_too_long.status, 431, "{road:?}");
    }
}

/// What is said last arrives, whatever its peer was about to say.
#[test]
fn who_sends_on_hears_why_the_connection_ends() {
    let served = TestServer::start();
    for road in [RequestPathway::Plain, RequestPathway::Unix] {
        let mut client = TestClient::on(&served, road);
        client.send(BEGINNING);
        // No stream has this number.
        client.send(Http2Frame::new(DATA, 0, 0, *b"x").bytes());
        let said = Http2Frame::next_of(&mut client, GOAWAY);
        assert_eq!(said.payload[4..8], [0, 0, 0, 1], "a protocol error");
        // More than any buffer between takes: somebody reads it.
        for _ in 0..256 {
            client.send(vec![0; 64 << 10]);
        }
        client.finish();
        assert_eq!(Http2Frame::next(&mut client), None, "{road:?}");
    }
}

/// Whoever sends a request just then must learn that nobody has begun it.
#[test]
fn an_idle_connection_ends_in_good_order() {
    let (served, metrics) = served(TimeoutOptions {
        idle: SHORT,
        ..patient()
    });
    served.file("f", "here");
    let mut client = TestClient::plain(&served);
    let began = Instant::now();
    client
        .send(BEGINNING)
        .send(Http2Frame::get(1, "/f").bytes());
    assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, b"here");
    let said = Http2Frame::next_of(&mut client, GOAWAY);
    assert_eq!(said.payload[4..8], [0; 4], "no error");
    assert!(began.elapsed() >= SHORT);
    eventually("it is counted", || {
        sample(&metrics, "haul_errors_total{kind=\"idle_timeout\"}") == 1
    });
}

/// One that is asleep does not say that it has heard.
#[test]
fn d14_a_silent_peer_keeps_no_server_from_ending() {
    let mut served = TestServer::start();
    served.file("f", "here");
    let mut silent =
        [RequestPathway::Plain, RequestPathway::Unix].map(|road| TestClient::on(&served, road));
    for client in &mut silent {
        client
            .send(BEGINNING)
            .send(Http2Frame::get(1, "/f").bytes());
        assert_eq!(Http2Frame::next_of(client, DATA).payload, b"here");
    }
    let began = Instant::now();
    assert_eq!(served.end(LIMIT), ShutdownOutcome::Clean);
    assert!(began.elapsed() < LIMIT / 3, "{:?}", began.elapsed());
    for client in &mut silent {
        assert_eq!(Http2Frame::next_of(client, GOAWAY).payload[4..8], [0; 4]);
    }
}

/// A client that lets so much of each answer come.
fn with_window(served: &TestServer, bytes: u32) -> TestClient {
    let mut client = TestClient::plain(served);
    client
        .send(BEGINNING)
        .send(Http2Frame::setting(4, bytes).bytes());
    client
}

/// An answer that hyper has taken whole is not one that the peer has.
#[test]
fn d9_a_reader_of_little_that_never_reads_is_given_up() {
    let (served, metrics) = served(TimeoutOptions {
        grace: SHORT,
        ..patient()
    });
    served.file("f", vec![b'x'; 20_000]);
    let mut client = with_window(&served, 10);
    client.send(Http2Frame::get(1, "/f").bytes());
    assert_eq!(Http2Frame::next_of(&mut client, DATA).payload, [b'x'; 10]);
    eventually("it is given up", || {
        sample(&metrics, "haul_errors_total{kind=\"send_timeout\"}") == 1
    });
}

#[test]
fn d9_a_reader_of_little_that_is_slow_is_not_idle() {
    let (served, metrics) = served(TimeoutOptions {
        idle: SHORT,
        ..patient()
    });
    served.file("f", vec![b'x'; 20_000]);
    let mut client = with_window(&served, 1000);
    client.send(Http2Frame::get(1, "/f").bytes());
    let (began, mut came) = (Instant::now(), 0);
    let all = || {
        sample(
            &metrics,
            "haul_http_requests_total{method=\"GET\",code=\"2xx\"}",
        )
    };
    loop {
        let piece = Http2Frame::next_of(&mut client, DATA);
        came += piece.payload.len();
        if piece.flags & END_STREAM != 0 {
            break;
        }
        assert_eq!(all(), 0, "it is not over before it has gone");
        // Twenty pieces take thrice the time.
        let due = began + SHORT * u32::try_from(came / 1000).unwrap() * 3 / 20;
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        client.send(Http2Frame::room(1, 1000).bytes());
    }
    assert_eq!(came, 20_000);
    assert!(began.elapsed() > SHORT * 2, "that was slow");
    eventually("it is counted", || all() == 1);
}
