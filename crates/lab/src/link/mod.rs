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
use crate::running_listener::{FirstPanic, RunningListener, reset_on_close};
use direction::{LinkDirection, LinkError, relay};

/// What a link does to what it carries.
#[derive(Debug, Clone, Default)]
struct LinkOptions {
    /// One way, in each direction.
    latency: Duration,
    /// Bytes a second for each connection.
    rate_per_connection: Option<u64>,
    /// What all connections share.
    total_limit: Option<BandwidthLimit>,
    /// The same, in bytes a second.
    total_rate: Option<u64>,
    /// After how many bytes it cuts, and whether by a reset.
    cut: Option<(u64, bool)>,
    /// How many connections it carries at once.
    max_connections: Option<usize>,
}

/// A slow link to an address. Built by its methods, then started.
#[derive(Debug, Clone)]
pub struct SlowLinkBuilder {
    /// The far end.
    target: SocketAddr,
    /// What it does.
    options: LinkOptions,
}

/// What a link has seen.
#[derive(Debug, Default)]
struct LinkCounts {
    /// Carried now.
    open: OpenCounter,
    /// Carried so far.
    accepted: AtomicUsize,
    /// Turned away.
    refused: AtomicUsize,
    /// Bytes towards clients.
    bytes_to_client: AtomicU64,
}

/// A running link. Dropped, it closes what it carries.
#[derive(Debug)]
pub struct SlowLink {
    /// Its tasks.
    listener: RunningListener,
    /// What its connections have counted.
    counts: Arc<LinkCounts>,
}

impl SlowLinkBuilder {
    /// A link that changes nothing yet.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            target: address,
            options: LinkOptions::default(),
        }
    }

    /// Delays each direction by this.
    #[must_use]
    pub fn latency(mut self, one_way: Duration) -> Self {
        self.options.latency = one_way;
        self
    }

    /// Lets through so many bytes a second for each connection, towards the client.
    #[must_use]
    pub fn rate_per_connection(mut self, rate: u64) -> Self {
        self.options.rate_per_connection = Some(rate);
        self
    }

    /// Lets through so many bytes a second in all, towards the client.
    #[must_use]
    pub fn total_rate(mut self, rate: u64) -> Self {
        self.options.total_limit = Some(BandwidthLimit::new(rate));
        self.options.total_rate = Some(rate);
        self
    }

    /// Resets each connection after so many bytes towards the client.
    #[must_use]
    pub fn reset_after(mut self, bytes: u64) -> Self {
        self.options.cut = Some((bytes, true));
        self
    }

    /// Closes each connection after so many bytes towards the client, as if that had been all.
    #[must_use]
    pub fn close_after(mut self, bytes: u64) -> Self {
        self.options.cut = Some((bytes, false));
        self
    }

    /// Takes no more connections at once than this: further ones are reset.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.options.max_connections = Some(connections);
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
            let opened = counts.open.open();
            let link = self.clone();
            async move { link.serve_connection(client, opened, &counts).await }
        };
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        SlowLink {
            listener: RunningListener::start(ip, FirstPanic::default(), serve).await,
            counts,
        }
    }

    async fn serve_connection(
        &self,
        mut client: TcpStream,
        opened: OpenCounterGuard,
        counts: &LinkCounts,
    ) {
        let limit = self.options.max_connections.unwrap_or(usize::MAX);
        let server = if opened.count > limit {
            // It never was one.
            drop(opened);
            counts.refused.fetch_add(1, Ordering::SeqCst);
            return reset_on_close(&client);
        } else {
            TcpStream::connect(self.target).await
        };
        counts.accepted.fetch_add(1, Ordering::SeqCst);
        let Ok(mut server) = server else {
            return reset_on_close(&client);
        };
        // Where that cannot be set, a test is slower and no less right.
        let _ = server.set_nodelay(true);
        let down = |bytes| {
            counts.bytes_to_client.fetch_add(bytes, Ordering::Relaxed);
        };
        let ended = relay((&mut client, &mut server), self.directions(), &down).await;
        if ended == Err(LinkError::Reset) {
            reset_on_close(&client);
            reset_on_close(&server);
        }
        drop(opened);
    }

    /// What is done up and down. Only what goes down has a rate and a cut.
    fn directions(&self) -> (LinkDirection, LinkDirection) {
        let LinkOptions { latency, cut, .. } = self.options;
        let own = self.options.rate_per_connection.map(BandwidthLimit::new);
        let rates = [self.options.rate_per_connection, self.options.total_rate];
        let up = LinkDirection {
            latency,
            ..LinkDirection::default()
        };
        let down = LinkDirection {
            latency,
            rate: rates.into_iter().flatten().min(),
            limits: own
                .into_iter()
                .chain(self.options.total_limit.clone())
                .collect(),
            cut,
        };
        (up, down)
    }
}

impl SlowLink {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Connections that it carries now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.counts.open.count()
    }

    /// Connections that it carried so far.
    #[must_use]
    pub fn accepted_connections(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Connections that it turned away so far.
    #[must_use]
    pub fn refused_connections(&self) -> usize {
        self.counts.refused.load(Ordering::SeqCst)
    }

    /// Bytes that went towards clients so far.
    #[must_use]
    pub fn bytes_to_client(&self) -> u64 {
        self.counts.bytes_to_client.load(Ordering::Relaxed)
    }
}
