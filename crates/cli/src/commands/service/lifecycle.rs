//! The life of a server process: start, ready, reload, stop. A server takes part as a [`Server`].
//!
//! The server works on threads and tasks of its own. Here one loop waits for signals; files are read and messages printed on other threads.
//! The first signal to stop lets requests or connections end within the grace time, the second cuts them off.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_service::listen::ServiceManagerNotifier;
use haul_service::observe::{LineLog, MetricSource, ProcessMetrics};
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::task::{JoinError, JoinSet};

use super::admin::AdminTask;
use super::chores::Chore;
use super::command_error::CommandError;
use super::log;
use crate::exit::ExitReason;
use crate::message::{self, finish_printing, print_in_background, warning_text};
use crate::open_file_limit;
use crate::signals::{ServerSignal, ServerSignals};

/// The time limit for cutting off requests or connections. A hanging disk is not waited for.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time limit for the last lines of the log, and for the last messages. Nobody may read either.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(2);

/// The same after a second signal.
const LAST_LINES_TIMEOUT_AT_ONCE: Duration = Duration::from_secs(1);

/// What a server does in the course of its life.
pub(crate) trait Server {
    /// What a reload reads from files.
    type ReloadedFiles: Send + 'static;

    /// Prepares a reload. The closure reads the files, and may block.
    fn prepare_reload(&self) -> impl FnOnce() -> Self::ReloadedFiles + Send + 'static;

    /// Uses what a reload has read, and returns the messages about it.
    fn apply_reload(&mut self, files: Self::ReloadedFiles) -> Vec<String>;

    /// Work to repeat while the server runs.
    fn chores(&self) -> Vec<Chore>;

    /// What is unfinished, as the beginning of a sentence: `3 connections have`, which `10 s to finish` follows.
    fn unfinished(&self) -> Option<String>;

    /// Accepts nothing more and waits for what is unfinished, at most `grace`. Returns what was cut off then, again as the beginning of a
    /// sentence: `3 connections were`. Cancel safe.
    async fn drain(&mut self, grace: Duration) -> Result<Option<String>, CommandError>;

    /// Cuts off what is unfinished when [`drain`](Self::drain) was cancelled, perhaps before its first poll, and returns what that was.
    async fn cut_off(&mut self) -> Result<Option<String>, CommandError>;
}

/// The runtime of a server process, and its signals.
#[derive(Debug)]
pub(crate) struct ServerRuntime {
    runtime: Runtime,
    signals: ServerSignals,
    options: ServerRuntimeOptions,
}

/// The settings that all servers have.
#[derive(Debug)]
pub(crate) struct ServerRuntimeOptions {
    pub(crate) log: Option<Arc<LineLog>>,
    /// How long requests or connections may take to finish.
    pub(crate) grace: Duration,
    /// Print errors only.
    pub(crate) is_quiet: bool,
}

/// How the server stopped.
struct ServerShutdown {
    /// What was cut off, or why the server failed.
    result: Result<Option<String>, CommandError>,
    /// Whether a second signal ended the wait for what was unfinished.
    is_immediate: bool,
}

impl ServerRuntime {
    /// Starts the runtime, and receives signals from now on.
    pub(crate) fn start(
        runtime: &mut Builder,
        options: ServerRuntimeOptions,
    ) -> Result<Self, CommandError> {
        let runtime = start_runtime(runtime)?;
        let entered = runtime.enter();
        let signals = ServerSignals::listen()
            .map_err(|error| CommandError::local(format!("cannot receive signals: {error}")))?;
        drop(entered);
        Ok(Self {
            runtime,
            signals,
            options,
        })
    }

    /// Sockets need the runtime when they are made.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// The metrics of the server, the process and the log.
    pub(crate) fn metrics(&self, server: Arc<dyn MetricSource>) -> Vec<Arc<dyn MetricSource>> {
        let mut sources = vec![
            server,
            Arc::new(ProcessMetrics::new(
                SystemTime::now(),
                env!("CARGO_PKG_VERSION"),
            )),
        ];
        let log = self.options.log.clone();
        sources.extend(log.map(|log| log as Arc<dyn MetricSource>));
        sources
    }

    /// Runs the server and its admin endpoints until signals stop it. `background` runs with it until it is done.
    pub(crate) fn run(
        mut self,
        mut server: impl Server,
        admin: Vec<AdminTask>,
        background: impl Future<Output = ()>,
    ) -> ExitReason {
        let notifier = service_manager();
        let exit = self.runtime.block_on(async {
            warn_if_not_notified(notifier.ready());
            tokio::select! {
                () = self.options.supervise(&mut server, &mut self.signals, &notifier) => {}
                never = async { background.await; std::future::pending().await } => never,
            }
            warn_if_not_notified(notifier.stopping());
            let stopped = self.options.shut_down(&mut server, &mut self.signals).await;
            // Removes socket files, also those of endpoints.
            drop(server);
            for task in admin {
                task.end().await;
            }
            self.options.report(&stopped, &mut self.signals).await
        });
        // A hanging disk or name lookup is not waited for.
        self.runtime.shutdown_background();
        exit
    }
}

/// Starts a runtime, if there are file descriptors to run with.
pub(crate) fn start_runtime(runtime: &mut Builder) -> Result<Runtime, CommandError> {
    open_file_limit::check_free_descriptors()
        .and_then(|()| runtime.enable_all().build())
        .map_err(|error| CommandError::local(format!("cannot start: {error}")))
}

/// The result of a task. None is aborted, so one without a result has panicked: the bug is passed on.
fn completed<T>(result: Result<T, JoinError>) -> T {
    result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

impl ServerRuntimeOptions {
    /// Does chores and reloads until a signal stops the server.
    async fn supervise<S: Server>(
        &self,
        server: &mut S,
        signals: &mut ServerSignals,
        notifier: &ServiceManagerNotifier,
    ) {
        let mut chores: JoinSet<()> = server.chores().into_iter().map(Chore::repeat).collect();
        let mut reload: JoinSet<S::ReloadedFiles> = JoinSet::new();
        // Files that are being read may be older than the signal, so another reload follows.
        let mut is_reload_requested = false;
        loop {
            tokio::select! {
                signal = signals.next() => match signal {
                    ServerSignal::Stop | ServerSignal::TerminalClosed => break,
                    ServerSignal::Reload => {
                        if let Some(log) = &self.log {
                            log.reopen();
                        }
                        is_reload_requested = true;
                    }
                },
                Some(files) = reload.join_next() => {
                    let lines = server.apply_reload(completed(files));
                    warn_if_not_notified(notifier.ready());
                    lines.into_iter().for_each(print_in_background);
                },
                Some(ended) = chores.join_next() => completed(ended),
            }
            if reload.is_empty() && std::mem::take(&mut is_reload_requested) {
                warn_if_not_notified(notifier.reloading());
                reload.spawn_blocking(server.prepare_reload());
            }
        }
        // Unfinished work does no harm.
        reload.detach_all();
    }

    async fn shut_down(
        &self,
        server: &mut impl Server,
        signals: &mut ServerSignals,
    ) -> ServerShutdown {
        if !self.is_quiet
            && !self.grace.is_zero()
            && let Some(unfinished) = server.unfinished()
        {
            let grace = seconds(self.grace);
            print_in_background(format!(
                "haul: stopping; {unfinished} {grace} to finish; a second signal stops at once"
            ));
        }
        let mut next_signal = async || signals.next().await;
        let drained = unless_stopped(server.drain(self.grace), &mut next_signal).await;
        match drained {
            Some(result) => ServerShutdown {
                result,
                is_immediate: false,
            },
            None => ServerShutdown {
                result: tokio::time::timeout(ABORT_TIMEOUT, server.cut_off())
                    .await
                    .unwrap_or(Ok(None)),
                is_immediate: true,
            },
        }
    }

    /// Closes the log and prints the last message, after the last lines of the log. Returns how the program ends.
    async fn report(&self, stopped: &ServerShutdown, signals: &mut ServerSignals) -> ExitReason {
        let (exit, message) = self.outcome(stopped);
        let limit = if stopped.is_immediate {
            LAST_LINES_TIMEOUT_AT_ONCE
        } else {
            LAST_LINES_TIMEOUT
        };
        let last = async {
            if let Some(log) = &self.log {
                log::close(log, limit).await;
            }
            // An error means that nobody reads the messages.
            let _ = tokio::time::timeout(limit, finish_printing(message)).await;
        };
        let mut next_signal = async || signals.next().await;
        match unless_stopped(last, &mut next_signal).await {
            Some(()) => exit,
            None => ExitReason::Interrupted,
        }
    }

    /// How the program ends, and the last message.
    fn outcome(&self, stopped: &ServerShutdown) -> (ExitReason, Option<String>) {
        let news = |text: String| (!self.is_quiet).then(|| format!("haul: {text}"));
        match &stopped.result {
            Err(error) if stopped.is_immediate => (ExitReason::Interrupted, Some(error.printed())),
            Err(error) => (error.exit_reason(), Some(error.printed())),
            Ok(None) if stopped.is_immediate => {
                (ExitReason::Interrupted, news("stopping at once".to_owned()))
            }
            Ok(Some(cut)) if stopped.is_immediate => (
                ExitReason::Interrupted,
                news(format!("stopping at once; {cut} cut off")),
            ),
            Ok(None) => (ExitReason::Done, None),
            // Nobody wanted to wait.
            Ok(Some(cut)) if self.grace.is_zero() => {
                (ExitReason::Done, news(format!("stopped; {cut} cut off")))
            }
            Ok(Some(cut)) => {
                let text = format!("{cut} cut off after {}", seconds(self.grace));
                let hint = "--grace TIME allows more time";
                (
                    ExitReason::SomeFailed,
                    Some(message::error_text(&text, Some(hint))),
                )
            }
        }
    }
}

/// How many connections were cut off, as [`Server::drain`] returns it.
pub(crate) fn cut_off_connections(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 connection was".to_owned()),
        _ => Some(format!("{count} connections were")),
    }
}

/// Awaits the end of something, unless a signal to stop arrives. Other signals do not restart it or extend its time.
async fn unless_stopped<T>(
    end: impl Future<Output = T>,
    next_signal: &mut impl AsyncFnMut() -> ServerSignal,
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

/// The service manager that started this process, such as systemd, if it wants to be notified.
fn service_manager() -> ServiceManagerNotifier {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    ServiceManagerNotifier::connect(socket.as_deref()).unwrap_or_else(|error| {
        warn_if_not_notified(Err(error));
        ServiceManagerNotifier::none()
    })
}

/// A failed notification is a warning: it is no reason to stop.
fn warn_if_not_notified(result: io::Result<()>) {
    if let Err(error) = result {
        print_in_background(warning_text(&format!(
            "cannot notify the service manager: {error}"
        )));
    }
}

/// `10 s`, `1.5 s`.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
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
        let mut next_signal = async || match signals.pop_front() {
            Some(signal) => signal,
            None => pending().await,
        };
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(unless_stopped(end, &mut next_signal))
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
