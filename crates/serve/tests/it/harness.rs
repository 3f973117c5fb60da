//! Starts a file server with a root directory of its own. It listens on a port, on another port
//! with TLS, and on a Unix socket.
//!
//! A file next to the root must never be served. The server stops when its [`TestServer`] is
//! dropped. A panic on one of its threads, even in a task that is never joined, fails the test that
//! drops it.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use haul_lab::CertificateAuthority;
use haul_serve::accept::{AcceptStrategy, WorkerThreads, WorkerThreadsOptions};
use haul_serve::observe::ServeMetrics;
use haul_serve::store::{DiskThreads, FileStore, FileStoreOptions, UploadDurability};
use haul_serve::tls::{CertificatePair, ServerTls};
use haul_serve::{FileServer, FileServerOptions, RESERVED_PREFIX};
use haul_service::listen::{
    BindOptions, BoundAddress, BoundListener, InheritedSockets, ListenAddress, bind,
};
use haul_service::observe::{MetricSource as _, MetricsText};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;

/// The time limit of one step of a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The content of the file next to the root.
pub(crate) const SECRET: &str = "the secret file next to the root";

/// The name in the certificate.
pub(crate) const NAME: &str = "store.test";

pub(crate) struct ServerSetup {
    pub(crate) store: FileStoreOptions,
    pub(crate) server: FileServerOptions,
    pub(crate) workers: WorkerThreadsOptions,
    /// The directory in which the root is created; the system's temporary directory by default.
    pub(crate) parent: Option<PathBuf>,
}

impl Default for ServerSetup {
    /// Two threads, writable, without limits.
    fn default() -> Self {
        Self {
            store: FileStoreOptions {
                writable: true,
                durability: UploadDurability::None,
                ..FileStoreOptions::default()
            },
            server: FileServerOptions::default(),
            workers: WorkerThreadsOptions {
                threads: 2,
                ..WorkerThreadsOptions::default()
            },
            parent: None,
        }
    }
}

pub(crate) struct TestServer {
    /// The directory with the root and the secret file.
    folder: TempDir,
    /// `None` once the server has stopped.
    workers: Option<WorkerThreads>,
    /// The runtime of the disk threads.
    disk: Option<Runtime>,
    /// The address of plain HTTP.
    pub(crate) plain: SocketAddr,
    /// The address of HTTPS.
    pub(crate) tls: SocketAddr,
    pub(crate) unix: PathBuf,
    /// The server, which holds the lock of the store. `None` once it has stopped.
    server: Option<Arc<FileServer>>,
    /// Dropping these removes the socket file.
    _bound: Vec<BoundListener>,
}

impl ServerSetup {
    /// The default options with this accept strategy.
    pub(crate) fn with_strategy(accept: AcceptStrategy) -> Self {
        let mut setup = Self::default();
        setup.workers.strategy = accept;
        setup
    }

    pub(crate) fn start(self) -> TestServer {
        watch_panics();
        let folder = match &self.parent {
            Some(parent) => tempfile::tempdir_in(parent),
            None => tempfile::tempdir(),
        }
        .unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        let root = folder.path().join("root");
        self.start_in(folder, &root)
    }

    /// Starts the server, and returns its metrics too.
    pub(crate) fn start_with_metrics(self) -> (TestServer, Arc<ServeMetrics>) {
        let metrics = Arc::clone(&self.server.metrics);
        (self.start(), metrics)
    }

    /// Starts the server with an existing root.
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
            sockets: NonZeroUsize::new(self.workers.sockets_per_address()).unwrap(),
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
        let listeners = all.iter_mut().enumerate().map(|(index, bound)| {
            let tls = (index == 1).then(|| Arc::clone(&authority_and_tls().1.config));
            (std::mem::take(&mut bound.listeners), tls)
        });
        let workers = WorkerThreads::start(listeners.collect(), &server, &self.workers).unwrap();
        TestServer {
            folder,
            workers: Some(workers),
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
    /// The number of times that idle connections have released their buffers.
    pub(crate) fn idle_releases(&self) -> u64 {
        self.server
            .as_ref()
            .map_or(0, |server| server.idle_releases())
    }

    /// Starts a server with default options.
    pub(crate) fn start() -> Self {
        ServerSetup::default().start()
    }

    /// The served directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The path of the secret file next to the root.
    pub(crate) fn secret_path(&self) -> PathBuf {
        self.folder.path().join("secret")
    }

    /// Writes a file below the root directly, not through the server.
    pub(crate) fn write_file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The content of a file; `None` if there is none.
    pub(crate) fn read_file(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.root().join(name)).ok()
    }

    /// The number of temporary files of uploads.
    pub(crate) fn temporary_files(&self) -> usize {
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

    /// The token that starts the shutdown when it is cancelled.
    pub(crate) fn stop_token(&self) -> tokio_util::sync::CancellationToken {
        self.workers.as_ref().unwrap().stop_token()
    }

    pub(crate) fn shut_down(&mut self, grace: Duration) -> usize {
        self.server = None;
        let outcome = self.workers.take().unwrap().shut_down(grace).unwrap();
        if let Some(disk) = self.disk.take() {
            disk.shutdown_timeout(LIMIT);
        }
        outcome
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.workers.is_some() {
            self.shut_down(Duration::ZERO);
        }
        let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panics.first()
            && !std::thread::panicking()
        {
            panic!("the server panicked: {panic}");
        }
    }
}

/// The panics on threads of servers.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tokio reports the panic of a task only when the task is joined. Tasks of connections are never
/// joined, so a hook records panics.
fn watch_panics() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name.starts_with("serve-")) {
                let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
                panics.push(info.to_string());
            }
            previous_hook(info);
        }));
    });
}

/// One authority and one certificate are enough for all tests of a process.
pub(crate) fn authority_and_tls() -> &'static (CertificateAuthority, ServerTls) {
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

/// Sets the flag when it is dropped, also by a panic: a loop that waits for the flag must not keep
/// a failing test alive.
pub(crate) struct DoneOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The value of a metric: the first sample whose line begins with `name`.
pub(crate) fn metric(metrics: &ServeMetrics, name: &str) -> u64 {
    let mut text = MetricsText::default();
    metrics.write_metrics(&mut text);
    let text = text.into_text();
    let mut lines = text.lines().filter(|line| line.starts_with(name));
    let count = lines.next().and_then(|line| line.rsplit(' ').next());
    count.map_or(0, |count| count.parse().unwrap())
}

#[track_caller]
pub(crate) fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_met() {
        assert!(started.elapsed() < LIMIT, "timed out waiting: {condition}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
