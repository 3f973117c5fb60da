//! The loop of a slot: takes a turn, waits until it is due, sends the request on its connection, and counts what came of it. All clients,
//! protocols, paces and ends run this loop.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connect::LoadConnector;
use super::http1::{Http1Buffers, Http1Client, RepeatedBody};
use super::http2::{Http2Client, WorkerConnections};
use super::outcome::{ConnectTimes, ExchangeFailure, LoadFailure, LoadResponse, RequestTimes};
use super::schedule::{LoadSchedule, RequestTurn};
use super::tally::LoadTally;
use super::target::{LoadTarget, TargetList};
use super::timer::{PreciseTimer, TimeLimit};
use super::{LoadMethod, LoadPlan, LoadProtocol};

/// The limit of a request, with its connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most connections to different origins that a slot keeps.
const MAX_KEPT: usize = 16;

/// What all workers share.
pub(super) struct LoadState {
    pub(super) schedule: LoadSchedule,
    pub(super) targets: TargetList,
    pub(super) connector: LoadConnector,
    pub(super) method: LoadMethod,
    pub(super) is_http2: bool,
    pub(super) is_kept_alive: bool,
    /// Bytes of bodies.
    pub(super) body: Bytes,
    pub(super) stop: CancellationToken,
}

/// The slots of one thread.
struct LoadWorker<'a> {
    state: &'a LoadState,
    /// When the load started.
    start: Instant,
    /// All in one thread: the lock is never waited for.
    tally: Mutex<LoadTally>,
    http2: WorkerConnections,
}

/// A request under way at a time, and the connections that it keeps.
struct LoadSlot<'a> {
    worker: &'a LoadWorker<'a>,
    connections: KeptConnections,
    buffers: Http1Buffers,
}

/// Connections by the numbers of their origins.
#[derive(Default)]
struct KeptConnections(Vec<(usize, SlotConnection)>);

enum SlotConnection {
    Http1(Http1Client),
    Http2(Http2Client),
}

/// A connection for a request.
struct ChosenConnection {
    connection: SlotConnection,
    /// The times of making it; `None` if it was there.
    made: Option<ConnectTimes>,
}

/// A response, and when its request was sent.
struct CompleteExchange {
    response: LoadResponse,
    connecting: ConnectTimes,
    sent: Instant,
}

/// Runs slots in this thread until the load ends, or is stopped.
pub(super) async fn run_slots(
    state: Arc<LoadState>,
    start: Instant,
    slots: u32,
) -> io::Result<LoadTally> {
    let worker = LoadWorker {
        state: &state,
        start,
        tally: Mutex::new(LoadTally::new()),
        http2: WorkerConnections::new(state.targets.origins.len()),
    };
    let mut running: FuturesUnordered<_> = (0..slots).map(|_| worker.run_slot()).collect();
    let ended = async {
        while let Some(ended) = running.next().await {
            ended?;
        }
        Ok(())
    };
    // A token for each thread, as a poll locks it.
    let stop = state.stop.child_token();
    // Slots wait often enough; a budget would only make them yield before.
    let ended = tokio::task::unconstrained(ended);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        ended = ended => ended,
    };
    drop(running);
    let tally = worker.tally.into_inner();
    ended.map(|()| tally.unwrap_or_else(PoisonError::into_inner))
}

impl LoadState {
    pub(super) fn new(
        plan: &LoadPlan,
        targets: TargetList,
        body: Bytes,
        stop: CancellationToken,
    ) -> Self {
        Self {
            schedule: LoadSchedule::new(plan.pace, plan.end, plan.max_rate),
            targets,
            connector: LoadConnector::new(plan),
            method: plan.method,
            is_http2: plan.protocol == LoadProtocol::Http2,
            is_kept_alive: plan.is_kept_alive,
            body,
            stop,
        }
    }
}

impl LoadWorker<'_> {
    fn tally(&self, count: impl FnOnce(&mut LoadTally)) {
        count(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn run_slot(&self) -> io::Result<()> {
        let schedule = &self.state.schedule;
        let mut timer = PreciseTimer::default();
        let mut limit = TimeLimit::new(REQUEST_TIMEOUT);
        let mut slot = LoadSlot {
            worker: self,
            connections: KeptConnections::default(),
            buffers: Http1Buffers::new(),
        };
        let mut now = self.start.elapsed();
        while let Some(turn) = schedule.next_turn(now) {
            now = self.wait_for(turn, now, &mut timer).await?;
            if schedule.has_ended(now) {
                if schedule.is_fixed_rate() {
                    self.tally(|tally| tally.add_failure(now, LoadFailure::NotSent));
                }
                continue;
            }
            let begin = self.start + now;
            let exchange = slot.request(turn.number, begin);
            let ended = limit.run(begin + REQUEST_TIMEOUT, exchange).await;
            let from = if schedule.is_fixed_rate() {
                turn.due
            } else {
                now
            };
            now = self.count(from, ended.unwrap_or(Err(LoadFailure::Timeout)));
        }
        Ok(())
    }

    /// Waits until a request is due, and the cap of the rate and the server's wishes allow it to start.
    async fn wait_for(
        &self,
        turn: RequestTurn,
        mut now: Duration,
        timer: &mut PreciseTimer,
    ) -> io::Result<Duration> {
        let schedule = &self.state.schedule;
        let mut until = turn.due;
        let mut is_reserved = false;
        loop {
            while now < until && !schedule.has_ended(now) {
                timer.sleep(schedule.wait(now, until)).await?;
                now = self.start.elapsed();
            }
            if schedule.has_ended(now) || (is_reserved && !schedule.is_paused(now)) {
                return Ok(now);
            }
            until = schedule.reserve_start(now);
            is_reserved = true;
        }
    }

    /// Counts how a request ended. Returns when.
    fn count(&self, from: Duration, ended: Result<CompleteExchange, LoadFailure>) -> Duration {
        let exchange = match ended {
            Ok(exchange) => exchange,
            Err(kind) => {
                let now = self.start.elapsed();
                self.tally(|tally| tally.add_failure(now, kind));
                return now;
            }
        };
        let response = exchange.response;
        let end = response.end.saturating_duration_since(self.start);
        if let Some(pause) = response.retry_after {
            self.state.schedule.pause(end, pause);
        }
        let times = RequestTimes {
            connecting: exchange.connecting,
            first_byte: response.first_byte - exchange.sent,
            body: response.end - response.first_byte,
            latency: end.saturating_sub(from),
        };
        let bytes = match self.state.method {
            LoadMethod::Put(bytes) => bytes,
            LoadMethod::Get | LoadMethod::Delete => response.body_bytes,
        };
        self.tally(|tally| match response.status {
            200..300 => tally.add_success(end, bytes, &times),
            status => tally.add_failure(end, LoadFailure::Status(status)),
        });
        end
    }
}

impl LoadSlot<'_> {
    /// Sends a request, on a kept connection if there is one. If that breaks before the response, another one replaces it.
    async fn request(
        &mut self,
        number: u64,
        begin: Instant,
    ) -> Result<CompleteExchange, LoadFailure> {
        let target = self.worker.state.targets.target(number);
        let mut broken = None;
        loop {
            let mut chosen = self.connection(target.origin, broken).await?;
            // The clock is read only where time has passed.
            let is_new = chosen.made.is_some() || self.worker.state.is_http2;
            let sent = if is_new { Instant::now() } else { begin };
            match self.exchange(&mut chosen.connection, target, number).await {
                Ok(response) => {
                    if response.keeps_connection && self.worker.state.is_kept_alive {
                        self.connections.put(target.origin, chosen.connection);
                    }
                    return Ok(CompleteExchange {
                        response,
                        connecting: chosen.made.unwrap_or_default(),
                        sent,
                    });
                }
                Err(failure)
                    if failure.is_before_response && chosen.made.is_none() && broken.is_none() =>
                {
                    broken = Some(chosen.connection.number());
                }
                Err(failure) => return Err(failure.kind),
            }
        }
    }

    /// A kept connection, or a new one if there is none. If the pool has the `broken` one, it makes another.
    async fn connection(
        &mut self,
        origin: usize,
        broken: Option<u64>,
    ) -> Result<ChosenConnection, LoadFailure> {
        if let Some(connection) = self.connections.take(origin) {
            return Ok(ChosenConnection {
                connection,
                made: None,
            });
        }
        let (worker, state) = (self.worker, self.worker.state);
        let address = &state.targets.origins[origin];
        let chosen = if state.is_http2 {
            let pooled = if state.is_kept_alive {
                let connections = &worker.http2;
                let connecting =
                    connections.connect_shared(&state.connector, origin, address, broken);
                connecting.await?
            } else {
                worker.http2.connect(&state.connector, address).await?
            };
            ChosenConnection {
                connection: SlotConnection::Http2(pooled.connection),
                made: pooled.made,
            }
        } else {
            let (stream, times) = state.connector.connect(address).await?;
            ChosenConnection {
                connection: SlotConnection::Http1(Http1Client { stream }),
                made: Some(times),
            }
        };
        if let Some(times) = chosen.made {
            worker.tally(|tally| tally.add_connection(times.is_resumed));
        }
        Ok(chosen)
    }

    async fn exchange(
        &mut self,
        connection: &mut SlotConnection,
        target: &LoadTarget,
        number: u64,
    ) -> Result<LoadResponse, ExchangeFailure> {
        let state = self.worker.state;
        let length = state.method.body_bytes();
        match connection {
            SlotConnection::Http1(connection) => {
                target.write_head(number, &mut self.buffers.request);
                let bytes = &state.body;
                let body = RepeatedBody { bytes, length };
                connection.exchange(&mut self.buffers, body).await
            }
            SlotConnection::Http2(connection) => {
                let request = target.http2_request(number, state.method);
                let request = request.ok_or(LoadFailure::InvalidResponse)?;
                connection.exchange(request, &state.body, length).await
            }
        }
    }
}

impl SlotConnection {
    /// The number of the connection in the pool, if it is of a pool.
    fn number(&self) -> u64 {
        match self {
            Self::Http1(_) => 0,
            Self::Http2(connection) => connection.number(),
        }
    }
}

impl KeptConnections {
    fn take(&mut self, origin: usize) -> Option<SlotConnection> {
        let index = self.0.iter().position(|(known, _)| *known == origin)?;
        Some(self.0.swap_remove(index).1)
    }

    fn put(&mut self, origin: usize, connection: SlotConnection) {
        if self.0.len() >= MAX_KEPT {
            self.0.swap_remove(0);
        }
        self.0.push((origin, connection));
    }
}
