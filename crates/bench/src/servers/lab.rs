//! Servers in this process: relays, kernel links, proxies, certificates. They run on threads of their own, whose CPU time is not the client's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::SocketAddr;

use haul_lab::{CertificateAuthority, HttpProxy, SlowLink, SlowLinkBuilder};
use tokio::runtime::{Builder, Handle};

use super::kernel_link::{LinkEnds, RunningKernelLink};
use super::link::{KernelLinkSpec, LinkSpec, RelaySpec};
use super::network::{BackgroundRuntime, Network};
use super::process::ServerError;
use super::short_queue::ShortQueueServer;

pub(super) const LAB_THREAD_NAME: &str = "haul-lab";

/// Enough for a link of gigabits. More would take processors from client and server.
const LAB_THREADS: usize = 2;

/// Servers in this process, each started when it is first needed. All end when this is dropped, the servers before the links and threads that
/// they need.
#[derive(Debug)]
pub struct LabServers {
    relays: HashMap<(SocketAddr, RelaySpec), SlowLink>,
    /// By the kernel link near whose client they are, if there is one.
    proxies: HashMap<Option<KernelLinkSpec>, LabProxy>,
    /// By the bytes of their files, and the kernel link at whose end they are.
    short_queues: HashMap<(u64, Option<KernelLinkSpec>), ShortQueueServer>,
    authority: Option<CertificateAuthority>,
    kernel_links: HashMap<KernelLinkSpec, RunningKernelLink>,
    runtime: BackgroundRuntime,
}

/// An HTTP proxy, and the threads on which it runs if they are not those of other servers.
#[derive(Debug)]
struct LabProxy {
    proxy: HttpProxy,
    _runtime: Option<BackgroundRuntime>,
}

impl LabServers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Self, ServerError> {
        Ok(Self {
            relays: HashMap::new(),
            proxies: HashMap::new(),
            short_queues: HashMap::new(),
            authority: None,
            kernel_links: HashMap::new(),
            runtime: lab_runtime(&Network::Machine)?,
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
        start_on(&self.runtime, server).await
    }

    /// Where client and server run. A kernel link is started.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn ends(&mut self, link: LinkSpec) -> Result<LinkEnds, ServerError> {
        let running = self.kernel_link(link)?;
        Ok(running.map_or_else(LinkEnds::default, |running| running.ends.clone()))
    }

    /// The runtime on which haul's engine is the client: the current one, or one at the client's end of a kernel link.
    ///
    /// # Errors
    /// The link cannot be started.
    pub fn client_runtime(&mut self, link: LinkSpec) -> Result<Handle, ServerError> {
        let running = self.kernel_link(link)?;
        Ok(running.map_or_else(Handle::current, |link| link.client_runtime.handle.clone()))
    }

    fn kernel_link(&mut self, link: LinkSpec) -> Result<Option<&RunningKernelLink>, ServerError> {
        let Some(spec) = link.kernel() else {
            return Ok(None);
        };
        let running = match self.kernel_links.entry(spec) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(RunningKernelLink::start(spec)?),
        };
        Ok(Some(running))
    }

    /// The address at which the client of a link finds `target`: of a relay, or `target` itself.
    ///
    /// # Errors
    /// The relay cannot be started.
    pub async fn relay(
        &mut self,
        target: SocketAddr,
        link: LinkSpec,
    ) -> Result<SocketAddr, ServerError> {
        let LinkSpec::Relay(spec) = link else {
            return Ok(target);
        };
        if link.is_loopback() {
            return Ok(target);
        }
        if let Some(relay) = self.relays.get(&(target, spec)) {
            return Ok(relay.address());
        }
        let builder = relay_builder(spec, target);
        let relay = self.start(async move { builder.start().await }).await?;
        let address = relay.address();
        self.relays.insert((target, spec), relay);
        Ok(address)
    }

    /// The address of an HTTP proxy near the client of a link. It keeps a record of each request.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn http_proxy(&mut self, link: LinkSpec) -> Result<SocketAddr, ServerError> {
        if let Some(known) = self.proxies.get(&link.kernel()) {
            return Ok(known.proxy.address());
        }
        let runtime = match self.kernel_link(link)? {
            Some(running) => Some(lab_runtime(&running.ends.client)?),
            None => None,
        };
        let start = HttpProxy::builder().start();
        let proxy = start_on(runtime.as_ref().unwrap_or(&self.runtime), start).await?;
        let address = proxy.address();
        let proxy = LabProxy {
            proxy,
            _runtime: runtime,
        };
        self.proxies.insert(link.kernel(), proxy);
        Ok(address)
    }

    /// The address of a server with a short queue of connections, and a file of so many bytes.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn short_queue(&mut self, bytes: u64, link: LinkSpec) -> Result<SocketAddr, ServerError> {
        let ends = self.ends(link)?;
        let server = match self.short_queues.entry((bytes, link.kernel())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let server = ShortQueueServer::start(bytes, LAB_THREAD_NAME, ends);
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

/// Threads for servers in a network.
fn lab_runtime(network: &Network) -> Result<BackgroundRuntime, ServerError> {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(LAB_THREADS)
        .thread_name(LAB_THREAD_NAME);
    network.runtime(&mut builder).map_err(ServerError::Lab)
}

async fn start_on<S: Send + 'static>(
    runtime: &BackgroundRuntime,
    server: impl Future<Output = S> + Send + 'static,
) -> Result<S, ServerError> {
    let started = runtime.handle.spawn(server).await;
    started.map_err(|error| ServerError::Lab(io::Error::other(error)))
}

fn relay_builder(spec: RelaySpec, target: SocketAddr) -> SlowLinkBuilder {
    let relay = SlowLinkBuilder::new(target)
        .latency(spec.round_trip / 2)
        .limit_uploads();
    match spec.rates {
        Some(rates) => relay
            .rate_per_connection(rates.per_connection)
            .total_rate(rates.total),
        None => relay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_dropped_outside_a_runtime() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let mut lab = LabServers::new().unwrap();
        runtime
            .block_on(lab.http_proxy(LinkSpec::default()))
            .unwrap();
        drop(runtime);
        drop(lab);
    }
}
