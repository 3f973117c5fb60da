//! Servers of experiments: `haul serve` and `haul tunnel` as processes, `lab`'s links, proxies and origins on threads of their own, and the
//! CPU time and memory of each.
//!
//! [`ServerPool`] is the way in: it starts a server when a cell first needs it, puts a [link](LinkSpec) before it, and fills the folder that
//! all of them serve. [`UsageMeter`] measures the processes that [`PooledServer::pid`] names, and our own without the threads of [`LabServers`].
//!
//! Modules build on each other in this order: `sys`; `process`; `usage`, `short_queue`, `lab`; `pool`.

mod lab;
mod pool;
mod process;
mod short_queue;
#[cfg(target_os = "linux")]
mod sys;
mod usage;

pub use lab::{LabServers, LinkRates, LinkSpec};
pub(crate) use pool::bench_folder;
pub use pool::{PooledServer, ServerPool};
pub use process::{HaulProcess, S3_ACCESS_KEY, S3_SECRET_KEY, ServerError};
pub use usage::UsageMeter;
