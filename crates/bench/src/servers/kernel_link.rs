//! Running kernel links: client and server in network namespaces, and the runtime of a client in its own.

use std::io;
use std::net::Ipv4Addr;

#[cfg(target_os = "linux")]
use haul_lab::kernel_link::{
    KernelLink, KernelLinkError, KernelLinkOptions, LinkDirectionOptions, enter_user_namespace,
};
#[cfg(target_os = "linux")]
use tokio::runtime::{Builder, Handle};

use super::link::KernelLinkSpec;
use super::network::{BackgroundRuntime, Network};
use super::process::ServerError;

/// Where client and server of a cell run.
#[derive(Debug, Clone)]
pub struct LinkEnds {
    /// The network of the client, and of proxies and tunnels, which are near it.
    pub client: Network,
    pub server: Network,
    /// The address on which the server listens.
    pub server_ip: Ipv4Addr,
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
            client_runtime: client.runtime(&mut builder).map_err(ServerError::Lab)?,
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
