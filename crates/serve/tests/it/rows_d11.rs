//! D11: more connections than there may be, and fewer descriptors than are needed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use haul_serve::accept::AcceptStrategy;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{RequestPathway, TestClient, request};
use crate::harness::{LIMIT, ServerSetup, eventually, sample};

#[test]
fn d11_one_too_many_waits_until_another_leaves() {
    for accept in AcceptStrategy::ALL {
        let mut setup = ServerSetup::accept(accept);
        setup.crew.max_connections = 2;
        let served = setup.start();
        served.file("f", "here");
        let [mut first, mut second] =
            [RequestPathway::Plain, RequestPathway::Unix].map(|road| TestClient::on(&served, road));
        for client in [&mut first, &mut second] {
            assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
        }
        let mut third = TestClient::plain(&served);
        third.send(request("GET", "/f", &[]));
        // Those that are there go on, and it waits.
        for _ in 0..20 {
            assert_eq!(second.ask("GET", "/f", &[]).text(), "here", "{accept}");
            assert!(third.has_nothing(), "{accept}");
        }
        drop(first);
        assert_eq!(third.answer().text(), "here", "{accept}");
        drop((second, third));
        // Their places are free again.
        for road in RequestPathway::ALL {
            assert_eq!(
                served.ask(road, "GET", "/f", &[]).text(),
                "here",
                "{accept} {road:?}"
            );
        }
    }
}

#[test]
fn d11_many_idle_connections_are_kept() {
    let served = ServerSetup::default().start();
    served.file("f", "here");
    let mut all: Vec<_> = (0..300).map(|_| TestClient::plain(&served)).collect();
    for _ in 0..2 {
        for client in &mut all {
            assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
        }
    }
}

/// The variable by which the test below finds that it is the child.
const CHILD: &str = "HAUL_TEST_FEW_DESCRIPTORS";

/// Descriptors are the process's, so this is one of its own.
#[test]
fn d11_without_descriptors_it_waits_until_there_are_some() {
    alone(
        "d11_without_descriptors_it_waits_until_there_are_some",
        run_out,
    );
}

#[test]
fn d11_files_that_are_kept_open_leave_their_descriptors_to_whoever_needs_one() {
    alone(
        "d11_files_that_are_kept_open_leave_their_descriptors_to_whoever_needs_one",
        leave,
    );
}

/// Runs a test of this file in a process of its own.
fn alone(test: &str, run: fn()) {
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

/// Takes all descriptors that are left.
fn eat() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn leave() {
    let (served, metrics) = ServerSetup::accept(AcceptStrategy::Single).counted();
    for index in 0..40 {
        served.file(&format!("{index}"), "here");
    }
    served.file("folder/f", "");
    let mut client = TestClient::plain(&served);
    let limit = Rlimit {
        current: Some(150),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut taken = Vec::new();
    for (method, path, status) in [
        ("GET", "/new", 200),
        ("GET", "/folder/?format=json", 200),
        ("HEAD", "/folder/", 200),
        ("PUT", "/put", 201),
    ] {
        served.file("new", path);
        taken.clear();
        for index in 0..40 {
            assert_eq!(client.ask("GET", &format!("/{index}"), &[]).text(), "here");
        }
        taken = eat();
        let answer = client.ask(method, path, &[("Content-Length", "0")]);
        assert_eq!(answer.status, status, "{method} {path}");
    }
    // All of one's own are gone, but for that of a connection.
    taken.extend(eat());
    taken.pop();
    let mut socket = TcpStream::connect(served.plain).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
        .write_all(request("GET", "/1", &[]).as_bytes())
        .unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    assert_eq!(sample(&metrics, "haul_errors_total{kind=\"accept\"}"), 0);
    assert_eq!(
        sample(&metrics, "haul_errors_total{kind=\"descriptors\"}"),
        0
    );
    // Who reads the directory of the test's needs one, too.
    drop(taken);
}

fn run_out() {
    let served = ServerSetup::default().start();
    served.file("f", "here");
    assert_eq!(served.get("/f").text(), "here");
    let limit = Rlimit {
        current: Some(120),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    // Accepted while there were some: those that come later may wait in the kernel's queue until the end.
    let mut first = TestClient::plain(&served);
    assert_eq!(first.ask("GET", "/f", &[]).text(), "here");
    // Each takes one here and one there, until nobody has any.
    let mut all = Vec::new();
    while let Ok(socket) = TcpStream::connect(served.plain) {
        all.push(socket);
        assert!(all.len() < 200);
    }
    // The first is served still. The file, if it was kept open, may have left its descriptor to one of them.
    let answer = first.ask("GET", "/f", &[]);
    assert!([200, 503].contains(&answer.status), "{answer:?}");
    // Sockets that this side has closed are closed there when they are seen.
    drop(all);
    eventually("the first gets the file", || {
        first.ask("GET", "/f", &[]).status == 200
    });
    eventually("new ones are served", || {
        let mut client = TestClient::plain(&served);
        client.try_send(request("GET", "/f", &[])).is_ok()
            && client.head_or_end().is_some_and(|head| head.status == 200)
    });
    // Not for one alone.
    let mut again: Vec<_> = (0..15).map(|_| TestClient::plain(&served)).collect();
    for client in &mut again {
        assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
    }
}
