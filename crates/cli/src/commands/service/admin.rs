//! The admin endpoint: bound with the server, served by the main runtime until the last request has ended.

use std::sync::Arc;

use haul_service::accept::Acceptor;
use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, bind,
    bound_addresses, is_taken_by_this_process,
};
use haul_service::observe::{AdminEndpoint, serve_admin};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::addresses::{SocketFiles, used_twice_error};
use super::command_error::CommandError;

/// The sockets of the admin endpoint; none without --admin.
#[derive(Debug, Default)]
pub(crate) struct AdminAddresses {
    /// One for each address of a name.
    bound: Vec<BoundListener>,
}

/// A running admin endpoint.
#[derive(Debug)]
pub(crate) struct AdminTask {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    /// Removed with the endpoint.
    _files: SocketFiles,
}

impl AdminAddresses {
    /// Binds the endpoint. `others` are the addresses of the server, which the command line calls `listener`.
    pub(crate) fn open(
        address: Option<&ListenAddress>,
        listener: &str,
        others: &[BoundAddress],
    ) -> Result<Self, CommandError> {
        let Some(address) = address else {
            return Ok(Self::default());
        };
        let bound = bind(
            address,
            &BindOptions::default(),
            &mut InheritedSockets::none(),
        )
        .map_err(|error| {
            if is_taken_by_this_process(&error, others) {
                used_twice_error(
                    "--admin",
                    address,
                    listener,
                    "the admin endpoint needs its own",
                )
            } else {
                error.into()
            }
        })?;
        Ok(Self { bound })
    }

    pub(crate) fn addresses(&self) -> Vec<BoundAddress> {
        bound_addresses(&self.bound)
    }

    /// Starts to serve on the current runtime.
    pub(crate) fn serve(self, admin: AdminEndpoint) -> Result<AdminTask, CommandError> {
        let admin = Arc::new(admin);
        let (stop, mut tasks, mut files) = (CancellationToken::new(), JoinSet::new(), Vec::new());
        for bound in self.bound {
            files.push(bound.file);
            for listener in bound.listeners {
                let acceptor = Acceptor::new(listener, "--admin").map_err(|error| {
                    CommandError::local(format!("--admin cannot be served: {error}"))
                })?;
                tasks.spawn(serve_admin(acceptor, Arc::clone(&admin), stop.clone()));
            }
        }
        Ok(AdminTask {
            tasks,
            stop,
            _files: files,
        })
    }
}

impl AdminTask {
    /// Finishes running requests and stops.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
