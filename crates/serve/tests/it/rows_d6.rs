//! D6: uploads that exceed the quota or the free space on the disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use haul_serve::store::{FileStoreOptions, UploadDurability};

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{ServerSetup, TestServer, wait_until};

fn with_quota(bytes: u64) -> ServerSetup {
    ServerSetup {
        store: FileStoreOptions {
            quota: Some(bytes),
            ..ServerSetup::default().store
        },
        ..ServerSetup::default()
    }
}

fn put_in_chunks(server: &TestServer, transport: TestTransport, path: &str, body: &[u8]) -> u16 {
    let mut client = TestClient::connect(server, transport);
    client.send(request_head(
        "PUT",
        path,
        &[("Transfer-Encoding", "chunked")],
    ));
    for chunk in body.chunks(100_000) {
        let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        if client.try_send(chunk).is_err() {
            break;
        }
    }
    let _ = client.try_send("0\r\n\r\n");
    client.read_response_to("PUT").status
}

#[test]
fn d6_an_upload_over_the_quota_is_refused() {
    for size in [100, 1 << 20] {
        let server = with_quota(size as u64 * 2).start();
        let body = vec![b'x'; size];
        for transport in TestTransport::ALL {
            assert_eq!(
                server.put(transport, "/a", &[], &body).status,
                201,
                "{transport:?} {size}"
            );
            assert_eq!(
                server.put(transport, "/b", &[], &body).status,
                201,
                "{transport:?} {size}"
            );
            assert_eq!(
                server.put(transport, "/c", &[], &body).status,
                507,
                "{transport:?} {size}"
            );
            assert!(server.read_file("c").is_none());
            if TestTransport::HTTP1.contains(&transport) {
                assert_eq!(
                    put_in_chunks(&server, transport, "/c", &body),
                    507,
                    "{transport:?} {size}"
                );
                assert_eq!(
                    put_in_chunks(&server, transport, "/a", &[&body[..], &body].concat()),
                    507
                );
            }
            assert_eq!(
                server.get("/a").body,
                body,
                "{transport:?}: the old version"
            );
            // Deleting frees space.
            assert_eq!(server.request(transport, "DELETE", "/a", &[]).status, 204);
            assert_eq!(
                server.put(transport, "/c", &[], &body).status,
                201,
                "{transport:?} {size}"
            );
            for path in ["/b", "/c"] {
                assert_eq!(server.request(transport, "DELETE", path, &[]).status, 204);
            }
            wait_until("the temporary files are removed", || {
                server.temporary_files() == 0
            });
        }
    }
}

#[test]
fn d6_a_full_store_allows_replacing_a_file_by_one_of_its_size() {
    for size in [100, 1 << 20] {
        let server = with_quota(size as u64 + 10).start();
        let [old, new] = [b'o', b'n'].map(|byte| vec![byte; size]);
        for transport in TestTransport::ALL {
            assert_eq!(
                server.put(transport, "/a", &[], &old).status,
                201,
                "{transport:?}"
            );
            assert_eq!(
                server.put(transport, "/a", &[], &new).status,
                204,
                "{transport:?}"
            );
            assert_eq!(server.get("/a").body, new, "{transport:?}");
            assert_eq!(
                server.put(transport, "/b", &[], &new).status,
                507,
                "{transport:?}"
            );
            if TestTransport::HTTP1.contains(&transport) {
                assert_eq!(
                    put_in_chunks(&server, transport, "/a", &old),
                    204,
                    "{transport:?}"
                );
            }
            let more = vec![b'm'; size + 11];
            assert_eq!(
                server.put(transport, "/a", &[], &more).status,
                507,
                "{transport:?}"
            );
            assert_eq!(server.request(transport, "DELETE", "/a", &[]).status, 204);
        }
    }
}

#[test]
fn d6_an_unfinished_upload_does_not_count_for_the_quota() {
    let server = with_quota(300_000).start();
    for _ in 0..5 {
        let mut client = TestClient::connect_plain(&server);
        client
            .send(request_head("PUT", "/a", &[("Content-Length", "300000")]))
            .send(vec![b'x'; 299_999]);
        wait_until("the upload has a temporary file", || {
            server.temporary_files() == 1
        });
        drop(client);
        wait_until("the temporary file is removed", || {
            server.temporary_files() == 0
        });
    }
    // The reservation may be released a moment after the file was removed.
    wait_until("the reservation is released", || {
        server
            .put(TestTransport::Plain, "/a", &[], &vec![b'x'; 300_000])
            .status
            < 300
    });
}

/// A client learns of the refusal before it sends a large body.
#[test]
fn d6_an_upload_over_the_quota_gets_no_100_continue() {
    let server = with_quota(1000).start();
    for transport in TestTransport::HTTP1 {
        for (length, expected) in [("1001", 507), ("1000", 100)] {
            let mut client = TestClient::connect(&server, transport);
            let fields = [("Content-Length", length), ("Expect", "100-continue")];
            client.send(request_head("PUT", "/a", &fields));
            assert_eq!(
                client.read_head().status,
                expected,
                "{transport:?} {length}"
            );
        }
    }
}

/// The message shows the client whether a smaller file would fit.
#[test]
fn d6_the_message_of_a_refusal_has_the_free_space() {
    let server = with_quota(3 << 20).start();
    server.write_file("a", "");
    for transport in TestTransport::HTTP1 {
        for (path, len, status) in [
            ("/a", 1 << 20, 204),
            ("/b", 2_100_000, 507),
            ("/a", 4 << 20, 507),
        ] {
            let response = server.put(transport, path, &[], &vec![b'x'; len]);
            assert_eq!(response.status, status, "{transport:?}");
            let message = match (path, len) {
                ("/b", _) => {
                    "has room for a file of at most 2097152 bytes here, and this file has 2100000 bytes\n"
                }
                // The size of the replaced file counts as free space.
                ("/a", 4_194_304) => {
                    "has room for a file of at most 3.0 MiB here, and this file has 4.0 MiB\n"
                }
                _ => "",
            };
            assert!(
                response.text().ends_with(message),
                "{transport:?}: {}",
                response.text()
            );
        }
    }
    // An upload without a declared length.
    let mut client = TestClient::connect_plain(&server);
    client.send(request_head(
        "PUT",
        "/b",
        &[("Transfer-Encoding", "chunked")],
    ));
    for _ in 0..3 {
        let _ = client.try_send([&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat());
    }
    let response = client.read_response_to("PUT");
    let message = "has room for a file of at most 2.0 MiB here, and this file has more\n";
    assert!(
        response.status == 507 && response.text().ends_with(message),
        "{}",
        response.text()
    );
}

#[test]
fn d6_existing_files_count_for_the_quota() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("deep")).unwrap();
    std::fs::write(root.join("deep/file"), [b'x'; 900]).unwrap();
    let server = with_quota(1000).start_in(folder, &root);
    assert_eq!(
        server
            .put(TestTransport::Plain, "/a", &[], &[b'x'; 101])
            .status,
        507
    );
    assert_eq!(
        server
            .put(TestTransport::Plain, "/a", &[], &[b'x'; 100])
            .status,
        201
    );
}

#[test]
fn d6_a_full_disk_changes_nothing() {
    let Some(disk) = SmallFilesystem::mount(1) else {
        return;
    };
    for durability in [
        UploadDurability::None,
        UploadDurability::File,
        UploadDurability::Full,
    ] {
        let setup = ServerSetup {
            store: FileStoreOptions {
                durability,
                ..ServerSetup::default().store
            },
            parent: Some(disk.0.clone()),
            ..ServerSetup::default()
        };
        let server = setup.start();
        server.write_file("key", "old");
        let body = vec![b'x'; 2 << 20];
        for transport in TestTransport::ALL {
            assert_eq!(
                server.put(transport, "/key", &[], &body).status,
                507,
                "{transport:?}"
            );
            assert_eq!(
                server.put(transport, "/fresh", &[], &body).status,
                507,
                "{transport:?}"
            );
            if TestTransport::HTTP1.contains(&transport) {
                assert_eq!(
                    put_in_chunks(&server, transport, "/key", &body),
                    507,
                    "{transport:?}"
                );
            }
            assert_eq!(server.get("/key").text(), "old", "{transport:?}");
            assert_eq!(server.get("/fresh").status, 404, "{transport:?}");
            wait_until("the temporary files are removed", || {
                server.temporary_files() == 0
            });
            // The disk has free space again.
            assert_eq!(
                server
                    .put(transport, "/other", &[], &body[..500_000])
                    .status
                    / 100,
                2,
                "{transport:?}"
            );
        }
    }
}

/// Mounts a file system of a few MiB. If the test may not mount one, only the quota and the error
/// table cover the row.
struct SmallFilesystem(PathBuf);

impl SmallFilesystem {
    fn mount(mebibytes: usize) -> Option<Self> {
        let path = tempfile::tempdir().unwrap().keep();
        let size = format!("size={mebibytes}m");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "haul-test"])
            .arg(&path)
            .output();
        let is_mounted = mount.is_ok_and(|output| output.status.success());
        if !is_mounted {
            std::fs::remove_dir(&path).unwrap();
        }
        is_mounted.then_some(Self(path))
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        let _ = Command::new("umount").arg("-l").arg(path).output();
        let _ = std::fs::remove_dir(path);
    }
}
