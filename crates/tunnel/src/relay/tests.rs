//! The relay between two peers that the test plays; what these tests share.
//!
//! A relay runs in a task of its own, so that only its own wake-ups have it polled.

mod bytes;
mod endings;
mod idle;
mod pipes;
mod resets;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use haul_lab::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;

use super::*;

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// Held by tests that need a pipe, or use up all of them: the process has one set.
static PIPES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The far end of a stream that a relay has.
type TestPeer = Box<dyn AnyStream>;

/// What a stream is made of.
#[derive(Debug, Clone, Copy)]
enum StreamKind {
    Tcp,
    Unix,
    /// Memory, with a buffer of so many bytes.
    Memory(usize),
}

/// Both sockets of a connection over loopback.
async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap());
    let (near, far) = tokio::join!(listener.accept(), far);
    let (near, far) = (near.unwrap().0, far.unwrap());
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, far)
}

/// A stream for a relay, and its far end.
async fn stream_pair(kind: StreamKind) -> (RelayStream, TestPeer) {
    match kind {
        StreamKind::Tcp => {
            let (near, far) = tcp_pair().await;
            (RelayStream::Tcp(near), Box::new(far))
        }
        StreamKind::Unix => {
            let (near, far) = UnixStream::pair().unwrap();
            (RelayStream::Unix(near), Box::new(far))
        }
        StreamKind::Memory(room) => {
            let (near, far) = tokio::io::duplex(room);
            (RelayStream::Other(Box::new(near)), Box::new(far))
        }
    }
}

/// A relay in a task of its own.
struct RunningRelay {
    task: JoinSet<RelayOutcome>,
    bytes: Arc<RelayedBytes>,
}

impl RunningRelay {
    fn start(client_stream: RelayStream, target_stream: RelayStream) -> Self {
        Self::with(client_stream, target_stream, EarlyBytes::default(), None)
    }

    fn with(
        client_stream: RelayStream,
        target_stream: RelayStream,
        early: EarlyBytes,
        idle: Option<Duration>,
    ) -> Self {
        let bytes = Arc::new(RelayedBytes::default());
        let bytes_of_task = Arc::clone(&bytes);
        let mut task = JoinSet::new();
        task.spawn(async move {
            relay(client_stream, target_stream, early, &bytes_of_task, idle).await
        });
        Self { task, bytes }
    }

    #[track_caller]
    fn outcome(mut self) -> impl Future<Output = RelayOutcome> {
        within(LIMIT, async move {
            self.task.join_next().await.unwrap().unwrap()
        })
    }

    #[track_caller]
    fn assert_running(&mut self) {
        assert!(self.task.try_join_next().is_none());
    }
}

/// All that a peer receives until the stream ends.
async fn read_all(peer: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    within(LIMIT, peer.read_to_end(&mut all)).await.unwrap();
    all
}

/// The next `count` bytes that a peer receives.
async fn read(peer: &mut (impl AsyncReadExt + Unpin), count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    within(LIMIT, peer.read_exact(&mut bytes)).await.unwrap();
    bytes
}

async fn send(peer: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
    within(LIMIT, peer.write_all(bytes)).await.unwrap();
}

/// Ends a peer's stream; it can still read.
async fn end_stream(peer: &mut (impl AsyncWriteExt + Unpin)) {
    within(LIMIT, peer.shutdown()).await.unwrap();
}

/// Closes a peer's socket with a reset.
fn reset(peer: TcpStream) {
    peer.set_zero_linger().unwrap();
}

/// The error by which a peer's stream ends, whatever came before it.
async fn read_error(peer: &mut (impl AsyncReadExt + Unpin)) -> io::ErrorKind {
    let mut sink = Vec::new();
    let read = within(LIMIT, peer.read_to_end(&mut sink)).await;
    read.expect_err("the stream ended in order").kind()
}

/// Sends as much as is taken while nobody reads. Nothing more is taken when many turns of all other tasks have made no room.
async fn fill(peer: &mut TcpStream) -> usize {
    let (mut sent, mut turns) = (0, 0);
    while turns < 2000 {
        match peer.try_write(&[b'x'; 65_536]) {
            Ok(count) => (sent, turns) = (sent + count, 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => turns += 1,
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    sent
}
