//! D3: uploads that break off, at every byte, and what is left of them.

use bytes::Bytes;
use haul_lab::ResourceContent;
use haul_serve::observe::ServeMetrics;
use http::Request;

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{NAME, ServerSetup, TestServer, eventually, sample};
use crate::http2;

const BODY: &[u8] = b"fifty bytes of a new version, every one is needed.";

/// The same upload by its length and in chunks of three sizes.
fn framings(body: &[u8]) -> [Vec<u8>; 2] {
    let length = body.len().to_string();
    let by_length = request("PUT", "/key", &[("Content-Length", &length)]);
    let in_chunks = request("PUT", "/key", &[("Transfer-Encoding", "chunked")]);
    let mut chunked = in_chunks.into_bytes();
    let third = body.len().div_ceil(3);
    for chunk in body.chunks(third) {
        chunked.extend(format!("{:x};a=b\r\n", chunk.len()).into_bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    [[by_length.as_bytes(), body].concat(), chunked]
}

/// Nothing has changed, and nothing is left.
#[track_caller]
fn is_as_it_was(served: &TestServer, after: &str) {
    assert_eq!(served.holds("key").unwrap(), b"old", "{after}");
    eventually("temporaries are gone", || served.temporaries() == 0);
}

#[test]
fn d3_an_upload_that_ends_at_any_byte_changes_nothing() {
    let served = TestServer::start();
    served.file("key", "old");
    for road in RequestPathway::FIRST {
        for upload in framings(BODY) {
            for cut in 0..upload.len() {
                let mut client = TestClient::on(&served, road);
                client.send(&upload[..cut]);
                // Whoever cannot go on says so, and may still hear what became of it.
                client.finish();
                let answer = client.until_gone();
                assert!(!answer.starts_with(b"HTTP/1.1 2"), "{road:?} {cut}");
                is_as_it_was(&served, &format!("{road:?} {cut}"));
            }
            // All of it is an upload.
            let mut client = TestClient::on(&served, road);
            client.send(&upload);
            assert_eq!(client.answer_to("PUT").status, 204);
            assert_eq!(served.holds("key").unwrap(), BODY);
            served.file("key", "old");
        }
    }
}

#[test]
fn d3_an_upload_that_is_dropped_at_any_byte_changes_nothing() {
    let (served, metrics) = ServerSetup::default().counted();
    served.file("key", "old");
    let mut sent = 0;
    for upload in framings(BODY) {
        for cut in 0..upload.len() {
            let mut client = TestClient::plain(&served);
            client.send(&upload[..cut]);
            if cut % 2 == 0 {
                client.reset();
            }
        }
        let accepted = || sample(&metrics, "haul_connections_accepted_total");
        let open = || sample(&metrics, "haul_connections_open");
        sent += upload.len() as u64;
        eventually("all were noticed", || accepted() == sent && open() == 0);
        is_as_it_was(&served, "all of them");
    }
}

#[test]
fn d3_a_long_upload_that_breaks_off_leaves_nothing_on_the_disk() {
    let body = ResourceContent::random(3, 3 << 20).to_vec();
    let served = TestServer::start();
    served.file("key", "old");
    for road in RequestPathway::FIRST {
        for upload in framings(&body) {
            for cut in [
                70_000,
                600_000,
                1 << 20,
                (2 << 20) + 1,
                upload.len() - 6,
                upload.len() - 1,
            ] {
                for is_reset in [false, true] {
                    let mut client = TestClient::on(&served, road);
                    client.send(&upload[..cut]);
                    eventually("it is being written", || served.temporaries() == 1);
                    assert_eq!(served.holds("key").unwrap(), b"old");
                    match is_reset {
                        true => client.reset(),
                        false => drop(client),
                    }
                    is_as_it_was(&served, &format!("{road:?} {cut} {is_reset}"));
                }
            }
        }
    }
}

#[test]
fn d3_folders_of_an_upload_that_broke_off_hold_nothing() {
    let served = TestServer::start();
    let mut client = TestClient::plain(&served);
    client.send(request("PUT", "/a/b/c", &[("Content-Length", "1000000")]));
    client.send(vec![b'x'; 200_000]);
    eventually("it is being written", || served.temporaries() == 1);
    drop(client);
    eventually("it is gone", || served.temporaries() == 0);
    assert_eq!(served.get("/a/b/c").status, 404);
    assert!(!served.root().join("a/b/c").exists());
}

/// How an upload over HTTP/2 ends early.
#[derive(Debug, Clone, Copy)]
enum EarlyUploadEnd {
    /// The stream is reset.
    Reset(h2::Reason),
    /// It ends with fewer bytes than were told.
    Short,
    /// The connection ends.
    Gone,
}

/// An upload over HTTP/2 that ends early.
#[derive(Debug, Clone, Copy)]
struct BrokenUpload {
    road: RequestPathway,
    ends: EarlyUploadEnd,
    /// Whether it says how long it would have been.
    is_declared: bool,
    /// Bytes that are sent.
    length: usize,
}

#[test]
fn d3_an_upload_over_http2_that_breaks_off_changes_nothing() {
    let (served, metrics) = ServerSetup::default().counted();
    served.file("key", "old");
    let resets = [h2::Reason::CANCEL, h2::Reason::NO_ERROR].map(EarlyUploadEnd::Reset);
    let all = resets
        .into_iter()
        .chain([EarlyUploadEnd::Short, EarlyUploadEnd::Gone]);
    for (road, ends) in all.flat_map(|ends| {
        [
            (RequestPathway::Http2, ends),
            (RequestPathway::Http2Tls, ends),
        ]
    }) {
        for is_declared in [true, false] {
            for length in [0, 1, 49, 200_000, 700_000] {
                let broken = BrokenUpload {
                    road,
                    ends,
                    is_declared,
                    length,
                };
                // One that ends in order without having said how long it is is whole.
                if is_declared || !matches!(ends, EarlyUploadEnd::Short) {
                    break_off(&served, &metrics, broken);
                    is_as_it_was(&served, &format!("{broken:?}"));
                }
            }
        }
    }
    assert_eq!(
        served.put(RequestPathway::Http2, "/key", &[], BODY).status,
        204
    );
    assert_eq!(served.holds("key").unwrap(), BODY);
}

/// Begins an upload of a million bytes, ends it after some, and waits until the server has done with it.
fn break_off(served: &TestServer, metrics: &ServeMetrics, broken: BrokenUpload) {
    let before = sample(metrics, "haul_uploads_total");
    http2::run(async {
        let stream = http2::connect(served, broken.road).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let upload = async {
            let mut sender = sender.ready().await.unwrap();
            let mut request = Request::put(format!("http://{NAME}/key"));
            if broken.is_declared {
                request = request.header("content-length", "1000000");
            }
            let (answer, mut stream) = sender
                .send_request(request.body(()).unwrap(), false)
                .unwrap();
            let body = vec![b'x'; broken.length];
            http2::send(&mut stream, &body).await.unwrap();
            // Not before its head has come: what ends earlier never becomes an upload.
            until(|| sample(metrics, "haul_uploads_total") > before).await;
            if broken.length > 100_000 {
                until(|| served.temporaries() > 0).await;
            }
            match broken.ends {
                EarlyUploadEnd::Gone => return,
                EarlyUploadEnd::Reset(reason) => {
                    stream.send_reset(reason);
                    // The connection stays, so that it is the reset that ends it.
                    until(|| sample(metrics, "haul_uploads_in_flight") == 0).await;
                }
                EarlyUploadEnd::Short => stream.send_data(Bytes::new(), true).unwrap(),
            }
            match answer.await {
                Err(_) => {}
                Ok(answer) => assert!(answer.status().as_u16() >= 400, "{answer:?}"),
            }
        };
        tokio::select! {
            ended = connection => panic!("{broken:?}: the connection ended: {ended:?}"),
            () = upload => {}
        }
    });
    eventually("it is over", || {
        sample(metrics, "haul_uploads_in_flight") == 0
    });
}

/// Lets the others of its task go on until something is so.
async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn d3_what_a_killed_server_left_is_gone_when_the_next_one_starts() {
    let mut served = TestServer::start();
    served.file("key", "old");
    served.file(".haul/.haul-put-1-1", "half a version");
    served.file(".haul/.haul-put-2-0", "");
    served.end(std::time::Duration::ZERO);
    assert_eq!(served.temporaries(), 2);
    let root = served.root();
    let next = ServerSetup::default().start_in(tempfile::tempdir().unwrap(), &root);
    assert_eq!(served.temporaries(), 0);
    assert_eq!(next.get("/key").text(), "old");
}

#[test]
fn d3_what_was_removed_beside_the_server_is_no_missing_file() {
    let served = TestServer::start();
    let root = served.root();
    let put = |road, path| served.put(road, path, &[], b"x");
    for road in RequestPathway::ALL {
        std::fs::remove_dir_all(root.join(".haul")).unwrap();
        assert!(put(road, "/f").status < 300, "{road:?}: it is made again");
    }
    std::fs::remove_dir_all(&root).unwrap();
    for road in RequestPathway::ALL {
        for path in ["/f", "/x/f"] {
            let answer = put(road, path);
            assert_eq!(answer.status, 500, "{road:?} {path}");
            assert!(answer.text().contains("removed"), "{}", answer.text());
        }
        // Whoever mirrors it is not to take that for an empty folder.
        for path in ["/", "/?format=json", "/?format=tar", "/f", "/x/"] {
            assert_eq!(
                served.ask(road, "GET", path, &[]).status,
                500,
                "{road:?} {path}"
            );
        }
    }
}

/// A file that others may not read stays such a file.
#[test]
fn d3_a_file_that_is_replaced_keeps_its_rights() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let served = TestServer::start();
    let path = served.file("f", "old");
    let is_root = rustix::process::geteuid().is_root();
    for road in RequestPathway::ALL {
        for mode in [0o600, 0o640, 0o755, 0o644] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            if is_root {
                chown(&path, Some(1000), Some(1001)).unwrap();
            }
            assert_eq!(served.put(road, "/f", &[], b"new").status, 204);
            let now = std::fs::metadata(&path).unwrap();
            assert_eq!(now.mode() & 0o7777, mode, "{road:?}");
            assert!(!is_root || (now.uid(), now.gid()) == (1000, 1001));
        }
    }
    // Nobody gets an owner's rights by running what somebody else has sent.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(
        served.put(RequestPathway::Plain, "/f", &[], b"new").status,
        204
    );
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
}
