//! D11: connection limits, and servers that run out of file descriptors.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use haul_serve::accept::AcceptStrategy;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{TestClient, TestTransport, request_head};
use crate::harness::{LIMIT, ServerSetup, metric, wait_until};

#[test]
fn d11_a_connection_beyond_the_limit_waits_for_another_to_end() {
    for accept in AcceptStrategy::ALL {
        let mut setup = ServerSetup::with_strategy(accept);
        setup.workers.max_connections = 2;
        let server = setup.start();
        server.write_file("f", "here");
        let [mut first, mut second] = [TestTransport::Plain, TestTransport::Unix]
            .map(|transport| TestClient::connect(&server, transport));
        for client in [&mut first, &mut second] {
            assert_eq!(client.request("GET", "/f", &[]).text(), "here");
        }
        let mut third = TestClient::connect_plain(&server);
        third.send(request_head("GET", "/f", &[]));
        // Existing connections continue while it waits.
        for _ in 0..20 {
            assert_eq!(second.request("GET", "/f", &[]).text(), "here", "{accept}");
            assert!(third.has_nothing(), "{accept}");
        }
        drop(first);
        assert_eq!(third.read_response().text(), "here", "{accept}");
        drop((second, third));
        // The permits of those connections are free again.
        for transport in TestTransport::ALL {
            assert_eq!(
                server.request(transport, "GET", "/f", &[]).text(),
                "here",
                "{accept} {transport:?}"
            );
        }
    }
}

#[test]
fn d11_many_idle_connections_are_kept() {
    let server = ServerSetup::default().start();
    server.write_file("f", "here");
    let mut all: Vec<_> = (0..300)
        .map(|_| TestClient::connect_plain(&server))
        .collect();
    for _ in 0..2 {
        for client in &mut all {
            assert_eq!(client.request("GET", "/f", &[]).text(), "here");
        }
    }
}

/// The environment variable that marks the child process of a test.
const CHILD: &str = "HAUL_TEST_FEW_DESCRIPTORS";

/// Descriptors are a resource of the process, so this test runs in a child process.
#[test]
fn d11_without_descriptors_the_server_waits_and_recovers() {
    run_in_child(
        "d11_without_descriptors_the_server_waits_and_recovers",
        run_out_with_connections,
    );
}

#[test]
fn d11_cached_files_are_closed_when_descriptors_run_out() {
    run_in_child(
        "d11_cached_files_are_closed_when_descriptors_run_out",
        run_out_with_cached_files,
    );
}

/// Runs a test of this file in a child process.
fn run_in_child(test: &str, run: fn()) {
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("rows_d11::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// Opens files until no descriptors are left.
fn take_descriptors() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn run_out_with_cached_files() {
    let (server, metrics) = ServerSetup::with_strategy(AcceptStrategy::Single).start_with_metrics();
    for index in 0..40 {
        server.write_file(&format!("{index}"), "here");
    }
    server.write_file("folder/f", "");
    let mut client = TestClient::connect_plain(&server);
    let limit = Rlimit {
        current: Some(150),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut descriptors = Vec::new();
    for (method, path, status) in [
        ("GET", "/new", 200),
        ("GET", "/folder/?format=json", 200),
        ("HEAD", "/folder/", 200),
        ("PUT", "/put", 201),
    ] {
        server.write_file("new", path);
        descriptors.clear();
        for index in 0..40 {
            assert_eq!(
                client.request("GET", &format!("/{index}"), &[]).text(),
                "here"
            );
        }
        descriptors = take_descriptors();
        let response = client.request(method, path, &[("Content-Length", "0")]);
        assert_eq!(response.status, status, "{method} {path}");
    }
    // All descriptors are in use, except one for a connection.
    descriptors.extend(take_descriptors());
    descriptors.pop();
    let mut socket = TcpStream::connect(server.plain).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
        .write_all(request_head("GET", "/1", &[]).as_bytes())
        .unwrap();
    let mut response = [0; 12];
    socket.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 200");
    assert_eq!(metric(&metrics, "haul_errors_total{kind=\"accept\"}"), 0);
    assert_eq!(
        metric(&metrics, "haul_errors_total{kind=\"descriptors\"}"),
        0
    );
    // Reading the test directory needs a descriptor, too.
    drop(descriptors);
}

fn run_out_with_connections() {
    let server = ServerSetup::default().start();
    server.write_file("f", "here");
    assert_eq!(server.get("/f").text(), "here");
    let limit = Rlimit {
        current: Some(120),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    // This connection is accepted before descriptors run out. Later ones may wait in the accept queue until the end.
    let mut first = TestClient::connect_plain(&server);
    assert_eq!(first.request("GET", "/f", &[]).text(), "here");
    // Each connection takes a descriptor of the client and one of the server, until none is left.
    let mut all = Vec::new();
    while let Ok(socket) = TcpStream::connect(server.plain) {
        all.push(socket);
        assert!(all.len() < 200);
    }
    // The first connection is still served. If the file was cached, the server may have closed its
    // descriptor in favour of a connection.
    let response = first.request("GET", "/f", &[]);
    assert!([200, 503].contains(&response.status), "{response:?}");
    // The server closes its sockets when it sees that the clients have closed theirs.
    drop(all);
    wait_until("the first gets the file", || {
        first.request("GET", "/f", &[]).status == 200
    });
    wait_until("new ones are served", || {
        let mut client = TestClient::connect_plain(&server);
        client.try_send(request_head("GET", "/f", &[])).is_ok()
            && client
                .read_head_or_end()
                .is_some_and(|head| head.status == 200)
    });
    // More than one connection is accepted.
    let mut again: Vec<_> = (0..15)
        .map(|_| TestClient::connect_plain(&server))
        .collect();
    for client in &mut again {
        assert_eq!(client.request("GET", "/f", &[]).text(), "here");
    }
}
