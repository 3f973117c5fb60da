//! The relay between peers that do as they like: what each of them needs, and the parts.
//!
//! A relay runs in a task of its own, so that nobody's waker but its own has it polled.

mod bytes;
mod endings;
mod hearing;
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

/// Held by tests that count on a pipe, or use up all of them: there is one set for the process.
static PIPES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What a peer speaks by.
type TestPeer = Box<dyn AnyStream>;

/// What an end is made of.
#[derive(Debug, Clone, Copy)]
enum EndKind {
    Tcp,
    Unix,
    /// Memory, with room for so many bytes.
    Memory(usize),
}

/// Both sockets of a connection over loopback.
async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap());
    let (near, far) = tokio::join!(listener.accept(), far);
    let (near, far) = (near.unwrap().0, far.unwrap());
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, far)
}

/// An end, and who is behind it.
async fn end(kind: EndKind) -> (RelayStream, TestPeer) {
    match kind {
        EndKind::Tcp => {
            let (near, far) = tcp().await;
            (RelayStream::Tcp(near), Box::new(far))
        }
        EndKind::Unix => {
            let (near, far) = UnixStream::pair().unwrap();
            (RelayStream::Unix(near), Box::new(far))
        }
        EndKind::Memory(room) => {
            let (near, far) = tokio::io::duplex(room);
            (RelayStream::Other(Box::new(near)), Box::new(far))
        }
    }
}

/// A relay that goes on.
struct RunningRelay {
    task: JoinSet<RelayOutcome>,
    moved: Arc<RelayedBytes>,
}

impl RunningRelay {
    fn start(client: RelayStream, target: RelayStream) -> Self {
        Self::with(client, target, (EarlyBytes::default(), None))
    }

    fn with(
        client: RelayStream,
        target: RelayStream,
        (early, idle): (EarlyBytes, Option<Duration>),
    ) -> Self {
        let moved = Arc::new(RelayedBytes::default());
        let its = Arc::clone(&moved);
        let mut task = JoinSet::new();
        task.spawn(async move { relay(client, target, early, (&its, idle)).await.unwrap() });
        Self { task, moved }
    }

    #[track_caller]
    fn ended(mut self) -> impl Future<Output = RelayOutcome> {
        within(LIMIT, async move {
            self.task.join_next().await.unwrap().unwrap()
        })
    }

    /// It has not ended.
    #[track_caller]
    fn goes_on(&mut self) {
        assert!(self.task.try_join_next().is_none());
    }
}

/// All that a peer hears until its stream ends.
async fn heard(peer: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    within(LIMIT, peer.read_to_end(&mut all)).await.unwrap();
    all
}

/// The next bytes that a peer hears, so many.
async fn next(peer: &mut (impl AsyncReadExt + Unpin), count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    within(LIMIT, peer.read_exact(&mut bytes)).await.unwrap();
    bytes
}

async fn say(peer: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
    within(LIMIT, peer.write_all(bytes)).await.unwrap();
}

/// Ends a peer's side.
async fn finish(peer: &mut (impl AsyncWriteExt + Unpin)) {
    within(LIMIT, peer.shutdown()).await.unwrap();
}

/// Leaves with a reset.
fn reset(peer: TcpStream) {
    peer.set_zero_linger().unwrap();
}

/// The error that a peer's stream ends in, whatever came before it.
async fn error(peer: &mut (impl AsyncReadExt + Unpin)) -> io::ErrorKind {
    let mut sink = Vec::new();
    let read = within(LIMIT, peer.read_to_end(&mut sink)).await;
    read.expect_err("the stream ended in order").kind()
}

/// Says as much as is taken while nobody reads: it returns when nothing has been for many turns of all others.
async fn fill(peer: &mut TcpStream) -> usize {
    let (mut said, mut turns) = (0, 0);
    while turns < 2000 {
        match peer.try_write(&[b'x'; 65_536]) {
            Ok(count) => (said, turns) = (said + count, 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => turns += 1,
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    said
}
