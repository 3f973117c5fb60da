//! Timeouts and minimum rates of a server's connections, rows D9 and D11.
//!
//! A connection costs memory and counts towards the server's connection limit. The server closes the connection of a peer that does
//! nothing, or as little as it can, but not of one that is merely far away or on a bad link. [`Timeouts`] checks one connection with two
//! kinds of limits. The handshake, a request head and the silence between requests have a time limit. Bodies, in both directions, may take
//! hours, so they have a minimum average rate: see [`MinimumRate`].
//!
//! Only the peer's time counts. From the end of a head until the server reads the body or begins a response, no timeout runs. When the
//! server makes the peer wait later on (its disk, its own rate limit, a slow listing) it calls [`pause`](Timeouts::pause).
//!
//! # Order of calls
//!
//! [`handshake_done`](Timeouts::handshake_done) (at once without TLS). For each request
//! [`head_started`](Timeouts::head_started) with its first byte, [`head_done`](Timeouts::head_done), and
//! then, in any order, [`body_started`](Timeouts::body_started) when the body is first read,
//! [`body_received`](Timeouts::body_received) and [`body_done`](Timeouts::body_done) (also for a body that is
//! dropped unread), [`response_started`](Timeouts::response_started),
//! [`response_sent`](Timeouts::response_sent) and [`response_done`](Timeouts::response_done). Each start has
//! one end. If requests overlap, as in HTTP/2 or when a response is sent before its request's body has ended, they are counted, and the
//! rates are those of all together.
//!
//! # The driver
//!
//! Events only store numbers. Events of bytes need no clock; for the others, the driver may read the clock once a turn. Nor does each event
//! set a timer. The driver keeps one timer and the time it is armed for:
//!
//! ```text
//! after a turn:         if timeouts.deadline() < armed { arm(timeouts.deadline()) }
//! when the timer fires: match timeouts.check(now) { Some(kind) => close, None => arm(timeouts.deadline()) }
//! ```
//!
//! Deadlines mostly move later, so on a busy connection the timer is armed about once in the shortest limit.
//! [`Duration::MAX`] means no deadline.
//!
//! The peer has not read the bytes that are still in the socket's send buffer. The buffer may hold megabytes, and it becomes writable in
//! large steps: a slow, honest reader seems to make no progress for minutes. So [`response_sent`](Timeouts::response_sent) must count the
//! bytes that left the buffer: bytes written, less those still in it by `SIOCOUTQ`. The driver need only query that when the timer fires,
//! right before the check.
//!
//! After [`TimeoutKind::RequestHead`] or [`TimeoutKind::SlowBody`] the server may send a 408 if
//! no response has begun, and then closes; after all others it closes at once.

use std::time::Duration;

/// Limits of [`Timeouts`]. A time of zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutOptions {
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request's head to its last.
    pub request_head: Duration,
    /// Without a request: before the first one, and between two.
    pub idle: Duration,
    /// How long the peer may send a body, or read a response, more slowly than the minimum rate, or not at all; and the time over which
    /// the rate is averaged.
    pub grace: Duration,
    /// The minimum rate of request bodies, in bytes a second. With 0, one byte within the grace suffices.
    pub min_body_rate: u64,
    /// The minimum rate at which the peer reads responses, likewise.
    pub min_reader_rate: u64,
}

impl Default for TimeoutOptions {
    fn default() -> Self {
        Self {
            // Two round trips on a link with a latency of seconds, with a packet or two lost and retransmitted after one, two and four
            // seconds.
            handshake: Duration::from_secs(10),
            // A head is one packet or a few. One loss more than above, since a large cookie takes several congestion windows on a new
            // connection.
            request_head: Duration::from_secs(15),
            // People read this long before the next click. And it is longer than the 60 s after which load balancers close idle
            // connections: the side that sends requests must close first, or it may send one on a closed connection.
            idle: Duration::from_secs(75),
            // A train's tunnel, a phone that changes cells, TCP's sixth retransmission.
            grace: Duration::from_secs(30),
            // A mobile plan throttled to 64 kbit/s, shared by a browser's six connections, leaves 1.3 KB/s to
            // each; this is less than half of that, and 500 times an attacker's one byte a second. Other
            // servers require 240 to 500.
            min_body_rate: 512,
            // The same link in the other direction.
            min_reader_rate: 512,
        }
    }
}

/// Which limit a peer exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum TimeoutKind {
    /// The TLS handshake.
    #[error("the handshake took too long")]
    Handshake,
    /// The head of a request.
    #[error("the request's head took too long")]
    RequestHead,
    /// The wait for a request: the ordinary end of a connection.
    #[error("no request came")]
    Idle,
    /// The body of a request.
    #[error("the request's body came too slowly")]
    SlowBody,
    /// Reading a response.
    #[error("the response was read too slowly")]
    SlowReader,
}

/// What the server waits for while no request is being processed.
#[derive(Debug, Clone, Copy)]
enum IdleConnectionWait {
    Handshake,
    Request,
    Head,
}

/// The timeouts of one connection. All times are since one moment of the caller's choice.
///
/// The internal clock stops during a pause of the server, so a pause moves every deadline and nothing else.
#[derive(Debug, Clone)]
pub(super) struct Timeouts {
    options: TimeoutOptions,
    /// What the server waits for, while no request is being processed.
    awaiting: IdleConnectionWait,
    /// When that wait began.
    awaiting_since: Duration,
    /// A request head began before the last exchange was over. Its time begins when that exchange ends.
    head_is_pipelined: bool,
    /// Requests whose response has not ended.
    exchanges: u32,
    /// Request bodies under way.
    bodies: u32,
    /// Responses under way.
    responses: u32,
    /// The rate of request bodies, while there are any.
    body_rate: MinimumRate,
    /// The rate at which the peer reads responses, while there are any.
    reader_rate: MinimumRate,
    /// Pauses under way: in HTTP/2 several exchanges may wait for the server.
    pauses: u32,
    /// When the first of the present pauses began, by the caller's clock.
    paused_at: Duration,
    /// The length of all past pauses.
    total_paused: Duration,
}

impl Timeouts {
    /// Timeouts of a connection accepted at `now`, which begins with a handshake.
    #[must_use]
    pub(super) fn new(options: TimeoutOptions, now: Duration) -> Self {
        Self {
            options,
            awaiting: IdleConnectionWait::Handshake,
            awaiting_since: now,
            head_is_pipelined: false,
            exchanges: 0,
            bodies: 0,
            responses: 0,
            body_rate: MinimumRate::default(),
            reader_rate: MinimumRate::default(),
            pauses: 0,
            paused_at: Duration::ZERO,
            total_paused: Duration::ZERO,
        }
    }

    /// The TLS handshake is done, or there is none.
    pub(super) fn handshake_done(&mut self, now: Duration) {
        self.awaiting = IdleConnectionWait::Request;
        self.awaiting_since = self.unpaused_time(now);
    }

    /// A byte of a request's head arrived. Only the first byte of each head counts.
    pub(super) fn head_started(&mut self, now: Duration) {
        if !self.has_no_request() {
            self.head_is_pipelined = true;
        } else if !matches!(self.awaiting, IdleConnectionWait::Head) {
            self.awaiting = IdleConnectionWait::Head;
            self.awaiting_since = self.unpaused_time(now);
        }
    }

    /// A request's head is complete; the server processes it now.
    pub(super) fn head_done(&mut self) {
        self.awaiting = IdleConnectionWait::Request;
        self.head_is_pipelined = false;
        self.exchanges = self.exchanges.saturating_add(1);
    }

    /// The server begins to read a request's body.
    pub(super) fn body_started(&mut self, now: Duration) {
        if self.bodies == 0 {
            self.body_rate
                .start(self.unpaused_time(now), self.options.grace);
        }
        self.bodies = self.bodies.saturating_add(1);
    }

    /// Bytes of a request's body arrived.
    pub(super) fn body_received(&mut self, bytes: u64) {
        self.body_rate.add(bytes);
    }

    /// A request's body has ended, or the server will not read the rest.
    pub(super) fn body_done(&mut self, now: Duration) {
        self.bodies = self.bodies.saturating_sub(1);
        self.await_next_request(now);
    }

    /// The server begins to send a response.
    pub(super) fn response_started(&mut self, now: Duration) {
        if self.responses == 0 {
            self.reader_rate
                .start(self.unpaused_time(now), self.options.grace);
        }
        self.responses = self.responses.saturating_add(1);
    }

    /// The peer has read bytes of responses.
    pub(super) fn response_sent(&mut self, bytes: u64) {
        self.reader_rate.add(bytes);
    }

    /// A response has been sent, and with it the exchange is over.
    pub(super) fn response_done(&mut self, now: Duration) {
        self.responses = self.responses.saturating_sub(1);
        self.exchanges = self.exchanges.saturating_sub(1);
        self.await_next_request(now);
    }

    /// The server makes the peer wait: no time passes until [`Timeouts::resume`]. Pauses may overlap.
    pub(super) fn pause(&mut self, now: Duration) {
        if self.pauses == 0 {
            self.paused_at = now;
        }
        self.pauses = self.pauses.saturating_add(1);
    }

    /// Ends a pause. Time passes again when this was called as often as [`Timeouts::pause`].
    pub(super) fn resume(&mut self, now: Duration) {
        if self.pauses == 1 {
            self.total_paused = self
                .total_paused
                .saturating_add(now.saturating_sub(self.paused_at));
        }
        self.pauses = self.pauses.saturating_sub(1);
    }

    /// When the next check is due; [`Duration::MAX`] if no limit applies. Bytes that arrived move it only in
    /// [`Timeouts::check`].
    #[must_use]
    pub(super) fn deadline(&self) -> Duration {
        if self.pauses > 0 {
            return Duration::MAX;
        }
        self.next_deadline().0.saturating_add(self.total_paused)
    }

    /// The limit that the peer has exceeded, if any. `None` means that [`Timeouts::deadline`] is in the
    /// future.
    pub(super) fn check(&mut self, now: Duration) -> Option<TimeoutKind> {
        if self.pauses > 0 {
            return None;
        }
        let (now, options) = (self.unpaused_time(now), self.options);
        self.body_rate
            .credit(now, options.min_body_rate, options.grace);
        self.reader_rate
            .credit(now, options.min_reader_rate, options.grace);
        let (deadline, kind) = self.next_deadline();
        (deadline <= now).then_some(kind)
    }

    /// When the connection became idle; `None` if it is not. `None` in a pause, too: a request may have arrived meanwhile.
    #[must_use]
    pub(super) fn idle_since(&self) -> Option<Duration> {
        (self.is_idle() && self.pauses == 0)
            .then(|| self.awaiting_since.saturating_add(self.total_paused))
    }

    /// Whether the server is neither processing a request nor reading the head of one.
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        self.has_no_request() && matches!(self.awaiting, IdleConnectionWait::Request)
    }

    /// The next deadline and its kind, by the clock of [`Timeouts::unpaused_time`].
    fn next_deadline(&self) -> (Duration, TimeoutKind) {
        let options = &self.options;
        if self.has_no_request() {
            let (limit, kind) = match self.awaiting {
                IdleConnectionWait::Handshake => (options.handshake, TimeoutKind::Handshake),
                IdleConnectionWait::Request => (options.idle, TimeoutKind::Idle),
                IdleConnectionWait::Head => (options.request_head, TimeoutKind::RequestHead),
            };
            return (
                deadline_unless_unlimited(self.awaiting_since.saturating_add(limit), limit),
                kind,
            );
        }
        let rate_deadline = |open: u32, rate: &MinimumRate| {
            if open > 0 {
                deadline_unless_unlimited(rate.exhausted_at(), options.grace)
            } else {
                Duration::MAX
            }
        };
        let body = rate_deadline(self.bodies, &self.body_rate);
        let reader_deadline = rate_deadline(self.responses, &self.reader_rate);
        if body <= reader_deadline {
            (body, TimeoutKind::SlowBody)
        } else {
            (reader_deadline, TimeoutKind::SlowReader)
        }
    }

    /// Whether no request is being processed.
    fn has_no_request(&self) -> bool {
        self.exchanges == 0 && self.bodies == 0
    }

    /// Begins the wait for the next request if the last exchange is over.
    fn await_next_request(&mut self, now: Duration) {
        if self.has_no_request() {
            let is_pipelined = std::mem::take(&mut self.head_is_pipelined);
            self.awaiting = if is_pipelined {
                IdleConnectionWait::Head
            } else {
                IdleConnectionWait::Request
            };
            self.awaiting_since = self.unpaused_time(now);
        }
    }

    /// The time less all pauses.
    fn unpaused_time(&self, now: Duration) -> Duration {
        let now = if self.pauses > 0 {
            now.min(self.paused_at)
        } else {
            now
        };
        now.saturating_sub(self.total_paused)
    }
}

/// Whether bytes arrive at a minimum rate, without reading the clock when they arrive.
///
/// A peer has a credit of time, at first the grace. Passing time reduces it; each byte adds the time that it may take at the minimum
/// rate. The credit never exceeds the grace, so that a fast beginning does not pay for a long silence. It is an inverted leaky bucket: a
/// peer that keeps the average rate may be silent for less than the grace.
///
/// Bytes are only counted when they arrive. The next check credits them as if all had arrived at that moment. The error is in favour of
/// the peer, and at most one grace, since the next check is due when the credit ends.
#[derive(Debug, Clone, Copy, Default)]
struct MinimumRate {
    /// When the credit is used up if no more bytes arrive.
    exhausted_at: Duration,
    /// Bytes that are not credited yet.
    uncredited_bytes: u64,
}

impl MinimumRate {
    /// Starts with a full credit.
    fn start(&mut self, now: Duration, grace: Duration) {
        *self = Self {
            exhausted_at: now.saturating_add(grace),
            uncredited_bytes: 0,
        };
    }

    /// Counts bytes that arrived.
    fn add(&mut self, bytes: u64) {
        self.uncredited_bytes = self.uncredited_bytes.saturating_add(bytes);
    }

    /// Credits the counted bytes. `rate` is in bytes a second; with 0, any byte restores the full credit.
    fn credit(&mut self, now: Duration, rate: u64, grace: Duration) {
        let bytes = std::mem::take(&mut self.uncredited_bytes);
        if bytes > 0 {
            self.exhausted_at = self
                .exhausted_at
                .saturating_add(time_for(bytes, rate))
                .min(now.saturating_add(grace));
        }
    }

    /// When the credit is used up.
    fn exhausted_at(&self) -> Duration {
        self.exhausted_at
    }
}

/// The time that these bytes may take at this rate. Rounded up, in favour of the peer.
fn time_for(bytes: u64, rate: u64) -> Duration {
    if rate == 0 {
        return Duration::MAX;
    }
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The deadline, or none if the limit is zero.
fn deadline_unless_unlimited(deadline: Duration, limit: Duration) -> Duration {
    if limit.is_zero() {
        Duration::MAX
    } else {
        deadline
    }
}

#[cfg(test)]
mod tests;
