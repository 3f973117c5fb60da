//! How long a server waits for a peer, rows D9 and D11.
//!
//! A connection costs memory and one of the server's places. A peer that does nothing with it, or as little
//! as it can, must give it back; one that is merely far away or on a bad link must not be cut. [`Timeouts`]
//! watches one connection with two kinds of limits. What a peer does in one go (handshake, request head,
//! silence between requests) has a time limit. What may rightly take hours (bodies, in both directions) has a
//! least rate, averaged: see [`MinimumRate`].
//!
//! Only the peer's time counts. From the end of a head until a body is wanted or a response begins, the
//! server is at work and no timeout runs; when the server makes the peer wait later on (its disk, its own
//! rate limit, a slow listing) it calls [`pause`](Timeouts::pause).
//!
//! # Order of calls
//!
//! [`handshake_done`](Timeouts::handshake_done) (at once without TLS). For each request
//! [`head_started`](Timeouts::head_started) with its first byte, [`head_done`](Timeouts::head_done), and
//! then, in any order, [`body_started`](Timeouts::body_started) when the body is first read,
//! [`body_received`](Timeouts::body_received) and [`body_done`](Timeouts::body_done) (also for a body that is
//! dropped unread), [`response_started`](Timeouts::response_started),
//! [`response_sent`](Timeouts::response_sent) and [`response_done`](Timeouts::response_done). Each start has
//! one end. Where requests overlap, as in HTTP/2 or when a response comes before the end of its request's
//! body, they are counted, and the rates are those of all together.
//!
//! # The driver
//!
//! Events store numbers and cost nothing. Events of bytes need no clock, and for the others a time that was
//! read once for a turn of the driver will do. Nor does each event set a timer. The driver keeps one timer
//! and the time it is armed for:
//!
//! ```text
//! after a turn:         if timeouts.deadline() < armed { arm(timeouts.deadline()) }
//! when the timer fires: match timeouts.check(now) { Some(kind) => close, None => arm(timeouts.deadline()) }
//! ```
//!
//! Deadlines mostly move away, so on a busy connection the timer is armed about once in the shortest limit.
//! [`Duration::MAX`] is no deadline: nothing to arm.
//!
//! Bytes that a socket takes are not yet read by the peer. The kernel's buffer may hold megabytes, and it
//! reports room in large steps: a slow, honest reader seems to stand still for minutes. Let
//! [`response_sent`](Timeouts::response_sent) count the bytes that left the buffer (bytes written, less those
//! that `SIOCOUTQ` says are still in it), which the driver need only ask for when the timer fires, right
//! before the check.
//!
//! After a timeout of [`TimeoutKind::RequestHead`] or [`TimeoutKind::SlowBody`] the server may send a 408 if
//! no response has begun, and then closes; after all others it closes at once.

use std::time::Duration;

/// Limits of a [`Timeouts`]. A time of zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutOptions {
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request's head to its last.
    pub request_head: Duration,
    /// Without a request: before the first one, and between two.
    pub idle: Duration,
    /// How long the peer may send a body, or read a response, more slowly than the least rate, or not at all,
    /// before that counts; and the time over which the rate is averaged after that.
    pub grace: Duration,
    /// The least rate of request bodies, in bytes a second. With 0 any byte within the grace suffices.
    pub min_body_rate: u64,
    /// The least rate at which the peer reads responses, the same way.
    pub min_reader_rate: u64,
}

impl Default for TimeoutOptions {
    fn default() -> Self {
        Self {
            // Two round trips, on a link of seconds with a packet or two lost and sent again after one
            // second, two, four.
            handshake: Duration::from_secs(10),
            // A head is a packet or a few. One loss more than above, since a large cookie is several windows
            // on a new connection.
            request_head: Duration::from_secs(15),
            // People read as long as this before the next click. And it is longer than the 60 s after which
            // load balancers close idle connections: the side that sends requests must close first, or a
            // request meets a closed connection.
            idle: Duration::from_secs(75),
            // A train's tunnel, a phone that changes cells, TCP's sixth retransmission.
            grace: Duration::from_secs(30),
            // A mobile plan throttled to 64 kbit/s, shared by a browser's six connections, leaves 1.3 KB/s to
            // each; this is less than half of that, and 500 times the trickle of one byte a second. Other
            // servers ask for 240 to 500.
            min_body_rate: 512,
            // The same link in the other direction.
            min_reader_rate: 512,
        }
    }
}

/// Which limit a peer exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TimeoutKind {
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

/// What the server waits for while no request is under way.
#[derive(Debug, Clone, Copy)]
enum IdleConnectionWait {
    Handshake,
    Request,
    Head,
}

/// The timeouts of one connection. All times are since one moment of the caller's choice.
///
/// Internally time stands still during a pause of the server; so a pause moves every deadline and nothing
/// else.
#[derive(Debug, Clone)]
pub struct Timeouts {
    options: TimeoutOptions,
    /// What the server waits for, while no request is under way.
    awaiting: IdleConnectionWait,
    /// Since when it waits for that.
    awaiting_since: Duration,
    /// A head began before the last exchange was over: pipelined. Its time begins when that one ends.
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
    /// When the first of them began, by the caller's time.
    paused_at: Duration,
    /// The length of all pauses that are over.
    total_paused: Duration,
}

impl Timeouts {
    /// For a connection accepted at `now`, which begins with a handshake.
    #[must_use]
    pub fn new(options: TimeoutOptions, now: Duration) -> Self {
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
    pub fn handshake_done(&mut self, now: Duration) {
        self.awaiting = IdleConnectionWait::Request;
        self.awaiting_since = self.unpaused_time(now);
    }

    /// A byte of a request's head arrived. Only the first byte of each head counts.
    pub fn head_started(&mut self, now: Duration) {
        if !self.has_no_request() {
            self.head_is_pipelined = true;
        } else if !matches!(self.awaiting, IdleConnectionWait::Head) {
            self.awaiting = IdleConnectionWait::Head;
            self.awaiting_since = self.unpaused_time(now);
        }
    }

    /// A request's head is whole; the server is at work now.
    pub fn head_done(&mut self) {
        self.awaiting = IdleConnectionWait::Request;
        self.head_is_pipelined = false;
        self.exchanges = self.exchanges.saturating_add(1);
    }

    /// The server begins to read a request's body.
    pub fn body_started(&mut self, now: Duration) {
        if self.bodies == 0 {
            self.body_rate
                .start(self.unpaused_time(now), self.options.grace);
        }
        self.bodies = self.bodies.saturating_add(1);
    }

    /// Bytes of a request's body arrived.
    pub fn body_received(&mut self, bytes: u64) {
        self.body_rate.add(bytes);
    }

    /// A request's body has ended, or nobody wants the rest.
    pub fn body_done(&mut self, now: Duration) {
        self.bodies = self.bodies.saturating_sub(1);
        self.await_next_request(now);
    }

    /// The server begins to send a response.
    pub fn response_started(&mut self, now: Duration) {
        if self.responses == 0 {
            self.reader_rate
                .start(self.unpaused_time(now), self.options.grace);
        }
        self.responses = self.responses.saturating_add(1);
    }

    /// The peer has read bytes of responses.
    pub fn response_sent(&mut self, bytes: u64) {
        self.reader_rate.add(bytes);
    }

    /// A response has been sent, and with it the exchange is over.
    pub fn response_done(&mut self, now: Duration) {
        self.responses = self.responses.saturating_sub(1);
        self.exchanges = self.exchanges.saturating_sub(1);
        self.await_next_request(now);
    }

    /// The server makes the peer wait: no time passes until [`Timeouts::resume`]. Pauses may overlap.
    pub fn pause(&mut self, now: Duration) {
        if self.pauses == 0 {
            self.paused_at = now;
        }
        self.pauses = self.pauses.saturating_add(1);
    }

    /// Ends a pause. Time passes again when this was called as often as [`Timeouts::pause`].
    pub fn resume(&mut self, now: Duration) {
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
    pub fn deadline(&self) -> Duration {
        if self.pauses > 0 {
            return Duration::MAX;
        }
        self.next_deadline().0.saturating_add(self.total_paused)
    }

    /// The limit that the peer has exceeded, if any. `None` means that [`Timeouts::deadline`] is in the
    /// future.
    pub fn check(&mut self, now: Duration) -> Option<TimeoutKind> {
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

    /// Since when neither a request nor the head of one has been under way. `None` in a pause: nobody knows
    /// what has come.
    #[must_use]
    pub fn idle_since(&self) -> Option<Duration> {
        (self.is_idle() && self.pauses == 0)
            .then(|| self.awaiting_since.saturating_add(self.total_paused))
    }

    /// Whether neither a request nor the head of one is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.has_no_request() && matches!(self.awaiting, IdleConnectionWait::Request)
    }

    /// The next deadline and its limit, by the clock of [`Timeouts::unpaused_time`].
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

    /// Whether no request is under way.
    fn has_no_request(&self) -> bool {
        self.exchanges == 0 && self.bodies == 0
    }

    /// After the last exchange, the server waits for the next request.
    fn await_next_request(&mut self, now: Duration) {
        if self.has_no_request() {
            let is_early = std::mem::take(&mut self.head_is_pipelined);
            self.awaiting = if is_early {
                IdleConnectionWait::Head
            } else {
                IdleConnectionWait::Request
            };
            self.awaiting_since = self.unpaused_time(now);
        }
    }

    /// The time without the pauses.
    fn unpaused_time(&self, now: Duration) -> Duration {
        let now = if self.pauses > 0 {
            now.min(self.paused_at)
        } else {
            now
        };
        now.saturating_sub(self.total_paused)
    }
}

/// Whether bytes come fast enough, without looking at the clock when they come.
///
/// A peer has a credit of time, at first the grace. Time uses the credit up; each byte gives back the time
/// that it may take at the least rate; and there is never more credit than the grace, so that a fast
/// beginning does not pay for a long silence. This is a leaky bucket turned round. A pause shorter than the
/// grace is forgiven to a peer that keeps the average.
///
/// Bytes are only counted when they come. They are credited with the next check, as if they had all come at
/// that moment, which errs in favour of the peer: never by more than one grace, since no check needs to be
/// later than the credit lasts.
#[derive(Debug, Clone, Copy, Default)]
struct MinimumRate {
    /// When the credit is used up if nothing more comes.
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

/// The longest time for these bytes. Rounded up, in favour of the peer.
fn time_for(bytes: u64, rate: u64) -> Duration {
    if rate == 0 {
        return Duration::MAX;
    }
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The deadline of a limit; none if the limit is zero.
fn deadline_unless_unlimited(deadline: Duration, limit: Duration) -> Duration {
    if limit.is_zero() {
        Duration::MAX
    } else {
        deadline
    }
}

#[cfg(test)]
#[path = "timeouts_tests.rs"]
mod tests;
