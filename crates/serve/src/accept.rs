//! From listening sockets to connections on threads.
//!
//! There are several ways to share a port between threads, and opinions differ on which is fastest.
//! So they are values of [`AcceptStrategy`], and `haul bench` can compare them. All run the same
//! loop (`accept_loop`) on different runtimes ([`WorkerThreads`]) and hand each connection to a
//! `dispatch`:
//!
//! - **work-stealing**: one runtime with several threads, which take tasks from each other.
//! - **reuseport**: one runtime and one socket for each thread; the kernel spreads connections by a
//!   hash of their addresses.
//! - **round-robin**: one runtime for each thread; one more thread accepts, and gives each
//!   connection to the next of them.
//! - **single**: one thread does all the work.
//!
//! A shutdown has two stages. When `stop` is cancelled no more connections are accepted, and each
//! connection ends after its current request. When the grace period is over, the remaining
//! connections are dropped.

mod accept_loop;
mod dispatch;
mod plain_http_on_tls_port;
mod serve_connection;
mod strategy;
mod worker_threads;

pub use strategy::AcceptStrategy;
pub use worker_threads::{WorkerThreads, WorkerThreadsOptions};
