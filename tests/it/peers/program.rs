//! A server of Debian's, run by a test: found, started, waited for, ended.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The time limit for the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The time limit for the end of a program.
const END_TIMEOUT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// The time between two checks whether it has started.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running server; dropped, it is ended.
pub(crate) struct ServerProcess(Child);

impl ServerProcess {
    /// Ends it at once. What it would have cleared away is the caller's then.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself; then its test has failed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Asked first, and killed only when that does not help: killed, nginx would leave its workers behind.
        let pid = Pid::from_child(&self.0);
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = poll(
                &mut [PollFd::new(&process, PollFlags::IN)],
                Some(&END_TIMEOUT),
            );
        }
        self.kill();
    }
}

/// Starts a server and waits until it accepts on a port.
pub(crate) async fn start(name: &str, args: &[&str], port: u16, dir: &Path) -> ServerProcess {
    start_by(&[], (name, args), port, dir).await
}

/// Who runs a server that is nobody's in particular: the user of the tests, or, where that is root, this one.
pub(crate) const NOBODY: (&str, &str) = ("nobody", "nogroup");

/// Starts one that will not do its work as root; as root, it is run by [`NOBODY`].
pub(crate) async fn start_as_nobody(
    name: &str,
    args: &[&str],
    port: u16,
    dir: &Path,
) -> ServerProcess {
    let (user, group) = (
        format!("--reuid={}", NOBODY.0),
        format!("--regid={}", NOBODY.1),
    );
    let by = ["setpriv", &user, &group, "--clear-groups"];
    let by = if rustix::process::geteuid().is_root() {
        &by[..]
    } else {
        &[]
    };
    start_by(by, (name, args), port, dir).await
}

async fn start_by(
    by: &[&str],
    (name, args): (&str, &[&str]),
    port: u16,
    dir: &Path,
) -> ServerProcess {
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = Command::new("env");
    command
        .env("PATH", path)
        .args(by)
        .arg(name)
        .args(args)
        .current_dir(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut program = ServerProcess(command.spawn().unwrap());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + START_TIMEOUT;
    while TcpStream::connect(address).await.is_err() {
        let ended = program.0.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "{name} ended with {ended:?}; scripts/test installs what is missing"
        );
        assert!(
            Instant::now() < deadline,
            "{name} does not accept connections"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    program
}
