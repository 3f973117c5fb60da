//! D6: no room, be it the quota's or the disk's.

use std::path::{Path, PathBuf};
use std::process::Command;

use haul_serve::store::{FileStoreOptions, UploadDurability};

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{ServerSetup, TestServer, eventually};

fn with_quota(bytes: u64) -> ServerSetup {
    ServerSetup {
        store: FileStoreOptions {
            quota: Some(bytes),
            ..ServerSetup::default().store
        },
        ..ServerSetup::default()
    }
}

/// Puts in chunks.
fn put_in_chunks(served: &TestServer, road: RequestPathway, path: &str, body: &[u8]) -> u16 {
    let mut client = TestClient::on(served, road);
    client.send(request("PUT", path, &[("Transfer-Encoding", "chunked")]));
    for chunk in body.chunks(100_000) {
        let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        if client.try_send(chunk).is_err() {
            break;
        }
    }
    let _ = client.try_send("0\r\n\r\n");
    client.answer_to("PUT").status
}

#[test]
fn d6_over_the_quota_nothing_is_stored() {
    for size in [100, 1 << 20] {
        let served = with_quota(size as u64 * 2).start();
        let body = vec![b'x'; size];
        for road in RequestPathway::ALL {
            assert_eq!(
                served.put(road, "/a", &[], &body).status,
                201,
                "{road:?} {size}"
            );
            assert_eq!(
                served.put(road, "/b", &[], &body).status,
                201,
                "{road:?} {size}"
            );
            assert_eq!(
                served.put(road, "/c", &[], &body).status,
                507,
                "{road:?} {size}"
            );
            assert!(served.holds("c").is_none());
            if RequestPathway::FIRST.contains(&road) {
                assert_eq!(
                    put_in_chunks(&served, road, "/c", &body),
                    507,
                    "{road:?} {size}"
                );
                assert_eq!(
                    put_in_chunks(&served, road, "/a", &[&body[..], &body].concat()),
                    507
                );
            }
            assert_eq!(served.get("/a").body, body, "{road:?}: the old version");
            // Room comes back.
            assert_eq!(served.ask(road, "DELETE", "/a", &[]).status, 204);
            assert_eq!(
                served.put(road, "/c", &[], &body).status,
                201,
                "{road:?} {size}"
            );
            for path in ["/b", "/c"] {
                assert_eq!(served.ask(road, "DELETE", path, &[]).status, 204);
            }
            eventually("temporaries are gone", || served.temporaries() == 0);
        }
    }
}

#[test]
fn d6_a_file_is_replaced_by_one_of_its_size_where_nothing_else_fits() {
    for size in [100, 1 << 20] {
        let served = with_quota(size as u64 + 10).start();
        let [old, new] = [b'o', b'n'].map(|byte| vec![byte; size]);
        for road in RequestPathway::ALL {
            assert_eq!(served.put(road, "/a", &[], &old).status, 201, "{road:?}");
            assert_eq!(served.put(road, "/a", &[], &new).status, 204, "{road:?}");
            assert_eq!(served.get("/a").body, new, "{road:?}");
            assert_eq!(served.put(road, "/b", &[], &new).status, 507, "{road:?}");
            if RequestPathway::FIRST.contains(&road) {
                assert_eq!(put_in_chunks(&served, road, "/a", &old), 204, "{road:?}");
            }
            let more = vec![b'm'; size + 11];
            assert_eq!(served.put(road, "/a", &[], &more).status, 507, "{road:?}");
            assert_eq!(served.ask(road, "DELETE", "/a", &[]).status, 204);
        }
    }
}

#[test]
fn d6_what_broke_off_takes_no_room() {
    let served = with_quota(300_000).start();
    for _ in 0..5 {
        let mut client = TestClient::plain(&served);
        client
            .send(request("PUT", "/a", &[("Content-Length", "300000")]))
            .send(vec![b'x'; 299_999]);
        eventually("it is being written", || served.temporaries() == 1);
        drop(client);
        eventually("it is gone", || served.temporaries() == 0);
    }
    // Its share may come back a moment after its file has gone.
    eventually("there is room", || {
        served
            .put(RequestPathway::Plain, "/a", &[], &vec![b'x'; 300_000])
            .status
            < 300
    });
}

/// Nobody sends a gigabyte to learn that there is no room for it.
#[test]
fn d6_what_cannot_fit_is_not_asked_for() {
    let served = with_quota(1000).start();
    for road in RequestPathway::FIRST {
        for (length, comes) in [("1001", 507), ("1000", 100)] {
            let mut client = TestClient::on(&served, road);
            let fields = [("Content-Length", length), ("Expect", "100-continue")];
            client.send(request("PUT", "/a", &fields));
            assert_eq!(client.head().status, comes, "{road:?} {length}");
        }
    }
}

/// Whoever is refused learns whether to send less, or to remove something first.
#[test]
fn d6_who_is_refused_learns_how_much_room_there_is() {
    let served = with_quota(3 << 20).start();
    served.file("a", "");
    for road in RequestPathway::FIRST {
        for (path, len, status) in [
            ("/a", 1 << 20, 204),
            ("/b", 2_100_000, 507),
            ("/a", 4 << 20, 507),
        ] {
            let answer = served.put(road, path, &[], &vec![b'x'; len]);
            assert_eq!(answer.status, status, "{road:?}");
            let says = match (path, len) {
                ("/b", _) => {
                    "has room for a file of at most 2097152 bytes here, and this one has 2100000 bytes\n"
                }
                // What it replaces makes room.
                ("/a", 4_194_304) => {
                    "has room for a file of at most 3.0 MiB here, and this one has 4.0 MiB\n"
                }
                _ => "",
            };
            assert!(answer.text().ends_with(says), "{road:?}: {}", answer.text());
        }
    }
    // Nobody says how long it will be.
    let mut client = TestClient::plain(&served);
    client.send(request("PUT", "/b", &[("Transfer-Encoding", "chunked")]));
    for _ in 0..3 {
        let _ = client.try_send([&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat());
    }
    let answer = client.answer_to("PUT");
    let says = "has room for a file of at most 2.0 MiB here, and this one has more\n";
    assert!(
        answer.status == 507 && answer.text().ends_with(says),
        "{}",
        answer.text()
    );
}

#[test]
fn d6_what_was_there_before_counts() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("deep")).unwrap();
    std::fs::write(root.join("deep/file"), [b'x'; 900]).unwrap();
    let served = with_quota(1000).start_in(folder, &root);
    assert_eq!(
        served
            .put(RequestPathway::Plain, "/a", &[], &[b'x'; 101])
            .status,
        507
    );
    assert_eq!(
        served
            .put(RequestPathway::Plain, "/a", &[], &[b'x'; 100])
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
            within: Some(disk.0.clone()),
            ..ServerSetup::default()
        };
        let served = setup.start();
        served.file("key", "old");
        let body = vec![b'x'; 2 << 20];
        for road in RequestPathway::ALL {
            assert_eq!(served.put(road, "/key", &[], &body).status, 507, "{road:?}");
            assert_eq!(
                served.put(road, "/fresh", &[], &body).status,
                507,
                "{road:?}"
            );
            if RequestPathway::FIRST.contains(&road) {
                assert_eq!(put_in_chunks(&served, road, "/key", &body), 507, "{road:?}");
            }
            assert_eq!(served.get("/key").text(), "old", "{road:?}");
            assert_eq!(served.get("/fresh").status, 404, "{road:?}");
            eventually("temporaries are gone", || served.temporaries() == 0);
            // There is room again.
            assert_eq!(
                served.put(road, "/other", &[], &body[..500_000]).status / 100,
                2,
                "{road:?}"
            );
        }
    }
}

/// A file system of some MiB. The row rests on the quota and on the error table where the system lets nobody mount one.
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
