//! The admin endpoint: bound with the server, asked on the runtime of chores, and there until requests have ended.

use std::sync::Arc;
use std::time::SystemTime;

use haul_serve::listen::{Address, BindOptions, Bound, Handed, Listener, Local, bind};
use haul_serve::observe::{AccessLog, Admin, AdminListener, Metrics, Process, Source, serve_admin};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::doors::{SocketFiles, is_own, twice};
use super::trouble::Trouble;

/// Where it is asked; nowhere, if nobody wants it.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    bound: Vec<Bound>,
}

/// One that answers.
#[derive(Debug)]
pub(super) struct Answering {
    /// One for each socket.
    tasks: JoinSet<()>,
    /// Ends them.
    stop: CancellationToken,
    /// Go with it.
    _files: SocketFiles,
}

impl Endpoint {
    /// Listens, beside the server's own addresses.
    pub(super) fn open(address: Option<&Address>, others: &[Local]) -> Result<Self, Trouble> {
        let Some(address) = address else {
            return Ok(Self::default());
        };
        let bound = bind(address, &BindOptions::default(), &mut Handed::none());
        let bound = bound.map_err(|error| match is_own(&error, others) {
            true => twice("--admin", address, "it has one of its own"),
            false => error.into(),
        })?;
        Ok(Self { bound })
    }

    /// Where that came to be.
    pub(super) fn locals(&self) -> Vec<Local> {
        self.bound.iter().map(|bound| bound.local.clone()).collect()
    }

    /// Begins to answer, on the runtime that it is called on.
    pub(super) fn serve(
        self,
        metrics: Arc<Metrics>,
        log: Option<Arc<AccessLog>>,
        draining: CancellationToken,
    ) -> Result<Answering, Trouble> {
        let process = Process::new(SystemTime::now(), env!("CARGO_PKG_VERSION"));
        let mut sources: Vec<Arc<dyn Source>> = vec![metrics, Arc::new(process)];
        sources.extend(log.map(|log| log as Arc<dyn Source>));
        let admin = Arc::new(Admin::new(sources, draining));
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
                    Trouble::local(format!("--admin cannot be served: {error}"))
                })?;
                tasks.spawn(serve_admin(listener, Arc::clone(&admin), stop.clone()));
            }
        }
        Ok(Answering {
            tasks,
            stop,
            _files: files,
        })
    }
}

impl Answering {
    /// Answers what was asked already, and ends.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
