//! The way by proxies: to the door of each, and on through it.
//!
//! Where there are several, each is asked for the next, and the last one for the target. A connection that a proxy spends on telling
//! us something (407, an address that it does not reach) is made again from the start.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_plan::AlpnOffer;
use tokio::time::Instant;
use url::Url;

use super::{
    ConnectedStream, Connector, Target, TransportStream, http_proxy, proxy_target, socks5,
};
use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind};
use crate::proxy::{Proxy, ProxyScheme};
use crate::tls::TlsPeer;

/// What errors speak of, and how far a connection has come.
#[derive(Debug)]
pub(super) struct ChainProgress<'a> {
    url: &'a Url,
    /// Whether the first proxy was reached: what takes too long after that is not for want of it.
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
    /// A stream to a target by way of these proxies, or straight if there are none.
    pub(super) async fn connect_through(
        &self,
        target: &Target,
        proxies: &[&Proxy],
        errand: &ChainProgress<'_>,
    ) -> Result<ConnectedStream, Error> {
        let url = errand.url;
        let Some((last, before)) = proxies.split_last() else {
            return self.connect_tcp(target, url).await;
        };
        let reached = self.connect_to_proxy_through(last, before, errand).await?;
        let begun = Instant::now();
        // Apart: it is seldom wanted, and each place where it may be would make room for it.
        let again = || {
            Box::pin(async {
                Ok(self
                    .connect_to_proxy_through(last, before, errand)
                    .await?
                    .stream)
            })
        };
        let through = match last.scheme {
            ProxyScheme::Http | ProxyScheme::Https => {
                let asked = (target, *last, self.proxy_auth());
                http_proxy::open_tunnel(reached.stream, asked, (url, again)).await
            }
            ProxyScheme::Socks5 => {
                self.connect_socks5_addresses(reached.stream, (target, last), (url, again))
                    .await
            }
            ProxyScheme::Socks5h => socks5::open_tunnel(reached.stream, target, last, url).await,
        };
        let connect = reached.connect + begun.elapsed();
        Ok(ConnectedStream {
            stream: through.map_err(|error| error.with_proxy(last.name()))?,
            connect,
            round_trip: connect,
            ..reached
        })
    }

    /// A stream to a proxy, by way of those before it; the next bytes are of the proxy's own protocol.
    pub(super) async fn connect_to_proxy_through(
        &self,
        proxy: &Proxy,
        before: &[&Proxy],
        errand: &ChainProgress<'_>,
    ) -> Result<ConnectedStream, Error> {
        let (target, url) = (proxy_target(proxy), errand.url);
        let reached = if before.is_empty() {
            let reached = self.connect_tcp(&target, url).await;
            reached.map_err(|error| error.with_proxy(proxy.name()))?
        } else {
            let way = Box::pin(self.connect_through(&target, before, errand)).await;
            way.map_err(|error| error.with_next_hop(&proxy.address()))?
        };
        let encrypted = self.start_proxy_tls(reached, proxy, url).await;
        let encrypted = encrypted.map_err(|error| error.with_proxy(proxy.name()))?;
        errand
            .has_reached_first_proxy
            .store(true, Ordering::Relaxed);
        Ok(encrypted)
    }

    /// TLS with a proxy that wants it.
    async fn start_proxy_tls(
        &self,
        mut reached: ConnectedStream,
        proxy: &Proxy,
        url: &Url,
    ) -> Result<ConnectedStream, Error> {
        if proxy.scheme != ProxyScheme::Https {
            return Ok(reached);
        }
        let begun = Instant::now();
        reached.stream = match &proxy.tls {
            Some(own) => Box::pin(own.connect(reached.stream, &proxy.host, url)).await?,
            None => {
                let peer = TlsPeer {
                    host: &proxy.host,
                    scope: CredentialScope::Other,
                    alpn: AlpnOffer::Http1,
                };
                Box::pin(self.shared.tls.connect(reached.stream, peer, url)).await?
            }
        };
        reached.connect += begun.elapsed();
        Ok(reached)
    }

    /// Through a SOCKS5 proxy to the first of a target's addresses that it reaches, over a new connection for each.
    async fn connect_socks5_addresses<F>(
        &self,
        mut stream: TransportStream,
        (target, proxy): (&Target, &Proxy),
        (url, again): (&Url, impl Fn() -> F),
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
            stream = again().await?;
        }
        Err(Error::new(Kind::NoSuchHost(target.host.clone()), url))
    }
}
