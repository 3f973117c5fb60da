//! `haul tunnel`: listens, prints the listeners, and forwards connections until a signal.
//!
//! [`listeners`] says what they are and why they cannot be opened, [`banner`] makes the start message, [`server`] is the tunnel while it runs; [`stdio`]
//! connects standard streams instead of all that. A running tunnel serves its status to its own user at a socket ([`status_socket`]), which
//! [`status`] reads. What all servers share is in [`service`](super::service).

mod banner;
mod listeners;
mod proxy_check;
mod server;
mod status;
mod status_query;
mod status_socket;
mod status_table;
mod stdio;

use std::process::ExitCode;
use std::sync::Arc;

use haul_service::listen::InheritedSockets;
use haul_service::observe::{AdminEndpoint, LineLog};
use haul_tunnel::{TunnelEngine, TunnelEngineOptions, TunnelListenerSet};
use tokio::runtime::Builder;

use super::service::admin::AdminAddresses;
use super::service::command_error::CommandError;
use super::service::lifecycle::{ServerRuntime, ServerRuntimeOptions, start_runtime};
use super::service::log;
use crate::args::{Sourced, TunnelArgs, TunnelCommand};
use crate::exit::ExitReason;
use crate::settings::{ProcessSettings, PromptedPasswords, TunnelSettings};
use server::TunnelServer;

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
    let runtime = start_runtime(&mut runtime(1))?;
    let exit = runtime.block_on(proxy_check::check(&settings));
    runtime.shutdown_background();
    exit
}

fn serve(args: &TunnelArgs) -> Result<ExitReason, CommandError> {
    // Before signals are handled: a signal at a password prompt ends the program as usual.
    let passwords = Arc::new(PromptedPasswords::default());
    let settings = TunnelSettings::resolve(args, &passwords)?;
    passwords.silence();
    let process = &settings.process;
    if let Some(shortage) = process.max_connections.shortage() {
        return Err(CommandError::local(shortage).with_hint("ulimit -n 1024 allows some hundreds"));
    }
    let log = open_log(process)?;
    let options = ServerRuntimeOptions {
        log: log.clone(),
        grace: process.grace,
        is_quiet: process.quiet,
    };
    let server = ServerRuntime::start(&mut runtime(process.options.threads), options)?;
    let entered = server.enter();
    let engine = TunnelEngine::new(TunnelEngineOptions {
        max_connections: process.max_connections.connections,
        max_connections_set_by: process.max_connections.set_by.as_str().into(),
        log: log.map(|log| (log, process.options.log_format)),
    });
    let mut listeners = TunnelListenerSet::new(engine.clone(), InheritedSockets::take()?);
    listeners::apply(&mut listeners, &settings.tunnels)?;
    let others: Vec<_> = listeners.addresses().flatten().cloned().collect();
    let admin = AdminAddresses::open(process.options.admin.as_ref(), "SPEC", &others)?;
    listeners.set_other_addresses(admin.addresses());
    let mut banner = banner::banner(&settings, &listeners, &admin.addresses());
    let metrics = server.metrics(engine.metrics());
    let endpoint =
        || AdminEndpoint::new(metrics.clone(), engine.closing()).page(engine.status_page());
    let mut admin = vec![admin.serve(endpoint())?];
    match status_socket::open(endpoint()) {
        Ok(status_task) => admin.push(status_task),
        Err(error) => banner.warnings.push(format!(
            "haul tunnel status cannot find this tunnel: {error}"
        )),
    }
    if !process.quiet {
        banner.print();
    }
    drop(entered);
    let running = TunnelServer {
        listeners,
        engine,
        args: Arc::new(args.clone()),
        passwords,
        process: process.clone(),
    };
    let try_proxies = async {
        if !process.quiet {
            proxy_check::warn_of_failing_proxies(&settings.tunnels).await;
        }
    };
    Ok(server.run(running, admin, try_proxies))
}

/// Opens the connection log, if there is one.
fn open_log(settings: &ProcessSettings) -> Result<Option<Arc<LineLog>>, CommandError> {
    let Some(Sourced { value, source }) = &settings.log else {
        return Ok(None);
    };
    let opened = log::open(LOG_NAME, value, settings.quiet);
    opened.map(Some).map_err(|error| error.at_source(source))
}

/// Multi-threaded even with one thread: connections and the loop that waits for signals then do not delay each other.
fn runtime(threads: usize) -> Builder {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(threads);
    runtime
}
