//! D13: files that are cut short, emptied, grown or overwritten while they are sent.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, SystemTime};

use haul_lab::ResourceContent;
use http::Request;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{DoneOnDrop, NAME, TestServer};
use crate::http2;

/// More than is on its way at one time: in both ends' socket buffers, or within HTTP/2's windows.
fn length(road: RequestPathway) -> u64 {
    match road {
        RequestPathway::Http2 | RequestPathway::Http2Tls => 3 << 20,
        _ => 16 << 20,
    }
}

/// What is done to a file that is being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentFileChange {
    /// Nothing is left.
    Emptied,
    /// Half is left, less than was asked for and more than was sent.
    Halved,
    /// Half is left, and ends within a page.
    Torn,
    /// There is more.
    Grown,
    /// There are other bytes, as many.
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

    fn to(self, served: &TestServer) {
        let path = served.root().join("f");
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

/// What came of a body; whether it ended as it should.
struct ReceivedBody {
    bytes: Vec<u8>,
    is_whole: bool,
}

/// A file that was last written long ago: not within the same tick of the file system's clock as what is done to it.
fn old_file(served: &TestServer, bytes: &[u8]) {
    let path = served.file("f", bytes);
    let file = File::options().write(true).open(path).unwrap();
    let then = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(then).unwrap();
}

#[test]
fn d13_a_file_that_changes_ends_the_answer_and_not_the_server() {
    let served = TestServer::start();
    served.file("other", "as ever");
    for road in RequestPathway::ALL {
        let file = ResourceContent::random(13, length(road)).to_vec();
        for done in SentFileChange::ALL {
            old_file(&served, &file);
            let came = read(&served, road, done);
            let why = format!("{road:?} {done:?}: {} bytes", came.bytes.len());
            assert!(!came.is_whole, "{why}");
            // Of one that was overwritten, what came may be of both versions: that is why it is cut short.
            assert!(
                done == SentFileChange::Overwritten || file.starts_with(&came.bytes),
                "{why}"
            );
            assert!(came.bytes.len() < file.len(), "{why}");
            // The next one is served, of this file as it is now and of others.
            assert_eq!(
                served.ask(road, "GET", "/other", &[]).text(),
                "as ever",
                "{why}"
            );
            let now = std::fs::metadata(served.root().join("f")).unwrap().len();
            let head = served.ask(road, "HEAD", "/f", &[]);
            assert_eq!(
                head.field("content-length").unwrap_or("0"),
                now.to_string(),
                "{why}"
            );
        }
    }
}

/// Also of one that fits into hyper's buffers (8 KiB and 100 pages), and almost into the socket's: as much as its limit
/// (212,992 bytes) and one more piece of half of that, and what the client has read.
#[test]
fn d13_a_short_file_that_changes_ends_the_answer() {
    let served = TestServer::start();
    for length in [400 << 10, 1 << 20] {
        let file = ResourceContent::random(13, length).to_vec();
        for is_changed in [true, false] {
            old_file(&served, &file);
            let mut client = TestClient::on(&served, RequestPathway::Unix);
            client.send(request("GET", "/f", &[]));
            assert_eq!(client.head().status, 200);
            client.take(1).unwrap();
            if is_changed {
                SentFileChange::Overwritten.to(&served);
            }
            let rest = client.take(file.len() - 1);
            assert_eq!(rest.is_err(), is_changed, "{length}");
        }
    }
}

#[test]
fn d13_ranges_of_a_file_that_changes_end_early() {
    let served = TestServer::start();
    let file = ResourceContent::random(13, 16 << 20).to_vec();
    // The last of several is large, or small.
    for ranges in [
        "bytes=1-15000000",
        "bytes=0-99,1000-15000000",
        "bytes=0-15000000,15000002-15000010",
    ] {
        for road in RequestPathway::FIRST {
            for is_changed in [true, false] {
                old_file(&served, &file);
                let mut client = TestClient::on(&served, road);
                client.send(request("GET", "/f", &[("Range", ranges)]));
                let head = client.head();
                assert_eq!(head.status, 206);
                client.take(100_000).unwrap();
                if is_changed {
                    SentFileChange::Overwritten.to(&served);
                }
                let length: usize = head.field("content-length").unwrap().parse().unwrap();
                let rest = client.take(length - 100_000);
                assert_eq!(rest.is_err(), is_changed, "{ranges} {road:?}");
            }
        }
    }
}

/// A file that another takes the place of is the same file still, whatever that does to its links.
#[test]
fn d13_a_file_that_is_replaced_is_sent_to_its_end() {
    let served = TestServer::start();
    for road in RequestPathway::FIRST {
        let file = ResourceContent::random(13, length(road)).to_vec();
        old_file(&served, &file);
        let mut client = TestClient::on(&served, road);
        client.send(request("GET", "/f", &[]));
        client.head();
        let begin = client.take(100_000).unwrap();
        let new = served.file("new", "new");
        std::fs::rename(new, served.root().join("f")).unwrap();
        let rest = client.take(file.len() - begin.len()).unwrap();
        assert!(file == [begin, rest].concat(), "{road:?}");
        assert_eq!(served.get("/f").text(), "new");
    }
}

/// Reads some of a body, and the rest when that was done.
fn read(served: &TestServer, road: RequestPathway, done: SentFileChange) -> ReceivedBody {
    if !matches!(road, RequestPathway::Http2 | RequestPathway::Http2Tls) {
        let mut client = TestClient::on(served, road);
        client.send(request("GET", "/f", &[]));
        let head = client.head();
        let mut bytes = client.take(100_000).unwrap();
        done.to(served);
        let length: usize = head.field("content-length").unwrap().parse().unwrap();
        let (rest, is_whole) = match client.take(length - bytes.len()) {
            Ok(rest) => (rest, true),
            Err((rest, _)) => (rest, false),
        };
        bytes.extend(rest);
        return ReceivedBody { bytes, is_whole };
    }
    http2::run(async {
        let stream = http2::connect(served, road).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let download = async {
            let mut sender = sender.ready().await.unwrap();
            let request = Request::get(format!("http://{NAME}/f")).body(()).unwrap();
            let (answer, _) = sender.send_request(request, true).unwrap();
            let mut incoming = answer.await.unwrap().into_body();
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
                    done.to(served);
                }
            };
            ReceivedBody { bytes, is_whole }
        };
        tokio::select! {
            ended = connection => panic!("{ended:?}"),
            came = download => came,
        }
    })
}

/// Between the look at a small file and its reading, too, nothing but what is there is sent.
#[test]
fn d13_a_file_that_never_stands_still_is_sent_as_it_was_told_or_not_at_all() {
    let served = TestServer::start();
    let path = served.file("f", [b'x'; 100]);
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
        for road in RequestPathway::FIRST {
            let (mut whole, mut broken) = (0, 0);
            let mut client = TestClient::on(&served, road);
            for _ in 0..300 {
                if client.try_send(request("GET", "/f", &[])).is_err() {
                    client = TestClient::on(&served, road);
                    continue;
                }
                let Some(head) = client.head_or_end() else {
                    client = TestClient::on(&served, road);
                    continue;
                };
                assert_eq!(head.status, 200);
                match client.body(&head, "GET") {
                    // Nothing but what was ever there: the first hundred bytes, and holes.
                    Ok(body) => {
                        let is_of_file = |(at, byte): (usize, &u8)| match byte {
                            b'x' => at < 100,
                            byte => *byte == 0,
                        };
                        assert!(body.iter().enumerate().all(is_of_file), "{road:?}");
                        whole += 1;
                    }
                    Err(_) => {
                        broken += 1;
                        client = TestClient::on(&served, road);
                    }
                }
            }
            assert!(whole > 0, "{road:?}: {broken} broken");
        }
    });
    served.file("f", "still");
    assert_eq!(served.get("/f").text(), "still");
}
