//! What is behind a `haul.Client`: a runtime of its own, one pool of connections, and the engines that use it.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use haul_net::ClientConfig;
use haul_s3::{S3Client, S3Config};
use haul_transfer::batch::{HostMemory, RequestRate};
use haul_transfer::{
    ConnectionCount, DownloadLimits, ExistingFilePolicy, GetOptions, RetryOptions, TransferEngine,
    TransferEvent, TransferEventSender,
};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OnceCell, mpsc};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::errors::{HaulError, chain_text};
use crate::log::{self, log, log_warning};
use crate::operation::TransferProgress;
use crate::settings::{ClientSettings, argument};

/// Events that may wait for the task that sums them up.
const EVENT_QUEUE: usize = 1024;

/// The longest that the end of the interpreter waits for running transfers to keep what they have.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);

/// All engines of the process, for its end.
static ENGINES: Mutex<Vec<Weak<PythonEngine>>> = Mutex::new(Vec::new());

/// The engine of a client.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct Engine {
    pub(crate) state: Arc<PythonEngine>,
}

/// The state that calls share with their client.
pub(crate) struct PythonEngine {
    /// The process that made it. Threads and connections do not survive a fork.
    process: u32,
    /// Until it is dropped.
    runtime: Option<Runtime>,
    pub(crate) http: haul_net::Client,
    config: ClientConfig,
    s3: S3Config,
    /// For uploads to stores, and to other servers.
    stores: [OnceCell<S3Client>; 2],
    pub(crate) settings: ClientSettings,
    pub(crate) retry: RetryOptions,
    limits: DownloadLimits,
    pub(crate) rate_per_host: Option<RequestRate>,
    /// What batches have learned of hosts.
    pub(crate) host_memory: HostMemory,
    /// One for each set of options: those of a call are those of an engine.
    engines: Mutex<HashMap<(ConnectionCountKey, bool), TransferEngine>>,
    pub(crate) events: TransferEventSender,
    progress: Arc<ProgressTable>,
    next_job: AtomicU64,
    running: AtomicU64,
    /// Receivers of batches, for the end of the interpreter.
    receivers: Mutex<Vec<Weak<EventReceiver>>>,
    stop: CancellationToken,
}

/// A number of connections, as a key.
type ConnectionCountKey = (bool, usize);

/// What a batch sends, to be received by one thread at a time.
pub(crate) type EventReceiver = Mutex<mpsc::Receiver<TransferEvent>>;

/// The progress of running transfers, by the numbers of their jobs.
#[derive(Default)]
struct ProgressTable(Mutex<HashMap<u64, Arc<TransferProgress>>>);

impl ProgressTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<TransferProgress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, event: TransferEvent) {
        match event {
            TransferEvent::Progress {
                job, done, length, ..
            } => {
                if let Some(progress) = self.lock().get(&job) {
                    progress.set(done, length);
                }
            }
            TransferEvent::Retry {
                attempt,
                limit,
                wait,
                reason,
                ..
            } => log(
                log::INFO,
                format!(
                    "retry {attempt} of {limit} in {:.1} s: {reason}",
                    wait.as_secs_f64()
                ),
            ),
            TransferEvent::Warning { warning, url, .. } => log_warning(&warning, url.as_deref()),
            _ => {}
        }
    }
}

/// A transfer that is under way. Dropped, it is over.
pub(crate) struct ActiveTransfer {
    state: Arc<PythonEngine>,
    pub(crate) id: u64,
    pub(crate) progress: Arc<TransferProgress>,
}

impl Drop for ActiveTransfer {
    fn drop(&mut self) {
        self.state.progress.lock().remove(&self.id);
        self.state.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[pymethods]
impl Engine {
    #[new]
    fn new(py: Python<'_>, settings: ClientSettings) -> PyResult<Self> {
        let state = py.detach(|| PythonEngine::new(settings))?;
        let state = Arc::new(state);
        let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        engines.retain(|engine| engine.strong_count() > 0);
        engines.push(Arc::downgrade(&state));
        Ok(Self { state })
    }

    /// Sets the bytes a second of all transfers together; `None` for no limit.
    fn set_limit(&self, limit: Option<u64>) {
        self.state.http.set_rate_limit(limit);
    }
}

impl PythonEngine {
    fn new(settings: ClientSettings) -> Result<Self, HaulError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(
                std::thread::available_parallelism()
                    .map_or(2, NonZero::get)
                    .clamp(2, 4),
            )
            .thread_name("haul")
            .enable_all()
            .build()
            .map_err(|error| HaulError::local("cannot start", &error))?;
        let config = settings.client_config()?;
        let s3 = settings.s3_config()?;
        // Connections have tasks of their own, which belong to the runtime.
        let guard = runtime.enter();
        let http = haul_net::Client::new(ClientConfig {
            signer: Some(s3.clone().lazy_signer(config.clone())),
            ..config.clone()
        });
        drop(guard);
        let http = argument("verify", http)?;
        let (events, mut received) = mpsc::channel(EVENT_QUEUE);
        let progress = Arc::new(ProgressTable::default());
        let table = Arc::clone(&progress);
        runtime.spawn(async move {
            while let Some(event) = received.recv().await {
                table.apply(event);
            }
        });
        Ok(Self {
            process: std::process::id(),
            runtime: Some(runtime),
            http,
            config,
            s3,
            stores: Default::default(),
            retry: settings.retry_options()?,
            limits: settings.download_limits()?,
            rate_per_host: settings.rate_per_host.map(rate_per_host).transpose()?,
            host_memory: HostMemory::default(),
            settings,
            engines: Mutex::default(),
            events,
            progress,
            next_job: AtomicU64::new(0),
            running: AtomicU64::new(0),
            receivers: Mutex::default(),
            stop: CancellationToken::new(),
        })
    }

    /// The runtime, in the process that it belongs to.
    ///
    /// # Errors
    /// In a child process.
    pub(crate) fn runtime(&self) -> Result<&Handle, HaulError> {
        if let Some(runtime) = &self.runtime
            && self.belongs_to_this_process()
        {
            return Ok(runtime.handle());
        }
        let text =
            "this client was made before the process forked, and its connections are the parent's";
        let hint =
            "make a haul.Client in the child, or start processes with \"spawn\" or \"forkserver\"";
        Err(HaulError::usage(text).with_hint(hint))
    }

    /// Whether it was made here, and not before a fork.
    pub(crate) fn belongs_to_this_process(&self) -> bool {
        std::process::id() == self.process
    }

    /// Leaves the parent's runtime and sockets alone. The threads do not exist here, and waiting for them would never end. A
    /// socket that is dropped is removed from the epoll instance, which is shared: the parent would wait for it in vain.
    fn forget(&mut self) {
        let engines = std::mem::take(&mut self.engines);
        let stores = std::mem::take(&mut self.stores);
        std::mem::forget((self.runtime.take(), self.http.clone(), engines, stores));
    }

    /// A token that stops one call, and is cancelled with all others when the interpreter ends.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    pub(crate) fn begin_job(self: &Arc<Self>) -> ActiveTransfer {
        let id = self.next_job.fetch_add(1, Ordering::Relaxed);
        let progress = Arc::new(TransferProgress::default());
        self.progress.lock().insert(id, Arc::clone(&progress));
        self.running.fetch_add(1, Ordering::Relaxed);
        ActiveTransfer {
            state: Arc::clone(self),
            id,
            progress,
        }
    }

    /// Remembers the receiver of a batch until it is dropped.
    pub(crate) fn add_receiver(&self, events: &Arc<EventReceiver>) {
        let mut receivers = self.receivers();
        receivers.retain(|receiver| receiver.strong_count() > 0);
        receivers.push(Arc::downgrade(events));
    }

    fn receivers(&self) -> MutexGuard<'_, Vec<Weak<EventReceiver>>> {
        self.receivers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops everything. No batch waits for somebody who takes its results any more.
    fn stop_all(&self) {
        self.stop.cancel();
        let receivers = std::mem::take(&mut *self.receivers());
        for receiver in receivers.iter().filter_map(Weak::upgrade) {
            let mut events = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            events.close();
        }
    }

    /// Waits until nothing is under way.
    async fn wait_idle(&self) {
        while self.running.load(Ordering::Relaxed) > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The options of downloads.
    pub(crate) fn get_options(&self, connections: Option<u16>, overwrite: bool) -> GetOptions {
        GetOptions {
            connections: self.settings.connections(connections),
            existing_file: if overwrite {
                ExistingFilePolicy::Overwrite
            } else {
                ExistingFilePolicy::Keep
            },
            retry: self.retry.clone(),
            limits: self.limits,
            ..GetOptions::default()
        }
    }

    /// The engine for downloads with these options.
    pub(crate) fn transfer_engine(
        &self,
        connections: Option<u16>,
        overwrite: bool,
    ) -> TransferEngine {
        let options = self.get_options(connections, overwrite);
        let key = match options.connections {
            ConnectionCount::Auto { max } => (false, max),
            ConnectionCount::Fixed(count) => (true, count),
        };
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = engines.entry((key, overwrite)).or_insert_with(|| {
            TransferEngine::new(self.http.clone(), options, self.events.clone())
        });
        engine.clone()
    }

    /// The client of an upload: for a store with its credentials, for another server without any.
    pub(crate) async fn store(&self, is_store: bool) -> Result<S3Client, HaulError> {
        let cell = &self.stores[usize::from(is_store)];
        let connected = cell.get_or_try_init(|| async {
            let config = S3Config {
                no_sign_request: self.s3.no_sign_request || !is_store,
                ..self.s3.clone()
            };
            config.connect(self.config.clone()).await
        });
        let store = connected
            .await
            .map_err(|error| HaulError::usage(chain_text(&error)))?;
        Ok(store.clone())
    }
}

impl Drop for PythonEngine {
    fn drop(&mut self) {
        if !self.belongs_to_this_process() {
            return self.forget();
        }
        self.stop.cancel();
        let runtime = self.runtime.take();
        runtime.into_iter().for_each(Runtime::shutdown_background);
    }
}

fn rate_per_host(requests: f64) -> Result<RequestRate, HaulError> {
    let rate = RequestRate::per_second(requests);
    rate.ok_or_else(|| HaulError::usage("rate_per_host: must be from 0.001 to 1000000"))
}

/// Stops all transfers and waits until they have kept what they have, but not for long: the interpreter ends.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let mut engines: Vec<_> =
        std::mem::take(&mut *ENGINES.lock().unwrap_or_else(PoisonError::into_inner))
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
    engines.retain(|engine| engine.belongs_to_this_process());
    py.detach(|| {
        engines.iter().for_each(|engine| engine.stop_all());
        let deadline = Instant::now() + SHUTDOWN_TIME;
        for engine in &engines {
            if let Ok(runtime) = engine.runtime() {
                // What is not through by then leaves what a kill would leave.
                let _ = runtime.block_on(async { timeout_at(deadline, engine.wait_idle()).await });
            }
        }
    });
}
