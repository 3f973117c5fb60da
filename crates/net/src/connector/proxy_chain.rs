//! Streams through proxies.
//!
//! Each proxy of a chain connects to the next one, and the last one to the target. Where a proxy uses up a connection for an
//! answer (a 407, an address that it cannot reach), the whole chain is connected again.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_plan::AlpnOffer;
use tokio::time::Instant;
use url::Url;

use super::http_proxy::HttpTunnel;
use super::{ConnectedStream, Connector, socks5};
use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind};
use crate::proxy::{Proxy, ProxyScheme};
use crate::target::Target;
use crate::tls::TlsPeer;
use crate::transport::TransportStream;

/// How far a chain has come. After a timeout this tells whether the first proxy is to blame.
#[derive(Debug)]
pub(super) struct ChainProgress<'a> {
    /// The URL that errors name.
    url: &'a Url,
    has_reached_first_proxy: AtomicBool,
}

impl<'a> ChainProgress<'a> {
    pub(super) fn new(url: &'a Url) -> Self {
        Self {
            url,
            has_reached_first_proxy: AtomicBool::new(false),
        }
    }

    pub(super) fn has_reached_first_proxy(&self) -> bool {
        self.has_reached_first_proxy.load(Ordering::Relaxed)
    }
}

impl Connector {
    /// Makes a stream to a target through these proxies, or directly without any.
    pub(super) async fn connect_through(
        &self,
        target: &Target,
        proxies: &[&Proxy],
        progress: &ChainProgress<'_>,
    ) -> Result<ConnectedStream, Error> {
        let url = progress.url;
        let Some((last, before)) = proxies.split_last() else {
            return self.connect_tcp(target, url).await;
        };
        let connected = self
            .connect_to_proxy_through(last, before, progress)
            .await?;
        let started = Instant::now();
        // Boxed: few streams need it, and each call site would have room for it.
        let reconnect = || {
            let connecting = self.connect_to_proxy_through(last, before, progress);
            Box::pin(async { Ok(connecting.await?.stream) })
        };
        let stream = match last.scheme {
            ProxyScheme::Http | ProxyScheme::Https => {
                let tunnel = HttpTunnel {
                    target,
                    proxy: last,
                    proxy_auth: self.proxy_auth(),
                    url,
                };
                tunnel.open(connected.stream, reconnect).await
            }
            ProxyScheme::Socks5 => {
                self.connect_socks5_addresses(connected.stream, target, last, url, reconnect)
                    .await
            }
            ProxyScheme::Socks5h => socks5::open_tunnel(connected.stream, target, last, url).await,
        };
        let elapsed = started.elapsed();
        Ok(ConnectedStream {
            stream: stream.map_err(|error| error.with_proxy(last.name()))?,
            connect: connected.connect + elapsed,
            round_trip: connected.round_trip + elapsed,
            ..connected
        })
    }

    /// Makes a stream to a proxy through those before it. The next bytes belong to the proxy's own protocol.
    pub(super) async fn connect_to_proxy_through(
        &self,
        proxy: &Proxy,
        before: &[&Proxy],
        progress: &ChainProgress<'_>,
    ) -> Result<ConnectedStream, Error> {
        let (target, url) = (proxy.target(), progress.url);
        let connected = if before.is_empty() {
            let connected = self.connect_tcp(&target, url).await;
            connected.map_err(|error| error.with_proxy(proxy.name()))?
        } else {
            let connected = Box::pin(self.connect_through(&target, before, progress)).await;
            connected.map_err(|error| error.with_next_hop(&proxy.address()))?
        };
        let connected = self
            .start_proxy_tls(connected, proxy, url)
            .await
            .map_err(|error| error.with_proxy(proxy.name()))?;
        progress
            .has_reached_first_proxy
            .store(true, Ordering::Relaxed);
        Ok(connected)
    }

    /// TLS with an `https` proxy.
    async fn start_proxy_tls(
        &self,
        mut connected: ConnectedStream,
        proxy: &Proxy,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        if proxy.scheme != ProxyScheme::Https {
            return Ok(connected);
        }
        let started = Instant::now();
        connected.stream = match &proxy.tls {
            Some(tls) => Box::pin(tls.connect(connected.stream, &proxy.host, url)).await?,
            None => {
                let peer = TlsPeer {
                    host: &proxy.host,
                    scope: CredentialScope::Other,
                    alpn: AlpnOffer::Http1,
                };
                Box::pin(self.state.tls.connect(connected.stream, peer, url)).await?
            }
        };
        connected.connect += started.elapsed();
        Ok(connected)
    }

    /// Connects through a SOCKS5 proxy to the first of a target's addresses that the proxy reaches. Each address takes a new
    /// connection to the proxy.
    async fn connect_socks5_addresses<F>(
        &self,
        mut stream: TransportStream,
        target: &Target,
        proxy: &Proxy,
        url: &Url,
        reconnect: impl Fn() -> F,
    ) -> Result<TransportStream, Error>
    where
        F: Future<Output = Result<TransportStream, Error>>,
    {
        let (addresses, _) = self.resolve(target, url).await?;
        let mut addresses = addresses.into_iter().peekable();
        while let Some(address) = addresses.next() {
            let address = Target {
                host: address.to_string(),
                port: target.port,
            };
            match socks5::open_tunnel(stream, &address, proxy, url).await {
                Err(error)
                    if *error.kind() == Kind::ProxyRefused(None) && addresses.peek().is_some() => {}
                done => return done,
            }
            stream = reconnect().await?;
        }
        Err(Error::new(Kind::NoSuchHost(target.host.clone()), url))
    }
}
