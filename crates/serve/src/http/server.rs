//! What all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use haul_plan::serving::TimeoutOptions;
use haul_service::ServerNames;
use http::HeaderValue;

use crate::access::{AccessControl, CorsPolicy};
use crate::connection::TotalRate;
use crate::observe::{AccessLog, ServeMetrics};
use crate::store::{DiskThreads, FileStore};

/// How requests are answered.
#[derive(Debug, Clone)]
pub struct FileServerOptions {
    /// Who may do what.
    pub access: AccessControl,
    /// Which other sites' pages may.
    pub cors: Option<CorsPolicy>,
    /// By which names it may be asked for over TCP without TLS; `None`: by any.
    pub allowed_hosts: Option<ServerNames>,
    /// Bytes that an upload may have; `None`: what the disk has.
    pub max_body: Option<u64>,
    /// What files are sent with as Cache-Control.
    pub cache_control: Option<HeaderValue>,
    /// How long peers are waited for.
    pub timeouts: TimeoutOptions,
    /// Bytes a second that one connection may have, each way.
    pub connection_rate: Option<u64>,
    /// Bytes a second that all connections together may have, each way.
    pub total_rate: Option<u64>,
    /// What is counted.
    pub metrics: Arc<ServeMetrics>,
    /// Where each request is told.
    pub access_log: Option<AccessLog>,
}

impl Default for FileServerOptions {
    /// Everything to everybody, as fast as it goes.
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
        }
    }
}

/// A store and how it is served.
#[derive(Debug)]
pub struct FileServer {
    /// The files.
    pub(crate) store: Arc<FileStore>,
    /// Where waiting is allowed.
    pub(crate) disk: DiskThreads,
    /// How requests are answered.
    pub(crate) options: FileServerOptions,
    /// What all connections may have together.
    pub(crate) totals: TotalRateLimits,
    /// How often a connection came to rest.
    idle_releases: AtomicU64,
    /// Whether what is under way now is dropped: it was not the client that went.
    is_aborting: AtomicBool,
}

/// Limits of all connections, each way.
#[derive(Debug, Default)]
pub(crate) struct TotalRateLimits {
    /// Of answers.
    pub(crate) send: Option<Arc<TotalRate>>,
    /// Of requests.
    pub(crate) receive: Option<Arc<TotalRate>>,
}

impl FileServer {
    /// A server of a store.
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

    /// The files.
    #[must_use]
    pub fn store(&self) -> &Arc<FileStore> {
        &self.store
    }

    /// How often, so far, a connection has come to rest: nothing happened on it for a moment, and the memory was freed that it has while
    /// something does. A program that knows its allocator may give that back to the system.
    #[must_use]
    pub fn idle_releases(&self) -> u64 {
        self.idle_releases.load(Ordering::Relaxed)
    }

    /// A connection comes to rest.
    pub(crate) fn count_idle_release(&self) {
        self.idle_releases.fetch_add(1, Ordering::Relaxed);
    }

    /// What is under way from here on is dropped.
    pub(crate) fn abort_exchanges(&self) {
        self.is_aborting.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub(crate) fn is_aborting(&self) -> bool {
        self.is_aborting.load(Ordering::Relaxed)
    }
}
