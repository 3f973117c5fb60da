//! Servers in this process: links, a proxy, certificates. They run on threads of their own, whose CPU time is not the client's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::{CertificateAuthority, HttpProxy, SlowLink, SlowLinkBuilder};
use tokio::runtime::{Builder, Runtime};

use super::process::ServerError;
use super::short_queue::ShortQueueServer;
use crate::cell::{Cell, LevelError, parse_size, parse_time};

/// The name of the threads.
pub(super) const LAB_THREAD_NAME: &str = "haul-lab";

/// Enough for a link of gigabits. More would take processors from client and server.
const LAB_THREADS: usize = 2;

/// The longest round trip: beyond it every measurement would run into time limits.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(5);

/// A level of the factor `link`: the way between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LinkSpec {
    /// The time for both directions. Half of it is added to each; TCP's own handshake is not delayed.
    pub round_trip: Duration,
    /// The rates; `None` for as fast as it goes.
    pub rates: Option<LinkRates>,
}

/// The rates of a link in bytes a second. Both directions share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkRates {
    /// Of each connection.
    pub per_connection: u64,
    /// Of all together.
    pub total: u64,
}

impl LinkSpec {
    /// The level of the factor `link`.
    ///
    /// # Errors
    /// It is none.
    pub fn from_cell(cell: &Cell) -> Result<Self, LevelError> {
        let expected = "loopback, or a round trip as 20ms, and rates of a connection and of all as in 20ms 25M/200M";
        cell.parse("link", expected, Self::default(), Self::parse)
    }

    /// Parses a level of the factor `link`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rate = |text| parse_size(text).filter(|rate| *rate > 0);
        let (delay, rates) = match text.split_once(' ') {
            Some((delay, rates)) => {
                let (per_connection, total) = rates.split_once('/')?;
                let (per_connection, total) = (rate(per_connection)?, rate(total)?);
                let rates = LinkRates {
                    per_connection,
                    total,
                };
                (delay, Some(rates))
            }
            None => (text, None),
        };
        let round_trip = match delay {
            "loopback" => Duration::ZERO,
            delay => parse_time(delay).filter(|delay| *delay <= MAX_ROUND_TRIP)?,
        };
        Some(Self { round_trip, rates })
    }

    /// Whether there is nothing between client and server.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        *self == Self::default()
    }

    fn builder(&self, target: SocketAddr) -> SlowLinkBuilder {
        let link = SlowLinkBuilder::new(target)
            .latency(self.round_trip / 2)
            .limit_uploads();
        match self.rates {
            Some(rates) => link
                .rate_per_connection(rates.per_connection)
                .total_rate(rates.total),
            None => link,
        }
    }
}

/// Servers in this process, each started when it is first needed. All end when this is dropped.
#[derive(Debug)]
pub struct LabServers {
    links: HashMap<(SocketAddr, LinkSpec), SlowLink>,
    proxy: Option<HttpProxy>,
    /// By the bytes of their files.
    short_queues: HashMap<u64, ShortQueueServer>,
    authority: Option<CertificateAuthority>,
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
}

impl LabServers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Self, ServerError> {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(LAB_THREADS)
            .thread_name(LAB_THREAD_NAME)
            .enable_all();
        Ok(Self {
            links: HashMap::new(),
            proxy: None,
            short_queues: HashMap::new(),
            authority: None,
            runtime: Some(builder.build().map_err(ServerError::Lab)?),
        })
    }

    /// Starts a server of `lab` on these threads: `start(Origin::builder().start())`.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start<S: Send + 'static>(
        &self,
        server: impl Future<Output = S> + Send + 'static,
    ) -> Result<S, ServerError> {
        let Some(runtime) = &self.runtime else {
            return Err(ServerError::Lab(io::ErrorKind::NotConnected.into()));
        };
        let started = runtime.spawn(server).await;
        started.map_err(|error| ServerError::Lab(io::Error::other(error)))
    }

    /// The address of a link to `target`; `target` itself where nothing is between.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn link(
        &mut self,
        target: SocketAddr,
        spec: LinkSpec,
    ) -> Result<SocketAddr, ServerError> {
        if spec.is_loopback() {
            return Ok(target);
        }
        if let Some(link) = self.links.get(&(target, spec)) {
            return Ok(link.address());
        }
        let builder = spec.builder(target);
        let link = self.start(async move { builder.start().await }).await?;
        let address = link.address();
        self.links.insert((target, spec), link);
        Ok(address)
    }

    /// The address of an HTTP proxy. It keeps a record of each request.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn http_proxy(&mut self) -> Result<SocketAddr, ServerError> {
        if let Some(proxy) = &self.proxy {
            return Ok(proxy.address());
        }
        let proxy = self.start(HttpProxy::builder().start()).await?;
        Ok(self.proxy.insert(proxy).address())
    }

    /// The address of a server with a short queue of connections, and a file of so many bytes.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn short_queue(&mut self, bytes: u64) -> Result<SocketAddr, ServerError> {
        let server = match self.short_queues.entry(bytes) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let server = ShortQueueServer::start(bytes, LAB_THREAD_NAME);
                new.insert(server.map_err(ServerError::Lab)?)
            }
        };
        Ok(server.address())
    }

    /// The authority of all certificates.
    pub fn authority(&mut self) -> &CertificateAuthority {
        self.authority.get_or_insert_default()
    }
}

impl Drop for LabServers {
    fn drop(&mut self) {
        // The servers first, whose tasks the runtime then ends. It must not be waited for: this may be a thread of another one.
        self.links.clear();
        self.proxy = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_links_are_parsed() {
        assert!(LinkSpec::parse("loopback").unwrap().is_loopback());
        let spec = LinkSpec::parse("20ms").unwrap();
        assert_eq!(
            (spec.round_trip, spec.rates),
            (Duration::from_millis(20), None)
        );
        let rates = Some(LinkRates {
            per_connection: 25 << 20,
            total: 200 << 20,
        });
        for (text, millis) in [
            ("20ms 25M/200M", 20),
            ("loopback 25M/200M", 0),
            ("1s 25M/200M", 1000),
        ] {
            let spec = LinkSpec::parse(text).unwrap();
            assert_eq!(
                (spec.round_trip, spec.rates),
                (Duration::from_millis(millis), rates)
            );
            assert!(!spec.is_loopback());
        }
        for text in [
            "",
            "20",
            "lan",
            "6s",
            "-1ms",
            "20ms ",
            "20ms 25M",
            "20ms 25M/",
            "20ms 0/1M",
            "20ms 1M/1M/1M",
            "20ms  1M/1M",
        ] {
            assert_eq!(LinkSpec::parse(text), None, "{text}");
        }
    }

    #[test]
    fn it_can_be_dropped_outside_a_runtime() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let mut lab = LabServers::new().unwrap();
        runtime.block_on(lab.http_proxy()).unwrap();
        drop(runtime);
        drop(lab);
    }
}
