//! `haul tunnel` under test: started on free ports, its log read line by line, killed at the end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, mpsc};

use tempfile::TempDir;

use crate::cli::harness::LIMIT;

/// A running tunnel; dropped, it is killed.
pub(super) struct RunningTunnel {
    child: Child,
    /// Where it listens, in the order of its banner; none of what is no port.
    addresses: Vec<Option<SocketAddr>>,
    /// What it says, from a thread that reads it to the end, so that the tunnel never waits for a reader.
    lines: Mutex<mpsc::Receiver<String>>,
    /// Its home, with nothing in it.
    _home: TempDir,
}

impl RunningTunnel {
    /// Starts one and waits until it listens everywhere. A listener is one argument: `0:HOST:PORT`, `unix:...`, and after
    /// those, as the banner has them, `--socks=0` and then `--http=0`.
    #[track_caller]
    pub(super) fn start(flags: &[&str], listeners: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_haul"))
            .arg("tunnel")
            .args(flags)
            .args(listeners)
            .env_clear()
            .env("HOME", home.path())
            .envs(std::env::var_os("LLVM_PROFILE_FILE").map(|value| ("LLVM_PROFILE_FILE", value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (say, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The test may be over; it is read nevertheless.
                let _ = say.send(line);
            }
        });
        let mut tunnel = Self {
            child,
            addresses: Vec::new(),
            lines: Mutex::new(lines),
            _home: home,
        };
        for _ in listeners {
            let line = tunnel.wait_for_line("listening on ");
            tunnel.addresses.push(address_in(&line));
        }
        tunnel
    }

    /// Where one of its listeners is, by its place among them.
    #[track_caller]
    pub(super) fn address(&self, place: usize) -> SocketAddr {
        self.addresses[place].unwrap()
    }

    #[track_caller]
    pub(super) fn port(&self, place: usize) -> String {
        self.address(place).port().to_string()
    }

    /// Waits for the next line that has these words. Lines before it are passed over for good.
    #[track_caller]
    pub(super) fn wait_for_line(&self, words: &str) -> String {
        let mut other = Vec::new();
        loop {
            match self.lines.lock().unwrap().recv_timeout(LIMIT) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => {
                    assert!(!line.contains("panicked"), "{line}");
                    other.push(line);
                }
                Err(_) => panic!("it does not say {words:?} but {other:#?}"),
            }
        }
    }

    /// Asserts that a client of a listener gets no bytes before the connection is closed. Returns its log line.
    #[track_caller]
    pub(super) fn assert_client_refused(&self, place: usize) -> String {
        let mut client = TcpStream::connect(self.address(place)).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let own = client.local_addr().unwrap().to_string();
        let mut received = Vec::new();
        if let Err(error) = client.read_to_end(&mut received) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert_eq!(String::from_utf8_lossy(&received), "");
        self.wait_for_line(&format!(" {own} > "))
    }
}

impl Drop for RunningTunnel {
    fn drop(&mut self) {
        let had_ended = self.child.try_wait().unwrap();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            assert_eq!(had_ended, None, "it had ended by itself");
            let rest: Vec<String> = self.lines.lock().unwrap().iter().collect();
            let panicked = rest.iter().any(|line| line.contains("panicked"));
            assert!(!panicked, "{rest:#?}");
        }
    }
}

/// The address in a line of the banner.
fn address_in(line: &str) -> Option<SocketAddr> {
    let from = &line[line.find("listening on ")? + "listening on ".len()..];
    from.split(' ').next()?.parse().ok()
}
