//! A server of a directory of its own: on a port, on another with TLS, and on a unix socket, all at once.
//!
//! Beside the root lies a file that nobody may ever see. The server ends with its [`Served`], and a panic on one of its threads, also
//! in a task whose end nobody waits for, fails whoever drops it.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;

use haul_lab::Authority;
use haul_serve::accept::{Accept, Crew, CrewOptions, Ending};
use haul_serve::observe::Metrics;
use haul_serve::store::{Disk, Durability, Store, StoreOptions};
use haul_serve::tls::{Pair, Tls};
use haul_serve::{RESERVED_PREFIX, Server, ServerOptions};
use haul_service::listen::{Address, BindOptions, Bound, Handed, Local, bind};
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
pub(crate) struct Setup {
    /// How its store is opened.
    pub(crate) store: StoreOptions,
    /// How it answers.
    pub(crate) server: ServerOptions,
    /// How it works.
    pub(crate) crew: CrewOptions,
    /// Where the root and what is beside it are made; anywhere if not given.
    pub(crate) within: Option<PathBuf>,
}

impl Default for Setup {
    /// Two threads, writable, as fast as it goes.
    fn default() -> Self {
        Self {
            store: StoreOptions {
                writable: true,
                durability: Durability::None,
                ..StoreOptions::default()
            },
            server: ServerOptions::default(),
            crew: CrewOptions {
                threads: 2,
                ..CrewOptions::default()
            },
            within: None,
        }
    }
}

/// A server that runs.
pub(crate) struct Served {
    /// The root, and the secret beside it.
    folder: TempDir,
    /// Gone once the server has ended.
    crew: Option<Crew>,
    /// Where its disk work is done.
    disk: Option<Runtime>,
    /// Its port.
    pub(crate) plain: SocketAddr,
    /// Its port with TLS.
    pub(crate) tls: SocketAddr,
    /// Its socket's file.
    pub(crate) unix: PathBuf,
    /// What answers. It holds the store's lock, and is gone once the server has ended.
    server: Option<Arc<Server>>,
    /// Sockets' files, which go with these.
    _bound: Vec<Bound>,
}

impl Setup {
    /// With this way of accepting.
    pub(crate) fn accept(accept: Accept) -> Self {
        let mut setup = Self::default();
        setup.crew.accept = accept;
        setup
    }

    /// Starts it.
    pub(crate) fn start(self) -> Served {
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
    pub(crate) fn counted(self) -> (Served, Arc<Metrics>) {
        let metrics = Arc::clone(&self.server.metrics);
        (self.start(), metrics)
    }

    /// Starts it over a root that is there.
    pub(crate) fn start_in(self, folder: TempDir, root: &Path) -> Served {
        let disk = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("serve-disk")
            .enable_all()
            .build()
            .unwrap();
        let store = Arc::new(Store::open(root, self.store).unwrap());
        let disk_threads = Disk::new(disk.handle().clone());
        let server = Arc::new(Server::new(store, disk_threads, self.server));
        let unix = folder.path().join("socket");
        let options = BindOptions {
            sockets: NonZeroUsize::new(self.crew.sockets()).unwrap(),
            ..BindOptions::default()
        };
        let addresses = [
            "127.0.0.1:0".to_owned(),
            "127.0.0.1:0".to_owned(),
            format!("unix:{}", unix.display()),
        ];
        let mut all: Vec<Bound> = Vec::new();
        for address in addresses {
            let address: Address = address.parse().unwrap();
            all.extend(bind(&address, &options, &mut Handed::none()).unwrap());
        }
        let [plain, tls] = [0, 1].map(|index: usize| match all[index].local {
            Local::Tcp(address) => address,
            Local::Unix(_) => panic!("not a port"),
        });
        let doors = all.iter_mut().enumerate().map(|(index, bound)| {
            let tls = (index == 1).then(|| Arc::clone(&certified().1.config));
            (std::mem::take(&mut bound.listeners), tls)
        });
        let crew = Crew::start(doors.collect(), &server, &self.crew).unwrap();
        Served {
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

impl Served {
    /// How often a connection came to rest.
    pub(crate) fn rests(&self) -> u64 {
        self.server.as_ref().map_or(0, |server| server.rests())
    }

    /// With what is said nothing about.
    pub(crate) fn start() -> Self {
        Setup::default().start()
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
        self.crew.as_ref().unwrap().stopper()
    }

    /// Ends it.
    pub(crate) fn end(&mut self, grace: Duration) -> Ending {
        self.server = None;
        let ending = self.crew.take().unwrap().end(grace).unwrap();
        if let Some(disk) = self.disk.take() {
            disk.shutdown_timeout(LIMIT);
        }
        ending
    }
}

impl Drop for Served {
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
pub(crate) fn certified() -> &'static (Authority, Tls) {
    static CERTIFIED: OnceLock<(Authority, Tls)> = OnceLock::new();
    CERTIFIED.get_or_init(|| {
        let authority = Authority::new();
        let files = authority.issue(&[NAME]).files().unwrap();
        let pair = Pair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        };
        let tls = Tls::from_files(vec![pair]).unwrap();
        (authority, tls)
    })
}

/// Says that something is over when it is dropped, also by a panic: who loops until then must not keep the test from failing.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a counter says; the first of its lines that begins so.
pub(crate) fn sample(metrics: &Metrics, name: &str) -> u64 {
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
