//! D1 and D2: request paths, and symbolic links, that lead out of the root.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{TestClient, TestTransport, find};
use crate::harness::{DoneOnDrop, NAME, SECRET, TestServer, wait_until};

/// Sends a request line as it is, and reads to the end of the connection.
#[track_caller]
fn send_request_line(server: &TestServer, line: &[u8]) -> (u16, Vec<u8>) {
    let mut client = TestClient::connect_plain(server);
    let mut head = line.to_vec();
    head.extend(format!("\r\nHost: {NAME}\r\nConnection: close\r\n\r\n").into_bytes());
    client.send(head);
    let responses = client.read_to_end();
    let status = responses.strip_prefix(b"HTTP/1.1 ").expect("a response");
    let status = std::str::from_utf8(&status[..3]).unwrap().parse().unwrap();
    (status, responses)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d1_no_path_leads_out_of_the_root() {
    let server = TestServer::start();
    server.write_file("a/b", "inside");
    let long = format!("/{}", "x".repeat(5000));
    let deep = format!("/{}", "x/".repeat(2500));
    let many_parents = format!("/{}secret", "../".repeat(1500));
    let cases: &[(&[u8], &[u16])] = &[
        (b"/../secret", &[400]),
        (b"/..", &[400]),
        (b"/a/../../secret", &[400]),
        (b"/a/..", &[400]),
        (b"/./a/b", &[400]),
        (b"/%2e%2e/secret", &[400]),
        (b"/%2E%2e/secret", &[400]),
        (b"/.%2e/secret", &[400]),
        (b"/..%2fsecret", &[400]),
        (b"/a%2f..%2f..%2fsecret", &[400]),
        (b"/%2e%2e%2fsecret", &[400]),
        (b"/%252e%252e/secret", &[404]),
        (b"/%252e%252e%252fsecret", &[404]),
        (b"//secret", &[400]),
        (b"//", &[400]),
        (b"/a//b", &[400]),
        (b"///etc/passwd", &[400]),
        (b"/secret%00", &[400]),
        (b"/a/b%00.txt", &[400]),
        (b"/a\0b", &[400]),
        (b"/..\\secret", &[400, 404]),
        (b"/..%5csecret", &[404]),
        (b"\\..\\secret", &[400]),
        (b"/%c0%ae%c0%ae/secret", &[404]),
        (b"/%ff%fe", &[404]),
        (b"/\xff\xfe", &[400, 404]),
        (b"/%uff0e%uff0e/secret", &[400]),
        (b"/%", &[400]),
        (b"/%2", &[400]),
        (b"secret", &[400]),
        (b"../secret", &[400]),
        (b"?x", &[400]),
        (b"", &[400]),
        (b"*", &[400]),
        (b"/.haul/lock", &[404]),
        (b"/%2ehaul/lock", &[404]),
        (b"/.haul/../secret", &[400, 404]),
        (long.as_bytes(), &[414]),
        (deep.as_bytes(), &[414]),
        (many_parents.as_bytes(), &[400, 414]),
        (b"http://other/../secret", &[400]),
        (b"http://other/%2e%2e/secret", &[400]),
        (b"file:///etc/passwd", &[400, 404]),
        (b"secret.test:80", &[400]),
    ];
    for (path, expected) in cases {
        for method in [&b"GET "[..], b"HEAD ", b"DELETE ", b"PUT "] {
            let (status, responses) =
                send_request_line(&server, &[method, path, b" HTTP/1.1"].concat());
            let path = path.escape_ascii().to_string();
            // A PUT whose path is an ordinary name creates that file inside the root.
            let is_made =
                method == b"PUT " && expected.contains(&404) && [201, 204].contains(&status);
            let is_gone = method == b"DELETE " && expected.contains(&404) && status == 204;
            assert!(
                expected.contains(&status) || is_made || is_gone,
                "{path:.60} {}: {status}",
                method.escape_ascii()
            );
            assert!(
                find(&responses, SECRET.as_bytes()).is_none()
                    && find(&responses, b"root:").is_none(),
                "{path}"
            );
            if is_made {
                // Restores the folder for the next path.
                remove_uploads(&server);
            }
        }
    }
    assert_eq!(fs::read_to_string(server.secret_path()).unwrap(), SECRET);
    assert_eq!(server.read_file("a/b").unwrap(), b"inside");
}

/// Removes the files that PUTs have created.
fn remove_uploads(server: &TestServer) {
    for entry in fs::read_dir(server.root()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .file_name()
            .is_some_and(|name| name != ".haul" && name != "a")
        {
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

#[test]
fn d1_invalid_paths_get_a_reason() {
    let server = TestServer::start();
    server.write_file("a", "inside");
    assert_eq!(send_request_line(&server, b"OPTIONS * HTTP/1.1").0, 204);
    assert_eq!(
        send_request_line(&server, b"GET http://store.test/a HTTP/1.1").0,
        200
    );
    let (status, _) = send_request_line(&server, b"CONNECT example.org:443 HTTP/1.1");
    assert!([400, 405].contains(&status), "{status}");
    let (status, _) = send_request_line(&server, b"CONNECT /a HTTP/1.1");
    assert!([400, 405].contains(&status), "{status}");
    assert_eq!(send_request_line(&server, b"TRACE /a HTTP/1.1").0, 405);
    assert_eq!(send_request_line(&server, b"BREW /a HTTP/1.1").0, 405);
}

#[test]
fn d1_unusual_names_are_accepted() {
    let server = TestServer::start();
    for (path, name) in [
        ("/a%20b", &b"a b"[..]),
        ("/%c3%a4", "ä".as_bytes()),
        ("/%ff", b"\xff"),
        ("/..%5cx", b"..\\x"),
        ("/%252e", b"%2e"),
        ("/a+b;c=d,e", b"a+b;c=d,e"),
        ("/...", b"..."),
        ("/.hidden", b".hidden"),
        ("/%0a%09", b"\n\t"),
    ] {
        for transport in TestTransport::ALL {
            let response = server.put(transport, path, &[], path.as_bytes());
            assert!(
                [201, 204].contains(&response.status),
                "{path} {transport:?}: {response:?}"
            );
            let response = server.request(transport, "GET", path, &[]);
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, path),
                "{transport:?}"
            );
        }
        use std::os::unix::ffi::OsStrExt as _;
        let path = server.root().join(std::ffi::OsStr::from_bytes(name));
        assert!(path.is_file(), "{}", path.display());
    }
}

#[test]
fn d1_no_path_leads_out_of_the_root_over_http2() {
    let server = TestServer::start();
    for transport in [TestTransport::Http2, TestTransport::Http2Tls] {
        for (path, expected) in [
            ("/../secret", 400),
            ("/%2e%2e/secret", 400),
            ("/..%2fsecret", 400),
            ("//secret", 400),
            ("/a%00", 400),
            ("/.haul/lock", 404),
            ("/%252e%252e/secret", 404),
        ] {
            let response = server.request(transport, "GET", path, &[]);
            assert_eq!(response.status, expected, "{path}");
            assert!(!response.text().contains(SECRET), "{path}");
        }
    }
}

#[test]
fn d2_links_out_of_the_root_are_not_found() {
    let server = TestServer::start();
    let root = server.root();
    server.write_file("in/file", "inside");
    symlink(server.secret_path(), root.join("file")).unwrap();
    symlink("../secret", root.join("relative")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/", root.join("top")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("in/file", root.join("fine")).unwrap();
    for path in ["/up/", "/top/"] {
        assert_ne!(server.get(path).status, 200, "{path}");
    }
    for path in [
        "/file",
        "/relative",
        "/up/secret",
        "/top/etc/passwd",
        "/loop",
    ] {
        for transport in TestTransport::ALL {
            let response = server.request(transport, "GET", path, &[]);
            assert_eq!(response.status, 404, "{path} {transport:?}");
            assert!(!response.text().contains(SECRET));
        }
    }
    assert_eq!(server.get("/fine").text(), "inside");
    // Nothing is created or deleted behind a link that leads out.
    for path in ["/up/new", "/top/tmp/haul-was-here", "/up/secret"] {
        let response = server.put(TestTransport::Plain, path, &[], b"overwritten");
        assert!(
            [403, 404, 409].contains(&response.status),
            "{path}: {response:?}"
        );
        let response = server.request(TestTransport::Plain, "DELETE", path, &[]);
        assert!(
            [403, 404, 409].contains(&response.status),
            "{path}: {response:?}"
        );
    }
    // An upload to a link's own name replaces the link, and a DELETE removes it.
    assert!(
        [201, 204].contains(
            &server
                .put(TestTransport::Plain, "/file", &[], b"mine")
                .status
        )
    );
    assert_eq!(server.get("/file").text(), "mine");
    assert_eq!(
        server
            .request(TestTransport::Plain, "DELETE", "/relative", &[])
            .status,
        204
    );
    assert!(root.join("relative").symlink_metadata().is_err());
    assert_eq!(fs::read_to_string(server.secret_path()).unwrap(), SECRET);
    assert!(!root.join("../new").exists());
}

#[test]
fn d2_a_folder_that_is_swapped_with_a_link_never_leads_out_of_the_root() {
    let server = TestServer::start();
    let (root, outside) = (server.root(), server.root().join("../outside"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), SECRET).unwrap();
    fs::create_dir(root.join("real")).unwrap();
    fs::write(root.join("real/f"), "inside").unwrap();
    fs::rename(root.join("real"), root.join("d")).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    let is_done = AtomicBool::new(false);
    let swap_count = std::thread::scope(|scope| {
        // `d` is alternately a folder and a link out of the root.
        let swapper = scope.spawn(|| {
            let mut swap_count = 0;
            while !is_done.load(Ordering::Relaxed) {
                let (d, link) = (root.join("d"), root.join("link"));
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &d,
                    rustix::fs::CWD,
                    &link,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
                swap_count += 1;
            }
            swap_count
        });
        let done_on_drop = DoneOnDrop(&is_done);
        let mut client = TestClient::connect_plain(&server);
        let (mut inside, mut not_found) = (0, 0);
        wait_until("both were met", || {
            for _ in 0..50 {
                let response = client.request("GET", "/d/f", &[]);
                match response.status {
                    200 => inside += 1,
                    404 => not_found += 1,
                    other => panic!("{other}"),
                }
                assert!(!response.text().contains(SECRET));
                client
                    .send(crate::client::request_head(
                        "PUT",
                        "/d/new",
                        &[("Content-Length", "3")],
                    ))
                    .send("new");
                let put = client.read_response_to("PUT");
                assert!([201, 204, 403, 404, 409].contains(&put.status), "{put:?}");
            }
            inside >= 200 && not_found >= 200
        });
        drop(done_on_drop);
        swapper.join().unwrap()
    });
    assert!(swap_count > 100);
    assert_eq!(
        fs::read_dir(&outside).unwrap().count(),
        1,
        "a file was created outside the root"
    );
    assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), SECRET);
}
