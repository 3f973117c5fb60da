//! Blocking disk calls from async code.
//!
//! A write into the page cache takes some ten microseconds, until the kernel throttles the writer or a network file
//! system hangs: then it takes seconds, and a reactor thread that waits in it polls no socket and no timer. So the
//! calls go through [`tokio::task::block_in_place`], which hands this thread's other tasks to a fresh thread before it
//! blocks. The hand-over costs a few microseconds, which is why the engine gathers bytes before it writes:
//! writing each chunk as it arrived took 40,000 hand-overs for 2 GiB over TLS, and a third of all CPU time.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs a blocking call without stalling the reactor.
///
/// On a current-thread runtime (unit tests, small embeddings) there is no thread to hand tasks to, and the call is made
/// directly. It cannot be cancelled: a future that is dropped while the call runs is dropped after it.
pub fn blocking<T>(call: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(call),
        _ => call(),
    }
}
