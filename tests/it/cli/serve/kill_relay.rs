//! A relay in front of a server, which kills it at a moment of what passes through.
//!
//! The address of the relay stays when the server is started again on another port: a client that goes on finds it there.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use haul_lab::within;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ServeProcess;
use crate::cli::harness::{HaulDirectory, LIMIT, RunningHaul};

/// When the server is killed.
#[derive(Debug, Clone, Copy)]
pub(super) enum KillMoment {
    Never,
    /// When the server was sent so many bytes.
    Sent(u64),
    /// When it has sent so many responses. The client gets the last of them, or does not.
    Responded(u64, bool),
    /// When the caller wants it. The client does not get the response with this number.
    Held(u64),
}

/// What has passed since the server was started.
#[derive(Debug)]
struct RelayProgress {
    server: SocketAddr,
    process: rustix::process::Pid,
    moment: KillMoment,
    sent: u64,
    responses: u64,
    /// Nothing passes then, although the system may still take bytes for a process that has not ended yet.
    is_killed: bool,
}

/// A relay, and the server behind it.
pub(super) struct KillRelay {
    pub(super) address: SocketAddr,
    progress: Arc<Mutex<RelayProgress>>,
    killed: mpsc::Receiver<()>,
    server: RunningHaul,
    _accepting: JoinSet<()>,
}

impl KillRelay {
    /// Starts a server with these arguments, and the relay to it.
    pub(super) async fn start(haul: &HaulDirectory, args: &[&str]) -> Self {
        let server = super::wait_for_address(haul.start(args)).await;
        let progress = Arc::new(Mutex::new(RelayProgress::new(&server, KillMoment::Never)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, killed) = mpsc::channel(100);
        let mut accepting = JoinSet::new();
        let shared = Arc::clone(&progress);
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                connections.spawn(relay(Arc::clone(&shared), sender.clone(), client));
            }
        });
        Self {
            address,
            progress,
            killed,
            server: server.running,
            _accepting: accepting,
        }
    }

    /// Kills the server at this moment, counted from now on.
    pub(super) fn kill_at(&self, moment: KillMoment) {
        let mut progress = self.progress.lock().unwrap();
        (progress.sent, progress.responses, progress.moment) = (0, 0, moment);
    }

    /// Kills the server now.
    pub(super) fn kill(&self) {
        self.progress.lock().unwrap().kill();
    }

    /// Bytes that the server was sent since it was started or the moment was chosen.
    pub(super) fn sent(&self) -> u64 {
        self.progress.lock().unwrap().sent
    }

    /// The same for responses.
    pub(super) fn responses(&self) -> u64 {
        self.progress.lock().unwrap().responses
    }

    /// Waits for the kill.
    pub(super) async fn killed(&mut self) {
        self.killed.recv().await.unwrap();
    }

    /// Waits for the end of the server, which was killed, and starts it again.
    pub(super) async fn restart(&mut self, haul: &HaulDirectory, args: &[&str]) {
        within(LIMIT, self.server.child.wait()).await.unwrap();
        let server = super::wait_for_address(haul.start(args)).await;
        *self.progress.lock().unwrap() = RelayProgress::new(&server, KillMoment::Never);
        self.server = server.running;
        while self.killed.try_recv().is_ok() {}
    }
}

impl RelayProgress {
    fn new(server: &ServeProcess, moment: KillMoment) -> Self {
        let id = server.running.child.id().expect("it runs");
        Self {
            server: server.address.parse().unwrap(),
            process: rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap(),
            moment,
            sent: 0,
            responses: 0,
            is_killed: false,
        }
    }

    /// How many of these bytes for the server may pass, and whether it is killed then.
    fn send(&mut self, length: usize) -> (usize, bool) {
        let left = match self.moment {
            _ if self.is_killed => 0,
            KillMoment::Sent(moment) => moment.saturating_sub(self.sent),
            _ => u64::MAX,
        };
        let passing = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        self.sent += passing as u64;
        (passing, passing as u64 == left)
    }

    /// Whether these bytes of the server pass, and whether it is killed then.
    fn receive(&mut self, bytes: &[u8]) -> (bool, bool) {
        let is_response = bytes.starts_with(b"HTTP/1.1 ") && !bytes.starts_with(b"HTTP/1.1 100");
        self.responses += u64::from(is_response);
        match self.moment {
            _ if self.is_killed => (false, true),
            KillMoment::Responded(count, passes) if self.responses >= count => (passes, true),
            KillMoment::Held(count) => (self.responses < count, false),
            _ => (true, false),
        }
    }

    fn kill(&mut self) {
        self.is_killed = true;
        // It may have been killed by another connection.
        let _ = rustix::process::kill_process(self.process, rustix::process::Signal::KILL);
    }
}

/// Relays one connection until one side has ended.
async fn relay(progress: Arc<Mutex<RelayProgress>>, killed: mpsc::Sender<()>, client: TcpStream) {
    let server = progress.lock().unwrap().server;
    // The server is down: the client sees the end of the connection.
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let was_killed = tokio::select! {
        killed = to_the_server(&progress, from_client, to_server) => killed,
        killed = to_the_client(&progress, from_server, to_client) => killed,
    };
    if was_killed {
        let _ = killed.try_send(());
    }
}

/// Returns whether the server was killed.
async fn to_the_server(
    progress: &Mutex<RelayProgress>,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> bool {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let (passing, is_kill) = progress.lock().unwrap().send(length);
        let is_written = to.write_all(&buffer[..passing]).await.is_ok();
        if is_kill {
            progress.lock().unwrap().kill();
            return true;
        }
        if !is_written {
            break;
        }
    }
    false
}

/// The same in the other direction.
async fn to_the_client(
    progress: &Mutex<RelayProgress>,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> bool {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let (passes, is_kill) = progress.lock().unwrap().receive(&buffer[..length]);
        if is_kill {
            progress.lock().unwrap().kill();
        }
        let is_written = !passes || to.write_all(&buffer[..length]).await.is_ok();
        if is_kill {
            return true;
        }
        if !is_written {
            break;
        }
    }
    false
}
