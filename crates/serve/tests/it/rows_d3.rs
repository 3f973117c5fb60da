//! D3: uploads that end early, at every byte, leave no changes and no files.

use bytes::Bytes;
use haul_lab::ResourceContent;
use haul_serve::observe::ServeMetrics;
use http::Request;

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{NAME, ServerSetup, TestServer, metric, wait_until};
use crate::http2;

const BODY: &[u8] = b"fifty bytes of a new version, every one is needed.";

/// The same upload with a Content-Length, and with chunks of three sizes.
fn framings(body: &[u8]) -> [Vec<u8>; 2] {
    let length = body.len().to_string();
    let by_length = request_head("PUT", "/key", &[("Content-Length", &length)]);
    let in_chunks = request_head("PUT", "/key", &[("Transfer-Encoding", "chunked")]);
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

/// Asserts that the file is unchanged and that no temporary files remain.
#[track_caller]
fn assert_unchanged(server: &TestServer, after: &str) {
    assert_eq!(server.read_file("key").unwrap(), b"old", "{after}");
    wait_until("the temporary files are removed", || {
        server.temporary_files() == 0
    });
}

#[test]
fn d3_an_upload_that_ends_early_at_any_byte_changes_nothing() {
    let server = TestServer::start();
    server.write_file("key", "old");
    for transport in TestTransport::HTTP1 {
        for upload in framings(BODY) {
            for cut in 0..upload.len() {
                let mut client = TestClient::connect(&server, transport);
                client.send(&upload[..cut]);
                // The client closes its sending half, and may still read a response.
                client.finish();
                let response = client.read_until_closed();
                assert!(!response.starts_with(b"HTTP/1.1 2"), "{transport:?} {cut}");
                assert_unchanged(&server, &format!("{transport:?} {cut}"));
            }
            // The complete body is stored.
            let mut client = TestClient::connect(&server, transport);
            client.send(&upload);
            assert_eq!(client.read_response_to("PUT").status, 204);
            assert_eq!(server.read_file("key").unwrap(), BODY);
            server.write_file("key", "old");
        }
    }
}

#[test]
fn d3_an_upload_that_is_reset_at_any_byte_changes_nothing() {
    let (server, metrics) = ServerSetup::default().start_with_metrics();
    server.write_file("key", "old");
    let mut sent = 0;
    for upload in framings(BODY) {
        for cut in 0..upload.len() {
            let mut client = TestClient::connect_plain(&server);
            client.send(&upload[..cut]);
            if cut % 2 == 0 {
                client.reset();
            }
        }
        let accepted = || metric(&metrics, "haul_connections_accepted_total");
        let open = || metric(&metrics, "haul_connections_open");
        sent += upload.len() as u64;
        wait_until("all were noticed", || accepted() == sent && open() == 0);
        assert_unchanged(&server, "all of them");
    }
}

#[test]
fn d3_a_long_unfinished_upload_leaves_nothing_on_the_disk() {
    let body = ResourceContent::random(3, 3 << 20).to_vec();
    let server = TestServer::start();
    server.write_file("key", "old");
    for transport in TestTransport::HTTP1 {
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
                    let mut client = TestClient::connect(&server, transport);
                    client.send(&upload[..cut]);
                    wait_until("the upload has a temporary file", || {
                        server.temporary_files() == 1
                    });
                    assert_eq!(server.read_file("key").unwrap(), b"old");
                    if is_reset {
                        client.reset()
                    } else {
                        drop(client)
                    }
                    assert_unchanged(&server, &format!("{transport:?} {cut} {is_reset}"));
                }
            }
        }
    }
}

#[test]
fn d3_folders_of_an_unfinished_upload_are_removed() {
    let server = TestServer::start();
    let mut client = TestClient::connect_plain(&server);
    client.send(request_head(
        "PUT",
        "/a/b/c",
        &[("Content-Length", "1000000")],
    ));
    client.send(vec![b'x'; 200_000]);
    wait_until("the upload has a temporary file", || {
        server.temporary_files() == 1
    });
    drop(client);
    wait_until("the temporary file is removed", || {
        server.temporary_files() == 0
    });
    assert_eq!(server.get("/a/b/c").status, 404);
    assert!(!server.root().join("a/b/c").exists());
}

/// How an upload over HTTP/2 ends early.
#[derive(Debug, Clone, Copy)]
enum EarlyUploadEnd {
    Reset(h2::Reason),
    /// The stream ends with fewer bytes than declared.
    Short,
    /// The connection ends.
    Gone,
}

/// An upload over HTTP/2 that ends early.
#[derive(Debug, Clone, Copy)]
struct BrokenUpload {
    transport: TestTransport,
    ends: EarlyUploadEnd,
    /// Whether there is a Content-Length.
    is_declared: bool,
    /// The number of bytes that are sent.
    length: usize,
}

#[test]
fn d3_an_unfinished_upload_over_http2_changes_nothing() {
    let (server, metrics) = ServerSetup::default().start_with_metrics();
    server.write_file("key", "old");
    let resets = [h2::Reason::CANCEL, h2::Reason::NO_ERROR].map(EarlyUploadEnd::Reset);
    let all = resets
        .into_iter()
        .chain([EarlyUploadEnd::Short, EarlyUploadEnd::Gone]);
    for (transport, ends) in all.flat_map(|ends| {
        [
            (TestTransport::Http2, ends),
            (TestTransport::Http2Tls, ends),
        ]
    }) {
        for is_declared in [true, false] {
            for length in [0, 1, 49, 200_000, 700_000] {
                let broken = BrokenUpload {
                    transport,
                    ends,
                    is_declared,
                    length,
                };
                // A body without a declared length that ends cleanly is complete.
                if is_declared || !matches!(ends, EarlyUploadEnd::Short) {
                    send_broken_upload(&server, &metrics, broken);
                    assert_unchanged(&server, &format!("{broken:?}"));
                }
            }
        }
    }
    assert_eq!(
        server.put(TestTransport::Http2, "/key", &[], BODY).status,
        204
    );
    assert_eq!(server.read_file("key").unwrap(), BODY);
}

/// Starts an upload of a million bytes, ends it early, and waits until the server has dropped it.
fn send_broken_upload(server: &TestServer, metrics: &ServeMetrics, broken: BrokenUpload) {
    let before = metric(metrics, "haul_uploads_total");
    http2::block_on(async {
        let stream = http2::connect(server, broken.transport).await;
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let upload = async {
            let mut sender = sender.ready().await.unwrap();
            let mut request = Request::put(format!("http://{NAME}/key"));
            if broken.is_declared {
                request = request.header("content-length", "1000000");
            }
            let (response, mut stream) = sender
                .send_request(request.body(()).unwrap(), false)
                .unwrap();
            let body = vec![b'x'; broken.length];
            http2::send_body(&mut stream, &body).await.unwrap();
            // Waits until the head has arrived: a stream that ends earlier never becomes an upload.
            yield_until(|| metric(metrics, "haul_uploads_total") > before).await;
            if broken.length > 100_000 {
                yield_until(|| server.temporary_files() > 0).await;
            }
            match broken.ends {
                EarlyUploadEnd::Gone => return,
                EarlyUploadEnd::Reset(reason) => {
                    stream.send_reset(reason);
                    // The connection stays open, so that the reset ends the upload.
                    yield_until(|| metric(metrics, "haul_uploads_in_flight") == 0).await;
                }
                EarlyUploadEnd::Short => stream.send_data(Bytes::new(), true).unwrap(),
            }
            match response.await {
                Err(_) => {}
                Ok(response) => assert!(response.status().as_u16() >= 400, "{response:?}"),
            }
        };
        tokio::select! {
            ended = connection => panic!("{broken:?}: the connection ended: {ended:?}"),
            () = upload => {}
        }
    });
    wait_until("the upload has ended", || {
        metric(metrics, "haul_uploads_in_flight") == 0
    });
}

/// Lets other futures of the task proceed until a condition holds.
async fn yield_until(mut is_met: impl FnMut() -> bool) {
    while !is_met() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn d3_leftovers_of_a_killed_server_are_removed_at_start() {
    let mut server = TestServer::start();
    server.write_file("key", "old");
    server.write_file(".haul/.haul-put-1-1", "half a version");
    server.write_file(".haul/.haul-put-2-0", "");
    server.shut_down(std::time::Duration::ZERO);
    assert_eq!(server.temporary_files(), 2);
    let root = server.root();
    let next = ServerSetup::default().start_in(tempfile::tempdir().unwrap(), &root);
    assert_eq!(server.temporary_files(), 0);
    assert_eq!(next.get("/key").text(), "old");
}

#[test]
fn d3_a_removed_root_or_temporary_folder_is_not_a_404() {
    let server = TestServer::start();
    let root = server.root();
    let put = |transport, path| server.put(transport, path, &[], b"x");
    for transport in TestTransport::ALL {
        std::fs::remove_dir_all(root.join(".haul")).unwrap();
        assert!(
            put(transport, "/f").status < 300,
            "{transport:?}: the folder is created again"
        );
    }
    std::fs::remove_dir_all(&root).unwrap();
    for transport in TestTransport::ALL {
        for path in ["/f", "/x/f"] {
            let response = put(transport, path);
            assert_eq!(response.status, 500, "{transport:?} {path}");
            assert!(response.text().contains("removed"), "{}", response.text());
        }
        // A client that mirrors the store must not take the error for an empty folder.
        for path in ["/", "/?format=json", "/?format=tar", "/f", "/x/"] {
            assert_eq!(
                server.request(transport, "GET", path, &[]).status,
                500,
                "{transport:?} {path}"
            );
        }
    }
}

/// A private file stays private.
#[test]
fn d3_a_replaced_file_keeps_its_permissions() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let server = TestServer::start();
    let path = server.write_file("f", "old");
    let is_root = rustix::process::geteuid().is_root();
    for transport in TestTransport::ALL {
        for mode in [0o600, 0o640, 0o755, 0o644] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            if is_root {
                chown(&path, Some(1000), Some(1001)).unwrap();
            }
            assert_eq!(server.put(transport, "/f", &[], b"new").status, 204);
            let now = std::fs::metadata(&path).unwrap();
            assert_eq!(now.mode() & 0o7777, mode, "{transport:?}");
            assert!(!is_root || (now.uid(), now.gid()) == (1000, 1001));
        }
    }
    // The setuid and setgid bits are dropped: an uploaded file must not run with the rights of its owner.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(
        server.put(TestTransport::Plain, "/f", &[], b"new").status,
        204
    );
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
}
