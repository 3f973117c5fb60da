//! `haul tunnel`: listens, tells where that leads, and attends to the engine until it is asked to end.
//!
//! The pieces are in files of their own: [`doors`] listens and listens again, [`change`] decides what becomes of listeners when settings are
//! read again, [`banner`] tells, [`run`] waits for signals, [`ending`] ends; [`stdio`] joins standard streams in place of all that.
//! A running tunnel answers its own user at a socket ([`answering`]), which [`status`] asks. What any server has is in
//! [`service`](super::service).

mod banner;
mod listener_changes;
mod listeners;
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
use crate::args::{TunnelArgs, TunnelCommand};
use crate::exit::ExitReason;
use crate::message::{print_line, sanitize, warning_text};
use crate::open_file_limit;
use crate::settings::{ProcessSettings, PromptedPasswords, Sourced, TunnelSettings};
use crate::signals::ServerSignals;
use banner::TunnelBanner;
use listeners::TunnelListenerSet;
use supervisor::TunnelSupervisor;

/// What the log is called.
const LOG_NAME: &str = "connection log";

/// Relays until a signal; or does what else it was asked for.
pub(crate) fn run(args: &TunnelArgs) -> ExitCode {
    let done = match (&args.also, &args.stdio) {
        (Some(TunnelCommand::Status(asked)), _) => status::run(asked),
        (None, Some(target)) => stdio::run(args, target),
        (None, None) => serve(args),
    };
    done.unwrap_or_else(|trouble| trouble.report()).into()
}

fn serve(args: &TunnelArgs) -> Result<ExitReason, CommandError> {
    // Before signals are taken over: a question for a password ends by them as ever.
    let passwords = Arc::new(PromptedPasswords::default());
    let settings = TunnelSettings::resolve(args, &passwords)?;
    passwords.silence();
    let running = settings.running.clone();
    if let Some(shortage) = running.max_connections.shortage() {
        return Err(CommandError::local(shortage).with_hint("ulimit -n 1024 allows some hundreds"));
    }
    let log = open_log(&running)?;
    let runtime = runtime(running.threads)?;
    let entered = runtime.enter();
    let mut signals = ServerSignals::listen()
        .map_err(|error| CommandError::local(format!("cannot listen to signals: {error}")))?;
    let engine = TunnelEngine::new(TunnelEngineOptions {
        max_connections: running.max_connections.connections(),
        max_connections_set_by: running.max_connections.by().into(),
        log: log.clone().map(|log| (log, running.log_format)),
    });
    let mut doors = TunnelListenerSet::new(engine.clone(), InheritedSockets::take()?);
    doors.open(&settings.tunnels)?;
    let others = ("SPEC", &doors.addresses()[..]);
    let endpoint = AdminAddresses::open(running.admin.as_ref(), others)?;
    doors.set_other_addresses(endpoint.addresses());
    TunnelBanner::new(&doors, endpoint.addresses()).print(&settings);
    let mut sources: Vec<Arc<dyn MetricSource>> =
        vec![engine.metrics(), Arc::new(admin::process_metrics())];
    sources.extend(log.clone().map(|log| log as Arc<dyn MetricSource>));
    let admin = || AdminEndpoint::new(sources.clone(), engine.closing()).page(engine.status_page());
    let endpoint = endpoint.serve(admin())?;
    let own = status_socket::open(admin()).unwrap_or_else(|why| {
        if !running.quiet {
            let why = format!("haul tunnel status will not find this one: {why}");
            print_line(&warning_text(&sanitize(&why)));
        }
        None
    });
    let notify = service_manager_notifier();
    drop(entered);
    let exit = runtime.block_on(async {
        warn_if_not_notified(notify.ready());
        let attendant = TunnelSupervisor::new(
            (doors, engine.clone()),
            (args, passwords),
            log.clone(),
            &notify,
        );
        let doors = attendant.run(&settings.running, &mut signals).await;
        warn_if_not_notified(notify.stopping());
        let exit = shutdown::shut_down((&engine, log.as_deref()), &running, &mut signals).await;
        drop(doors);
        endpoint.end().await;
        if let Some(own) = own {
            own.end().await;
        }
        exit
    });
    // A name that is looked up, or a file that is read again, is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

/// Opens the connection log, if there is one.
fn open_log(settings: &ProcessSettings) -> Result<Option<Arc<LineLog>>, CommandError> {
    let Some(Sourced { value, by }) = &settings.log else {
        return Ok(None);
    };
    let opened = log::open(LOG_NAME, value, settings.quiet);
    opened.map(Some).map_err(|error| error.at_source(by))
}

fn runtime(threads: usize) -> Result<Runtime, CommandError> {
    // Also for one: names that are looked up, and words to a terminal that stands still, hold up the thread that attends, and not it.
    let runtime = open_file_limit::check_free_descriptors().and_then(|()| {
        Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
    });
    runtime.map_err(|error| CommandError::local(format!("cannot start: {error}")))
}
