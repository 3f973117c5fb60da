//! The threads of a server.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use haul_service::listen::Listener;
use rustls::ServerConfig;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::AcceptStrategy;
use super::accept_loop::{ConnectionContext, accept_loop};
use super::dispatch::{
    DISPATCH_QUEUE, DispatchedConnection, LocalDispatch, RoundRobinDispatch, spawn_connection,
};
use crate::FileServer;
use crate::observe::ConnectionFault;

/// How a crew works.
#[derive(Debug, Clone)]
pub struct WorkerThreadsOptions {
    /// How its threads share ports.
    pub strategy: AcceptStrategy,
    /// Threads; one with [`AcceptStrategy::Single`].
    pub threads: usize,
    /// Connections that may be at one time.
    pub max_connections: usize,
}

impl Default for WorkerThreadsOptions {
    fn default() -> Self {
        Self {
            strategy: AcceptStrategy::default(),
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            max_connections: 65_536,
        }
    }
}

/// Threads that accept and serve.
#[derive(Debug)]
pub struct WorkerThreads {
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// Cancelled when the grace time is over.
    abort: CancellationToken,
    /// Cancelled to begin the end.
    stop: CancellationToken,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// Every request was answered.
    Clean,
    /// Some were under way when the grace time was over.
    Aborted,
}

/// A socket with what its connections are met with.
type ServingListener = (Listener, Option<TlsAcceptor>);

impl WorkerThreadsOptions {
    /// Sockets that each address must have.
    #[must_use]
    pub fn sockets_per_address(&self) -> usize {
        match self.strategy {
            AcceptStrategy::ReusePort => self.threads.max(1),
            _ => 1,
        }
    }
}

impl WorkerThreads {
    /// Starts threads that serve on the given sockets, each of which was bound for [`WorkerThreadsOptions::sockets_per_address`].
    ///
    /// # Errors
    /// When the system gives no threads, or no descriptors for them.
    pub fn start(
        bound: Vec<(Vec<Listener>, Option<Arc<ServerConfig>>)>,
        server: &Arc<FileServer>,
        options: &WorkerThreadsOptions,
    ) -> io::Result<Self> {
        let mut crew = Self {
            threads: Vec::new(),
            abort: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        let room = Arc::new(Semaphore::new(options.max_connections));
        let context = ConnectionContext {
            server: Arc::clone(server),
            permits: room,
            stop: crew.stop.clone(),
            tasks: TaskTracker::new(),
        };
        let threads = options.threads.max(1);
        let mut shares = listeners_per_thread(bound, options.sockets_per_address());
        match options.strategy {
            AcceptStrategy::WorkStealing => {
                let doors = shares.remove(0);
                crew.spawn_accepting(
                    0,
                    move || {
                        Builder::new_multi_thread()
                            .worker_threads(threads)
                            .enable_all()
                            .build()
                    },
                    context,
                    doors,
                )?;
            }
            AcceptStrategy::Single | AcceptStrategy::ReusePort => {
                for (index, doors) in shares.into_iter().enumerate() {
                    let context = ConnectionContext {
                        tasks: TaskTracker::new(),
                        ..context.clone()
                    };
                    crew.spawn_accepting(index, single_threaded_runtime, context, doors)?;
                }
            }
            AcceptStrategy::RoundRobin => {
                crew.spawn_round_robin(threads, &context, shares.remove(0))?
            }
        }
        Ok(crew)
    }

    /// Begins the end: nothing more is accepted.
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Drops what is under way, once the end has begun: for those who cannot wait for [`shut_down`](Self::end) any longer.
    #[must_use]
    pub fn abort_token(&self) -> CancellationToken {
        self.abort.clone()
    }

    /// Ends: waits for requests that are under way, and drops those that take longer. Blocks.
    ///
    /// # Errors
    /// When a thread could not listen.
    pub fn shut_down(self, grace: Duration) -> io::Result<ShutdownOutcome> {
        self.stop.cancel();
        let abort = self.abort.clone();
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let timer = std::thread::spawn(move || {
            let is_late =
                ended.recv_timeout(grace) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if is_late {
                abort.cancel();
            }
            is_late
        });
        let mut result = Ok(());
        for thread in self.threads {
            match thread.join() {
                Ok(ended) => result = result.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(done);
        let is_late = timer.join().unwrap_or(true);
        result.map(|()| {
            if is_late {
                ShutdownOutcome::Aborted
            } else {
                ShutdownOutcome::Clean
            }
        })
    }

    /// A thread that accepts and serves.
    fn spawn_accepting(
        &mut self,
        index: usize,
        runtime: impl FnOnce() -> io::Result<Runtime>,
        context: ConnectionContext,
        doors: Vec<ServingListener>,
    ) -> io::Result<()> {
        let abort = self.abort.clone();
        // Not on the thread: what is missing is told before anybody connects.
        let runtime = runtime()?;
        self.spawn_thread(index, move || {
            runtime.block_on(async {
                let mut accepts = tokio::task::JoinSet::new();
                for (listener, tls) in doors {
                    let here = LocalDispatch(context.clone());
                    accepts.spawn(accept_loop(listener, tls, context.clone(), here));
                }
                let accepted = join_accept_loops(accepts, &abort).await;
                drain_connections(&context, &abort).await;
                accepted
            })
        })
    }

    /// Threads that serve, and one that accepts for them.
    fn spawn_round_robin(
        &mut self,
        threads: usize,
        context: &ConnectionContext,
        doors: Vec<ServingListener>,
    ) -> io::Result<()> {
        let mut to = Vec::new();
        for index in 0..threads {
            let (sender, mut receiver) = mpsc::channel::<DispatchedConnection>(DISPATCH_QUEUE);
            to.push(sender);
            let context = ConnectionContext {
                tasks: TaskTracker::new(),
                ..context.clone()
            };
            let abort = self.abort.clone();
            let runtime = single_threaded_runtime()?;
            self.spawn_thread(index, move || {
                runtime.block_on(async {
                    while let Some(dealt) = receiver.recv().await {
                        spawn_connection(&context, dealt);
                    }
                    drain_connections(&context, &abort).await;
                    Ok(())
                })
            })?;
        }
        let (abort, context) = (self.abort.clone(), context.clone());
        let runtime = single_threaded_runtime()?;
        self.spawn_thread(threads, move || {
            runtime.block_on(async {
                let mut accepts = tokio::task::JoinSet::new();
                for (listener, tls) in doors {
                    let metrics = Arc::clone(&context.server.options.metrics);
                    let deal = RoundRobinDispatch::new(to.clone(), metrics);
                    accepts.spawn(accept_loop(listener, tls, context.clone(), deal));
                }
                drop(to);
                join_accept_loops(accepts, &abort).await
            })
        })
    }

    fn spawn_thread(
        &mut self,
        index: usize,
        body: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let thread = std::thread::Builder::new()
            .name(format!("serve-{index}"))
            .spawn(body)?;
        self.threads.push(thread);
        Ok(())
    }
}

/// The sockets of each thread.
fn listeners_per_thread(
    bound: Vec<(Vec<Listener>, Option<Arc<ServerConfig>>)>,
    threads: usize,
) -> Vec<Vec<ServingListener>> {
    let mut shares: Vec<Vec<ServingListener>> = (0..threads).map(|_| Vec::new()).collect();
    for (listeners, tls) in bound {
        for (share, listener) in shares.iter_mut().zip(listeners) {
            share.push((listener, tls.clone().map(TlsAcceptor::from)));
        }
    }
    shares
}

fn single_threaded_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Waits for the ends of all loops.
async fn join_accept_loops(
    mut accepts: tokio::task::JoinSet<io::Result<()>>,
    abort: &CancellationToken,
) -> io::Result<()> {
    let mut result = Ok(());
    loop {
        let ended = tokio::select! {
            () = abort.cancelled() => return result,
            ended = accepts.join_next() => ended,
        };
        match ended {
            None => return result,
            Some(Ok(ended)) => result = result.and(ended),
            Some(Err(error)) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return result,
            },
        }
    }
}

/// Waits for connections to end, or counts those that did not.
async fn drain_connections(context: &ConnectionContext, abort: &CancellationToken) {
    context.tasks.close();
    tokio::select! {
        () = abort.cancelled() => {
            context.server.abort_exchanges();
            let metrics = &context.server.options.metrics;
            (0..context.tasks.len()).for_each(|_| metrics.count_fault(ConnectionFault::GraceTimeout));
        }
        () = context.tasks.wait() => {}
    }
}
