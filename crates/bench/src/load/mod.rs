//! The load generator: one loop, whose pace, end and protocol are values.
//!
//! `schedule` says which request is next and when; `slot` has the loop. `target` makes URLs into bytes of requests, `connect` makes connections,
//! `http1` and `http2` send requests on them, and `tally` counts what came of it. The client runs in threads of its own.

mod connect;
mod http1;
mod http2;
mod outcome;
mod schedule;
mod sessions;
mod slot;
mod sys;
mod tally;
mod target;
mod timer;

#[cfg(test)]
mod tests;

pub use sessions::with_session_memory;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rand::RngCore as _;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use slot::{LoadState, run_slots};
use tally::LoadTally;
use target::TargetList;

use crate::Measurement;

/// A load: which requests, by which client, at which pace.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The URLs, in turn: request number N is of URL N modulo their number.
    pub urls: Vec<Url>,
    /// Whether a `{}` in a URL becomes the number of the request.
    pub is_numbered: bool,
    /// What is sent.
    pub method: LoadMethod,
    /// Where connections go in place of the URL's host and port, or of the proxy: an address of a relay or a tunnel.
    pub connect_to: Option<SocketAddr>,
    /// An HTTP proxy for http URLs, which gets absolute targets.
    pub proxy: Option<SocketAddr>,
    /// Threads with blocking sockets, or tasks.
    pub client: LoadClient,
    /// Requests that are under way at a time.
    pub concurrency: u32,
    /// The protocol above TCP.
    pub protocol: LoadProtocol,
    /// Whether a connection carries many requests.
    pub is_kept_alive: bool,
    /// When the next request begins.
    pub pace: LoadPace,
    /// When the load ends.
    pub end: LoadEnd,
    /// The TLS settings for https URLs.
    pub tls: Arc<rustls::ClientConfig>,
    /// The most requests a second, whatever the pace; `None` for a host that may have as many as it takes.
    pub max_rate: Option<f64>,
}

/// The method and the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMethod {
    /// GET.
    Get,
    /// PUT of so many bytes.
    Put(u64),
    /// DELETE.
    Delete,
}

/// How a client waits for its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadClient {
    /// A thread with a blocking socket for each request under way. With HTTP/2 its socket does not block, as HTTP/2 reads while it writes.
    Threads,
    /// An event loop on each processor.
    Async,
}

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadProtocol {
    /// HTTP/1.1, above TLS for https URLs. No TLS session is resumed.
    Http1,
    /// The same, and TLS sessions are resumed that the plan's settings remember: see [`with_session_memory`].
    Http1Resumed,
    /// HTTP/2: all requests on one connection, or a connection each.
    Http2,
}

/// When requests begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadPace {
    /// The next request begins when one has ended.
    Closed,
    /// So many a second, whatever the responses do. A latency counts from the moment at which its request was due.
    Rate(f64),
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadEnd {
    /// After so many requests.
    Requests(u64),
    /// After so many seconds.
    Seconds(f64),
}

/// Why a load could not be put on at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A thread or runtime could not be started.
    #[error("cannot start the client")]
    Start(#[source] io::Error),
    /// A URL is not http or https, or not one that the protocol can send.
    #[error("cannot send requests for {0}")]
    Url(String),
    /// The plan has no URL, or a rate that is none.
    #[error("{0}")]
    Plan(&'static str),
}

/// Bytes of request bodies, which repeat them.
const BODY_BUFFER: u64 = 1 << 20;

/// A thread of the client.
struct WorkerThread {
    /// Lets it start; dropped, it ends.
    start: oneshot::Sender<Instant>,
    /// What it came to.
    tally: oneshot::Receiver<io::Result<LoadTally>>,
}

/// Puts a load on a server. Returns what was measured when it ended, and when a pause that the server asked for (Retry-After) is over, or when `stop` was cancelled: then of what was done by then.
///
/// # Errors
/// Only for what is wrong here: failures of requests are counted.
pub async fn run_load(plan: LoadPlan, stop: CancellationToken) -> Result<Measurement, LoadError> {
    check(&plan)?;
    let targets = TargetList::new(&plan)?;
    let mut body = vec![0; usize::try_from(plan.method.body_bytes().min(BODY_BUFFER)).unwrap_or(0)];
    // Nothing on the way can compress it.
    rand::rng().fill_bytes(&mut body);
    let stop = stop.child_token();
    // Ends the threads if this future is dropped.
    let _stop_on_drop = stop.clone().drop_guard();
    let state = Arc::new(LoadState::new(&plan, targets, Bytes::from(body), stop));
    let threads = worker_slots(&plan).into_iter().enumerate();
    let threads: Vec<WorkerThread> = threads
        .map(|(number, slots)| WorkerThread::spawn(number, slots, Arc::clone(&state)))
        .collect::<io::Result<_>>()
        .map_err(LoadError::Start)?;
    let start = Instant::now();
    let mut ends = Vec::with_capacity(threads.len());
    for thread in threads {
        // A thread waits for it; if it panicked, its end says so.
        let _ = thread.start.send(start);
        ends.push(thread.tally);
    }
    let mut total = LoadTally::new();
    for end in ends {
        let panicked = |_| io::Error::other("a thread of the client panicked");
        let tally = end.await.map_err(panicked).flatten();
        total.merge(&tally.map_err(LoadError::Start)?);
    }
    // The next load would know nothing of it.
    let pause = state.schedule.pause_left(start.elapsed());
    if !pause.is_zero() {
        tokio::select! {
            () = state.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    Ok(total.into_measurement())
}

fn check(plan: &LoadPlan) -> Result<(), LoadError> {
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    if plan.urls.is_empty() {
        return Err(LoadError::Plan("no URL"));
    }
    if matches!(plan.pace, LoadPace::Rate(rate) if !is_rate(rate))
        || plan.max_rate.is_some_and(|rate| !is_rate(rate))
    {
        return Err(LoadError::Plan("a rate must be above zero"));
    }
    Ok(())
}

/// How many slots each thread of the client has.
fn worker_slots(plan: &LoadPlan) -> Vec<u32> {
    let slots = plan.concurrency.max(1);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = match plan.client {
        LoadClient::Threads => slots,
        LoadClient::Async => slots.min(u32::try_from(processors).unwrap_or(u32::MAX)),
    };
    (0..threads)
        .map(|thread| slots / threads + u32::from(thread < slots % threads))
        .collect()
}

impl WorkerThread {
    /// Starts a thread with so many slots, which waits for its start.
    fn spawn(number: usize, slots: u32, state: Arc<LoadState>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (start, started) = oneshot::channel();
        let (ended, tally) = oneshot::channel();
        let work = move || {
            let end = runtime.block_on(async {
                let start = started.await.ok()?;
                Some(run_slots(state, start, slots).await)
            });
            // A lookup of a name that does not end must not hold the thread.
            runtime.shutdown_background();
            if let Some(end) = end {
                // Nobody waits for it if the caller was dropped.
                let _ = ended.send(end);
            }
        };
        std::thread::Builder::new()
            .name(format!("load-{number}"))
            .spawn(work)?;
        Ok(Self { start, tally })
    }
}
