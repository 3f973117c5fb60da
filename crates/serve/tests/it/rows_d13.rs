//! D13: files that are truncated, emptied, extended or overwritten during a download.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, SystemTime};

use haul_lab::ResourceContent;
use http::Request;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{DoneOnDrop, NAME, TestServer};
use crate::http2;

/// A file length that exceeds both socket buffers and the HTTP/2 windows.
fn length(transport: TestTransport) -> u64 {
    match transport {
        TestTransport::Http2 | TestTransport::Http2Tls => 3 << 20,
        _ => 16 << 20,
    }
}

/// A change to a file during a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentFileChange {
    /// To length 0.
    Emptied,
    /// To half its length: less than requested, and more than was sent.
    Halved,
    /// To half its length, with an end within a memory page.
    Torn,
    /// The file becomes longer.
    Grown,
    /// The bytes change, and the length does not.
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

/// Writes a file with an old modification time, so that the later change has another time.
fn old_file(server: &TestServer, bytes: &[u8]) {
    let path = server.write_file("f", bytes);
    let file = File::options().write(true).open(path).unwrap();
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(an_hour_ago).unwrap();
}

#[test]
fn d13_a_changed_file_ends_the_response_early_and_the_server_continues() {
    let server = TestServer::start();
    server.write_file("other", "as ever");
    for transport in TestTransport::ALL {
        let file = ResourceContent::random(13, length(transport)).to_vec();
        for change in SentFileChange::ALL {
            old_file(&server, &file);
            let received = read(&server, transport, change);
            let context = format!("{transport:?} {change:?}: {} bytes", received.bytes.len());
            assert!(!received.is_whole, "{context}");
            // The bytes of an overwritten file may be mixed from both versions, so the
            // response ends early.
            assert!(
                change == SentFileChange::Overwritten || file.starts_with(&received.bytes),
                "{context}"
            );
            assert!(received.bytes.len() < file.len(), "{context}");
            // Later requests for this file and for others are served.
            assert_eq!(
                server.request(transport, "GET", "/other", &[]).text(),
                "as ever",
                "{context}"
            );
            let now = std::fs::metadata(server.root().join("f")).unwrap().len();
            let head = server.request(transport, "HEAD", "/f", &[]);
            assert_eq!(
                head.header("content-length").unwrap_or("0"),
                now.to_string(),
                "{context}"
            );
        }
    }
}

/// The file fits into hyper's buffers (8 KiB and 100 chunks) and almost into the socket buffer: its
/// limit (212,992 bytes), one more chunk of half of that, and what the client has read in two calls.
#[test]
fn d13_a_changed_small_file_ends_the_response_early() {
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
fn d13_ranges_of_a_changed_file_end_early() {
    let server = TestServer::start();
    let file = ResourceContent::random(13, 16 << 20).to_vec();
    // The last of several ranges is large or small.
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
                let length: usize = head.header("content-length").unwrap().parse().unwrap();
                let rest = client.take(length - 100_000);
                assert_eq!(rest.is_err(), is_changed, "{ranges} {transport:?}");
            }
        }
    }
}

/// A file that is replaced during a download is sent completely.
#[test]
fn d13_a_replaced_file_is_sent_to_its_end() {
    let server = TestServer::start();
    for transport in TestTransport::HTTP1 {
        let file = ResourceContent::random(13, length(transport)).to_vec();
        old_file(&server, &file);
        let mut client = TestClient::connect(&server, transport);
        client.send(request_head("GET", "/f", &[]));
        client.read_head();
        let start = client.take(100_000).unwrap();
        let new = server.write_file("new", "new");
        std::fs::rename(new, server.root().join("f")).unwrap();
        let rest = client.take(file.len() - start.len()).unwrap();
        assert!(file == [start, rest].concat(), "{transport:?}");
        assert_eq!(server.get("/f").text(), "new");
    }
}

/// Reads a part of a body, changes the file, and reads the rest.
fn read(server: &TestServer, transport: TestTransport, change: SentFileChange) -> ReceivedBody {
    if !matches!(transport, TestTransport::Http2 | TestTransport::Http2Tls) {
        let mut client = TestClient::connect(server, transport);
        client.send(request_head("GET", "/f", &[]));
        let head = client.read_head();
        let mut bytes = client.take(100_000).unwrap();
        change.apply(server);
        let length: usize = head.header("content-length").unwrap().parse().unwrap();
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
            let (mut bytes, mut is_unchanged) = (Vec::new(), true);
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
                if is_unchanged && bytes.len() > 30_000 {
                    is_unchanged = false;
                    change.apply(server);
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
fn d13_a_constantly_changing_file_is_sent_completely_or_ends_early() {
    let server = TestServer::start();
    let path = server.write_file("f", [b'x'; 100]);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                for len in [0, 300_000, 100, 70_000] {
                    file.set_len(len).unwrap();
                }
            }
        });
        let _done_on_drop = DoneOnDrop(&is_done);
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
                    // The file only ever had these bytes: the first hundred, and zeros of holes.
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
