//! `haul serve`: opens the store, listens, prints the addresses, and runs until a signal.
//!
//! [`store`] opens the store, [`listeners`] listens, [`banner`] prints, [`supervisor`] handles signals and chores, [`shutdown`] ends; what
//! all servers share is in [`service`](super::service). Requests run on worker threads; the runtime here does the rest.

mod banner;
mod certificate_reload;
mod listeners;
mod shutdown;
mod store;
mod supervisor;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use haul_serve::observe::AccessLog;
use haul_serve::store::DiskThreads;
use haul_serve::{FileServer, FileServerOptions};
use haul_service::observe::{AdminEndpoint, MetricSource};
use tokio::runtime::{Builder, Runtime};

use super::service::admin::{self, AdminAddresses};
use super::service::command_error::CommandError;
use super::service::log;
use super::service::service_manager::{service_manager_notifier, warn_if_not_notified};
use crate::args::ServeArgs;
use crate::exit::ExitReason;
use crate::open_file_limit;
use crate::settings::ServeSettings;
use crate::signals::ServerSignals;
use banner::ServeBanner;
use certificate_reload::CertificateReloader;
use listeners::ServeListeners;
use supervisor::ServeSupervisor;

pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    serve(args).unwrap_or_else(|error| error.report()).into()
}

fn serve(args: &ServeArgs) -> Result<ExitReason, CommandError> {
    let settings = ServeSettings::resolve(args)?;
    // Before signals are handled: counting for a quota may take long, and can be interrupted as usual.
    let store = store::open(&settings.folder, &settings.store)?;
    let open_log = |options| log::open(AccessLog::NAME, options, settings.quiet);
    let log = settings.log.as_ref().map(open_log).transpose()?;
    let runtime =
        runtime().map_err(|error| CommandError::local(format!("cannot start: {error}")))?;
    let entered = runtime.enter();
    let mut signals = ServerSignals::listen()
        .map_err(|error| CommandError::local(format!("cannot receive signals: {error}")))?;
    let listeners = ServeListeners::open(&settings)?;
    let access_log = |log| AccessLog::new(log, settings.log_format);
    let server = FileServerOptions {
        access_log: log.clone().map(access_log),
        allowed_hosts: listeners.server_names(&settings),
        ..settings.server.clone()
    };
    let metrics = Arc::clone(&server.metrics);
    let disk = DiskThreads::new(runtime.handle().clone());
    let server = Arc::new(FileServer::new(Arc::clone(&store), disk, server));
    let endpoint = AdminAddresses::open(settings.admin.as_ref(), ("-l", &listeners.addresses()))?;
    let banner = ServeBanner::new(&listeners, &store, endpoint.addresses());
    let reload = CertificateReloader {
        certificates: listeners
            .tls
            .as_ref()
            .map(|tls| Arc::clone(&tls.certificates)),
        log: log.clone(),
    };
    let notifier = service_manager_notifier();
    let (workers, files) = listeners.start_workers(&server, &settings)?;
    let mut sources: Vec<Arc<dyn MetricSource>> = vec![metrics, Arc::new(admin::process_metrics())];
    sources.extend(log.clone().map(|log| log as Arc<dyn MetricSource>));
    let endpoint = endpoint.serve(AdminEndpoint::new(sources, workers.stop_token()))?;
    banner.print(&settings);
    drop(entered);
    let exit = runtime.block_on(async {
        warn_if_not_notified(notifier.ready());
        let supervisor =
            ServeSupervisor::new(Arc::clone(&server), reload, &notifier, settings.quiet);
        supervisor.run(&mut signals).await;
        warn_if_not_notified(notifier.stopping());
        let exit = shutdown::shut_down(workers, settings.grace, &mut signals, settings.quiet).await;
        endpoint.end().await;
        if let Some(log) = &log {
            log::close(log).await;
        }
        exit
    });
    drop(files);
    // A hanging disk is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

/// The runtime for the disk, signals and chores.
fn runtime() -> io::Result<Runtime> {
    open_file_limit::check_free_descriptors()?;
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(DiskThreads::THREADS)
        .enable_all()
        .build()
}
