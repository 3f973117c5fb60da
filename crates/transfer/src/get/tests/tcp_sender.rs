//! The sending end of a simulated connection: what the origin wrote into the socket, what is in flight, what must be sent again.
//!
//! Losses are noticed when what follows arrives, as with selective acknowledgements, or by a probe; retransmission timeouts are left out.

use std::collections::VecDeque;
use std::time::Duration;

use super::congestion_window::{Acknowledgement, CongestionWindow, SEGMENT};

/// The largest send buffer of a socket: the 4 MiB that are Linux's default, and what a last write goes beyond them.
const MAX_SEND_BUFFER: f64 = 4_600_000.0;

/// The send buffer has room for this number of windows: Linux doubles the window, and counts 4352 bytes for a segment.
const WINDOWS_IN_SEND_BUFFER: f64 = 6.0;

/// A window is sent in this number of flights, or in segments if these are fewer.
const FLIGHTS_IN_WINDOW: f64 = 64.0;

/// Bytes on their way: consecutive ones, sent at once.
#[derive(Debug)]
struct Flight {
    bytes: f64,
    /// Those that must be sent, or sent again.
    missing: f64,
    sent_at: f64,
    /// Bytes that had arrived by then.
    delivered_before: f64,
    has_arrived: bool,
    /// Whether nothing followed it that would have shown its loss.
    is_tail: bool,
}

/// The sender of one connection.
#[derive(Debug)]
pub(crate) struct TcpSender {
    window: Box<dyn CongestionWindow>,
    /// When the handshake ends.
    pub(crate) connected_at: Duration,
    /// Those flights that the client has not read: the front one has the number `first`.
    flights: VecDeque<Flight>,
    first: u64,
    /// The numbers of lost flights.
    lost: VecDeque<u64>,
    /// Bytes of the response that the origin has not written into the socket, and those in the socket that were not sent.
    unwritten: f64,
    unsent: f64,
    in_flight: f64,
    delivered: f64,
    /// The round and the recovery end with the acknowledgement of these flights.
    round_end: u64,
    recovery_end: u64,
    is_window_limited: bool,
    last_sent: f64,
    /// When pacing allows the next flight, and the origin's limit the next write.
    paced_until: f64,
    pub(crate) limited_until: f64,
    /// When it looks again whether pacing allows more.
    wakes_at: f64,
    /// When the last flight reaches the bottleneck: one connection's packets stay in order.
    pub(crate) last_at_queue: f64,
}

impl TcpSender {
    pub(crate) fn new(window: Box<dyn CongestionWindow>, connected_at: Duration) -> Self {
        Self {
            window,
            connected_at,
            flights: VecDeque::new(),
            first: 0,
            lost: VecDeque::new(),
            unwritten: 0.0,
            unsent: 0.0,
            in_flight: 0.0,
            delivered: 0.0,
            round_end: 0,
            recovery_end: 0,
            is_window_limited: false,
            last_sent: f64::INFINITY,
            paced_until: 0.0,
            limited_until: 0.0,
            wakes_at: 0.0,
            last_at_queue: 0.0,
        }
    }

    /// The origin begins a response of this length.
    pub(crate) fn respond(&mut self, bytes: f64) {
        self.unwritten += bytes;
        self.limited_until = 0.0;
    }

    fn next_number(&self) -> u64 {
        self.first + self.flights.len() as u64
    }

    fn flight(&mut self, number: u64) -> Option<&mut Flight> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.flights.get_mut(at)
    }

    /// The origin writes into the socket what there is room for, if its limit allows it.
    pub(crate) fn write(&mut self, now: f64, limit: Option<f64>) {
        if self.unwritten <= 0.0 || now < self.limited_until {
            return;
        }
        let buffer = (WINDOWS_IN_SEND_BUFFER * self.window.window()).min(MAX_SEND_BUFFER);
        let room = buffer - self.in_flight - self.unsent;
        if room < self.unwritten.min(buffer / 3.0) {
            return;
        }
        let written = room.min(self.unwritten).floor();
        self.unwritten -= written;
        self.unsent += written;
        if let Some(limit) = limit {
            self.limited_until = now + written / limit;
        }
    }

    /// The bytes that may be sent now, at once, and the number of their flight.
    pub(crate) fn next_flight(&mut self, now: f64) -> Option<(u64, f64)> {
        let window = self.window.window();
        let size = (window / FLIGHTS_IN_WINDOW / SEGMENT).floor().max(1.0) * SEGMENT;
        let next = match self.lost.front() {
            Some(&number) => (number, self.flight(number)?.missing),
            None if self.unsent > 0.0 => (self.next_number(), size.min(self.unsent)),
            None => {
                self.is_window_limited = false;
                return None;
            }
        };
        self.is_window_limited = true;
        let has_room = self.in_flight <= 0.0 || self.in_flight + next.1 / 2.0 <= window;
        (has_room && now >= self.paced_until).then_some(next)
    }

    pub(crate) fn send(&mut self, number: u64, bytes: f64, now: f64) {
        let delivered = self.delivered;
        if self.lost.front() == Some(&number) {
            self.lost.pop_front();
            if let Some(flight) = self.flight(number) {
                (flight.sent_at, flight.delivered_before) = (now, delivered);
            }
        } else {
            self.unsent -= bytes;
            self.flights.push_back(Flight {
                bytes,
                missing: bytes,
                sent_at: now,
                delivered_before: delivered,
                has_arrived: false,
                is_tail: false,
            });
        }
        self.in_flight += bytes;
        self.last_sent = now;
        if let Some(rate) = self.window.pacing_rate() {
            self.paced_until = self.paced_until.max(now) + bytes / rate;
        }
    }

    /// The missing bytes of a flight have arrived and are acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64, now: f64) {
        let (in_flight, delivered) = (self.in_flight, self.delivered);
        let Some(flight) = self.flight(number) else {
            return;
        };
        flight.has_arrived = true;
        let acked = flight.missing;
        let (round_trip, delivered_before) = (now - flight.sent_at, flight.delivered_before);
        self.in_flight = in_flight - acked;
        self.delivered = delivered + acked;
        let ends_round = number >= self.round_end;
        if ends_round {
            self.round_end = self.next_number();
        }
        self.window.on_acknowledgement(&Acknowledgement {
            now,
            bytes: acked,
            round_trip,
            delivery_rate: (self.delivered - delivered_before) / round_trip,
            ends_round,
            is_window_limited: self.is_window_limited,
            in_recovery: number < self.recovery_end,
            in_flight: self.in_flight,
        });
    }

    /// Whether a flight was lost that none followed, for the first time.
    pub(crate) fn is_unnoticed_tail(&mut self, number: u64) -> bool {
        let is_last = number + 1 == self.next_number();
        let flight = self
            .flight(number)
            .filter(|flight| is_last && !flight.is_tail);
        flight.is_some_and(|flight| {
            flight.is_tail = true;
            true
        })
    }

    /// The sender learns that a flight was lost.
    pub(crate) fn on_loss(&mut self, number: u64) {
        let next = self.next_number();
        let Some(flight) = self.flight(number) else {
            return;
        };
        self.in_flight -= flight.missing;
        self.lost.push_back(number);
        let is_first = number >= self.recovery_end;
        if is_first {
            self.recovery_end = next;
        }
        self.window.on_loss(is_first, self.in_flight);
    }

    /// Some bytes of a flight were lost, and the others arrive.
    pub(crate) fn note_lost(&mut self, number: u64, bytes: f64, lost: f64) {
        let Some(flight) = self.flight(number).filter(|_| lost > 0.0) else {
            return;
        };
        flight.missing = lost;
        self.in_flight -= bytes - lost;
        self.delivered += bytes - lost;
    }

    /// A window that was not used for a while says nothing about the path (RFC 2861).
    pub(crate) fn restart_if_idle(&mut self, now: f64, timeout: f64) {
        let pause = now - self.last_sent;
        if self.in_flight <= 0.0 && self.unsent > 0.0 && pause > timeout {
            self.window.on_idle(pause / timeout);
        }
    }

    /// When pacing allows what waits, unless that is known.
    pub(crate) fn next_wake_up(&mut self, now: f64) -> Option<f64> {
        let waits = self.unsent > 0.0 || !self.lost.is_empty();
        if !waits || self.paced_until <= now || self.wakes_at > now {
            return None;
        }
        self.wakes_at = self.paced_until;
        Some(self.wakes_at)
    }

    /// Takes the bytes that the client can read: those without a gap before them.
    pub(crate) fn take_readable(&mut self) -> f64 {
        let mut bytes = 0.0;
        while let Some(flight) = self.flights.front().filter(|flight| flight.has_arrived) {
            bytes += flight.bytes;
            self.flights.pop_front();
            self.first += 1;
        }
        bytes
    }
}
