//! The workload `requests`: the load generator on a server of haul's, or on the one that the user named.
//!
//! A request for a file of ours is `/SET/N`, where N is its number. What is stored has a name that begins with a random one, and is removed. No folder
//! is made for it: HTTP could not remove that.

mod cell;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haul_net::redacted_url;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::WorkloadError;
use crate::cell::{FileSet, LevelError};
use crate::load::{
    LoadEnd, LoadMethod, LoadPace, LoadPlan, LoadProtocol, run_load, with_session_memory,
};
use crate::servers::{ServeSpec, ServerPool, UsageMeter};
use crate::{Cell, Measurement};
pub(crate) use cell::FACTORS;
pub use cell::{RequestsCell, RequestsMethod, RequestsProtocol, RequestsRoute, RequestsServer};

/// Requests at a time when files of ours are removed.
const CLEANING_CONCURRENCY: u32 = 8;

/// The longest that the removal of a file set at the end may take.
const CLEANING_LIMIT: Duration = Duration::from_secs(60);

/// Settings of a [`RequestsWorkload`].
#[derive(Debug, Clone)]
pub struct RequestsOptions {
    /// The program haul, for servers.
    pub haul: PathBuf,
    /// The URLs that the user named, in place of our servers.
    pub targets: Vec<Url>,
    /// Whether files of ours are stored below the first target, and removed.
    pub is_store: bool,
    /// TLS with the user's servers, if one has TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The most requests a second at the user's servers.
    pub max_rate: Option<f64>,
    /// Processes of the user's servers.
    pub server_pids: Vec<u32>,
    /// The user's HTTP proxy, in place of ours.
    pub proxy: Option<SocketAddr>,
}

/// Measures cells of the workload `requests`.
#[derive(Debug)]
pub struct RequestsWorkload {
    options: RequestsOptions,
    pool: ServerPool,
    /// The TLS settings of all loads, which remember sessions.
    tls: Option<Arc<rustls::ClientConfig>>,
    /// What the names of our files on the user's server begin with.
    prefix: String,
    /// File sets that are there to be fetched.
    stored: Vec<FileSet>,
    /// File sets of which some files may be there, with the method that they are for.
    leftover: Vec<(RequestsMethod, FileSet)>,
    /// Whether a measurement has begun, and has not ended as it should.
    is_interrupted: bool,
}

/// A load, and the processes that serve it.
struct PreparedLoad {
    plan: LoadPlan,
    server_pids: Vec<u32>,
}

impl RequestsWorkload {
    /// A workload whose servers start when a cell needs them.
    ///
    /// # Errors
    /// There is no temporary folder, or there are no threads.
    pub fn new(options: RequestsOptions) -> Result<Self, WorkloadError> {
        let pool = ServerPool::new(options.haul.clone())?;
        Ok(Self {
            pool,
            tls: options.tls.as_deref().map(with_session_memory),
            options,
            prefix: format!("haul-bench-{:08x}", rand::random::<u32>()),
            stored: Vec::new(),
            leftover: Vec::new(),
            is_interrupted: false,
        })
    }

    /// Measures a cell once. Files that a DELETE or a GET needs are stored before.
    ///
    /// # Errors
    /// See [`WorkloadError`]. Requests that fail are counted in the measurement.
    pub async fn measure(
        &mut self,
        cell: &Cell,
        stop: &CancellationToken,
    ) -> Result<Measurement, WorkloadError> {
        let requests = RequestsCell::parse(cell)?;
        let load = match self.options.targets.is_empty() {
            true => self.embedded_load(&requests).await?,
            false => self.target_load(&requests)?,
        };
        let files = (requests.method, requests.files);
        if self.options.is_store && !self.leftover.contains(&files) {
            // First, so that they are removed also if this future is dropped.
            self.leftover.push(files);
        }
        self.is_interrupted = true;
        self.store_files(&requests, &load.plan, stop).await?;
        let meter = UsageMeter::start(&load.server_pids);
        let started = Instant::now();
        let mut measurement = run_load(load.plan.clone(), stop.clone()).await?;
        let wall = Duration::from_secs_f64(measurement.wall_s);
        meter.finish(wall).add_to(&mut measurement);
        let mut is_clean = requests.method == RequestsMethod::Delete
            && measurement.successes == u64::from(requests.files.count);
        if requests.method == RequestsMethod::Put && self.options.is_store {
            // Not measured, and done also after a stop: nothing of ours stays there.
            let plan = with_method(&load.plan, LoadMethod::Delete);
            is_clean = run_load(plan, CancellationToken::new())
                .await?
                .errors
                .is_empty();
        }
        if is_clean {
            self.leftover.retain(|leftover| *leftover != files);
        }
        if let Some(cap) = load.plan.max_rate {
            // Each load begins at once, so that many short ones would be more than the cap.
            let requests = (measurement.successes + measurement.failures()) as f64;
            let until = started + Duration::from_secs_f64(requests / cap);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
        self.is_interrupted = stop.is_cancelled();
        match self.is_interrupted {
            true => Err(WorkloadError::Interrupted),
            false => Ok(measurement),
        }
    }

    /// Removes what is still on the user's server. To be called at the end, also after an interruption.
    ///
    /// # Errors
    /// Files stay there; see [`WorkloadError`].
    pub async fn finish(&mut self) -> Result<(), WorkloadError> {
        self.stored.clear();
        let mut cause = None;
        let mut leftover = std::mem::take(&mut self.leftover);
        if self.is_interrupted {
            // The server may still have been storing a file whose request was given up.
            leftover.extend(leftover.clone());
        }
        for (method, files) in leftover {
            let requests = RequestsCell {
                method,
                files,
                concurrency: Some(CLEANING_CONCURRENCY),
                ..RequestsCell::parse(&Cell::default())?
            };
            let load = self.target_load(&requests)?;
            let plan = with_method(&load.plan, LoadMethod::Delete);
            let removing = run_load(plan, CancellationToken::new());
            let mut errors = match tokio::time::timeout(CLEANING_LIMIT, removing).await {
                Ok(removed) => removed?.errors.into_keys().collect(),
                Err(_) => vec!["timeout".to_owned()],
            };
            // Some of them may be gone already.
            errors.retain(|kind| !matches!(&**kind, "status 404" | "status 410"));
            cause = cause.or_else(|| errors.pop());
        }
        match (cause, self.options.targets.first()) {
            (Some(cause), Some(target)) => Err(WorkloadError::Bucket {
                action: "remove all files that begin with",
                place: redacted_url(&below(target, &self.prefix)).to_string(),
                cause,
            }),
            _ => Ok(()),
        }
    }

    /// Stores the files that are deleted, or fetched from the user's store.
    async fn store_files(
        &mut self,
        requests: &RequestsCell,
        plan: &LoadPlan,
        stop: &CancellationToken,
    ) -> Result<(), WorkloadError> {
        let is_needed = match requests.method {
            RequestsMethod::Put => false,
            RequestsMethod::Delete => true,
            RequestsMethod::Get => self.options.is_store && !self.stored.contains(&requests.files),
        };
        if !is_needed {
            return Ok(());
        }
        let plan = LoadPlan {
            pace: LoadPace::Closed,
            ..with_method(plan, LoadMethod::Put(requests.files.bytes))
        };
        let stored = run_load(plan, stop.clone()).await?;
        if requests.method == RequestsMethod::Get {
            self.stored.push(requests.files);
        }
        match stored.errors.iter().next() {
            Some((kind, count)) if !stop.is_cancelled() => Err(WorkloadError::Store {
                count: *count,
                kind: kind.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// A load on a server of ours.
    async fn embedded_load(
        &mut self,
        requests: &RequestsCell,
    ) -> Result<PreparedLoad, WorkloadError> {
        let is_tls = requests.protocol != RequestsProtocol::Http;
        if requests.server == RequestsServer::ShortQueue {
            let is_plain = requests.route == RequestsRoute::Direct
                && requests.method == RequestsMethod::Get
                && !is_tls;
            if !is_plain {
                return Err(WorkloadError::Level(LevelError {
                    factor: "server",
                    level: "short-queue".to_owned(),
                    expected: "it only answers plain GETs, directly",
                }));
            }
            let address = self.pool.lab().short_queue(requests.files.bytes)?;
            let address = self.pool.lab().link(address, requests.link).await?;
            return self.load_on(requests, address, Vec::new());
        }
        if requests.method == RequestsMethod::Get {
            self.pool.add_files(requests.files).await?;
        }
        let spec = ServeSpec {
            accept: requests.accept.clone(),
            discards_uploads: requests.method == RequestsMethod::Put,
            is_writable: requests.method != RequestsMethod::Get,
            is_tls,
            is_s3: false,
        };
        let server = self.pool.serve(&spec, requests.link).await?;
        let (mut connect_to, mut pids) = (None, vec![server.pid]);
        if requests.route != RequestsRoute::Direct {
            let proxy = match self.options.proxy {
                Some(proxy) => proxy,
                None => self.pool.lab().http_proxy().await?,
            };
            if requests.route == RequestsRoute::Proxy {
                let mut load = self.load_on(requests, server.address, pids)?;
                load.plan.proxy = Some(proxy);
                return Ok(load);
            }
            let is_warm = requests.route == RequestsRoute::WarmTunnel;
            let tunnel = self.pool.tunnel(server.address, proxy, is_warm).await?;
            connect_to = Some(tunnel.address);
            pids.push(tunnel.pid);
        }
        let mut load = self.load_on(requests, server.address, pids)?;
        load.plan.connect_to = connect_to;
        Ok(load)
    }

    /// A load on the file set of a server of ours.
    fn load_on(
        &mut self,
        requests: &RequestsCell,
        address: SocketAddr,
        server_pids: Vec<u32>,
    ) -> Result<PreparedLoad, WorkloadError> {
        let scheme = match requests.protocol {
            RequestsProtocol::Http => "http",
            _ => "https",
        };
        let Ok(mut url) = Url::parse(&format!("{scheme}://{address}/")) else {
            unreachable!("an address makes a URL");
        };
        let path = match requests.method {
            RequestsMethod::Get => ServerPool::folder_name(requests.files),
            _ => self.prefix.clone(),
        };
        url.set_path(&format!("/{path}/{{}}"));
        // A proxy of the user's is asked no more than a server of his.
        let max_rate = self
            .options
            .max_rate
            .filter(|_| self.options.proxy.is_some());
        let tls = self.client_tls()?;
        Ok(PreparedLoad {
            plan: plan(requests, vec![url], tls, max_rate),
            server_pids,
        })
    }

    /// The name of files on the user's server. Those of another method or size are others: each is removed on its own.
    fn stored_name(&self, requests: &RequestsCell) -> String {
        let method = match requests.method {
            RequestsMethod::Get => "get",
            RequestsMethod::Put => "put",
            RequestsMethod::Delete => "delete",
        };
        let set = ServerPool::folder_name(requests.files);
        format!("{}-{method}-{set}-{{}}", self.prefix)
    }

    fn client_tls(&mut self) -> Result<Arc<rustls::ClientConfig>, WorkloadError> {
        if self.tls.is_none() {
            let tls = self.pool.client_tls().map_err(WorkloadError::Tls)?;
            self.tls = Some(with_session_memory(&tls));
        }
        match &self.tls {
            Some(tls) => Ok(Arc::clone(tls)),
            None => unreachable!("it was set above"),
        }
    }

    /// A load on the user's server.
    fn target_load(&mut self, requests: &RequestsCell) -> Result<PreparedLoad, WorkloadError> {
        let targets = &self.options.targets;
        let urls = match (self.options.is_store, requests.url) {
            (true, _) => vec![below(&targets[0], &self.stored_name(requests))],
            // They are the user's own files.
            (false, _) if requests.method != RequestsMethod::Get => {
                return Err(WorkloadError::NotStored);
            }
            (false, None) => targets.clone(),
            (false, Some(number)) => targets.get(number - 1).cloned().into_iter().collect(),
        };
        let tls = self.client_tls()?;
        Ok(PreparedLoad {
            plan: LoadPlan {
                // The user's own URLs are fetched as they are.
                is_numbered: self.options.is_store,
                ..plan(requests, urls, tls, self.options.max_rate)
            },
            server_pids: self.options.server_pids.clone(),
        })
    }
}

/// The load of a cell.
fn plan(
    requests: &RequestsCell,
    urls: Vec<Url>,
    tls: Arc<rustls::ClientConfig>,
    max_rate: Option<f64>,
) -> LoadPlan {
    LoadPlan {
        is_numbered: true,
        urls,
        method: match requests.method {
            RequestsMethod::Get => LoadMethod::Get,
            RequestsMethod::Put => LoadMethod::Put(requests.files.bytes),
            RequestsMethod::Delete => LoadMethod::Delete,
        },
        connect_to: None,
        proxy: None,
        client: requests.client,
        concurrency: requests.concurrency.unwrap_or(requests.files.count),
        protocol: match requests.protocol {
            RequestsProtocol::Http | RequestsProtocol::Https => LoadProtocol::Http1,
            RequestsProtocol::HttpsResumed => LoadProtocol::Http1Resumed,
            RequestsProtocol::Http2 => LoadProtocol::Http2,
        },
        is_kept_alive: requests.is_kept_alive,
        pace: requests.pace,
        end: LoadEnd::Requests(requests.files.count.into()),
        tls,
        max_rate,
    }
}

fn with_method(plan: &LoadPlan, method: LoadMethod) -> LoadPlan {
    LoadPlan {
        method,
        ..plan.clone()
    }
}

/// A path below a URL, without its query.
fn below(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    let folder = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{folder}/{path}"));
    url.set_query(None);
    url
}
