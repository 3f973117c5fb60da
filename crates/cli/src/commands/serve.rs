//! `haul serve`: opens the store, listens, prints the addresses, and runs until a signal.
//!
//! [`store`] opens the store, [`listeners`] listens, [`banner`] makes the start message, [`server`] is the server while it runs; what all
//! servers share is in [`service`](super::service). Requests run on worker threads; the runtime here does the rest.

mod banner;
mod listeners;
mod server;
mod store;

use std::process::ExitCode;
use std::sync::Arc;

use haul_serve::observe::AccessLog;
use haul_serve::store::DiskThreads;
use haul_serve::{FileServer, FileServerOptions};
use haul_service::observe::{AdminEndpoint, MetricSource};
use tokio::runtime::Builder;

use super::service::admin::AdminAddresses;
use super::service::command_error::CommandError;
use super::service::lifecycle::{ServerRuntime, ServerRuntimeOptions};
use super::service::log;
use crate::args::ServeArgs;
use crate::exit::ExitReason;
use crate::settings::ServeSettings;
use listeners::ServeListeners;
use server::RunningFileServer;

pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    serve(args).unwrap_or_else(|error| error.report()).into()
}

fn serve(args: &ServeArgs) -> Result<ExitReason, CommandError> {
    let settings = ServeSettings::resolve(args)?;
    // Before signals are handled: counting for a quota may take long, and can be interrupted as usual.
    let store = store::open(&settings.folder, &settings.store)?;
    let open_log = |options| log::open(AccessLog::NAME, options, settings.quiet);
    let log = settings.log.as_ref().map(open_log).transpose()?;
    let options = ServerRuntimeOptions {
        log: log.clone(),
        grace: settings.grace,
        is_quiet: settings.quiet,
    };
    // One thread for signals and chores.
    let mut runtime = Builder::new_multi_thread();
    runtime
        .worker_threads(1)
        .max_blocking_threads(DiskThreads::THREADS);
    let process = ServerRuntime::start(&mut runtime, options)?;
    let entered = process.enter();
    let listeners = ServeListeners::open(&settings)?;
    let server = FileServerOptions {
        access_log: log.map(|log| AccessLog::new(log, settings.log_format)),
        allowed_hosts: listeners.server_names(&settings),
        ..settings.server.clone()
    };
    let metrics = process.metrics(Arc::clone(&server.metrics) as Arc<dyn MetricSource>);
    let disk = DiskThreads::new(process.handle().clone());
    let server = Arc::new(FileServer::new(Arc::clone(&store), disk, server));
    let admin = AdminAddresses::open(settings.admin.as_ref(), "-l", &listeners.addresses())?;
    let banner = banner::banner(&settings, &listeners, &store, &admin.addresses());
    let certificates = listeners.tls.as_ref();
    let certificates = certificates.map(|tls| Arc::clone(&tls.certificates));
    let (workers, files) = listeners.start_workers(&server, &settings)?;
    let admin = admin.serve(AdminEndpoint::new(metrics, workers.stop_token()))?;
    banner.print();
    drop(entered);
    let running = RunningFileServer::new(server, certificates, workers, files, settings.quiet);
    Ok(process.run(running, vec![admin], std::future::ready(())))
}
