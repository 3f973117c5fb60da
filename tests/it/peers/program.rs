//! A server of Debian's, run by a test: found, started, waited for, ended.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

/// A server takes no longer to come up.
const START: Duration = Duration::from_secs(20);

/// A running server; dropped, it is killed.
pub(crate) struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself; then its test has failed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts a server and waits until it accepts on a port.
pub(crate) async fn start(name: &str, args: &[&str], port: u16, dir: &Path) -> Program {
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = Command::new("env");
    command
        .env("PATH", path)
        .arg(name)
        .args(args)
        .current_dir(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut program = Program(command.spawn().unwrap());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + START;
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
        tokio::task::yield_now().await;
    }
    program
}
