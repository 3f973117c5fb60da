//! `haul tunnel`: listens, tells where that leads, and attends to the engine until it is asked to end.
//!
//! The pieces are in files of their own: [`doors`] listens and listens again, [`change`] decides what becomes of listeners when settings are
//! read again, [`banner`] tells, [`attend`] waits for signals, [`ending`] ends; [`stdio`] joins standard streams in place of all that.
//! A running tunnel answers its own user at a socket ([`answering`]), which [`status`] asks. What any server has is in
//! [`service`](super::service).

mod answering;
mod ask;
mod attend;
mod banner;
mod change;
mod doors;
mod ending;
mod status;
mod stdio;
mod table;

use std::process::ExitCode;
use std::sync::Arc;

use haul_service::listen::InheritedSockets;
use haul_service::observe::{AdminEndpoint, MetricSource};
use haul_tunnel::{TunnelEngine, TunnelEngineOptions};
use tokio::runtime::{Builder, Runtime};

use super::service::endpoint::{self, AdminAddresses};
use super::service::log;
use super::service::manager::{notify, told};
use super::service::trouble::CommandError;
use crate::args::{TunnelArgs, TunnelCommand};
use crate::exit::ExitReason;
use crate::message::{print_line, sanitize, warning_text};
use crate::open_file_limit;
use crate::settings::{PromptedPasswords, Sourced, TunnelSettings};
use crate::signals::ServerSignals;
use attend::TunnelSupervisor;
use banner::TunnelBanner;
use doors::TunnelListenerSet;

/// What the log is called.
const LOG: &str = "connection log";

/// Relays until a signal; or does what else it was asked for.
pub(crate) fn run(args: &TunnelArgs) -> ExitCode {
    let done = match (&args.also, &args.stdio) {
        (Some(TunnelCommand::Status(asked)), _) => status::run(asked),
        (None, Some(target)) => stdio::run(args, target),
        (None, None) => begin(args),
    };
    done.unwrap_or_else(|trouble| trouble.tell()).into()
}

fn begin(args: &TunnelArgs) -> Result<ExitReason, CommandError> {
    // Before signals are taken over: a question for a password ends by them as ever.
    let passwords = Arc::new(PromptedPasswords::default());
    let settings = TunnelSettings::resolve(args, &passwords)?;
    passwords.silence();
    let running = settings.running.clone();
    if let Some(shortage) = running.max_connections.shortage() {
        return Err(CommandError::local(shortage).hint("ulimit -n 1024 allows some hundreds"));
    }
    let open_log = |said: &Sourced<_>| {
        log::open(LOG, &said.value, running.quiet).map_err(|trouble| trouble.of(&said.by))
    };
    let log = running.log.as_ref().map(open_log).transpose()?;
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
    let others = ("SPEC", &doors.locals()[..]);
    let endpoint = AdminAddresses::open(running.admin.as_ref(), others)?;
    doors.beside(endpoint.locals());
    TunnelBanner::of(&doors, endpoint.locals()).show(&settings);
    let mut sources: Vec<Arc<dyn MetricSource>> =
        vec![engine.metrics(), Arc::new(endpoint::process())];
    sources.extend(log.clone().map(|log| log as Arc<dyn MetricSource>));
    let admin = || AdminEndpoint::new(sources.clone(), engine.closing()).page(engine.status_page());
    let endpoint = endpoint.serve(admin())?;
    let own = answering::open(admin()).unwrap_or_else(|why| {
        if !running.quiet {
            let why = format!("haul tunnel status will not find this one: {why}");
            print_line(&warning_text(&sanitize(&why)));
        }
        None
    });
    let notify = notify();
    drop(entered);
    let exit = runtime.block_on(async {
        told(notify.ready());
        let attendant = TunnelSupervisor::new(
            (doors, engine.clone()),
            (args, passwords),
            log.clone(),
            &notify,
        );
        let doors = attendant.attend(&settings.running, &mut signals).await;
        told(notify.stopping());
        let exit = ending::end((&engine, log.as_deref()), &running, &mut signals).await;
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
