//! D13: files that are truncated, emptied, extended or overwritten while they are sent.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, SystemTime};

use haul_lab::ResourceContent;
use http::Request;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{DoneOnDrop, NAME, TestServer};
use crate::http2;

/// More than can be in flight: in both ends' socket buffers, or in HTTP/2's windows.
fn length(transport: TestTransport) -> u64 {
    match transport {
        TestTransport::Http2 | TestTransport::Http2Tls => 3 << 20,
        _ => 16 << 20,
    }
}

/// A change to a file that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentFileChange {
    /// Nothing is left.
    Emptied,
    /// Half is left: less than requested, more than sent.
    Halved,
    /// Half is left, and ends within a page.
    Torn,
    /// It is longer.
    Grown,
    /// It has other bytes, as many.
    Overwritten,
}

impl SentFileChange {
    const ALL: [Self; 5] = [
        Self::Emptied,
        Self::Halved,
        Self::Torn,
        Self::Grown,
        Self::Overwritten,
    ];

    fn apply(self, server: &TestServer) {
        let path = server.root().join("f");
        let mut file = File::options().append(true).open(&path).unwrap();
        let half = file.metadata().unwrap().len() / 2;
        match self {
            Self::Overwritten => {
                let file = File::options().write(true).open(&path).unwrap();
                file.write_all_at(b"other", half).unwrap();
            }
            Self::Emptied => file.set_len(0).unwrap(),
            Self::Halved => file.set_len(half).unwrap(),
            Self::Torn => file.set_len(half + 1234).unwrap(),
            Self::Grown => file.write_all(b"more").unwrap(),
        }
    }
}

/// A received body, and whether it is complete.
struct ReceivedBody {
    bytes: Vec<u8>,
    is_whole: bool,
}

/// A file that was last written long ago: not within the same clock tick as the change to it.
fn old_file(server: &TestServer, bytes: &[u8]) {
    let path = server.write_file("f", bytes);
    let file = File::options().write(true).open(path).unwrap();
    let then = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(then).unwrap();
}

#[test]
fn d13_a_file_that_changes_ends_the_response_and_not_the_server() {
    let server = TestServer::start();
    server.write_file("other", "as ever");
    for transport in TestTransport::ALL {
        let file = ResourceContent::random(13, length(transport)).to_vec();
        for done in SentFileChange::ALL {
            old_file(&server, &file);
            let received = read(&server, transport, done);
            let why = format!("{transport:?} {done:?}: {} bytes", received.bytes.len());
            assert!(!received.is_whole, "{why}");
            // An overwritten file may have mixed both versions: that is why the response ends
            // early.
            assert!(
                done == SentFileChange::Overwritten || file.starts_with(&received.bytes),
                "{why}"
            );
            assert!(received.bytes.len() < file.len(), "{why}");
            // The next request is served, of this file in its new state and of others.
            assert_eq!(
                server.request(transport, "GET", "/other", &[]).text(),
                "as ever",
                "{why}"
            );
            let now = std::fs::metadata(server.root().join("f")).unwrap().len();
            let head = server.request(transport, "HEAD", "/f", &[]);
            assert_eq!(
                head.field("content-length").unwrap_or("0"),
                now.to_string(),
                "{why}"
            );
        }
    }
}

/// Also for a file that fits into hyper's buffers (8 KiB and 100 chunks), and almost into the
/// socket's: as much as its limit (212,992 bytes) and one more chunk of half of that, and what the
/// client has read in two calls.
#[test]
fn d13_a_short_file_that_changes_ends_the_response() {
    let server = TestServer::start();
    for length in [480 << 10, 1 << 20] {
        let file = ResourceContent::random(13, length).to_vec();
        for is_changed in [true, false] {
            old_file(&server, &file);
            let mut client = TestClient::connect(&server, TestTransport::Unix);
            client.send(request_head("GET", "/f", &[]));
            assert_eq!(client.read_head().status, 200);
            client.take(1).unwrap();
            if is_changed {
                SentFileChange::Overwritten.apply(&server);
            }
            let rest = client.take(file.len() - 1);
            assert_eq!(rest.is_err(), is_changed, "{length}");
        }
    }
}

#[test]
fn d13_ranges_of_a_file_that_changes_end_early() {
    let server = TestServer::start();
    let file = ResourceContent::random(13, 16 << 20).to_vec();
    // The last of several ranges is large, or small.
    for ranges in [
        "bytes=1-15000000",
        "bytes=0-99,1000-15000000",
        "bytes=0-15000000,15000002-15000010",
    ] {
        for transport in TestTransport::HTTP1 {
            for is_changed in [true, false] {
                old_file(&server, &file);
                let mut client = TestClient::connect(&server, transport);
                client.send(request_head("GET", "/f", &[("Range", ranges)]));
                let head = client.read_head();
                assert_eq!(head.status, 206);
                client.take(100_000).unwrap();
                if is_changed {
                    SentFileChange::Overwritten.apply(&server);
                }
                let length: usize = head.field("content-length").unwrap().parse().unwrap();
                let rest = client.take(length - 100_000);
                assert_eq!(rest.is_err(), is_changed, "{ranges} {transport:?}");
            }
        }
    }
}

/// A file that is replaced while it is sent keeps its content, whatever happens to its links.
#[test]
fn d13_a_replaced_file_is_sent_to_its_end() {
    let server = TestServer::start();
    for transport in TestTransport::HTTP1 {
        let file = ResourceContent::random(13, length(transport)).to_vec();
        old_file(&server, &file);
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head("GET", "/f", &[]));
        client.read_head();
        let begin = client.take(100_000).unwrap();
        let new = server.write_file("new", "new");
        std::fs::rename(new, server.root().join("f")).unwrap();
        let rest = client.take(file.len() - begin.len()).unwrap();
        assert!(file == [begin, rest].concat(), "{transport:?}");
        assert_eq!(server.get("/f").text(), "new");
    }
}

/// Reads a part of a body, changes the file, and reads the rest.
fn read(server: &TestServer, transport: TestTransport, done: SentFileChange) -> ReceivedBody {
    if !matches!(transport, TestTransport::Http2 | TestTransport::Http2Tls) {
        let mut client = TestClient::connect(server, transport);
        client.send(request_head("GET", "/f", &[]));
        let head = client.read_head();
        let mut bytes = client.take(100_000).unwrap();
        done.apply(server);
        let length: usize = head.field("content-length").unwrap().parse().unwrap();
        let (rest, is_whole) = match client.take(length - bytes.len()) {
            Ok(rest) => (rest, true),
            Err((rest, _)) => (rest, false),
        };
        bytes.extend(rest);
        return ReceivedBody { bytes, is_whole };
    }
    http2::block_on(async {
        let stream = http2::connect(server, transport).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let download = async {
            let mut sender = sender.ready().await.unwrap();
            let request = Request::get(format!("http://{NAME}/f")).body(()).unwrap();
            let (response, _) = sender.send_request(request, true).unwrap();
            let mut incoming = response.await.unwrap().into_body();
            let (mut bytes, mut waiting) = (Vec::new(), true);
            let is_whole = loop {
                match incoming.data().await {
                    None => break true,
                    Some(Err(_)) => break false,
                    Some(Ok(data)) => {
                        bytes.extend_from_slice(&data);
                        incoming
                            .flow_control()
                            .release_capacity(data.len())
                            .unwrap();
                    }
                }
                if waiting && bytes.len() > 30_000 {
                    waiting = false;
                    done.apply(server);
                }
            };
            ReceivedBody { bytes, is_whole }
        };
        tokio::select! {
            ended = connection => panic!("{ended:?}"),
            received = download => received,
        }
    })
}

/// Even if a small file changes between the check and the read, only bytes that it had are sent.
#[test]
fn d13_a_file_that_keeps_changing_is_sent_as_described_or_not_at_all() {
    let server = TestServer::start();
    let path = server.write_file("f", [b'x'; 100]);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                for len in [0, 300_000, 100, 70_000] {
                    file.set_len(len).unwrap();
                }
            }
        });
        let _until = DoneOnDrop(&over);
        for transport in TestTransport::HTTP1 {
            let (mut whole, mut broken) = (0, 0);
            let mut client = TestClient::connect(&server, transport);
            for _ in 0..300 {
                if client.try_send(request_head("GET", "/f", &[])).is_err() {
                    client = TestClient::connect(&server, transport);
                    continue;
                }
                let Some(head) = client.read_head_or_end() else {
                    client = TestClient::connect(&server, transport);
                    continue;
                };
                assert_eq!(head.status, 200);
                match client.read_body(&head, "GET") {
                    // Only bytes that the file had: the first hundred, and holes.
                    Ok(body) => {
                        let is_of_file = |(at, byte): (usize, &u8)| match byte {
                            b'x' => at < 100,
                            byte => *byte == 0,
                        };
                        assert!(body.iter().enumerate().all(is_of_file), "{transport:?}");
                        whole += 1;
                    }
                    Err(_) => {
                        broken += 1;
                        client = TestClient::connect(&server, transport);
                    }
                }
            }
            assert!(whole > 0, "{transport:?}: {broken} broken");
        }
    });
    server.write_file("f", "still");
    assert_eq!(server.get("/f").text(), "still");
}
