//! `haul tunnel`: listens, prints the listeners, and forwards connections until a signal.
//!
//! [`listeners`] opens listeners and reloads them, [`banner`] prints, [`supervisor`] handles signals, [`shutdown`] ends; [`stdio`] connects
//! standard streams instead of all that. A running tunnel serves its status to its own user at a socket ([`status_socket`]), which
//! [`status`] reads. What all servers share is in [`service`](super::service).

mod banner;
mod listeners;
mod proxy_check;
mod shutdown;
mod status;
mod status_query;
mod status_socket;
mod status_table;
mod stdio;
mod supervisor;

use std::process::ExitCode;
use std::sync::Arc;

use haul_service::listen::InheritedSockets;
use haul_service::observe::{AdminEndpoint, LineLog, MetricSource};
use haul_tunnel::{TunnelEngine, TunnelEngineOptions};
use tokio::runtime::{Builder, Runtime};

use super::service::admin::{self, AdminAddresses};
use super::service::command_error::CommandError;
use super::service::log;
use super::service::service_manager::{service_manager_notifier, warn_if_not_notified};
use crate::args::{Sourced, TunnelArgs, TunnelCommand};
use crate::exit::ExitReason;
use crate::message::{print_line, sanitize, warning_text};
use crate::open_file_limit;
use crate::settings::{ProcessSettings, PromptedPasswords, TunnelSettings};
use crate::signals::ServerSignals;
use banner::TunnelBanner;
use listeners::TunnelListenerSet;
use supervisor::TunnelSupervisor;

const LOG_NAME: &str = "connection log";

/// Runs `haul tunnel`, `--stdio` or `status`.
pub(crate) fn run(args: &TunnelArgs) -> ExitCode {
    let result = match (&args.command, &args.stdio) {
        (Some(TunnelCommand::Status(status_args)), _) => status::run(status_args),
        (None, Some(target)) => stdio::run(args, target),
        (None, None) if args.check => check(args),
        (None, None) => serve(args),
    };
    result.unwrap_or_else(|error| error.report()).into()
}

/// Tries the tunnels without listening.
fn check(args: &TunnelArgs) -> Result<ExitReason, CommandError> {
    let settings = TunnelSettings::resolve(args, &PromptedPasswords::default())?;
    let runtime = runtime(1)?;
    let exit = runtime.block_on(proxy_check::check(&settings));
    runtime.shutdown_background();
    exit
}

fn serve(args: &TunnelArgs) -> Result<ExitReason, CommandError> {
    // Before signals are handled: a signal at a password prompt ends the program as usual.
    let passwords = Arc::new(PromptedPasswords::default());
    let settings = TunnelSettings::resolve(args, &passwords)?;
    passwords.silence();
    let process = settings.process.clone();
    if let Some(shortage) = process.max_connections.shortage() {
        return Err(CommandError::local(shortage).with_hint("ulimit -n 1024 allows some hundreds"));
    }
    let log = open_log(&process)?;
    let runtime = runtime(process.options.threads)?;
    let entered = runtime.enter();
    let mut signals = ServerSignals::listen()
        .map_err(|error| CommandError::local(format!("cannot receive signals: {error}")))?;
    let engine = TunnelEngine::new(TunnelEngineOptions {
        max_connections: process.max_connections.connections,
        max_connections_set_by: process.max_connections.reason_text().into(),
        log: log.clone().map(|log| (log, process.options.log_format)),
    });
    let mut listeners = TunnelListenerSet::new(engine.clone(), InheritedSockets::take()?);
    listeners.apply(&settings.tunnels)?;
    let others = ("SPEC", &listeners.addresses()[..]);
    let endpoint = AdminAddresses::open(process.options.admin.as_ref(), others)?;
    listeners.set_other_addresses(endpoint.addresses());
    TunnelBanner::new(&listeners, endpoint.addresses()).print(&settings);
    let mut sources: Vec<Arc<dyn MetricSource>> =
        vec![engine.metrics(), Arc::new(admin::process_metrics())];
    sources.extend(log.clone().map(|log| log as Arc<dyn MetricSource>));
    let admin = || AdminEndpoint::new(sources.clone(), engine.closing()).page(engine.status_page());
    let endpoint = endpoint.serve(admin())?;
    let status_task = status_socket::open(admin());
    if let (Err(error), false) = (&status_task, process.quiet) {
        let warning = format!("haul tunnel status cannot find this tunnel: {error}");
        print_line(&warning_text(&sanitize(&warning)));
    }
    let notifier = service_manager_notifier();
    drop(entered);
    let exit = runtime.block_on(async {
        warn_if_not_notified(notifier.ready());
        let supervisor = TunnelSupervisor::new(
            (listeners, engine.clone()),
            (args, passwords),
            log.clone(),
            &notifier,
        );
        let listeners = tokio::select! {
            listeners = supervisor.run(&process, &mut signals) => listeners,
            never = try_proxies(&settings) => never,
        };
        warn_if_not_notified(notifier.stopping());
        let exit = shutdown::shut_down((&engine, log.as_deref()), &process, &mut signals).await;
        drop(listeners);
        endpoint.end().await;
        if let Ok(status_task) = status_task {
            status_task.end().await;
        }
        exit
    });
    // A name lookup or a reload in progress is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

/// Tries the proxies once, unless -q is given. Never returns: what it found out concerns only its messages.
async fn try_proxies<T>(settings: &TunnelSettings) -> T {
    if !settings.process.quiet {
        proxy_check::warn_of_failing_proxies(&settings.tunnels).await;
    }
    std::future::pending().await
}

/// Opens the connection log, if there is one.
fn open_log(settings: &ProcessSettings) -> Result<Option<Arc<LineLog>>, CommandError> {
    let Some(Sourced { value, source }) = &settings.log else {
        return Ok(None);
    };
    let opened = log::open(LOG_NAME, value, settings.quiet);
    opened.map(Some).map_err(|error| error.at_source(source))
}

fn runtime(threads: usize) -> Result<Runtime, CommandError> {
    // Multi-threaded even with one thread: name lookups, and messages to a blocked terminal, then do not hold up the supervisor.
    let runtime = open_file_limit::check_free_descriptors().and_then(|()| {
        Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
    });
    runtime.map_err(|error| CommandError::local(format!("cannot start: {error}")))
}
