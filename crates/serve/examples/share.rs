//! Uses the library without the command line: shares a folder until the process is killed.
//!
//! `cargo run --release -p haul-serve --example share -- DIR ADDRESS
//! [work-stealing|reuseport|round-robin|single]`
//!
//! Clients may put and delete files. Uploads are not synced, so this is for trying and measuring
//! only.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use haul_serve::accept::{AcceptStrategy, WorkerThreads, WorkerThreadsOptions};
use haul_serve::store::{DiskThreads, FileStore, FileStoreOptions, UploadDurability};
use haul_serve::{FileServer, FileServerOptions};
use haul_service::listen::{BindOptions, InheritedSockets, bind};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (folder, address) = (arguments.next(), arguments.next());
    let (Some(folder), Some(address)) = (folder, address) else {
        return Err("use: share DIR ADDRESS [WAY]".into());
    };
    let mut options = WorkerThreadsOptions::default();
    if let Some(way) = arguments.next() {
        let mut all = AcceptStrategy::ALL.into_iter();
        let known = all.find(|strategy| strategy.name() == way);
        options.strategy = known.ok_or("no such WAY")?;
    }
    // This runtime is for disk operations; connections live on the runtimes of the worker threads.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let store = FileStore::open(
        folder.as_ref(),
        FileStoreOptions {
            writable: true,
            durability: UploadDurability::None,
            ..FileStoreOptions::default()
        },
    )?;
    let disk = DiskThreads::new(runtime.handle().clone());
    let server = Arc::new(FileServer::new(
        Arc::new(store),
        disk,
        FileServerOptions::default(),
    ));
    let sockets = BindOptions {
        sockets: NonZeroUsize::new(options.sockets_per_address()).unwrap_or(NonZeroUsize::MIN),
        ..BindOptions::default()
    };
    let bound = bind(&address.parse()?, &sockets, &mut InheritedSockets::none())?;
    let plain = bound.into_iter().map(|bound| (bound.listeners, None));
    let _crew = WorkerThreads::start(plain.collect(), &server, &options)?;
    loop {
        std::thread::park();
    }
}
