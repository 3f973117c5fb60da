//! How long a server waits for a peer, rows D9 and D11.
//!
//! A connection costs memory and a place, whoever holds it. One that does nothing with it, or as little as it can, must give it
//! back; one that is merely far away or on a bad link must not be cut. [`Timeouts`] watches one connection and knows two kinds of
//! limits. What a peer does in one go (handshake, request head, silence between requests) has a time. What may rightly take
//! hours (bodies, either way) has a least rate, averaged: see [`MinimumRate`].
//!
//! Only the peer's time counts. From the end of a head until a body is wanted or an answer begins, the server is at work and
//! nothing runs; when it makes the peer wait later on (its disk, its own rate limit, a listing that is slow to come) it says
//! [`pause`](Timeouts::pause).
//!
//! # Order of calls
//!
//! [`handshake_done`](Timeouts::handshake_done) (at once without TLS). For each request
//! [`head_started`](Timeouts::head_begun) with its first byte, [`head_done`](Timeouts::head_done), and then, in whatever order it comes
//! about, [`body_started`](Timeouts::body_begun) when the body is first asked for, [`body_received`](Timeouts::body_bytes) and
//! [`body_done`](Timeouts::body_done) (also for one that is dropped unread), [`response_started`](Timeouts::response_begun),
//! [`response_sent`](Timeouts::sent) and [`response_done`](Timeouts::response_done). Each beginning has one end. Where requests overlap, as in
//! HTTP/2 or when an answer comes before its request's body is there, they are counted, and the rates are those of all together.
//!
//! # The driver
//!
//! Events store numbers and cost nothing; those of bytes need no clock, and for the others a time that was read once for a turn
//! of the driver will do. Nor is a timer set for each. The driver keeps one timer and the time it is armed for:
//!
//! ```text
//! after a turn:         if patience.deadline() < armed { arm(patience.deadline()) }
//! when the timer fires: match patience.verdict(now) { Some(tired) => close, None => arm(patience.deadline()) }
//! ```
//!
//! Deadlines mostly move away, so on a busy connection the timer is armed about once in the shortest limit.
//! [`Duration::MAX`] is no deadline: nothing to arm.
//!
//! What a socket takes is not what a peer takes. The kernel's buffer may hold megabytes, and it reports room in large steps: a slow,
//! honest reader seems to stand still for minutes. Let [`response_sent`](Timeouts::sent) count what left the buffer (bytes written, less
//! those that `SIOCOUTQ` says are still in it), which need only be asked when the timer fires, right before the verdict.
//!
//! What to do with the tired: to [`TimeoutKind::RequestHead`] and [`TimeoutKind::SlowBody`] a 408 may be said if no answer has begun, then close; with
//! all others close at once.

use std::time::Duration;

use super::minimum_rate::MinimumRate;
use super::timeout_options::{TimeoutKind, TimeoutOptions};

/// What a peer is waited for while no request is under way.
#[derive(Debug, Clone, Copy)]
enum IdleWait {
    Handshake,
    Request,
    Head,
}

/// How long one connection's peer is waited for. All times are since one moment of the caller's choice.
///
/// Inside, time stands still while the server has paused it; so a pause moves every deadline and nothing else.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// Limits.
    options: TimeoutOptions,
    /// What for, while no request is under way.
    awaiting: IdleWait,
    /// Since when.
    awaiting_since: Duration,
    /// A head began before the last exchange was over: pipelined. Its time begins when that one ends.
    head_is_pipelined: bool,
    /// Requests whose answer is not done.
    exchanges: u32,
    /// Request bodies under way.
    bodies: u32,
    /// Answers under way.
    responses: u32,
    /// How bodies come, while there are any.
    body_rate: MinimumRate,
    /// How answers are taken, while there are any.
    reader_rate: MinimumRate,
    /// Pauses that are not over: in HTTP/2 several exchanges may wait for the server.
    pauses: u32,
    /// When the first of them began, by the caller's time.
    paused_at: Duration,
    /// How long all pauses were that are over.
    total_paused: Duration,
}

impl Timeouts {
    /// For a connection that came about at `now`. A handshake is waited for.
    #[must_use]
    pub fn new(options: TimeoutOptions, now: Duration) -> Self {
        Self {
            options,
            awaiting: IdleWait::Handshake,
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
        self.awaiting = IdleWait::Request;
        self.awaiting_since = self.unpaused_time(now);
    }

    /// A byte of a request's head came. Only the first of each head counts.
    pub fn head_started(&mut self, now: Duration) {
        if !self.has_no_request() {
            self.head_is_pipelined = true;
        } else if !matches!(self.awaiting, IdleWait::Head) {
            self.awaiting = IdleWait::Head;
            self.awaiting_since = self.unpaused_time(now);
        }
    }

    /// A request's head is whole; from here on the server is at work.
    pub fn head_done(&mut self) {
        self.awaiting = IdleWait::Request;
        self.head_is_pipelined = false;
        self.exchanges = self.exchanges.saturating_add(1);
    }

    /// The server asks for a request's body, for the first time.
    pub fn body_started(&mut self, now: Duration) {
        if self.bodies == 0 {
            self.body_rate
                .start(self.unpaused_time(now), self.options.grace);
        }
        self.bodies = self.bodies.saturating_add(1);
    }

    /// Bytes of a request's body came.
    pub fn body_received(&mut self, bytes: u64) {
        self.body_rate.add(bytes);
    }

    /// A request's body has ended, or nobody wants the rest.
    pub fn body_done(&mut self, now: Duration) {
        self.bodies = self.bodies.saturating_sub(1);
        self.await_next_request(now);
    }

    /// The server begins to send an answer.
    pub fn response_started(&mut self, now: Duration) {
        if self.responses == 0 {
            self.reader_rate
                .start(self.unpaused_time(now), self.options.grace);
        }
        self.responses = self.responses.saturating_add(1);
    }

    /// The peer took bytes of answers.
    pub fn response_sent(&mut self, bytes: u64) {
        self.reader_rate.add(bytes);
    }

    /// An answer is sent, and with it the exchange is over.
    pub fn response_done(&mut self, now: Duration) {
        self.responses = self.responses.saturating_sub(1);
        self.exchanges = self.exchanges.saturating_sub(1);
        self.await_next_request(now);
    }

    /// The server makes the peer wait: until [`Timeouts::resume`] no time passes. Pauses may overlap.
    pub fn pause(&mut self, now: Duration) {
        if self.pauses == 0 {
            self.paused_at = now;
        }
        self.pauses = self.pauses.saturating_add(1);
    }

    /// The peer's turn again, when this was called as often as [`Timeouts::pause`].
    pub fn resume(&mut self, now: Duration) {
        if self.pauses == 1 {
            self.total_paused = self
                .total_paused
                .saturating_add(now.saturating_sub(self.paused_at));
        }
        self.pauses = self.pauses.saturating_sub(1);
    }

    /// When a verdict is worth asking for; [`Duration::MAX`] if nothing is waited for. Bytes that came move it only in
    /// [`Timeouts::check`].
    #[must_use]
    pub fn deadline(&self) -> Duration {
        if self.pauses > 0 {
            return Duration::MAX;
        }
        self.next_deadline().0.saturating_add(self.total_paused)
    }

    /// Whether the peer has been waited for long enough, and for what. `None` means that [`Timeouts::deadline`] lies ahead.
    pub fn check(&mut self, now: Duration) -> Option<TimeoutKind> {
        if self.pauses > 0 {
            return None;
        }
        let (now, options) = (self.unpaused_time(now), self.options);
        self.body_rate
            .credit(now, options.min_body_rate, options.grace);
        self.reader_rate
            .credit(now, options.min_reader_rate, options.grace);
        let (deadline, tired) = self.next_deadline();
        (deadline <= now).then_some(tired)
    }

    /// Since when no request has been under way, nor the head of one. Never in a pause: then it is not known what has come.
    #[must_use]
    pub fn idle_since(&self) -> Option<Duration> {
        (self.is_idle() && self.pauses == 0)
            .then(|| self.awaiting_since.saturating_add(self.total_paused))
    }

    /// Whether no request is under way, nor the head of one.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.has_no_request() && matches!(self.awaiting, IdleWait::Request)
    }

    /// The deadline that comes first, and what it is of, by the clock of [`Timeouts::unpaused_time`].
    fn next_deadline(&self) -> (Duration, TimeoutKind) {
        let options = &self.options;
        if self.has_no_request() {
            let (limit, tired) = match self.awaiting {
                IdleWait::Handshake => (options.handshake, TimeoutKind::Handshake),
                IdleWait::Request => (options.idle, TimeoutKind::Idle),
                IdleWait::Head => (options.request_head, TimeoutKind::RequestHead),
            };
            return (
                deadline_unless_unlimited(self.awaiting_since.saturating_add(limit), limit),
                tired,
            );
        }
        let stock = |open: u32, rate: &MinimumRate| {
            if open > 0 {
                deadline_unless_unlimited(rate.exhausted_at(), options.grace)
            } else {
                Duration::MAX
            }
        };
        let body = stock(self.bodies, &self.body_rate);
        let reader = stock(self.responses, &self.reader_rate);
        if body <= reader {
            (body, TimeoutKind::SlowBody)
        } else {
            (reader, TimeoutKind::SlowReader)
        }
    }

    /// Whether no request is under way.
    fn has_no_request(&self) -> bool {
        self.exchanges == 0 && self.bodies == 0
    }

    /// If that was the end of the last exchange, the next request is waited for.
    fn await_next_request(&mut self, now: Duration) {
        if self.has_no_request() {
            let is_early = std::mem::take(&mut self.head_is_pipelined);
            self.awaiting = if is_early {
                IdleWait::Head
            } else {
                IdleWait::Request
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

/// A deadline, unless its limit is none.
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
