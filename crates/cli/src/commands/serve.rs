//! `haul serve`.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use haul_serve::accept::{Crew, CrewOptions};
use haul_serve::listen::tls::{Pair, Tls};
use haul_serve::listen::{BindOptions, Handed, bind};
use haul_serve::store::{Disk, Store, StoreOptions};
use haul_serve::{Server, ServerOptions};

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::message;
use crate::signals::Signals;

/// Serves until a signal.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => Exit::Done.into(),
        Err(error) => {
            message::error(&error.to_string(), None);
            Exit::LocalIo.into()
        }
    }
}

fn serve(args: &ServeArgs) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(64)
        .enable_all()
        .build()?;
    let options = StoreOptions {
        writable: args.writable,
        durability: args.durability,
        quota: args.quota.as_ref().map(|size| size.0),
        discards: args.sink.is_some(),
        ..StoreOptions::default()
    };
    let store = Arc::new(Store::open(&args.folder, options)?);
    let disk = Disk::new(runtime.handle().clone());
    let http = ServerOptions {
        max_body: args.max_body.as_ref().map(|size| size.0),
        ..ServerOptions::default()
    };
    let server = Arc::new(Server::new(store, disk, http));
    let mut crew = CrewOptions {
        accept: args.accept,
        ..CrewOptions::default()
    };
    if let Some(threads) = args.threads {
        crew.threads = threads;
    }
    let tls = match (&args.cert, &args.key) {
        (Some(certificate), Some(key)) => Some(Tls::from_files(vec![Pair {
            certificate: certificate.clone(),
            key: key.clone(),
        }])?),
        _ => None,
    };
    let bind_options = BindOptions {
        sockets: NonZeroUsize::new(crew.sockets()).unwrap_or(NonZeroUsize::MIN),
        ..BindOptions::default()
    };
    let mut handed = Handed::take()?;
    let mut sockets = Vec::new();
    let mut files = Vec::new();
    for address in &args.listen {
        for bound in bind(address, &bind_options, &mut handed)? {
            message::note(&format!(
                "serving {} on {}",
                args.folder.display(),
                bound.local
            ));
            sockets.push((
                bound.listeners,
                tls.as_ref().map(|tls| Arc::clone(&tls.config)),
            ));
            files.push(bound.file);
        }
    }
    let crew = Crew::start(sockets, &server, &crew)?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        signals.next().await;
        Ok::<(), std::io::Error>(())
    })?;
    crew.end(Duration::from_secs(10))?;
    Ok(())
}
