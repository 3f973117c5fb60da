//! `haul serve` under test: started on a free port, looked at from outside, killed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use crate::cli::harness::LIMIT;

/// How often something is looked at that will be so soon.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running server; dropped, it is killed.
pub(crate) struct SoakServer {
    child: Child,
    /// What it serves.
    folder: PathBuf,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Reads its standard error to the end, so that it never waits for a reader.
    stderr: Option<JoinHandle<String>>,
}

impl SoakServer {
    /// Starts one and waits until it says where it listens.
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_haul"))
            .arg("serve")
            .arg(folder)
            .args(["-l", "127.0.0.1:0"])
            .args(args)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send_address, received_address) = mpsc::channel();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            for line in stderr.lines().map_while(Result::ok) {
                if let Some(address) = address_in(&line) {
                    let _ = send_address.send(address);
                }
                text.push_str(&line);
                text.push('\n');
            }
            text
        });
        let Ok(address) = received_address.recv_timeout(LIMIT) else {
            let _ = child.kill();
            panic!("it says no address: {}", stderr.join().unwrap());
        };
        Self {
            child,
            folder: folder.to_owned(),
            address,
            stderr: Some(stderr),
        }
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills it as the kernel does when it is out of memory. Returns its standard error.
    pub(crate) fn kill(mut self) -> String {
        assert_eq!(
            self.child.try_wait().unwrap(),
            None,
            "it had ended by itself"
        );
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        stderr
    }

    /// What its descriptors lead to.
    pub(crate) fn descriptors(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.child.id());
        let entries = std::fs::read_dir(folder).unwrap();
        // One may be closed between the two looks.
        let mut leads: Vec<_> = entries
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        leads.sort();
        leads
    }

    /// The most memory that it had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kilobytes << 10
    }

    /// Waits until the store's own folder has no file but the lock.
    pub(crate) fn assert_no_temporaries(&self) {
        let folder = self.folder.join(".haul");
        poll_until_ok("temporaries are left", || {
            let names = crate::cli::harness::file_names(&folder);
            (names != ["lock"]).then(|| format!("{names:?}"))
        });
    }
}

impl Drop for SoakServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until `problem` returns `None`. Panics with the last problem after a time limit.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "the thread of a test, which has nothing else to do"
)]
pub(crate) fn poll_until_ok(failure: &str, mut problem: impl FnMut() -> Option<String>) {
    let deadline = Instant::now() + LIMIT;
    while let Some(problem) = problem() {
        assert!(Instant::now() < deadline, "{failure}: {problem}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The address in a line of the banner.
fn address_in(line: &str) -> Option<SocketAddr> {
    let from = &line[line.find("127.0.0.1:")?..];
    let end = from.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'));
    from[..end.unwrap_or(from.len())].parse().ok()
}
