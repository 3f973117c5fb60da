//! A slow link: a TCP relay with latency, a rate, and cuts, in front of any address.
//!
//! Latency is a delay line (`direction`): bytes read now are written after the latency, however many are in flight, so that it
//! does not limit the rate as a pause between reads would. A relay cannot delay the handshake of TCP itself. A rate holds
//! towards the client; the bytes read ahead of it are bounded, so that the origin is soon slowed down. Half-closes are passed on, and
//! a reset of one side becomes one of the other.

mod direction;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::bandwidth_limit::BandwidthLimit;
use crate::open_counter::{OpenCounter, OpenCounterGuard};
use crate::running_listener::{FirstPanic, RunningListener, reset_on_close};
use crate::stream_cut::StreamCut;
use direction::{LinkDirection, LinkError};

/// A slow link to an address. Built by its methods, then started.
#[derive(Debug, Clone)]
pub struct SlowLinkBuilder {
    target: SocketAddr,
    /// In each direction.
    latency: Duration,
    /// Bytes a second for each connection.
    rate_per_connection: Option<u64>,
    /// The limit that all connections share.
    total_limit: Option<BandwidthLimit>,
    /// Whether the limits apply to the direction to the server, too.
    limits_uploads: bool,
    cut: Option<StreamCut>,
    max_connections: Option<usize>,
}

#[derive(Debug, Default)]
struct LinkCounts {
    open: OpenCounter,
    accepted: AtomicUsize,
    refused: AtomicUsize,
    bytes_to_client: AtomicU64,
}

/// A running link. When dropped, it closes all its connections.
#[derive(Debug)]
pub struct SlowLink {
    builder: SlowLinkBuilder,
    address: SocketAddr,
    /// `None` while the link is down.
    listener: Option<RunningListener>,
    counts: Arc<LinkCounts>,
}

impl SlowLinkBuilder {
    /// A link without latency, limits or cuts.
    #[must_use]
    pub fn new(target: SocketAddr) -> Self {
        Self {
            target,
            latency: Duration::ZERO,
            rate_per_connection: None,
            total_limit: None,
            limits_uploads: false,
            cut: None,
            max_connections: None,
        }
    }

    /// Delays each direction by this.
    #[must_use]
    pub fn latency(mut self, one_way: Duration) -> Self {
        self.latency = one_way;
        self
    }

    /// Limits each connection to so many bytes a second, towards the client.
    #[must_use]
    pub fn rate_per_connection(mut self, rate: u64) -> Self {
        self.rate_per_connection = Some(rate);
        self
    }

    /// Limits all connections together to so many bytes a second, towards the client.
    #[must_use]
    pub fn total_rate(mut self, rate: u64) -> Self {
        self.total_limit = Some(BandwidthLimit::new(rate));
        self
    }

    /// Applies the limits to the direction to the server, too.
    #[must_use]
    pub fn limit_uploads(mut self) -> Self {
        self.limits_uploads = true;
        self
    }

    /// Resets each connection after so many bytes towards the client.
    #[must_use]
    pub fn reset_after(mut self, bytes: u64) -> Self {
        self.cut = Some(StreamCut::Reset { after: bytes });
        self
    }

    /// Closes each connection in order after so many bytes towards the client.
    #[must_use]
    pub fn close_after(mut self, bytes: u64) -> Self {
        self.cut = Some(StreamCut::Close { after: bytes });
        self
    }

    /// Limits the open connections: further ones are reset.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Starts the link on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> SlowLink {
        let counts = Arc::new(LinkCounts::default());
        let any_port = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let listener = self.listen(any_port, &counts).await;
        SlowLink {
            address: listener.address,
            listener: Some(listener),
            counts,
            builder: self,
        }
    }

    async fn listen(&self, address: SocketAddr, counts: &Arc<LinkCounts>) -> RunningListener {
        let (counts, builder) = (Arc::clone(counts), self.clone());
        let serve = move |client| {
            let counts = Arc::clone(&counts);
            let open_guard = counts.open.open();
            let link = builder.clone();
            async move { link.serve_connection(client, open_guard, &counts).await }
        };
        RunningListener::start_at(address, FirstPanic::default(), serve).await
    }

    async fn serve_connection(
        &self,
        mut client: TcpStream,
        open_guard: OpenCounterGuard,
        counts: &LinkCounts,
    ) {
        if open_guard.count > self.max_connections.unwrap_or(usize::MAX) {
            // A refused connection does not count as open.
            drop(open_guard);
            counts.refused.fetch_add(1, Ordering::SeqCst);
            return reset_on_close(&client);
        }
        let server = TcpStream::connect(self.target).await;
        counts.accepted.fetch_add(1, Ordering::SeqCst);
        let Ok(mut server) = server else {
            return reset_on_close(&client);
        };
        // If this fails, a test is slower but still right.
        let _ = server.set_nodelay(true);
        if self.relay(&mut client, &mut server, counts).await == Err(LinkError::Reset) {
            reset_on_close(&client);
            reset_on_close(&server);
        }
        drop(open_guard);
    }

    /// Relays both directions until both have ended, or one has failed. Only the one to the client has a cut.
    async fn relay(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        counts: &LinkCounts,
    ) -> Result<(), LinkError> {
        let own_limit = self.rate_per_connection.map(BandwidthLimit::new);
        let limits: Vec<_> = own_limit
            .into_iter()
            .chain(self.total_limit.clone())
            .collect();
        let to_server = LinkDirection {
            latency: self.latency,
            limits: if self.limits_uploads {
                limits.clone()
            } else {
                Vec::new()
            },
            cut: None,
        };
        let to_client = LinkDirection {
            latency: self.latency,
            limits,
            cut: self.cut,
        };
        let sent = |bytes| {
            counts.bytes_to_client.fetch_add(bytes, Ordering::Relaxed);
        };
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        tokio::try_join!(
            to_server.relay(client_read, server_write, |_| ()),
            to_client.relay(server_read, client_write, sent),
        )?;
        Ok(())
    }
}

impl SlowLink {
    /// Stops and starts the link again: all connections break at once, and new ones are refused for this long.
    ///
    /// # Panics
    /// When another process took the port meanwhile.
    pub async fn restart(&mut self, down_for: Duration) {
        if let Some(listener) = self.listener.take() {
            listener.stop().await;
        }
        tokio::time::sleep(down_for).await;
        let listener = self.builder.listen(self.address, &self.counts).await;
        self.listener = Some(listener);
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.counts.open.count()
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn accepted_connections(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Connections refused so far.
    #[must_use]
    pub fn refused_connections(&self) -> usize {
        self.counts.refused.load(Ordering::SeqCst)
    }

    /// Bytes sent to clients so far.
    #[must_use]
    pub fn bytes_to_client(&self) -> u64 {
        self.counts.bytes_to_client.load(Ordering::Relaxed)
    }
}
