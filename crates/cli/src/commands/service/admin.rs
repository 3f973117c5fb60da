//! The admin endpoint: bound with the server, asked on the runtime of chores, and there until requests have ended.

use std::sync::Arc;
use std::time::SystemTime;

use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, Listener, bind,
};
use haul_service::observe::{AdminEndpoint, AdminListener, ProcessMetrics, serve_admin};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address_conflicts::{is_taken_by_this_process, used_twice_error};
use super::addresses::{SocketFiles, bound_addresses};
use super::command_error::CommandError;

/// Where it is asked; nowhere, if nobody wants it.
#[derive(Debug, Default)]
pub(crate) struct AdminAddresses {
    /// One for each address that a name has.
    bound: Vec<BoundListener>,
}

/// One that answers.
#[derive(Debug)]
pub(crate) struct AdminTask {
    /// One for each socket.
    tasks: JoinSet<()>,
    /// Ends them.
    stop: CancellationToken,
    /// Go with it.
    _files: SocketFiles,
}

impl AdminAddresses {
    /// Listens, beside the server's own addresses.
    /// `listener` is what these are called on the command line.
    pub(crate) fn open(
        address: Option<&ListenAddress>,
        (listener, others): (&str, &[BoundAddress]),
    ) -> Result<Self, CommandError> {
        let Some(address) = address else {
            return Ok(Self::default());
        };
        let bound = bind(
            address,
            &BindOptions::default(),
            &mut InheritedSockets::none(),
        );
        let bound = bound.map_err(|error| match is_taken_by_this_process(&error, others) {
            true => used_twice_error(("--admin", address), listener, "it has one of its own"),
            false => error.into(),
        })?;
        Ok(Self { bound })
    }

    /// Where that came to be.
    pub(crate) fn addresses(&self) -> Vec<BoundAddress> {
        bound_addresses(&self.bound)
    }

    /// Begins to answer, on the runtime that it is called on.
    pub(crate) fn serve(self, admin: AdminEndpoint) -> Result<AdminTask, CommandError> {
        let admin = Arc::new(admin);
        let (stop, mut tasks, mut files) = (CancellationToken::new(), JoinSet::new(), Vec::new());
        for bound in self.bound {
            files.push(bound.file);
            for listener in bound.listeners {
                let listener = match listener {
                    Listener::Tcp(listener) => {
                        tokio::net::TcpListener::from_std(listener).map(AdminListener::Tcp)
                    }
                    Listener::Unix(listener) => {
                        tokio::net::UnixListener::from_std(listener).map(AdminListener::Unix)
                    }
                };
                let listener = listener.map_err(|error| {
                    CommandError::local(format!("--admin cannot be served: {error}"))
                })?;
                tasks.spawn(serve_admin(listener, Arc::clone(&admin), stop.clone()));
            }
        }
        Ok(AdminTask {
            tasks,
            stop,
            _files: files,
        })
    }
}

/// This process, for the numbers that it tells: it begins now.
pub(crate) fn process_metrics() -> ProcessMetrics {
    ProcessMetrics::new(SystemTime::now(), env!("CARGO_PKG_VERSION"))
}

impl AdminTask {
    /// Answers what was asked already, and ends.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
