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

pub use outcome::NO_ANSWER;
pub use sessions::with_session_memory;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use haul_transfer::batch::StopReason;
use rand::RngCore as _;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use connect::LoadConnector;
use schedule::LoadSchedule;
use slot::{LoadState, run_slots};
use tally::LoadTally;
use target::TargetList;

use crate::Measurement;
use crate::servers::Network;

/// A load: which requests, by which client, at which pace.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The URLs, in turn: request number N is of URL N modulo their number.
    pub urls: Vec<Url>,
    /// How many files each URL stands for: request N is for the URL with N modulo this at its end. `None` for URLs that are requested as they are.
    pub files: Option<u64>,
    /// What is sent.
    pub method: LoadMethod,
    /// The length of the body of a PUT.
    pub put_bytes: u64,
    /// Where connections go in place of the URL's host and port, or of the proxy: an address of a relay or a tunnel.
    pub connect_to: Option<SocketAddr>,
    /// Where the threads of the client run.
    pub network: Network,
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
    pub end: LoadEnd,
    /// The TLS settings for https URLs.
    pub tls: Arc<rustls::ClientConfig>,
    /// The most requests a second, whatever the pace; `None` for a host that may have as many as it takes.
    pub max_rate: Option<f64>,
}

/// The method of all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMethod {
    Get,
    Put,
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

/// HTTP, and what is below it. The URL decides whether that is TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/1.1, with a full TLS handshake for each connection.
    Https,
    /// The same, and TLS sessions are resumed that the plan's settings remember: see [`with_session_memory`].
    HttpsResumed,
    /// HTTP/2 over TLS: all requests on one connection, or a connection each.
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

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadEnd {
    /// After so many requests.
    Requests(u64),
    /// After so many seconds.
    Seconds(f64),
}

/// What was measured, and why no more.
#[derive(Debug)]
pub struct LoadOutcome {
    pub measurement: Measurement,
    /// Why it ended before its end.
    pub stopped: Option<StopReason>,
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
    #[error("no URL")]
    NoUrl,
}

/// Bytes of request bodies, which repeat them.
const BODY_BUFFER: u64 = 1 << 20;

/// Puts a load on a server. Returns what was measured when it ended, and when a pause that the server asked for (Retry-After) is over, or when `stop` was cancelled: then of what was done by then.
///
/// # Errors
/// Only for what is wrong here: failures of requests are counted.
pub async fn run_load(plan: LoadPlan, stop: CancellationToken) -> Result<LoadOutcome, LoadError> {
    let targets = TargetList::new(&plan)?;
    let mut body = vec![0; usize::try_from(plan.body_bytes().min(BODY_BUFFER)).unwrap_or(0)];
    // Nothing on the way can compress it.
    rand::rng().fill_bytes(&mut body);
    let slots = worker_slots(&plan).into_iter().enumerate();
    let stop = stop.child_token();
    // Ends the threads if this future is dropped.
    let _stop_on_drop = stop.clone().drop_guard();
    let state = Arc::new(LoadState {
        schedule: LoadSchedule::new(plan.pace, plan.end, plan.max_rate),
        targets,
        connector: LoadConnector::new(&plan),
        body: Bytes::from(body),
        stop,
        plan,
    });
    let (start, started) = watch::channel(Instant::now());
    let tallies: Vec<_> = slots
        .map(|(number, slots)| spawn_worker(number, slots, Arc::clone(&state), started.clone()))
        .collect::<io::Result<_>>()
        .map_err(LoadError::Start)?;
    let begin = Instant::now();
    start.send_replace(begin);
    let mut total = LoadTally::new();
    for tally in tallies {
        let panicked = |_| io::Error::other("a thread of the client panicked");
        let tally = tally.await.map_err(panicked).flatten();
        total.merge(tally.map_err(LoadError::Start)?);
    }
    // The next load would know nothing of it.
    let pause = state.schedule.pause_left(begin.elapsed());
    if !pause.is_zero() {
        tokio::select! {
            () = state.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    Ok(LoadOutcome {
        measurement: total.into_measurement(&state.targets),
        stopped: state.stop.is_cancelled().then_some(StopReason::Interrupted),
    })
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

/// Starts a thread of the client with so many slots, which waits for the moment of the start. Returns what it came to.
fn spawn_worker(
    number: usize,
    slots: u32,
    state: Arc<LoadState>,
    mut started: watch::Receiver<Instant>,
) -> io::Result<oneshot::Receiver<io::Result<LoadTally>>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (ended, tally) = oneshot::channel();
    let network = state.plan.network.clone();
    let work = move || {
        let end = runtime.block_on(async {
            started.changed().await.ok()?;
            let start = *started.borrow();
            Some(run_slots(state, start, slots).await)
        });
        // A lookup of a name that does not end must not hold the thread.
        runtime.shutdown_background();
        if let Some(end) = end {
            // Nobody waits for it if the caller was dropped.
            let _ = ended.send(end);
        }
    };
    let thread = std::thread::Builder::new().name(format!("load-{number}"));
    network.run(|| thread.spawn(work))?;
    Ok(tally)
}

impl LoadPlan {
    /// The length of the body of each request.
    fn body_bytes(&self) -> u64 {
        match self.method {
            LoadMethod::Put => self.put_bytes,
            LoadMethod::Get | LoadMethod::Delete => 0,
        }
    }
}
