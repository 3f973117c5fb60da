//! `haul serve`: opens the store, listens, tells where, and attends to the server until it is asked to end.
//!
//! The pieces are in files of their own: [`folder`] opens the store, [`doors`] listens, [`banner`] tells, [`attend`] waits for
//! signals and does chores, [`ending`] ends; what any server has is in [`service`](super::service). Requests are served by the crew's
//! threads; the one of the runtime here does the rest.

mod attend;
mod banner;
mod doors;
mod ending;
mod folder;
mod reload;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use haul_serve::observe::AccessLog;
use haul_serve::store::DiskThreads;
use haul_serve::{FileServer, FileServerOptions};
use haul_service::observe::{AdminEndpoint, MetricSource};
use tokio::runtime::{Builder, Runtime};

use super::service::endpoint::{self, AdminAddresses};
use super::service::log;
use super::service::manager::{notify, told};
use super::service::trouble::CommandError;
use crate::args::ServeArgs;
use crate::exit::ExitReason;
use crate::open_file_limit;
use crate::settings::ServeSettings;
use crate::signals::ServerSignals;
use attend::ServeSupervisor;
use banner::ServeBanner;
use doors::ServeListeners;
use reload::CertificateReloader;

/// Serves until a signal.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    begin(args).unwrap_or_else(|trouble| trouble.tell()).into()
}

fn begin(args: &ServeArgs) -> Result<ExitReason, CommandError> {
    let settings = ServeSettings::resolve(args)?;
    // Before signals are taken over: to count a quota may take long, and can be ended as ever.
    let store = folder::open(&settings.folder, &settings.store)?;
    let open_log = |options| log::open(AccessLog::NAME, options, settings.quiet);
    let log = settings.log.as_ref().map(open_log).transpose()?;
    let runtime =
        runtime().map_err(|error| CommandError::local(format!("cannot start: {error}")))?;
    let entered = runtime.enter();
    let mut signals = ServerSignals::listen()
        .map_err(|error| CommandError::local(format!("cannot listen to signals: {error}")))?;
    let doors = ServeListeners::open(&settings)?;
    let access_log = |log| AccessLog::new(log, settings.log_format);
    let server = FileServerOptions {
        log: log.clone().map(access_log),
        hosts: doors.hosts(&settings),
        ..settings.server.clone()
    };
    let metrics = Arc::clone(&server.metrics);
    let disk = DiskThreads::new(runtime.handle().clone());
    let server = Arc::new(FileServer::new(Arc::clone(&store), disk, server));
    let endpoint = AdminAddresses::open(settings.admin.as_ref(), ("-l", &doors.locals()))?;
    let banner = ServeBanner::of(&doors, &store, endpoint.locals());
    let reload = CertificateReloader {
        certificates: doors.tls.as_ref().map(|tls| Arc::clone(&tls.certificates)),
        log: log.clone(),
    };
    let notify = notify();
    let (crew, files) = doors.staff(&server, &settings)?;
    let mut sources: Vec<Arc<dyn MetricSource>> = vec![metrics, Arc::new(endpoint::process())];
    sources.extend(log.clone().map(|log| log as Arc<dyn MetricSource>));
    let endpoint = endpoint.serve(AdminEndpoint::new(sources, crew.stopper()))?;
    banner.show(&settings);
    drop(entered);
    let exit = runtime.block_on(async {
        told(notify.ready());
        let attendant = ServeSupervisor::new(Arc::clone(&server), reload, &notify, settings.quiet);
        attendant.attend(&mut signals).await;
        told(notify.stopping());
        let exit = ending::end(crew, settings.grace, &mut signals, settings.quiet).await;
        endpoint.end().await;
        if let Some(log) = &log {
            log::close(log).await;
        }
        exit
    });
    drop(files);
    // A disk that hangs is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

/// For the disk, signals and chores.
fn runtime() -> io::Result<Runtime> {
    open_file_limit::check_free_descriptors()?;
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(DiskThreads::THREADS)
        .enable_all()
        .build()
}
