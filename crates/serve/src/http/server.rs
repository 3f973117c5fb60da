//! What all connections of a server share. [`dialect`] is how another crate answers requests of it.

mod dialect;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_service::ServerNames;
use http::HeaderValue;

use crate::access::{AccessControl, CorsPolicy};
use crate::connection::{TimeoutOptions, TotalRate};
use crate::observe::{AccessLog, ServeMetrics};
use crate::store::{DiskThreads, FileStore};

pub use dialect::{
    BoxedResponse, Dialect, DialectClaim, DialectRequest, DialectResponse, RequestContext,
};

/// How a server responds.
#[derive(Debug, Clone)]
pub struct FileServerOptions {
    /// Who may do what.
    pub access: AccessControl,
    /// What pages of other sites may do.
    pub cors: Option<CorsPolicy>,
    /// Host names that are accepted over TCP without TLS; `None` accepts all.
    pub allowed_hosts: Option<ServerNames>,
    /// Maximum bytes of an upload; `None` leaves it to the disk.
    pub max_body: Option<u64>,
    pub cache_control: Option<HeaderValue>,
    /// How long the server waits for its peers.
    pub timeouts: TimeoutOptions,
    /// Bytes per second of one connection, in each direction.
    pub connection_rate: Option<u64>,
    /// Bytes per second of all connections together, in each direction.
    pub total_rate: Option<u64>,
    /// Counts requests, bytes and faults.
    pub metrics: Arc<ServeMetrics>,
    /// Gets a line for each request.
    pub access_log: Option<AccessLog>,
    /// What the server speaks beside plain HTTP.
    pub dialect: Option<Arc<dyn Dialect>>,
}

impl Default for FileServerOptions {
    /// Permits everything to everybody, without rate limits.
    fn default() -> Self {
        Self {
            access: AccessControl::open(),
            cors: None,
            allowed_hosts: None,
            max_body: None,
            cache_control: None,
            timeouts: TimeoutOptions::default(),
            connection_rate: None,
            total_rate: None,
            metrics: Arc::default(),
            access_log: None,
            dialect: None,
        }
    }
}

/// A store and the options to serve it with.
#[derive(Debug)]
pub struct FileServer {
    pub(crate) store: Arc<FileStore>,
    /// The threads that may block.
    pub(crate) disk: DiskThreads,
    pub(crate) options: FileServerOptions,
    /// Rate limits of all connections together.
    pub(crate) totals: TotalRateLimits,
    /// How often an idle connection has released its buffers.
    idle_releases: AtomicU64,
    /// Whether unfinished requests are being dropped, so that the server and not the client ends
    /// them.
    is_aborting: AtomicBool,
}

/// Rate limits of all connections together, in each direction.
#[derive(Debug, Default)]
pub(crate) struct TotalRateLimits {
    /// Of responses.
    pub(crate) send: Option<Arc<TotalRate>>,
    /// Of requests.
    pub(crate) receive: Option<Arc<TotalRate>>,
}

impl FileServer {
    #[must_use]
    pub fn new(store: Arc<FileStore>, disk: DiskThreads, options: FileServerOptions) -> Self {
        store.set_threads(&disk);
        let total = || {
            options
                .total_rate
                .map(|rate| Arc::new(TotalRate::new(rate)))
        };
        Self {
            totals: TotalRateLimits {
                send: total(),
                receive: total(),
            },
            idle_releases: AtomicU64::new(0),
            store,
            disk,
            options,
            is_aborting: AtomicBool::new(false),
        }
    }

    #[must_use]
    pub fn store(&self) -> &Arc<FileStore> {
        &self.store
    }

    /// The threads that may block.
    #[must_use]
    pub fn disk(&self) -> &DiskThreads {
        &self.disk
    }

    /// How the server responds.
    #[must_use]
    pub fn options(&self) -> &FileServerOptions {
        &self.options
    }

    /// Removes unfinished uploads in parts that have expired. May wait for a disk.
    pub fn expire_uploads(&self) {
        if let Some(dialect) = &self.options.dialect {
            self.store.expire_parts(dialect.upload_expiry());
        }
    }

    /// How often an idle connection has released its buffers. A program that knows its allocator
    /// may then return that memory to the system.
    #[must_use]
    pub fn idle_releases(&self) -> u64 {
        self.idle_releases.load(Ordering::Relaxed)
    }

    /// Counts an idle connection that releases its buffers.
    pub(crate) fn count_idle_release(&self) {
        self.idle_releases.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that unfinished requests are dropped from here on.
    pub(crate) fn abort_exchanges(&self) {
        self.is_aborting.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_aborting(&self) -> bool {
        self.is_aborting.load(Ordering::Relaxed)
    }
}
