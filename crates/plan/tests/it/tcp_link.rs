//! A link with TCP in simulated time: connections that share a bottleneck with a drop-tail queue.
//!
//! It is simulated event by event. What TCP sends at once is one [`Flight`] of several packets, at most a small share of the window, so that
//! a download takes some thousand events. A flight travels to the queue for the whole round trip, and from there to the client in no time:
//! for the client that is the same as a path whose delay is on both sides. All times are those of the client.
//!
//! Order of calls: [`TcpLink::connect`], [`TcpLink::request`], then [`TcpLink::next_event`] says when [`TcpLink::advance`] may return bytes
//! that arrived. [`TcpLink::close`] ends a connection; what is in flight on it still takes its time at the bottleneck.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use crate::congestion_window::{Acknowledgement, CongestionControl, CongestionWindow, SEGMENT};
use crate::simulated_link::random;

/// The largest send buffer of a socket: the 4 MiB that are Linux's default, and what a last write goes beyond them.
const MAX_SEND_BUFFER: f64 = 4_600_000.0;

/// The send buffer of a new connection.
const MIN_SEND_BUFFER: f64 = 87_040.0;

/// A window is sent in so many flights.
const FLIGHTS_IN_WINDOW: f64 = 64.0;

/// All windows together need no finer flights than this share of what fits into the path.
const FLIGHTS_IN_PATH: f64 = 1024.0;

/// The least retransmission timeout is so much longer than a round trip. After such a pause a window shrinks.
const MIN_TIMEOUT: f64 = 0.2;

/// Packets take up to so many seconds longer than the round trip, by chance, or up to this share of it if that is less. Without it,
/// connections that begin together stay in step for ever, and the kernels' do not.
const JITTER: (f64, f64) = (0.001, 0.05);

/// A path to an origin, and what the origin does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TcpPath {
    pub(crate) round_trip: Duration,
    /// Bits a second at the bottleneck, with the headers of IP and TCP.
    pub(crate) bits_per_second: f64,
    /// A packet that would wait longer than this at the bottleneck is dropped.
    pub(crate) queue_time: Duration,
    /// The share of packets that are lost by chance.
    pub(crate) loss: f64,
    /// Bytes a second that the origin sends on each connection at most.
    pub(crate) connection_limit: Option<f64>,
    pub(crate) congestion_control: CongestionControl,
    /// Round trips until a connection can take a request: 1 for TCP, 2 with TLS 1.3.
    pub(crate) setup_round_trips: u32,
    /// Selects the packets that are lost.
    pub(crate) seed: u64,
}

impl Default for TcpPath {
    fn default() -> Self {
        Self {
            round_trip: Duration::from_millis(100),
            bits_per_second: 200e6,
            queue_time: Duration::from_millis(100),
            loss: 0.0,
            connection_limit: None,
            congestion_control: CongestionControl::Cubic,
            setup_round_trips: 1,
            seed: 1,
        }
    }
}

impl TcpPath {
    /// Bytes of payload a second.
    pub(crate) fn rate(&self) -> f64 {
        self.bits_per_second / 8.0 * SEGMENT / 1500.0
    }

    /// The least bytes that are sent at once: segments, as far as they are not too many to simulate.
    fn min_flight(&self) -> f64 {
        let in_path = self.rate() * (self.round_trip + self.queue_time).as_secs_f64();
        (in_path / FLIGHTS_IN_PATH / SEGMENT).floor().max(1.0) * SEGMENT
    }
}

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
struct TcpSender {
    window: Box<dyn CongestionWindow>,
    /// When the handshake ends.
    connected_at: Duration,
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
    limited_until: f64,
    /// When it looks again whether pacing allows more.
    wakes_at: f64,
    /// When the last flight reaches the bottleneck: one connection's packets stay in order.
    last_at_queue: f64,
}

impl TcpSender {
    fn next_number(&self) -> u64 {
        self.first + self.flights.len() as u64
    }

    fn flight(&mut self, number: u64) -> Option<&mut Flight> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.flights.get_mut(at)
    }

    /// The origin writes into the socket what there is room for, if its limit allows it.
    fn write(&mut self, now: f64, limit: Option<f64>) {
        if self.unwritten <= 0.0 || now < self.limited_until {
            return;
        }
        let buffer = (2.0 * self.window.window()).clamp(MIN_SEND_BUFFER, MAX_SEND_BUFFER);
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
    fn next_flight(&mut self, now: f64, min_flight: f64) -> Option<(u64, f64)> {
        let window = self.window.window();
        let size = (window / FLIGHTS_IN_WINDOW / SEGMENT).floor() * SEGMENT;
        let size = size.max(min_flight).min(window).floor();
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

    fn send(&mut self, number: u64, bytes: f64, now: f64) {
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
    fn acknowledge(&mut self, number: u64, now: f64) {
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
    fn is_unnoticed_tail(&mut self, number: u64) -> bool {
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
    fn on_loss(&mut self, number: u64) {
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
    fn note_lost(&mut self, number: u64, bytes: f64, lost: f64) {
        let Some(flight) = self.flight(number).filter(|_| lost > 0.0) else {
            return;
        };
        flight.missing = lost;
        self.in_flight -= bytes - lost;
        self.delivered += bytes - lost;
    }

    /// A window that was not used for a while says nothing about the path (RFC 2861).
    fn restart_if_idle(&mut self, now: f64, timeout: f64) {
        let pause = now - self.last_sent;
        if self.in_flight <= 0.0 && self.unsent > 0.0 && pause > timeout {
            self.window.on_idle(pause / timeout);
        }
    }

    /// When pacing allows what waits, unless that is known.
    fn next_wake_up(&mut self, now: f64) -> Option<f64> {
        let waits = self.unsent > 0.0 || !self.lost.is_empty();
        if !waits || self.paced_until <= now || self.wakes_at > now {
            return None;
        }
        self.wakes_at = self.paced_until;
        Some(self.wakes_at)
    }

    /// Takes the bytes that the client can read: those without a gap before them.
    fn take_readable(&mut self) -> f64 {
        let mut bytes = 0.0;
        while let Some(flight) = self.flights.front().filter(|flight| flight.has_arrived) {
            bytes += flight.bytes;
            self.flights.pop_front();
            self.first += 1;
        }
        bytes
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TcpEvent {
    /// The origin may write, or the sender send.
    Ready,
    /// A flight reaches the bottleneck.
    AtQueue { number: u64, bytes: u64 },
    /// It arrives.
    Arrival(u64),
    /// The sender notices a loss.
    Loss(u64),
}

/// Bytes that a client can read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrivedBytes {
    pub(crate) connection: usize,
    pub(crate) bytes: f64,
}

/// The connections over one path.
#[derive(Debug)]
pub(crate) struct TcpLink {
    path: TcpPath,
    /// By their numbers; `None`: closed.
    senders: Vec<Option<TcpSender>>,
    events: BinaryHeap<Reverse<(Duration, u64, usize, TcpEvent)>>,
    event_count: u64,
    /// When the bottleneck has sent all that waits at it.
    free_at: f64,
    /// Random numbers that were drawn.
    drawn: u64,
}

impl TcpLink {
    pub(crate) fn new(path: TcpPath) -> Self {
        Self {
            path,
            senders: Vec::new(),
            events: BinaryHeap::new(),
            event_count: 0,
            free_at: 0.0,
            drawn: 0,
        }
    }

    /// Opens a connection, and returns its number.
    pub(crate) fn connect(&mut self, now: Duration) -> usize {
        let delay = Duration::from_secs_f64(2.0 * self.jitter());
        self.senders.push(Some(TcpSender {
            window: self.path.congestion_control.new_window(self.senders.len()),
            connected_at: now + self.path.round_trip * self.path.setup_round_trips + delay,
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
        }));
        self.senders.len() - 1
    }

    /// Requests so many bytes, as soon as the connection is there.
    pub(crate) fn request(&mut self, connection: usize, bytes: u64, now: Duration) {
        let sender = self.senders[connection].as_mut().unwrap();
        sender.unwritten += bytes as f64;
        sender.limited_until = 0.0;
        let at = now.max(sender.connected_at);
        self.schedule(at.as_secs_f64(), connection, TcpEvent::Ready);
    }

    /// Closes a connection. The bytes in flight on it are wasted.
    pub(crate) fn close(&mut self, connection: usize) {
        self.senders[connection] = None;
    }

    /// When to call [`Self::advance`] next.
    pub(crate) fn next_event(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Carries out the next event.
    pub(crate) fn advance(&mut self) -> Option<ArrivedBytes> {
        let Reverse((at, _, connection, event)) = self.events.pop()?;
        let now = at.as_secs_f64();
        if let TcpEvent::AtQueue { number, bytes } = event {
            self.enter_queue(connection, number, bytes as f64, now);
            return None;
        }
        let sender = self.senders[connection].as_mut()?;
        let mut bytes = 0.0;
        match event {
            TcpEvent::Arrival(number) => {
                sender.acknowledge(number, now);
                bytes = sender.take_readable();
            }
            TcpEvent::Loss(number) if sender.is_unnoticed_tail(number) => {
                // A probe shows it, a round trip later (RFC 8985).
                let at = now + self.path.round_trip.as_secs_f64();
                self.schedule(at, connection, event);
                return None;
            }
            TcpEvent::Loss(number) => sender.on_loss(number),
            TcpEvent::Ready | TcpEvent::AtQueue { .. } => {}
        }
        self.send(connection, now);
        (bytes > 0.0).then_some(ArrivedBytes { connection, bytes })
    }

    fn schedule(&mut self, at: f64, connection: usize, event: TcpEvent) {
        self.event_count += 1;
        // Not a little too early, by rounding.
        let at = Duration::from_secs_f64(at) + Duration::from_nanos(1);
        self.events
            .push(Reverse((at, self.event_count, connection, event)));
    }

    /// Sends all that the window allows.
    fn send(&mut self, connection: usize, now: f64) {
        let (limit, min_flight) = (self.path.connection_limit, self.path.min_flight());
        let round_trip = self.path.round_trip.as_secs_f64();
        let Some(sender) = self.senders[connection].as_mut() else {
            return;
        };
        let limited_until = sender.limited_until;
        sender.write(now, limit);
        sender.restart_if_idle(now, MIN_TIMEOUT + round_trip);
        let mut sent = Vec::new();
        while let Some((number, bytes)) = sender.next_flight(now, min_flight) {
            sender.send(number, bytes, now);
            sender.write(now, limit);
            sent.push((number, bytes));
        }
        let next_write = sender.limited_until;
        let wakes_at = sender.next_wake_up(now);
        let mut at_queue = sender.last_at_queue;
        for (number, bytes) in sent {
            let bytes = whole(bytes);
            at_queue = at_queue.max(now + round_trip + self.jitter());
            self.schedule(at_queue, connection, TcpEvent::AtQueue { number, bytes });
        }
        if let Some(sender) = self.senders[connection].as_mut() {
            sender.last_at_queue = at_queue;
        }
        if next_write > limited_until {
            self.schedule(next_write, connection, TcpEvent::Ready);
        }
        if let Some(at) = wakes_at {
            self.schedule(at, connection, TcpEvent::Ready);
        }
    }

    /// Some bytes reach the bottleneck: they wait there, or are lost. Those of a connection that was closed meanwhile wait, too, and nobody
    /// reads them.
    fn enter_queue(&mut self, connection: usize, number: u64, bytes: f64, now: f64) {
        let waiting = (self.free_at - now).max(0.0);
        let lost = match waiting > self.path.queue_time.as_secs_f64() {
            true => bytes,
            false => self.draw_loss(bytes),
        };
        if lost < bytes {
            self.free_at = self.free_at.max(now) + (bytes - lost) / self.path.rate();
        }
        if let Some(sender) = self.senders[connection].as_mut() {
            sender.note_lost(number, bytes, lost);
            let event = match lost > 0.0 {
                true => TcpEvent::Loss(number),
                false => TcpEvent::Arrival(number),
            };
            self.schedule(self.free_at.max(now), connection, event);
        }
    }

    /// By how many seconds a packet is late.
    fn jitter(&mut self) -> f64 {
        JITTER.0.min(JITTER.1 * self.path.round_trip.as_secs_f64()) * self.draw()
    }

    /// A number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        random(self.path.seed, self.drawn)
    }

    /// How many of these bytes are lost by chance.
    fn draw_loss(&mut self, bytes: f64) -> f64 {
        if self.path.loss <= 0.0 {
            return 0.0;
        }
        let segments = (bytes / SEGMENT).ceil();
        let mut lost = 0.0;
        // The number of segments to the next loss is geometrically distributed.
        let mut at = 0.0;
        loop {
            at += 1.0
                + (self.draw().max(f64::MIN_POSITIVE).ln() / (1.0 - self.path.loss).ln()).floor();
            if at > segments {
                return f64::min(lost, bytes);
            }
            lost += SEGMENT;
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and small"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number.round() as u64
}
