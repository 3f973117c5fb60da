//! The way to a proxy, and through one that wants addresses.

use haul_plan::Offer;
use tokio::time::Instant;
use url::Url;

use super::{Connector, Reached, Stream, Target, proxys, socks5};
use crate::error::{Error, Kind};
use crate::offered::Peer;
use crate::proxy::{Proxy, ProxyScheme};
use crate::standing::Standing;

impl Connector {
    pub(super) async fn to_proxy(&self, proxy: &Proxy, url: &Url) -> Result<Reached, Error> {
        let reached = self.reach_proxy(proxy, url).await;
        reached.map_err(|error| error.through(proxy))
    }

    async fn reach_proxy(&self, proxy: &Proxy, url: &Url) -> Result<Reached, Error> {
        let mut reached = self.tcp(&proxys(proxy), url).await?;
        if proxy.scheme == ProxyScheme::Https {
            let begun = Instant::now();
            let peer = Peer {
                host: &proxy.host,
                standing: Standing::Other,
                offer: Offer::Http1,
            };
            reached.stream = self.shared.tls.connect(reached.stream, peer, url).await?;
            reached.connect += begun.elapsed();
        }
        Ok(reached)
    }

    /// Through a SOCKS5 proxy to the first of a target's addresses that it reaches, over a new connection for each.
    pub(super) async fn to_any_address(
        &self,
        mut stream: Stream,
        target: &Target,
        proxy: &Proxy,
        url: &Url,
    ) -> Result<Stream, Error> {
        let (addresses, _) = self.resolve(target, url).await?;
        let mut addresses = addresses.into_iter().peekable();
        while let Some(address) = addresses.next() {
            let address = Target {
                host: address.to_string(),
                port: target.port,
            };
            match socks5::tunnel(stream, &address, proxy, url).await {
                Err(error)
                    if *error.kind() == Kind::ProxyRefused(None) && addresses.peek().is_some() => {}
                done => return done,
            }
            stream = self.to_proxy(proxy, url).await?.stream;
        }
        Err(Error::new(Kind::NoSuchHost(target.host.clone()), url))
    }
}
