//! The worker threads of a server.

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
use super::accept_loop::accept_loop;
use super::dispatch::{DISPATCH_QUEUE, LocalDispatch, RoundRobinDispatch};
use super::serve_connection::{AcceptedConnection, ConnectionContext, spawn_connection};
use crate::FileServer;
use crate::observe::ConnectionFault;

/// How the worker threads are started.
#[derive(Debug, Clone)]
pub struct WorkerThreadsOptions {
    /// How the threads share a port.
    pub strategy: AcceptStrategy,
    /// Number of threads; always one with [`AcceptStrategy::Single`].
    pub threads: usize,
    /// Maximum number of connections at a time.
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

/// Threads that accept and serve connections.
#[derive(Debug)]
pub struct WorkerThreads {
    /// Each ends with the number of its connections that were cut off.
    threads: Vec<JoinHandle<io::Result<usize>>>,
    /// Cancelled when the grace period is over.
    abort: CancellationToken,
    /// Cancelled when the shutdown begins.
    stop: CancellationToken,
}

/// A listening socket, with a TLS acceptor if its connections are encrypted.
type ServingListener = (Listener, Option<TlsAcceptor>);

impl WorkerThreadsOptions {
    /// How many sockets must be bound for each address.
    #[must_use]
    pub fn sockets_per_address(&self) -> usize {
        match self.strategy {
            AcceptStrategy::ReusePort => self.threads.max(1),
            _ => 1,
        }
    }
}

impl WorkerThreads {
    /// Starts threads that serve on the given sockets. Each address must have been bound
    /// [`WorkerThreadsOptions::sockets_per_address`] times.
    ///
    /// # Errors
    /// When the system has no threads, or no descriptors for them.
    pub fn start(
        bound: Vec<(Vec<Listener>, Option<Arc<ServerConfig>>)>,
        server: &Arc<FileServer>,
        options: &WorkerThreadsOptions,
    ) -> io::Result<Self> {
        let mut workers = Self {
            threads: Vec::new(),
            abort: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        let permits = Arc::new(Semaphore::new(options.max_connections));
        let context = ConnectionContext {
            server: Arc::clone(server),
            permits,
            stop: workers.stop.clone(),
            tasks: TaskTracker::new(),
            connections: TaskTracker::new(),
        };
        let threads = options.threads.max(1);
        let mut per_thread = listeners_per_thread(bound, options.sockets_per_address());
        match options.strategy {
            AcceptStrategy::WorkStealing => {
                let listeners = per_thread.remove(0);
                workers.spawn_accepting(
                    0,
                    move || {
                        Builder::new_multi_thread()
                            .worker_threads(threads)
                            .enable_all()
                            .build()
                    },
                    context,
                    listeners,
                )?;
            }
            AcceptStrategy::Single | AcceptStrategy::ReusePort => {
                for (index, listeners) in per_thread.into_iter().enumerate() {
                    let context = context.for_another_thread();
                    workers.spawn_accepting(index, single_threaded_runtime, context, listeners)?;
                }
            }
            AcceptStrategy::RoundRobin => {
                workers.spawn_round_robin(threads, &context, per_thread.remove(0))?
            }
        }
        Ok(workers)
    }

    /// Cancel this token to begin the shutdown: no more connections are accepted.
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Cancel this token, once the shutdown has begun, to drop the requests that are still
    /// unfinished: for callers that cannot wait for [`shut_down`](Self::shut_down) any longer.
    #[must_use]
    pub fn abort_token(&self) -> CancellationToken {
        self.abort.clone()
    }

    /// Shuts down: waits for unfinished requests and cuts off those that take longer than `grace`.
    /// Returns how many connections were cut off. Blocks.
    ///
    /// # Errors
    /// When a thread could not listen.
    pub fn shut_down(self, grace: Duration) -> io::Result<usize> {
        self.stop.cancel();
        let abort = self.abort.clone();
        let (done, all_ended) = std::sync::mpsc::channel::<()>();
        let timer = std::thread::spawn(move || {
            if all_ended.recv_timeout(grace) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                abort.cancel();
            }
        });
        let mut result = Ok(0);
        for thread in self.threads {
            match thread.join() {
                Ok(ended) => result = result.and_then(|count| Ok(count + ended?)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(done);
        // The timer cannot panic.
        let _ = timer.join();
        result
    }

    fn spawn_accepting(
        &mut self,
        index: usize,
        runtime: impl FnOnce() -> io::Result<Runtime>,
        context: ConnectionContext,
        listeners: Vec<ServingListener>,
    ) -> io::Result<()> {
        let abort = self.abort.clone();
        // Built here and not on the thread, so that a failure is reported before anybody connects.
        let runtime = runtime()?;
        self.spawn_thread(index, move || {
            runtime.block_on(async {
                let mut accepts = tokio::task::JoinSet::new();
                for (listener, tls) in listeners {
                    let dispatch = LocalDispatch(context.clone());
                    accepts.spawn(accept_loop(listener, tls, context.clone(), dispatch));
                }
                let accepted = join_accept_loops(accepts, &abort).await;
                let cut_off = drain_connections(&context, &abort).await;
                accepted.map(|()| cut_off)
            })
        })
    }

    /// Spawns threads that serve, and one that accepts for them.
    fn spawn_round_robin(
        &mut self,
        threads: usize,
        context: &ConnectionContext,
        listeners: Vec<ServingListener>,
    ) -> io::Result<()> {
        let mut senders = Vec::new();
        for index in 0..threads {
            let (sender, mut receiver) = mpsc::channel::<AcceptedConnection>(DISPATCH_QUEUE);
            senders.push(sender);
            let context = context.for_another_thread();
            let abort = self.abort.clone();
            let runtime = single_threaded_runtime()?;
            self.spawn_thread(index, move || {
                runtime.block_on(async {
                    while let Some(connection) = receiver.recv().await {
                        spawn_connection(&context, connection);
                    }
                    Ok(drain_connections(&context, &abort).await)
                })
            })?;
        }
        let (abort, context) = (self.abort.clone(), context.clone());
        let runtime = single_threaded_runtime()?;
        self.spawn_thread(threads, move || {
            runtime.block_on(async {
                let mut accepts = tokio::task::JoinSet::new();
                for (listener, tls) in listeners {
                    let metrics = Arc::clone(&context.server.options.metrics);
                    let dispatch = RoundRobinDispatch::new(senders.clone(), metrics);
                    accepts.spawn(accept_loop(listener, tls, context.clone(), dispatch));
                }
                drop(senders);
                join_accept_loops(accepts, &abort).await.map(|()| 0)
            })
        })
    }

    fn spawn_thread(
        &mut self,
        index: usize,
        body: impl FnOnce() -> io::Result<usize> + Send + 'static,
    ) -> io::Result<()> {
        let thread = std::thread::Builder::new()
            .name(format!("serve-{index}"))
            .spawn(body)?;
        self.threads.push(thread);
        Ok(())
    }
}

/// Distributes the sockets of each address over the threads.
fn listeners_per_thread(
    bound: Vec<(Vec<Listener>, Option<Arc<ServerConfig>>)>,
    threads: usize,
) -> Vec<Vec<ServingListener>> {
    let mut per_thread: Vec<Vec<ServingListener>> = (0..threads).map(|_| Vec::new()).collect();
    for (listeners, tls) in bound {
        for (share, listener) in per_thread.iter_mut().zip(listeners) {
            share.push((listener, tls.clone().map(TlsAcceptor::from)));
        }
    }
    per_thread
}

fn single_threaded_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Waits until all accept loops have ended.
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

/// Waits until all connections have ended. After an abort, counts and returns those that have not.
async fn drain_connections(context: &ConnectionContext, abort: &CancellationToken) -> usize {
    context.tasks.close();
    tokio::select! {
        () = abort.cancelled() => {
            context.server.abort_exchanges();
            let cut_off = context.connections.len();
            let metrics = &context.server.options.metrics;
            (0..cut_off).for_each(|_| metrics.count_fault(ConnectionFault::GraceTimeout));
            cut_off
        }
        () = context.tasks.wait() => 0,
    }
}
