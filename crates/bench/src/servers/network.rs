//! The networks in which clients and servers run: this machine's, or the two ends of a kernel link.
//!
//! Threads and processes that [`Network::run`] starts are in the network, with all sockets that they create.

use std::io;
use std::net::Ipv4Addr;

#[cfg(target_os = "linux")]
use haul_lab::kernel_link::{
    KernelLink, KernelLinkError, KernelLinkOptions, LinkDirectionOptions, NetworkNamespace,
    enter_user_namespace,
};
use tokio::runtime::{Builder, Handle, Runtime};

use super::link::KernelLinkSpec;
use super::process::ServerError;

/// A network; clones are the same one.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// This machine's.
    #[default]
    Machine,
    /// One end of a kernel link.
    #[cfg(target_os = "linux")]
    Namespace(NetworkNamespace),
}

/// Where client and server of a cell run.
#[derive(Debug, Clone)]
pub struct LinkEnds {
    /// The network of the client, and of proxies and tunnels, which are near it.
    pub client: Network,
    /// The network of the server.
    pub server: Network,
    /// The address on which the server listens.
    pub server_ip: Ipv4Addr,
}

impl Network {
    /// Calls `f`, which may start threads and processes, and create sockets, in this network.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        match self {
            Self::Machine => f(),
            #[cfg(target_os = "linux")]
            Self::Namespace(namespace) => namespace.run(f),
        }
    }

    /// Starts a runtime whose threads are in this network.
    pub(super) fn runtime(&self, builder: &mut Builder) -> Result<BackgroundRuntime, ServerError> {
        let runtime = self.run(|| builder.enable_all().build());
        let runtime = runtime.map_err(ServerError::Lab)?;
        Ok(BackgroundRuntime {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }
}

impl Default for LinkEnds {
    fn default() -> Self {
        Self {
            client: Network::Machine,
            server: Network::Machine,
            server_ip: Ipv4Addr::LOCALHOST,
        }
    }
}

/// A runtime that may be dropped on a thread of another one: nothing waits for its tasks.
#[derive(Debug)]
pub(super) struct BackgroundRuntime {
    pub(super) handle: Handle,
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A kernel link that runs until it is dropped.
#[derive(Debug)]
pub(super) struct RunningKernelLink {
    pub(super) ends: LinkEnds,
    /// For haul's own engine as the client.
    pub(super) client_runtime: BackgroundRuntime,
    #[cfg(target_os = "linux")]
    _link: KernelLink,
}

#[cfg(target_os = "linux")]
impl RunningKernelLink {
    /// Starts a link. To be called on a runtime, to which the client's is alike.
    pub(super) fn start(spec: KernelLinkSpec) -> Result<Self, ServerError> {
        let direction = LinkDirectionOptions {
            delay: spec.round_trip / 2,
            bits_per_second: Some(spec.bytes_per_second * 8),
            loss: f64::from(spec.loss_ppm) / 1e6,
            ..LinkDirectionOptions::default()
        };
        let link = KernelLink::start(&KernelLinkOptions::symmetric(direction))?;
        // A kernel would begin slower after a cell whose connections had met the link's queue.
        let forget = || std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
        for namespace in [link.client(), link.server()] {
            namespace.run(forget).map_err(KernelLinkError::Io)?;
        }
        let client = Network::Namespace(link.client().clone());
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(Handle::current().metrics().num_workers());
        Ok(Self {
            client_runtime: client.runtime(&mut builder)?,
            ends: LinkEnds {
                client,
                server: Network::Namespace(link.server().clone()),
                server_ip: KernelLink::SERVER_IP,
            },
            _link: link,
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl RunningKernelLink {
    pub(super) fn start(_: KernelLinkSpec) -> Result<Self, ServerError> {
        Err(other_system())
    }
}

/// Checks that this process can start kernel links. If that needs more rights than it has, it becomes root of a user namespace, with a network
/// namespace that has nothing but loopback: call this before the process has a second thread.
///
/// # Errors
/// Why it can start none.
pub fn prepare_kernel_links() -> Result<(), ServerError> {
    #[cfg(target_os = "linux")]
    {
        let start = || {
            let options = KernelLinkOptions::symmetric(LinkDirectionOptions::default());
            KernelLink::start(&options).map(drop)
        };
        let started = match start() {
            Err(KernelLinkError::Unavailable(error))
                if error.kind() == io::ErrorKind::PermissionDenied
                    && enter_user_namespace().is_ok() =>
            {
                start()
            }
            started => started,
        };
        Ok(started?)
    }
    #[cfg(not(target_os = "linux"))]
    Err(other_system())
}

#[cfg(target_os = "linux")]
impl From<KernelLinkError> for ServerError {
    fn from(error: KernelLinkError) -> Self {
        let (KernelLinkError::Unavailable(source) | KernelLinkError::Io(source)) = error;
        Self::KernelLink(source)
    }
}

#[cfg(not(target_os = "linux"))]
fn other_system() -> ServerError {
    ServerError::KernelLink(io::ErrorKind::Unsupported.into())
}
