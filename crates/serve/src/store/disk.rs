//! Threads that may wait for a disk, so that no reactor has to.

use std::future::Future;

use tokio::runtime::Handle;

/// Where waiting is allowed: the blocking threads of one runtime, whichever runtime asks.
#[derive(Debug, Clone)]
pub struct Disk {
    handle: Handle,
}

impl Disk {
    /// The threads of a runtime.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Runs something there. Dropping the future lets it go on: what it began is done, and its result dropped.
    ///
    /// A panic there is one here.
    pub fn run<T, F>(&self, what: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let task = self.handle.spawn_blocking(what);
        async move {
            match task.await {
                Ok(value) => value,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is ending, and with it whoever waits here.
                    Err(_) => std::future::pending().await,
                },
            }
        }
    }
}
