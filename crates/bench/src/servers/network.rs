//! The networks in which clients and servers run: this machine's, or one end of a kernel link.

use std::io;

#[cfg(target_os = "linux")]
use haul_lab::kernel_link::NetworkNamespace;
use tokio::runtime::{Builder, Handle, Runtime};

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
    pub(super) fn runtime(&self, builder: &mut Builder) -> io::Result<BackgroundRuntime> {
        let runtime = self.run(|| builder.enable_all().build())?;
        Ok(BackgroundRuntime {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
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
