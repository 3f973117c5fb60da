//! The workload `requests`: the load generator on a server of haul's, or on the one that the user named.
//!
//! A request for a file of ours is `/SET/N`, where N is its number. What is stored has a name that begins with a random one, and is removed. No folder
//! is made for it: HTTP could not remove that.

mod cell;

#[cfg(test)]
mod tests;

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
use crate::servers::{Network, ServerPool, UsageMeter};
use crate::{Cell, Measurement};
pub(crate) use cell::FACTORS;
pub use cell::{RequestsCell, RequestsRoute};

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
    leftover: Vec<(LoadMethod, FileSet)>,
    /// Whether a measurement has begun, and has not ended as it should.
    is_interrupted: bool,
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
        let (plan, server_pids) = if self.options.targets.is_empty() {
            self.embedded_load(&requests).await?
        } else {
            (
                self.target_load(&requests)?,
                self.options.server_pids.clone(),
            )
        };
        let files = (requests.method, requests.files);
        if self.options.is_store && !self.leftover.contains(&files) {
            // First, so that they are removed also if this future is dropped.
            self.leftover.push(files);
        }
        self.is_interrupted = true;
        self.store_files(&requests, &plan, stop).await?;
        let meter = UsageMeter::start(&server_pids);
        let started = Instant::now();
        let mut measurement = run_load(plan.clone(), stop.clone()).await?.measurement;
        meter.finish(&mut measurement);
        let mut is_clean = requests.method == LoadMethod::Delete
            && measurement.successes == u64::from(requests.files.count);
        if requests.method == LoadMethod::Put && self.options.is_store {
            // Not measured, and done also after a stop: nothing of ours stays there.
            let removed = run_load(
                each_file(&plan, LoadMethod::Delete),
                CancellationToken::new(),
            );
            is_clean = removed.await?.measurement.errors.is_empty();
        }
        if is_clean {
            self.leftover.retain(|leftover| *leftover != files);
        }
        if let Some(cap) = plan.max_rate {
            // Each load begins at once, so that many short ones would be more than the cap.
            let requests = (measurement.successes + measurement.failures()) as f64;
            let until = started + Duration::from_secs_f64(requests / cap);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
        self.is_interrupted = stop.is_cancelled();
        match (self.is_interrupted, measurement.successes) {
            (false, _) => Ok(measurement),
            (true, 0) if measurement.failures() > 0 => {
                let kinds: Vec<_> = measurement
                    .errors
                    .iter()
                    .map(|(kind, count)| format!("{count} x {kind}"))
                    .collect();
                Err(WorkloadError::OnlyFailures(kinds.join(", ")))
            }
            (true, _) => Err(WorkloadError::Interrupted),
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
                concurrency: CLEANING_CONCURRENCY,
                ..RequestsCell::parse(&Cell::default())?
            };
            let plan = each_file(&self.target_load(&requests)?, LoadMethod::Delete);
            let removing = run_load(plan, CancellationToken::new());
            let mut errors = match tokio::time::timeout(CLEANING_LIMIT, removing).await {
                Ok(removed) => removed?.measurement.errors.into_keys().collect(),
                Err(_) => vec!["timeout".to_owned()],
            };
            // Some of them may be gone already.
            errors.retain(|kind| !matches!(&**kind, "status 404" | "status 410"));
            cause = cause.or_else(|| errors.pop());
        }
        match (cause, self.options.targets.first()) {
            (Some(cause), Some(target)) => Err(WorkloadError::Store {
                action: "remove all files that begin with",
                place: redacted_url(&below(target, &self.prefix)),
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
            LoadMethod::Put => false,
            LoadMethod::Delete => true,
            LoadMethod::Get => self.options.is_store && !self.stored.contains(&requests.files),
        };
        if !is_needed {
            return Ok(());
        }
        let stored = run_load(each_file(plan, LoadMethod::Put), stop.clone()).await?;
        if let Some(cause) = stored.measurement.errors.into_keys().next() {
            return Err(WorkloadError::Store {
                action: "store files that begin with",
                place: redacted_url(&plan.urls[0]),
                cause,
            });
        }
        if requests.method == LoadMethod::Get {
            self.stored.push(requests.files);
        }
        Ok(())
    }

    /// A load on a server of ours, and the processes that serve it.
    async fn embedded_load(
        &mut self,
        requests: &RequestsCell,
    ) -> Result<(LoadPlan, Vec<u32>), WorkloadError> {
        let (is_tls, link) = (requests.protocol != LoadProtocol::Http, requests.link);
        if requests.has_short_queue {
            let is_plain = requests.route == RequestsRoute::Direct
                && requests.method == LoadMethod::Get
                && !is_tls;
            if !is_plain {
                let expected = "it only answers plain GETs, directly";
                return Err(LevelError::new("server", "short-queue", expected).into());
            }
            let lab = self.pool.lab();
            let address = lab.short_queue(requests.files.bytes, link)?;
            let address = lab.relay(address, link).await?;
            return Ok((self.load_on(requests, address)?, Vec::new()));
        }
        if requests.method == LoadMethod::Get {
            self.pool.add_files(requests.files).await?;
        }
        let mut flags = match requests.method {
            LoadMethod::Get => Vec::new(),
            LoadMethod::Put => vec!["--sink", "null", "--writable"],
            LoadMethod::Delete => vec!["--writable"],
        };
        if let Some(accept) = &requests.accept {
            flags.extend(["--accept", accept]);
        }
        let server = self.pool.serve(&flags, is_tls, link).await?;
        let mut plan = self.load_on(requests, server.address)?;
        let mut pids = vec![server.pid];
        if requests.route != RequestsRoute::Direct {
            let proxy = match self.options.proxy {
                Some(proxy) => proxy,
                None => self.pool.lab().http_proxy(link).await?,
            };
            if requests.route == RequestsRoute::Proxy {
                plan.proxy = Some(proxy);
            } else {
                let is_warm = requests.route == RequestsRoute::WarmTunnel;
                let tunnel = self
                    .pool
                    .tunnel(server.address, proxy, is_warm, link)
                    .await?;
                plan.connect_to = Some(tunnel.address);
                pids.push(tunnel.pid);
            }
        }
        Ok((plan, pids))
    }

    /// A load on the file set of a server of ours.
    fn load_on(
        &mut self,
        requests: &RequestsCell,
        address: SocketAddr,
    ) -> Result<LoadPlan, WorkloadError> {
        let scheme = match requests.protocol {
            LoadProtocol::Http => "http",
            _ => "https",
        };
        let path = match requests.method {
            LoadMethod::Get => ServerPool::folder_name(requests.files),
            _ => self.prefix.clone(),
        };
        let Ok(url) = Url::parse(&format!("{scheme}://{address}/{path}/")) else {
            unreachable!("an address makes a URL");
        };
        let mut plan = self.plan(requests, vec![url], true)?;
        plan.network = self.pool.lab().ends(requests.link)?.client;
        // A proxy of the user's is asked no more than a server of his.
        plan.max_rate = plan.max_rate.filter(|_| self.options.proxy.is_some());
        Ok(plan)
    }

    /// A load on the user's server.
    fn target_load(&mut self, requests: &RequestsCell) -> Result<LoadPlan, WorkloadError> {
        let (targets, method) = (&self.options.targets, requests.method.name());
        if self.options.is_store {
            // Files of another method or size are others: each is removed on its own.
            let set = ServerPool::folder_name(requests.files);
            let url = below(&targets[0], &format!("{}-{method}-{set}-", self.prefix));
            return self.plan(requests, vec![url], true);
        }
        if requests.method != LoadMethod::Get {
            let expected = "get: PUT and DELETE are for files that haul has stored itself";
            return Err(LevelError::new("method", &method.to_lowercase(), expected).into());
        }
        let urls = match requests.url {
            None => targets.clone(),
            Some(number) => targets.get(number - 1).cloned().into_iter().collect(),
        };
        self.plan(requests, urls, false)
    }

    /// The load of a cell on these URLs, or on the files below them.
    fn plan(
        &mut self,
        requests: &RequestsCell,
        urls: Vec<Url>,
        has_files: bool,
    ) -> Result<LoadPlan, WorkloadError> {
        let tls = match &self.tls {
            Some(tls) => Arc::clone(tls),
            None => with_session_memory(self.pool.client_tls()?.as_ref()),
        };
        self.tls = Some(Arc::clone(&tls));
        Ok(LoadPlan {
            urls,
            files: has_files.then_some(requests.files.count.into()),
            method: requests.method,
            put_bytes: requests.files.bytes,
            connect_to: None,
            network: Network::Machine,
            proxy: None,
            client: requests.client,
            concurrency: requests.concurrency,
            protocol: requests.protocol,
            is_kept_alive: requests.is_kept_alive,
            pace: requests.pace,
            end: requests.end,
            tls,
            max_rate: self.options.max_rate,
        })
    }
}

/// A request for each file of a plan, as fast as it goes.
fn each_file(plan: &LoadPlan, method: LoadMethod) -> LoadPlan {
    LoadPlan {
        method,
        pace: LoadPace::Closed,
        end: LoadEnd::Requests(plan.files.unwrap_or_default()),
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
