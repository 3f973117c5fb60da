//! D11: more connections than there may be, and fewer descriptors than are needed.

use std::net::TcpStream;
use std::process::Command;

use haul_serve::accept::Accept;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{Client, Road, request};
use crate::harness::{Setup, eventually};

#[test]
fn d11_one_too_many_waits_until_another_leaves() {
    for accept in Accept::ALL {
        let mut setup = Setup::accept(accept);
        setup.crew.connections = 2;
        let served = setup.start();
        served.file("f", "here");
        let [mut first, mut second] =
            [Road::Plain, Road::Unix].map(|road| Client::on(&served, road));
        for client in [&mut first, &mut second] {
            assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
        }
        let mut third = Client::plain(&served);
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
        for road in Road::ALL {
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
    let served = Setup::default().start();
    served.file("f", "here");
    let mut all: Vec<_> = (0..300).map(|_| Client::plain(&served)).collect();
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
    if std::env::var_os(CHILD).is_some() {
        return run_out();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "rows_d11::d11_without_descriptors_it_waits_until_there_are_some",
            "--nocapture",
        ])
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

fn run_out() {
    let served = Setup::default().start();
    served.file("f", "here");
    assert_eq!(served.get("/f").text(), "here");
    let limit = Rlimit {
        current: Some(120),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    // Each takes one here and one there, until nobody has any.
    let mut all = Vec::new();
    while let Ok(socket) = TcpStream::connect(served.plain) {
        all.push(socket);
        assert!(all.len() < 200);
    }
    // The first is served still: it was accepted before there were none left.
    let first = all.remove(0);
    all.truncate(all.len() - 30);
    // Sockets that this side has closed are closed there when they are seen.
    let mut first = Client::tcp(first);
    assert_eq!(first.ask("GET", "/f", &[]).text(), "here");
    drop(all);
    eventually("new ones are served", || {
        let mut client = Client::plain(&served);
        client.try_send(request("GET", "/f", &[])).is_ok()
            && client.head_or_end().is_some_and(|head| head.status == 200)
    });
    // Not for one alone.
    let mut again: Vec<_> = (0..15).map(|_| Client::plain(&served)).collect();
    for client in &mut again {
        assert_eq!(client.ask("GET", "/f", &[]).text(), "here");
    }
}
