//! A link with TCP in simulated time: connections that share a bottleneck with a drop-tail queue.
//!
//! It is simulated event by event. What TCP sends at once is a flight of several packets, at most a small share of the window, so that a
//! download takes some thousand events. A flight travels to the queue for the whole round trip, and from there to the client in no time: for
//! the client that is the same as a path whose delay is on both sides. All times are those of the client. Acknowledgements are never lost.
//!
//! Order of calls: [`TcpLink::connect`], [`TcpLink::request`], then [`TcpLink::next_event`] says when [`TcpLink::advance`] may return bytes
//! that arrived. [`TcpLink::close`] ends a connection; what is in flight on it still takes its time at the bottleneck.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::congestion_window::{CongestionControl, SEGMENT};
use super::simulated_link::random;
use super::tcp_sender::TcpSender;

/// The least retransmission timeout is so much longer than a round trip. After such a pause a window shrinks.
const MIN_TIMEOUT: f64 = 0.2;

/// Packets take up to this number of seconds longer than the round trip, by chance, or up to this share of it if that is less. Without it,
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
        let number = self.senders.len();
        let window = self.path.congestion_control.new_window(number);
        let connected_at = now + self.path.round_trip * self.path.setup_round_trips + delay;
        self.senders
            .push(Some(TcpSender::new(window, connected_at)));
        number
    }

    /// Requests this number of bytes, as soon as the connection is open.
    pub(crate) fn request(&mut self, connection: usize, bytes: u64, now: Duration) {
        let sender = self.senders[connection].as_mut().unwrap();
        let at = now.max(sender.connected_at);
        sender.respond(bytes as f64);
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
        let limit = self.path.connection_limit;
        let round_trip = self.path.round_trip.as_secs_f64();
        let Some(sender) = self.senders[connection].as_mut() else {
            return;
        };
        let limited_until = sender.limited_until;
        sender.write(now, limit);
        sender.restart_if_idle(now, MIN_TIMEOUT + round_trip);
        let mut sent = Vec::new();
        while let Some((number, bytes)) = sender.next_flight(now) {
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
        let lost = if waiting > self.path.queue_time.as_secs_f64() {
            bytes
        } else {
            self.draw_loss(bytes)
        };
        if lost < bytes {
            self.free_at = self.free_at.max(now) + (bytes - lost) / self.path.rate();
        }
        if let Some(sender) = self.senders[connection].as_mut() {
            sender.note_lost(number, bytes, lost);
            let event = if lost > 0.0 {
                TcpEvent::Loss(number)
            } else {
                TcpEvent::Arrival(number)
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
