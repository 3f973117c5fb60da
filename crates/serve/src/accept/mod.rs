//! From listening sockets to connections on threads: who accepts, and where a connection lives after that.
//!
//! There is more than one way to share a port between threads, and which is fastest has been believed to be many things; so they are
//! values of [`AcceptStrategy`], and `haul bench` can compare them. All are the same loop (`accepting`) on differently made runtimes ([`WorkerThreads`]), which gives each connection to a `deal`:
//!
//! - **work-stealing**: one runtime of several threads, which take tasks from each other.
//! - **reuseport**: a runtime a thread, each with a socket of its own; the kernel spreads connections by a hash of their addresses.
//! - **round-robin**: a runtime a thread; one more accepts, and gives each connection to the next of them.
//! - **single**: one thread does it all.
//!
//! Ending has two stages. When `stop` is cancelled nothing more is accepted, and each connection ends with the request that is under way;
//! when the grace time is over, those that are left are dropped.

mod accept_loop;
mod dispatch;
mod plain_http_on_tls_port;
mod strategy;
mod sys;
mod worker_threads;

pub use strategy::{AcceptStrategy, AcceptStrategyError};
pub use worker_threads::{ShutdownOutcome, WorkerThreads, WorkerThreadsOptions};
