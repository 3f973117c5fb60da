//! A server of a directory of its own: on a port, on another with TLS, and on a unix socket, all at once.
//!
//! Beside the root lies a file that nobody may ever see. The server ends with its [`TestServer`], and a panic on one of its threads, also
//! in a task whose end nobody waits for, fails whoever drops it.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use haul_lab::CertificateAuthority;
use haul_serve::accept::{AcceptStrategy, ShutdownOutcome, WorkerThreads, WorkerThreadsOptions};
use haul_serve::observe::ServeMetrics;
use haul_serve::store::{DiskThreads, FileStore, FileStoreOptions, UploadDurability};
use haul_serve::tls::{CertificatePair, ServerTls};
use haul_serve::{FileServer, FileServerOptions, RESERVED_PREFIX};
use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, bind,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// What no test waits longer for.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What the file beside the root says.
pub(crate) const SECRET: &str = "beside the root and nobody's affair";

/// The name in the certificate.
pub(crate) const NAME: &str = "store.test";

/// How a server is started.
pub(crate) struct ServerSetup {
    /// How its store is opened.
    pub(crate) store: FileStoreOptions,
    /// How it answers.
    pub(crate) server: FileServerOptions,
    /// How it works.
    pub(crate) crew: WorkerThreadsOptions,
    /// Where the root and what is beside it are made; anywhere if not given.
    pub(crate) within: Option<PathBuf>,
}

impl Default for ServerSetup {
    /// Two threads, writable, as fast as it goes.
    fn default() -> Self {
        Self {
            store: FileStoreOptions {
                writable: true,
                durability: UploadDurability::None,
                ..FileStoreOptions::default()
            },
            server: FileServerOptions::default(),
            crew: WorkerThreadsOptions {
                threads: 2,
                ..WorkerThreadsOptions::default()
            },
            within: None,
        }
    }
}

/// A server that runs.
pub(crate) struct TestServer {
    /// The root, and the secret beside it.
    folder: TempDir,
    /// Gone once the server has ended.
    crew: Option<WorkerThreads>,
    /// Where its disk work is done.
    disk: Option<Runtime>,
    /// Its port.
    pub(crate) plain: SocketAddr,
    /// Its port with TLS.
    pub(crate) tls: SocketAddr,
    /// Its socket's file.
    pub(crate) unix: PathBuf,
    /// What answers. It holds the store's lock, and is gone once the server has ended.
    server: Option<Arc<FileServer>>,
    /// Sockets' files, which go with these.
    _bound: Vec<BoundListener>,
}

impl ServerSetup {
    /// With this way of accepting.
    pub(crate) fn accept(accept: AcceptStrategy) -> Self {
        let mut setup = Self::default();
        setup.crew.strategy = accept;
        setup
    }

    /// Starts it.
    pub(crate) fn start(self) -> TestServer {
        watch_panics();
        let folder = match &self.within {
            Some(within) => tempfile::tempdir_in(within),
            None => tempfile::tempdir(),
        }
        .unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        let root = folder.path().join("root");
        self.start_in(folder, &root)
    }

    /// Starts it; also what it counts.
    pub(crate) fn counted(self) -> (TestServer, Arc<ServeMetrics>) {
        let metrics = Arc::clone(&self.server.metrics);
        (self.start(), metrics)
    }

    /// Starts it over a root that is there.
    pub(crate) fn start_in(self, folder: TempDir, root: &Path) -> TestServer {
        let disk = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("serve-disk")
            .enable_all()
            .build()
            .unwrap();
        let store = Arc::new(FileStore::open(root, self.store).unwrap());
        let disk_threads = DiskThreads::new(disk.handle().clone());
        let server = Arc::new(FileServer::new(store, disk_threads, self.server));
        let unix = folder.path().join("socket");
        let options = BindOptions {
            sockets: NonZeroUsize::new(self.crew.sockets_per_address()).unwrap(),
            ..BindOptions::default()
        };
        let addresses = [
            "127.0.0.1:0".to_owned(),
            "127.0.0.1:0".to_owned(),
            format!("unix:{}", unix.display()),
        ];
        let mut all: Vec<BoundListener> = Vec::new();
        for address in addresses {
            let address: ListenAddress = address.parse().unwrap();
            all.extend(bind(&address, &options, &mut InheritedSockets::none()).unwrap());
        }
        let [plain, tls] = [0, 1].map(|index: usize| match all[index].local {
            BoundAddress::Tcp(address) => address,
            BoundAddress::Unix(_) => panic!("not a port"),
        });
        let doors = all.iter_mut().enumerate().map(|(index, bound)| {
            let tls = (index == 1).then(|| Arc::clone(&certified().1.config));
            (std::mem::take(&mut bound.listeners), tls)
        });
        let crew = WorkerThreads::start(doors.collect(), &server, &self.crew).unwrap();
        TestServer {
            folder,
            crew: Some(crew),
            disk: Some(disk),
            plain,
            tls,
            unix,
            server: Some(server),
            _bound: all,
        }
    }
}

impl TestServer {
    /// How often a connection came to rest.
    pub(crate) fn rests(&self) -> u64 {
        self.server
            .as_ref()
            .map_or(0, |server| server.idle_releases())
    }

    /// With what is said nothing about.
    pub(crate) fn start() -> Self {
        ServerSetup::default().start()
    }

    /// What is served.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// What is beside it, and must not be.
    pub(crate) fn secret(&self) -> PathBuf {
        self.folder.path().join("secret")
    }

    /// Puts a file there behind the server's back.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// What a file there holds; `None` if there is none.
    pub(crate) fn holds(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.root().join(name)).ok()
    }

    /// How many uploads are under way, or were forgotten.
    pub(crate) fn temporaries(&self) -> usize {
        fs::read_dir(self.root().join(".haul")).map_or(0, |entries| {
            let files = entries.map(|entry| entry.unwrap());
            files
                .filter(|entry| {
                    entry
                        .file_name()
                        .to_str()
                        .is_some_and(|name| name.starts_with(RESERVED_PREFIX))
                })
                .count()
        })
    }

    /// Begins the end without waiting for it.
    pub(crate) fn stopper(&self) -> tokio_util::sync::CancellationToken {
        self.crew.as_ref().unwrap().stop_token()
    }

    /// Ends it.
    pub(crate) fn end(&mut self, grace: Duration) -> ShutdownOutcome {
        self.server = None;
        let ending = self.crew.take().unwrap().shut_down(grace).unwrap();
        if let Some(disk) = self.disk.take() {
            disk.shutdown_timeout(LIMIT);
        }
        ending
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.crew.is_some() {
            self.end(Duration::ZERO);
        }
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panics.first()
            && !std::thread::panicking()
        {
            panic!("the server panicked: {panic}");
        }
    }
}

/// What panicked on threads of servers.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tokio keeps the panics of tasks for whoever joins them. Nobody joins a connection, so they are heard of here.
fn watch_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name.starts_with("serve-")) {
                let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
                panics.push(info.to_string());
            }
            before(info);
        }));
    });
}

/// One authority and one certificate are enough for all tests of a process.
pub(crate) fn certified() -> &'static (CertificateAuthority, ServerTls) {
    static CERTIFIED: OnceLock<(CertificateAuthority, ServerTls)> = OnceLock::new();
    CERTIFIED.get_or_init(|| {
        let authority = CertificateAuthority::new();
        let files = authority.issue(&[NAME]).write_files().unwrap();
        let pair = CertificatePair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        };
        let tls = ServerTls::from_files(vec![pair]).unwrap();
        (authority, tls)
    })
}

/// Says that something is over when it is dropped, also by a panic: who loops until then must not keep the test from failing.
pub(crate) struct DoneOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a counter says; the first of its lines that begins so.
pub(crate) fn sample(metrics: &ServeMetrics, name: &str) -> u64 {
    let text = metrics.render();
    let mut lines = text.lines().filter(|line| line.starts_with(name));
    let count = lines.next().and_then(|line| line.rsplit(' ').next());
    count.map_or(0, |count| count.parse().unwrap())
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "it never came about: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
