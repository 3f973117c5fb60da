//! Servers of experiments: `haul serve` and `haul tunnel` as processes, `lab`'s links, proxies and origins on threads of their own, and the
//! CPU time and memory of each.
//!
//! [`ServerPool`] is the way in: it starts a server when a cell first needs it, at the far end of a [link](LinkSpec), and fills the folder that
//! all of them serve. Its client is to run in the [`Network`] of the near end. [`UsageMeter`] measures the processes that [`PooledServer::pid`] names, and our own without the threads of [`LabServers`].
//!
//! Modules build on each other in this order: `sys`, `link`, `network`; `process`; `kernel_link`; `usage`, `short_queue`, `lab`; `pool`.

mod kernel_link;
mod lab;
mod link;
mod network;
mod pool;
mod process;
mod short_queue;
#[cfg(target_os = "linux")]
mod sys;
mod usage;

pub use kernel_link::{LinkEnds, prepare_kernel_links};
pub use lab::LabServers;
pub use link::{KernelLinkSpec, LinkRates, LinkSpec, RelaySpec};
pub use network::Network;
pub(crate) use pool::bench_folder;
pub use pool::{PooledServer, ServerPool};
pub use process::{HaulProcess, S3_ACCESS_KEY, S3_SECRET_KEY, ServerError};
pub use usage::UsageMeter;
