//! slowhttptest, row D9: heads, bodies and readers that are as slow as they can be, and ranges by the hundred.
//!
//! Its hundred connections are gone again while it still goes on, and somebody else is served all the time.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::ServedFolder;
use crate::cli::soak_server::poll_until_ok;

/// Who is served meanwhile waits no longer, on a machine that runs other tests.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The server needs no more memory for all of it.
const MEMORY: u64 = 100 << 20;

/// Attacks, and says what it thinks of the server, when it has ended or must.
struct SlowAttack(Child);

impl SlowAttack {
    fn on(serve: &ServedFolder, path: &str, mode: &[&str]) -> Self {
        let child = Command::new("slowhttptest")
            .args(["-c", "100", "-r", "200", "-l", "100", "-p", "5"])
            .args(mode)
            .args(["-u", &serve.url(path)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for SlowAttack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sockets(serve: &ServedFolder) -> usize {
    let leads = serve.served.descriptors();
    leads
        .iter()
        .filter(|lead| lead.starts_with("socket:"))
        .count()
}

/// One attack: its connections come, and go, and others do not notice.
fn d9(path: &str, mode: &[&str]) {
    let serve = ServedFolder::start(&[
        "--header-timeout",
        "1s",
        "--body-timeout",
        "1s",
        "--idle-timeout",
        "5s",
    ]);
    let idle = sockets(&serve);
    let attack = SlowAttack::on(&serve, path, mode);
    let others = || {
        let begun = Instant::now();
        assert_eq!(serve.curl(&[&serve.url("text.txt")]), "hello\n");
        assert!(begun.elapsed() < AT_ONCE, "it took {:?}", begun.elapsed());
    };
    poll_until_ok("the attack does not come", || {
        others();
        let most = sockets(&serve).saturating_sub(idle);
        (most < 50).then(|| format!("{most} connections"))
    });
    poll_until_ok("the attackers stay", || {
        others();
        let left = sockets(&serve).saturating_sub(idle);
        (left > 0).then(|| format!("{left} connections"))
    });
    drop(attack);
    serve.served.assert_no_temporaries();
}

#[test]
fn d9_slow_request_heads_time_out() {
    d9("large", &["-H", "-i", "1"]);
}

#[test]
fn d9_slow_request_bodies_time_out() {
    d9("put", &["-B", "-i", "1", "-t", "PUT", "-s", "8192"]);
}

#[test]
fn d9_slow_readers_time_out() {
    d9(
        "large",
        &["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5"],
    );
}

#[test]
fn d7_overlapping_ranges_cost_little() {
    let serve = ServedFolder::start(&[]);
    for method in ["HEAD", "GET"] {
        let mut attack = SlowAttack::on(&serve, "large", &["-R", "-t", method, "-l", "5"]);
        while attack.0.try_wait().unwrap().is_none() {
            assert_eq!(serve.curl(&[&serve.url("text.txt")]), "hello\n");
        }
    }
    // A hundred requests for a thousand parts of it that overlap.
    assert!(
        serve.served.peak_memory() < MEMORY,
        "{} bytes",
        serve.served.peak_memory()
    );
}
