//! `haul serve`: opens the store, listens, tells where, and attends to the server until it is asked to end.
//!
//! The pieces are in files of their own: [`folder`] opens the store, [`doors`] listens, [`banner`] tells, [`attend`] waits for
//! signals and does chores, [`ending`] ends. Requests are served by the crew's threads; the one of the runtime here does the rest.

mod admin;
mod attend;
mod banner;
mod doors;
mod ebb;
mod ending;
mod folder;
mod reload;
mod trouble;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use haul_serve::listen::Notify;
use haul_serve::observe::{AccessLog, LogOptions, LogTarget};
use haul_serve::store::Disk;
use haul_serve::{Server, ServerOptions};
use tokio::runtime::{Builder, Runtime};

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::settings::ServeSettings;
use crate::signals::ServerSignals;
use crate::{limits, message, output};
use admin::Endpoint;
use attend::{Attendant, told};
use banner::Banner;
use doors::Doors;
use reload::Reload;
use trouble::Trouble;

/// Serves until a signal.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    begin(args).unwrap_or_else(|trouble| trouble.tell()).into()
}

fn begin(args: &ServeArgs) -> Result<Exit, Trouble> {
    let settings = ServeSettings::resolve(args)?;
    // Before signals are taken over: to count a quota may take long, and can be ended as ever.
    let store = folder::open(&settings.folder, &settings.store)?;
    let log = settings.log.as_ref().map(open_log).transpose()?;
    let runtime = runtime().map_err(|error| Trouble::local(format!("cannot start: {error}")))?;
    let entered = runtime.enter();
    let mut signals = ServerSignals::listen()
        .map_err(|error| Trouble::local(format!("cannot listen to signals: {error}")))?;
    let doors = Doors::open(&settings)?;
    let server = ServerOptions {
        log: log.clone(),
        hosts: doors.hosts(&settings),
        ..settings.server.clone()
    };
    let metrics = Arc::clone(&server.metrics);
    let disk = Disk::new(runtime.handle().clone());
    let server = Arc::new(Server::new(Arc::clone(&store), disk, server));
    let endpoint = Endpoint::open(settings.admin.as_ref(), &doors.locals())?;
    let banner = Banner::of(&doors, &store, endpoint.locals());
    let reload = Reload {
        certificates: doors.tls.as_ref().map(|tls| Arc::clone(&tls.certificates)),
        log: log.clone(),
    };
    let notify = notify();
    let (crew, files) = doors.staff(&server, &settings)?;
    let endpoint = endpoint.serve(metrics, log.clone(), crew.stopper())?;
    banner.show(&settings);
    drop(entered);
    let exit = runtime.block_on(async {
        told(notify.ready());
        let attendant = Attendant::new(Arc::clone(&server), reload, &notify, settings.quiet);
        attendant.attend(&mut signals).await;
        told(notify.stopping());
        let exit = ending::end(crew, settings.grace, &mut signals, settings.quiet).await;
        endpoint.end().await;
        if let Some(log) = &log {
            ending::close(log).await;
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
    limits::room_to_begin()?;
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(Disk::THREADS)
        .enable_all()
        .build()
}

fn open_log(options: &LogOptions) -> Result<Arc<AccessLog>, Trouble> {
    if options.target == LogTarget::Stdout {
        output::stdout_is_open().map_err(|error| {
            let (text, hint) = output::explain(&error);
            Trouble::local(text).hint(hint)
        })?;
    }
    let log = AccessLog::open(options).map_err(|error| {
        Trouble::local(message::chain(&error))
            .hint("name a file that you may write to, in a folder that is there")
    })?;
    Ok(Arc::new(log))
}

/// Who started us, where that wants to be told.
fn notify() -> Notify {
    let place = std::env::var_os("NOTIFY_SOCKET");
    Notify::to(place.as_deref()).unwrap_or_else(|error| {
        told(Err(error));
        Notify::nobody()
    })
}
