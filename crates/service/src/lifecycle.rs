//! The life of a server: ready, chores, reloads, and a stop. A server takes part as a [`Server`].
//!
//! The server works on threads and tasks of its own. Here one loop waits for signals; files are read on other threads. The first signal to
//! stop lets requests or connections end within the grace time, the second cuts them off.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use crate::chores::Chore;
use crate::listen::ServiceManagerNotifier;
use crate::observe::LineLog;
use crate::signals::{ServerSignal, ServerSignals};

/// The time limit for cutting off requests or connections. A hanging disk is not waited for.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// What a server does in the course of its life.
pub trait Server {
    /// What a reload reads from files.
    type ReloadedFiles: Send + 'static;
    /// What was cut off at the end, or why the server failed.
    type Shutdown;

    /// Prepares a reload. The closure reads the files, and may block.
    fn prepare_reload(&self) -> impl FnOnce() -> Self::ReloadedFiles + Send + 'static;

    /// Uses what a reload has read.
    fn apply_reload(&mut self, files: Self::ReloadedFiles);

    /// Work to repeat while the server runs.
    fn chores(&self) -> Vec<Chore>;

    /// What is unfinished has so long to finish, from now on.
    fn stopping(&self, grace: Duration);

    /// Accepts nothing more and waits for what is unfinished, at most `grace`. Cancel safe.
    fn drain(&mut self, grace: Duration) -> impl Future<Output = Self::Shutdown>;

    /// Cuts off what is unfinished when [`drain`](Self::drain) was cancelled, perhaps before its first poll.
    fn cut_off(&mut self) -> impl Future<Output = Self::Shutdown>;
}

/// Runs a server until signals stop it.
#[derive(Debug)]
pub struct ServerLifecycle {
    /// What stops and reloads the server.
    pub signals: ServerSignals,
    /// Who is told of the state.
    pub notifier: ServiceManagerNotifier,
    /// Reopened before a reload.
    pub log: Option<Arc<LineLog>>,
    /// How long requests or connections may take to finish.
    pub grace: Duration,
    /// Called when the service manager could not be notified, which is no reason to stop.
    pub on_notification_error: fn(&io::Error),
}

/// How a server stopped.
#[derive(Debug)]
pub struct ServerShutdown<T> {
    /// `None`: cutting off took too long.
    pub result: Option<T>,
    /// Whether a second signal ended the wait for what was unfinished.
    pub is_immediate: bool,
}

impl ServerLifecycle {
    /// Runs the server until signals have stopped it. `background` runs with it until it is done.
    pub async fn run<S: Server>(
        &mut self,
        server: &mut S,
        background: impl Future<Output = ()>,
    ) -> ServerShutdown<S::Shutdown> {
        self.check(self.notifier.ready());
        tokio::select! {
            () = self.supervise(server) => {}
            never = async { background.await; std::future::pending().await } => never,
        }
        self.check(self.notifier.stopping());
        self.shut_down(server).await
    }

    /// Awaits the end of something, unless a signal to stop arrives.
    pub async fn unless_stopped<T>(&mut self, end: impl Future<Output = T>) -> Option<T> {
        unless_stopped(end, async || self.signals.next().await).await
    }

    fn check(&self, notified: io::Result<()>) {
        if let Err(error) = notified {
            (self.on_notification_error)(&error);
        }
    }

    /// Does chores and reloads until a signal stops the server.
    async fn supervise<S: Server>(&mut self, server: &mut S) {
        let mut chores: JoinSet<()> = server.chores().into_iter().map(Chore::repeat).collect();
        let mut reload: JoinSet<S::ReloadedFiles> = JoinSet::new();
        // Files that are being read may be older than the signal, so another reload follows.
        let mut is_reload_requested = false;
        loop {
            tokio::select! {
                signal = self.signals.next() => match signal {
                    ServerSignal::Stop | ServerSignal::TerminalClosed => break,
                    ServerSignal::Reload => {
                        if let Some(log) = &self.log {
                            log.reopen();
                        }
                        is_reload_requested = true;
                    }
                },
                Some(files) = reload.join_next() => {
                    server.apply_reload(completed(files));
                    self.check(self.notifier.ready());
                },
                Some(ended) = chores.join_next() => completed(ended),
            }
            if reload.is_empty() && std::mem::take(&mut is_reload_requested) {
                self.check(self.notifier.reloading());
                reload.spawn_blocking(server.prepare_reload());
            }
        }
        // Unfinished work does no harm.
        reload.detach_all();
    }

    async fn shut_down<S: Server>(&mut self, server: &mut S) -> ServerShutdown<S::Shutdown> {
        if !self.grace.is_zero() {
            server.stopping(self.grace);
        }
        let grace = self.grace;
        match self.unless_stopped(server.drain(grace)).await {
            Some(result) => ServerShutdown {
                result: Some(result),
                is_immediate: false,
            },
            None => ServerShutdown {
                result: tokio::time::timeout(ABORT_TIMEOUT, server.cut_off())
                    .await
                    .ok(),
                is_immediate: true,
            },
        }
    }
}

/// The result of a task. None is aborted, so one without a result has panicked: the bug is passed on.
fn completed<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Awaits the end of something, unless a signal to stop arrives. Other signals do not restart it or extend its time.
async fn unless_stopped<T>(
    end: impl Future<Output = T>,
    mut next_signal: impl AsyncFnMut() -> ServerSignal,
) -> Option<T> {
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            biased;
            ended = &mut end => return Some(ended),
            signal = next_signal() => if signal == ServerSignal::Stop { return None },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::future::{pending, poll_fn};
    use std::task::Poll;

    use super::*;

    /// The result of something that ends after so many polls while signals arrive.
    fn result(polls: usize, signals: &[ServerSignal]) -> Option<&'static str> {
        let left = Cell::new(polls);
        let end = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            left.set(left.get().saturating_sub(1));
            match left.get() {
                0 => Poll::Ready("ended"),
                _ => Poll::Pending,
            }
        });
        let mut signals = VecDeque::from(signals.to_vec());
        let next_signal = async || match signals.pop_front() {
            Some(signal) => signal,
            None => pending().await,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(unless_stopped(end, next_signal))
    }

    #[test]
    fn a_hang_up_does_not_extend_the_grace_and_a_second_signal_ends_it() {
        assert_eq!(result(4, &[ServerSignal::Reload; 3]), Some("ended"));
        assert_eq!(result(4, &[ServerSignal::Reload, ServerSignal::Stop]), None);
        // A terminal that closes may send two.
        assert_eq!(result(4, &[ServerSignal::TerminalClosed; 2]), Some("ended"));
        assert_eq!(result(4, &[]), Some("ended"));
    }
}
