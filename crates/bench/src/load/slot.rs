//! The loop of a slot: takes a turn, waits until it is due, sends the request on its connection, and counts what came of it. All clients,
//! protocols, paces and ends run this loop.
#![expect(clippy::future_not_send, reason = "the slots of a thread stay in it")]

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::task::Id;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connect::{LoadConnector, LoadStream};
use super::http1::{self, Http1Buffers};
use super::http2::{Http2Client, WorkerConnections};
use super::outcome::{ConnectTimes, ExchangeFailure, LoadFailure, LoadResponse};
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
    pub(super) plan: LoadPlan,
    pub(super) schedule: LoadSchedule,
    pub(super) targets: TargetList,
    pub(super) connector: LoadConnector,
    /// Bytes of bodies.
    pub(super) body: Bytes,
    pub(super) stop: CancellationToken,
}

/// The slots of one thread.
struct LoadWorker<'a> {
    state: &'a LoadState,
    start: Instant,
    tally: RefCell<LoadTally>,
    http2: WorkerConnections,
}

/// A request under way at a time, and the connections that it keeps.
struct LoadSlot<'a> {
    worker: &'a LoadWorker<'a>,
    /// Connections by the numbers of their origins.
    kept: Vec<(usize, SlotConnection)>,
    buffers: Http1Buffers,
    /// The number of the request that is under way.
    pending: Option<u64>,
}

enum SlotConnection {
    Http1(Box<dyn LoadStream>),
    Http2(Http2Client),
}

/// A response, and the times of its phases: DNS, connect, TLS, first byte, body.
type CompleteExchange = (LoadResponse, [Duration; 5]);

/// Runs slots in this thread until the load ends, or is stopped.
pub(super) async fn run_slots(
    state: Arc<LoadState>,
    start: Instant,
    slots: u32,
) -> io::Result<LoadTally> {
    let worker = LoadWorker {
        state: &state,
        start,
        tally: RefCell::new(LoadTally::new()),
        http2: WorkerConnections::new(state.targets.origins.len()),
    };
    let running: FuturesUnordered<_> = (0..slots).map(|_| worker.run_slot()).collect();
    // A token for each thread, as a poll locks it.
    let stop = state.stop.child_token();
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        // Slots wait often enough; a budget would only make them yield before.
        ended = tokio::task::unconstrained(running.try_collect::<()>()) => ended,
    };
    ended.map(|()| worker.tally.into_inner())
}

impl LoadWorker<'_> {
    async fn run_slot(&self) -> io::Result<()> {
        let schedule = &self.state.schedule;
        let mut timer = PreciseTimer::default();
        let mut limit = TimeLimit::new(REQUEST_TIMEOUT);
        let mut slot = LoadSlot {
            worker: self,
            kept: Vec::new(),
            buffers: Http1Buffers::new(),
            pending: None,
        };
        let mut now = self.start.elapsed();
        while let Some(turn) = schedule.next_turn(now) {
            now = self.wait_for(turn, now, &mut timer).await?;
            if schedule.has_ended(now) {
                if schedule.is_fixed_rate() {
                    self.count_failure(turn.number, now, LoadFailure::NotSent);
                }
                continue;
            }
            let begin = self.start + now;
            slot.pending = Some(turn.number);
            let exchange = slot.request(turn.number, begin);
            let ended = limit.run(begin + REQUEST_TIMEOUT, exchange).await;
            slot.pending = None;
            let from = if schedule.is_fixed_rate() {
                turn.due
            } else {
                now
            };
            let ended = ended.unwrap_or(Err(LoadFailure::Timeout));
            now = self.count(turn.number, from, ended);
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
    fn count(
        &self,
        number: u64,
        from: Duration,
        ended: Result<CompleteExchange, LoadFailure>,
    ) -> Duration {
        let (response, phases) = match ended {
            Ok(exchange) => exchange,
            Err(kind) => return self.count_failure(number, self.start.elapsed(), kind),
        };
        let end = response.end.saturating_duration_since(self.start);
        let head = response.head;
        if let Some(pause) = head.retry_after {
            self.state.schedule.pause(end, pause);
        }
        if !matches!(head.status, 200..300) {
            let kind = LoadFailure::Status(head.status, head.location);
            return self.count_failure(number, end, kind);
        }
        let bytes = match self.state.plan.method {
            LoadMethod::Put => self.state.plan.put_bytes,
            LoadMethod::Get | LoadMethod::Delete => response.body_bytes,
        };
        let mut tally = self.tally.borrow_mut();
        tally.add_success(end, bytes, phases, end.saturating_sub(from));
        end
    }

    fn count_failure(&self, number: u64, end: Duration, kind: LoadFailure) -> Duration {
        let target = self.state.targets.index(number);
        self.tally.borrow_mut().add_failure(end, kind, target);
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
        let plan = &self.worker.state.plan;
        let target = self.worker.state.targets.target(number);
        let mut broken = None;
        loop {
            let (mut connection, made) = self.connection(target.origin, broken.flatten()).await?;
            // The clock is read only where time has passed.
            let is_new = made.is_some() || plan.protocol == LoadProtocol::Http2;
            let sent = if is_new { Instant::now() } else { begin };
            match self.exchange(&mut connection, target, number).await {
                Ok(response) => {
                    if response.keeps_connection && plan.is_kept_alive {
                        if self.kept.len() >= MAX_KEPT {
                            self.kept.swap_remove(0);
                        }
                        self.kept.push((target.origin, connection));
                    }
                    let made = made.unwrap_or_default();
                    let first_byte = response.first_byte - sent;
                    let body = response.end - response.first_byte;
                    let phases = [made.dns, made.connect, made.tls, first_byte, body];
                    return Ok((response, phases));
                }
                Err(failure)
                    if failure.is_before_response && made.is_none() && broken.is_none() =>
                {
                    broken = Some(connection.shared_id());
                }
                Err(failure) => return Err(failure.kind),
            }
        }
    }

    /// A kept connection, or a new one with the times of making it. If the `broken` one is shared, it is replaced.
    async fn connection(
        &mut self,
        origin: usize,
        broken: Option<Id>,
    ) -> Result<(SlotConnection, Option<ConnectTimes>), LoadFailure> {
        let mut kept = self.kept.iter();
        if let Some(index) = kept.position(|(known, _)| *known == origin) {
            return Ok((self.kept.swap_remove(index).1, None));
        }
        let (worker, state) = (self.worker, self.worker.state);
        let (connector, address) = (&state.connector, &state.targets.origins[origin]);
        let (connection, made) = if state.plan.protocol != LoadProtocol::Http2 {
            let (stream, times) = connector.connect(address).await?;
            (SlotConnection::Http1(stream), Some(times))
        } else if state.plan.is_kept_alive {
            let connecting = worker
                .http2
                .connect_shared(connector, origin, address, broken);
            let (client, made) = connecting.await?;
            (SlotConnection::Http2(client), made)
        } else {
            let (client, times) = worker.http2.connect(connector, address).await?;
            (SlotConnection::Http2(client), Some(times))
        };
        if let Some(times) = made {
            worker.tally.borrow_mut().add_connection(times.is_resumed);
        }
        Ok((connection, made))
    }

    async fn exchange(
        &mut self,
        connection: &mut SlotConnection,
        target: &LoadTarget,
        number: u64,
    ) -> Result<LoadResponse, ExchangeFailure> {
        let state = self.worker.state;
        let length = state.plan.body_bytes();
        match connection {
            SlotConnection::Http1(stream) => {
                target.write_head(number, &mut self.buffers.request);
                http1::exchange(&mut **stream, &mut self.buffers, &state.body, length).await
            }
            SlotConnection::Http2(client) => {
                let request = target
                    .http2_request(number)
                    .ok_or(LoadFailure::InvalidResponse)?;
                client.exchange(request, &state.body, length).await
            }
        }
    }
}

impl Drop for LoadSlot<'_> {
    /// A load that is stopped has requests that were not answered.
    fn drop(&mut self) {
        if let Some(number) = self.pending {
            let (worker, kind) = (self.worker, LoadFailure::NoAnswer);
            worker.count_failure(number, worker.start.elapsed(), kind);
        }
    }
}

impl SlotConnection {
    /// Which shared connection it is, if it is one.
    fn shared_id(&self) -> Option<Id> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(client) => Some(client.id()),
        }
    }
}
