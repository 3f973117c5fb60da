//! A slow link: a TCP relay with latency, a rate, and cuts, in front of any address.
//!
//! Latency is a delay line (`direction`): bytes read now are written after the latency, however many are under way, so that it
//! does not limit the rate as a pause between reads would. What a relay cannot delay is the handshake of TCP itself. A rate
//! holds towards the client; what is read ahead of it is bounded, so that an origin is slowed soon. Half-closes are passed on, and
//! a reset of one side becomes one of the other.

mod direction;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::bandwidth_limit::BandwidthLimit;
use crate::origin::request_log::{OpenCounter, OpenCounterGuard};
use crate::running_listener::{FirstPanic, RunningListener, reset};
use direction::{LinkDirection, LinkError, carry};

/// What a link does to what it carries.
#[derive(Debug, Clone, Default)]
struct LinkOptions {
    /// One way, in each direction.
    latency: Duration,
    /// Bytes a second for each connection.
    per_connection: Option<u64>,
    /// What all connections share.
    total: Option<BandwidthLimit>,
    /// The same, in bytes a second.
    rate_total: Option<u64>,
    /// After how many bytes it cuts, and whether by a reset.
    cut: Option<(u64, bool)>,
    /// How many connections it carries at once.
    limit: Option<usize>,
}

/// A slow link to an address. Built by its methods, then started.
#[derive(Debug, Clone)]
pub struct SlowLinkBuilder {
    /// The far end.
    to: SocketAddr,
    /// What it does.
    traits: LinkOptions,
}

/// What a link has seen.
#[derive(Debug, Default)]
struct LinkCounts {
    /// Carried now.
    open: OpenCounter,
    /// Carried so far.
    carried: AtomicUsize,
    /// Turned away.
    refused: AtomicUsize,
    /// Bytes towards clients.
    down: AtomicU64,
}

/// A running link. Dropped, it closes what it carries.
#[derive(Debug)]
pub struct SlowLink {
    /// Its tasks.
    listening: RunningListener,
    /// What its connections have counted.
    counts: Arc<LinkCounts>,
}

impl SlowLinkBuilder {
    /// A link that changes nothing yet.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            to: address,
            traits: LinkOptions::default(),
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
    pub fn total_rate(mut self, rate: u64) -> Self {
        self.traits.total = Some(BandwidthLimit::new(rate));
        self.traits.rate_total = Some(rate);
        self
    }

    /// Resets each connection after so many bytes towards the client.
    #[must_use]
    pub fn reset_after(mut self, bytes: u64) -> Self {
        self.traits.cut = Some((bytes, true));
        self
    }

    /// Closes each connection after so many bytes towards the client, as if that had been all.
    #[must_use]
    pub fn close_after(mut self, bytes: u64) -> Self {
        self.traits.cut = Some((bytes, false));
        self
    }

    /// Takes no more connections at once than this: further ones are reset.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.traits.limit = Some(connections);
        self
    }

    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> SlowLink {
        let counts = Arc::new(LinkCounts::default());
        let shared = Arc::clone(&counts);
        let serve = move |client| {
            let counts = Arc::clone(&shared);
            let opened = counts.open.enter();
            let link = self.clone();
            async move { link.take(client, opened, &counts).await }
        };
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        SlowLink {
            listening: RunningListener::start(ip, FirstPanic::default(), serve).await,
            counts,
        }
    }

    async fn take(&self, mut client: TcpStream, opened: OpenCounterGuard, counts: &LinkCounts) {
        let limit = self.traits.limit.unwrap_or(usize::MAX);
        let server = if opened.among > limit {
            // It never was one.
            drop(opened);
            counts.refused.fetch_add(1, Ordering::SeqCst);
            return reset(&client);
        } else {
            TcpStream::connect(self.to).await
        };
        counts.carried.fetch_add(1, Ordering::SeqCst);
        let Ok(mut server) = server else {
            return reset(&client);
        };
        // Where that cannot be set, a test is slower and no less right.
        let _ = server.set_nodelay(true);
        let down = |bytes| {
            counts.down.fetch_add(bytes, Ordering::Relaxed);
        };
        let ended = carry((&mut client, &mut server), self.ways(), &down).await;
        if ended == Err(LinkError::Reset) {
            reset(&client);
            reset(&server);
        }
        drop(opened);
    }

    /// What is done up and down. Only what goes down has a rate and a cut.
    fn ways(&self) -> (LinkDirection, LinkDirection) {
        let LinkOptions { latency, cut, .. } = self.traits;
        let own = self.traits.per_connection.map(BandwidthLimit::new);
        let rates = [self.traits.per_connection, self.traits.rate_total];
        let up = LinkDirection {
            latency,
            ..LinkDirection::default()
        };
        let down = LinkDirection {
            latency,
            rate: rates.into_iter().flatten().min(),
            paces: own.into_iter().chain(self.traits.total.clone()).collect(),
            cut,
        };
        (up, down)
    }
}

impl SlowLink {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listening.address
    }

    /// Connections that it carries now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.counts.open.now()
    }

    /// Connections that it carried so far.
    #[must_use]
    pub fn accepted_connections(&self) -> usize {
        self.counts.carried.load(Ordering::SeqCst)
    }

    /// Connections that it turned away so far.
    #[must_use]
    pub fn refused_connections(&self) -> usize {
        self.counts.refused.load(Ordering::SeqCst)
    }

    /// Bytes that went towards clients so far.
    #[must_use]
    pub fn bytes_to_client(&self) -> u64 {
        self.counts.down.load(Ordering::Relaxed)
    }
}
