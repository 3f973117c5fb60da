//! The process of a server: its runtime, its messages when it stops, and its exit code. [`ServerLifecycle`] runs the server.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_service::listen::ServiceManagerNotifier;
use haul_service::observe::{LineLog, MetricSource, ProcessMetrics};
use haul_service::{Server, ServerLifecycle, ServerShutdown, ServerSignals};
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};

use super::admin::AdminTask;
use super::command_error::CommandError;
use super::log;
use crate::exit::ExitReason;
use crate::message::{self, finish_printing, print_in_background, warning_text};
use crate::open_file_limit;

/// The time limit for the last lines of the log, and for the last messages. Nobody may read either.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(2);

/// The same after a second signal.
const LAST_LINES_TIMEOUT_AT_ONCE: Duration = Duration::from_secs(1);

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

/// What was cut off, as the beginning of a sentence: `3 connections were`; or why the server failed.
pub(crate) type ShutdownResult = Result<Option<String>, CommandError>;

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
        self,
        mut server: impl Server<Shutdown = ShutdownResult>,
        admin: Vec<AdminTask>,
        background: impl Future<Output = ()>,
    ) -> ExitReason {
        let mut lifecycle = ServerLifecycle {
            signals: self.signals,
            notifier: service_manager(),
            log: self.options.log.clone(),
            grace: self.options.grace,
            on_notification_error: warn_of_notification_error,
        };
        let exit = self.runtime.block_on(async {
            let stopped = lifecycle.run(&mut server, background).await;
            // Removes socket files, also those of endpoints.
            drop(server);
            for task in admin {
                task.end().await;
            }
            self.options.report(&stopped, &mut lifecycle).await
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

impl ServerRuntimeOptions {
    /// Closes the log and prints the last message, after the last lines of the log. Returns how the program ends.
    async fn report(
        &self,
        stopped: &ServerShutdown<ShutdownResult>,
        lifecycle: &mut ServerLifecycle,
    ) -> ExitReason {
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
        match lifecycle.unless_stopped(last).await {
            Some(()) => exit,
            None => ExitReason::Interrupted,
        }
    }

    /// How the program ends, and the last message.
    fn outcome(&self, stopped: &ServerShutdown<ShutdownResult>) -> (ExitReason, Option<String>) {
        let news = |text: String| (!self.is_quiet).then(|| format!("haul: {text}"));
        match stopped.result.as_ref().unwrap_or(&Ok(None)) {
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

/// How many connections were cut off, as the result of a shutdown says it.
pub(crate) fn cut_off_connections(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 connection was".to_owned()),
        _ => Some(format!("{count} connections were")),
    }
}

/// Prints how long what is unfinished has. It is the beginning of a sentence: `3 connections have`.
pub(crate) fn print_grace(unfinished: &str, grace: Duration) {
    let grace = seconds(grace);
    print_in_background(format!(
        "haul: stopping; {unfinished} {grace} to finish; a second signal stops at once"
    ));
}

/// The service manager that started this process, such as systemd, if it wants to be notified.
fn service_manager() -> ServiceManagerNotifier {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    ServiceManagerNotifier::connect(socket.as_deref()).unwrap_or_else(|error| {
        warn_of_notification_error(&error);
        ServiceManagerNotifier::none()
    })
}

/// Warns of a failed notification, which does not stop the service.
fn warn_of_notification_error(error: &io::Error) {
    print_in_background(warning_text(&format!(
        "cannot notify the service manager: {error}"
    )));
}

/// `10 s`, `1.5 s`.
fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
