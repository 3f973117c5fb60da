//! A slow link: a TCP relay with latency, a rate, and cuts.
//!
//! Latency is a delay line: bytes read now are written after the latency, however many are under way, so that it does not
//! limit the rate as a pause between reads would. Half-closes are passed on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::pace::Pace;

/// Pieces under way in one direction; with their size this bounds a connection's memory at 16 MiB.
const UNDER_WAY: usize = 256;

/// Bytes in a piece.
const PIECE: usize = 64 * 1024;

/// What a link does to what it carries.
#[derive(Debug, Clone, Default)]
struct Traits {
    latency: Duration,
    per_connection: Option<u64>,
    total: Option<Pace>,
    cut_after: Option<u64>,
    limit: Option<usize>,
}

/// A slow link to an address. Built by its methods, then started.
#[derive(Debug, Clone)]
pub struct SlowLink {
    to: SocketAddr,
    traits: Traits,
}

/// A running link. Dropped, it closes what it carries.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl SlowLink {
    /// A link that changes nothing yet.
    #[must_use]
    pub fn to(address: SocketAddr) -> Self {
        Self {
            to: address,
            traits: Traits::default(),
        }
    }

    /// Delays each direction by this.
    #[must_use]
    pub fn latency(mut self, one_way: Duration) -> Self {
        self.traits.latency = one_way;
        self
    }

    /// Lets through so many bytes a second for each connection, towards the client.
    #[must_use]
    pub fn rate_per_connection(mut self, rate: u64) -> Self {
        self.traits.per_connection = Some(rate);
        self
    }

    /// Lets through so many bytes a second in all, towards the client.
    #[must_use]
    pub fn rate_total(mut self, rate: u64) -> Self {
        self.traits.total = Some(Pace::new(rate));
        self
    }

    /// Cuts each connection after so many bytes towards the client.
    #[must_use]
    pub fn cut_after(mut self, bytes: u64) -> Self {
        self.traits.cut_after = Some(bytes);
        self
    }

    /// Takes no more connections at once than this: further ones are closed at once.
    #[must_use]
    pub fn limit(mut self, connections: usize) -> Self {
        self.traits.limit = Some(connections);
        self
    }

    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> Link {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let open = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, self.to, (self.traits, Arc::clone(&open))));
        Link {
            address,
            open,
            _tasks: tasks,
        }
    }
}

impl Link {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that it carries now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, (traits, open): (Traits, Arc<AtomicUsize>)) {
    let mut carried = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                if traits.limit.is_some_and(|limit| open.load(Ordering::SeqCst) >= limit) {
                    continue;
                }
                let (traits, open) = (traits.clone(), Arc::clone(&open));
                open.fetch_add(1, Ordering::SeqCst);
                carried.spawn(async move {
                    // Both ends see how it ends; nobody here is to be told.
                    let _ = carry(client, to, traits).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
            Some(_) = carried.join_next(), if !carried.is_empty() => {}
        }
    }
}

async fn carry(client: TcpStream, to: SocketAddr, traits: Traits) -> io::Result<()> {
    let server = TcpStream::connect(to).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = Traits {
        latency: traits.latency,
        ..Traits::default()
    };
    tokio::try_join!(
        direction(from_client, to_server, up),
        direction(from_server, to_client, traits)
    )?;
    Ok(())
}

async fn direction(from: OwnedReadHalf, to: OwnedWriteHalf, traits: Traits) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel(UNDER_WAY);
    tokio::try_join!(
        take(from, sender, traits.latency),
        give(to, receiver, traits)
    )?;
    Ok(())
}

async fn take(
    mut from: OwnedReadHalf,
    sender: mpsc::Sender<(Instant, Bytes)>,
    latency: Duration,
) -> io::Result<()> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        let count = from.read_buf(&mut piece).await?;
        if count == 0
            || sender
                .send((Instant::now() + latency, piece.freeze()))
                .await
                .is_err()
        {
            return Ok(());
        }
    }
}

async fn give(
    mut to: OwnedWriteHalf,
    mut receiver: mpsc::Receiver<(Instant, Bytes)>,
    traits: Traits,
) -> io::Result<()> {
    let own = traits.per_connection.map(Pace::new);
    let paces: Vec<&Pace> = own.iter().chain(traits.total.as_ref()).collect();
    let quantum = paces
        .iter()
        .map(|pace| pace.quantum())
        .min()
        .unwrap_or(PIECE);
    let mut left = traits.cut_after.unwrap_or(u64::MAX);
    while let Some((due, piece)) = receiver.recv().await {
        sleep_until(due).await;
        for part in piece.chunks(quantum) {
            let part = &part[..part.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            for pace in &paces {
                pace.wait(part.len()).await;
            }
            to.write_all(part).await?;
            left -= part.len() as u64;
            if left == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }
    to.shutdown().await
}
