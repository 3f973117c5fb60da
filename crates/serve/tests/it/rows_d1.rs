//! D1 and D2: paths on the wire, and links that lead out.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{RequestPathway, TestClient, find};
use crate::harness::{DoneOnDrop, NAME, SECRET, TestServer, eventually};

/// Sends a request's first line as it is, and reads what comes until the end.
#[track_caller]
fn line(served: &TestServer, line: &[u8]) -> (u16, Vec<u8>) {
    let mut client = TestClient::plain(served);
    let mut head = line.to_vec();
    head.extend(format!("\r\nHost: {NAME}\r\nConnection: close\r\n\r\n").into_bytes());
    client.send(head);
    let answers = client.rest();
    let status = answers.strip_prefix(b"HTTP/1.1 ").expect("an answer");
    let status = std::str::from_utf8(&status[..3]).unwrap().parse().unwrap();
    (status, answers)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d1_no_path_leads_out() {
    let served = TestServer::start();
    served.file("a/b", "inside");
    let long = format!("/{}", "x".repeat(5000));
    let deep = format!("/{}", "x/".repeat(2500));
    let climbing = format!("/{}secret", "../".repeat(1500));
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
        (climbing.as_bytes(), &[400, 414]),
        (b"http://other/../secret", &[400]),
        (b"http://other/%2e%2e/secret", &[400]),
        (b"file:///etc/passwd", &[400, 404]),
        (b"secret.test:80", &[400]),
    ];
    for (path, expected) in cases {
        for method in [&b"GET "[..], b"HEAD ", b"DELETE ", b"PUT "] {
            let (status, answers) = line(&served, &[method, path, b" HTTP/1.1"].concat());
            let path = path.escape_ascii().to_string();
            // A PUT whose path is a name like any other makes that file, inside.
            let is_made =
                method == b"PUT " && expected.contains(&404) && [201, 204].contains(&status);
            let is_gone = method == b"DELETE " && expected.contains(&404) && status == 204;
            assert!(
                expected.contains(&status) || is_made || is_gone,
                "{path:.60} {}: {status}",
                method.escape_ascii()
            );
            assert!(
                find(&answers, SECRET.as_bytes()).is_none() && find(&answers, b"root:").is_none(),
                "{path}"
            );
            if is_made {
                // As it was for those that come after.
                clear(&served);
            }
        }
    }
    assert_eq!(fs::read_to_string(served.secret()).unwrap(), SECRET);
    assert_eq!(served.holds("a/b").unwrap(), b"inside");
}

/// Removes what PUTs have made.
fn clear(served: &TestServer) {
    for entry in fs::read_dir(served.root()).unwrap() {
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
fn d1_what_is_no_path_of_ours_is_told() {
    let served = TestServer::start();
    served.file("a", "inside");
    assert_eq!(line(&served, b"OPTIONS * HTTP/1.1").0, 204);
    assert_eq!(line(&served, b"GET http://store.test/a HTTP/1.1").0, 200);
    let (status, _) = line(&served, b"CONNECT example.org:443 HTTP/1.1");
    assert!([400, 405].contains(&status), "{status}");
    let (status, _) = line(&served, b"CONNECT /a HTTP/1.1");
    assert!([400, 405].contains(&status), "{status}");
    assert_eq!(line(&served, b"TRACE /a HTTP/1.1").0, 405);
    assert_eq!(line(&served, b"BREW /a HTTP/1.1").0, 405);
}

#[test]
fn d1_names_that_only_look_odd_are_names() {
    let served = TestServer::start();
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
        for road in RequestPathway::ALL {
            let answer = served.put(road, path, &[], path.as_bytes());
            assert!(
                [201, 204].contains(&answer.status),
                "{path} {road:?}: {answer:?}"
            );
            let answer = served.ask(road, "GET", path, &[]);
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, path),
                "{road:?}"
            );
        }
        use std::os::unix::ffi::OsStrExt as _;
        let path = served.root().join(std::ffi::OsStr::from_bytes(name));
        assert!(path.is_file(), "{}", path.display());
    }
}

#[test]
fn d1_no_path_leads_out_by_http2() {
    let served = TestServer::start();
    for road in [RequestPathway::Http2, RequestPathway::Http2Tls] {
        for (path, expected) in [
            ("/../secret", 400),
            ("/%2e%2e/secret", 400),
            ("/..%2fsecret", 400),
            ("//secret", 400),
            ("/a%00", 400),
            ("/.haul/lock", 404),
            ("/%252e%252e/secret", 404),
        ] {
            let answer = served.ask(road, "GET", path, &[]);
            assert_eq!(answer.status, expected, "{path}");
            assert!(!answer.text().contains(SECRET), "{path}");
        }
    }
}

#[test]
fn d2_links_that_lead_out_lead_nowhere() {
    let served = TestServer::start();
    let root = served.root();
    served.file("in/file", "inside");
    symlink(served.secret(), root.join("file")).unwrap();
    symlink("../secret", root.join("relative")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/", root.join("top")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("in/file", root.join("fine")).unwrap();
    for path in ["/up/", "/top/"] {
        assert_ne!(served.get(path).status, 200, "{path}");
    }
    for path in [
        "/file",
        "/relative",
        "/up/secret",
        "/top/etc/passwd",
        "/loop",
    ] {
        for road in RequestPathway::ALL {
            let answer = served.ask(road, "GET", path, &[]);
            assert_eq!(answer.status, 404, "{path} {road:?}");
            assert!(!answer.text().contains(SECRET));
        }
    }
    assert_eq!(served.get("/fine").text(), "inside");
    // Nothing is made or removed behind one.
    for path in ["/up/new", "/top/tmp/haul-was-here", "/up/secret"] {
        let answer = served.put(RequestPathway::Plain, path, &[], b"overwritten");
        assert!(
            [403, 404, 409].contains(&answer.status),
            "{path}: {answer:?}"
        );
        let answer = served.ask(RequestPathway::Plain, "DELETE", path, &[]);
        assert!(
            [403, 404, 409].contains(&answer.status),
            "{path}: {answer:?}"
        );
    }
    // An upload to a link's own name replaces the link, a DELETE removes it.
    assert!(
        [201, 204].contains(
            &served
                .put(RequestPathway::Plain, "/file", &[], b"mine")
                .status
        )
    );
    assert_eq!(served.get("/file").text(), "mine");
    assert_eq!(
        served
            .ask(RequestPathway::Plain, "DELETE", "/relative", &[])
            .status,
        204
    );
    assert!(root.join("relative").symlink_metadata().is_err());
    assert_eq!(fs::read_to_string(served.secret()).unwrap(), SECRET);
    assert!(!root.join("../new").exists());
}

#[test]
fn d2_links_that_are_swapped_in_meanwhile_lead_nowhere() {
    let served = TestServer::start();
    let (root, outside) = (served.root(), served.root().join("../outside"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), SECRET).unwrap();
    fs::create_dir(root.join("real")).unwrap();
    fs::write(root.join("real/f"), "inside").unwrap();
    fs::rename(root.join("real"), root.join("d")).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    let over = AtomicBool::new(false);
    let swapped = std::thread::scope(|scope| {
        // `d` is now a folder, now a link out of the root.
        let swapper = scope.spawn(|| {
            let mut swapped = 0;
            while !over.load(Ordering::Relaxed) {
                let (d, link) = (root.join("d"), root.join("link"));
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    &d,
                    rustix::fs::CWD,
                    &link,
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
                swapped += 1;
            }
            swapped
        });
        let until = DoneOnDrop(&over);
        let mut client = TestClient::plain(&served);
        let (mut inside, mut nowhere) = (0, 0);
        eventually("both were met", || {
            for _ in 0..50 {
                let answer = client.ask("GET", "/d/f", &[]);
                match answer.status {
                    200 => inside += 1,
                    404 => nowhere += 1,
                    other => panic!("{other}"),
                }
                assert!(!answer.text().contains(SECRET));
                client
                    .send(crate::client::request(
                        "PUT",
                        "/d/new",
                        &[("Content-Length", "3")],
                    ))
                    .send("new");
                let put = client.answer_to("PUT");
                assert!([201, 204, 403, 404, 409].contains(&put.status), "{put:?}");
            }
            inside >= 200 && nowhere >= 200
        });
        drop(until);
        swapper.join().unwrap()
    });
    assert!(swapped > 100);
    assert_eq!(
        fs::read_dir(&outside).unwrap().count(),
        1,
        "something was made outside"
    );
    assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), SECRET);
}
