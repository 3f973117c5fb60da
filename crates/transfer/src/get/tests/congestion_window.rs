//! The congestion windows of Linux, as far as they decide how long a download takes: CUBIC with HyStart, and BBR.
//!
//! A window gets the acknowledgements and losses of its connection, and says how many bytes may be in flight. Sizes are in bytes, times in
//! seconds.

use std::collections::VecDeque;

/// The payload of a packet of 1500 bytes: 52 bytes are the headers of IP and TCP with timestamps.
pub(crate) const SEGMENT: f64 = 1448.0;

/// The window of a new connection, and the least after a pause (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0 * SEGMENT;

/// Which congestion control the origin's kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CongestionControl {
    Cubic,
    Bbr,
}

impl CongestionControl {
    pub(crate) fn new_window(self, number: usize) -> Box<dyn CongestionWindow> {
        match self {
            Self::Cubic => Box::<CubicWindow>::default(),
            Self::Bbr => Box::new(BbrWindow {
                first_gain: 2 + number % 6,
                ..BbrWindow::default()
            }),
        }
    }
}

/// Acknowledged bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledgement {
    pub(crate) now: f64,
    pub(crate) bytes: f64,
    /// From the transmission of the bytes to now.
    pub(crate) round_trip: f64,
    /// Bytes a second that arrived meanwhile.
    pub(crate) delivery_rate: f64,
    /// Whether all bytes that were in flight when the last round began are acknowledged.
    pub(crate) ends_round: bool,
    /// Whether the window, and not the origin, was what the sender waited for.
    pub(crate) is_window_limited: bool,
    /// Whether the sender still repairs the losses of a round before.
    pub(crate) in_recovery: bool,
    /// Bytes in flight.
    pub(crate) in_flight: f64,
}

/// The window of one connection.
pub(crate) trait CongestionWindow: std::fmt::Debug {
    /// Bytes that may be in flight.
    fn window(&self) -> f64;

    /// Bytes a second that may be sent; `None`: all that the window allows, at once.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }

    fn on_acknowledgement(&mut self, ack: &Acknowledgement);

    /// Bytes were lost, perhaps for the first time in a round; `in_flight` bytes are still in flight.
    fn on_loss(&mut self, is_first: bool, in_flight: f64);

    /// The connection sends again after a pause of this number of retransmission timeouts.
    fn on_idle(&mut self, timeouts: f64);
}

/// CUBIC (RFC 9438) with the slow start of HyStart (RFC 9406 has a later form; this is that of Linux).
#[derive(Debug)]
struct CubicWindow {
    window: f64,
    /// Below this the window grows by slow start.
    threshold: f64,
    /// The window at the last loss; 0 before it.
    last_max: f64,
    /// When the present growth began, and the window at that time.
    epoch: Option<(f64, f64)>,
    /// The shortest round trip.
    min_round_trip: f64,
    /// The shortest of the first round trips of this round, and the bytes that made them.
    round_trip: f64,
    sampled: f64,
}

impl CubicWindow {
    /// The share of the window that is left after a loss.
    const BETA: f64 = 0.7;
    /// How fast the window grows, in segments for each cubic second.
    const SCALE: f64 = 0.4;
    /// How fast it grows at least in a round, until something is lost.
    const GROWTH_BEFORE_LOSS: f64 = 1.05;
    /// HyStart begins with so large a window.
    const LEAST_HYSTART: f64 = 16.0 * SEGMENT;
    /// The bytes at the begin of a round that show the delay: eight acknowledgements of two segments each.
    const SAMPLED: f64 = 16.0 * SEGMENT;

    /// Ends slow start when a round begins with longer round trips: a queue has formed. (HyStart also looks for trains of acknowledgements,
    /// which changes nothing on the links here: wherever these are clear, the delay is seen as early.)
    fn end_slow_start_if_delayed(&mut self, ack: &Acknowledgement) {
        if ack.ends_round {
            (self.round_trip, self.sampled) = (f64::INFINITY, 0.0);
        }
        if self.sampled < Self::SAMPLED {
            self.round_trip = self.round_trip.min(ack.round_trip);
            self.sampled += ack.bytes;
        }
        let delay = (self.min_round_trip / 8.0).clamp(0.004, 0.016);
        let is_delayed =
            self.sampled >= Self::SAMPLED && self.round_trip >= self.min_round_trip + delay;
        if self.window >= Self::LEAST_HYSTART && is_delayed {
            self.threshold = self.window;
        }
    }

    /// The window that CUBIC aims at, or that Reno would have if that is more.
    fn target(&mut self, ack: &Acknowledgement) -> f64 {
        let (began, from) = *self.epoch.get_or_insert((ack.now, self.window));
        let origin = self.last_max.max(from);
        let inflection = ((origin - from) / SEGMENT / Self::SCALE).cbrt();
        let age = ack.now - began + self.min_round_trip;
        let cubic = origin + Self::SCALE * (age - inflection).powi(3) * SEGMENT;
        let reno_growth = 3.0 * (1.0 - Self::BETA) / (1.0 + Self::BETA);
        let reno = from + reno_growth * SEGMENT * (ack.now - began) / ack.round_trip;
        let least = if self.last_max == 0.0 {
            Self::GROWTH_BEFORE_LOSS * self.window
        } else {
            0.0
        };
        cubic.max(reno).max(least).min(1.5 * self.window)
    }
}

impl Default for CubicWindow {
    fn default() -> Self {
        Self {
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            last_max: 0.0,
            epoch: None,
            min_round_trip: f64::INFINITY,
            round_trip: f64::INFINITY,
            sampled: 0.0,
        }
    }
}

impl CongestionWindow for CubicWindow {
    fn window(&self) -> f64 {
        self.window
    }

    fn on_acknowledgement(&mut self, ack: &Acknowledgement) {
        self.min_round_trip = self.min_round_trip.min(ack.round_trip);
        if self.threshold.is_infinite() {
            self.end_slow_start_if_delayed(ack);
        }
        if ack.in_recovery || !ack.is_window_limited {
            return;
        }
        if self.window < self.threshold {
            self.window = (self.window + ack.bytes).min(self.threshold.max(self.window));
        } else {
            let target = self.target(ack);
            self.window += (target - self.window).max(0.0) * (ack.bytes / self.window).min(1.0);
        }
    }

    fn on_loss(&mut self, is_first: bool, _in_flight: f64) {
        if !is_first {
            return;
        }
        // Fast convergence: one whose window shrinks leaves room for others.
        self.last_max = if self.window < self.last_max {
            self.window * (1.0 + Self::BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * Self::BETA).max(2.0 * SEGMENT);
        self.threshold = self.window;
        self.epoch = None;
    }

    fn on_idle(&mut self, timeouts: f64) {
        self.threshold = self.threshold.max(0.75 * self.window);
        self.window = (self.window / 2f64.powf(timeouts)).max(INITIAL_WINDOW.min(self.window));
        self.epoch = None;
    }
}

/// BBR, version 1: the window follows the best delivery rate of the last rounds and the shortest round trip. Loss does not shrink it. Its
/// probe of the round trip, 0.2 s in ten, is left out.
#[derive(Debug)]
struct BbrWindow {
    window: f64,
    /// The best delivery rate of each of the last rounds.
    rates: VecDeque<f64>,
    min_round_trip: f64,
    /// The rate when it last rose by a quarter, and the rounds since then.
    full_rate: f64,
    rounds_at_full_rate: u32,
    phase: BbrPhase,
    /// Where it begins to probe: all connections at once would fill the queue together.
    first_gain: usize,
    /// After a loss it sends for a round only as much as arrives, and has the window from before again when all is repaired.
    is_conserving: bool,
    window_before_loss: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum BbrPhase {
    /// Doubles the rate each round until it rises no more.
    Startup,
    /// Empties the queue that this made.
    Drain,
    /// Sends more in one round, less in the next, and as much as arrives in six others.
    ProbeBandwidth { gain: usize, since: f64 },
}

impl BbrWindow {
    /// 2 / ln 2: as much as doubles the rate each round.
    const STARTUP_GAIN: f64 = 2.885;
    const WINDOW_GAIN: f64 = 2.0;
    const PROBE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    /// Rounds whose best rate counts.
    const RATE_ROUNDS: usize = 10;
    /// The rate is that of the path if it rises by less than a quarter in this number of rounds.
    const FULL_ROUNDS: u32 = 3;

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn gain(&self) -> f64 {
        match self.phase {
            BbrPhase::Startup => Self::STARTUP_GAIN,
            BbrPhase::Drain => 1.0 / Self::STARTUP_GAIN,
            BbrPhase::ProbeBandwidth { gain, .. } => Self::PROBE_GAINS[gain],
        }
    }

    fn in_flight_at(&self, gain: f64) -> f64 {
        gain * self.rate() * self.min_round_trip
    }

    fn on_round_end(&mut self, is_window_limited: bool) {
        if self.phase == BbrPhase::Startup && is_window_limited {
            if self.rate() >= 1.25 * self.full_rate {
                (self.full_rate, self.rounds_at_full_rate) = (self.rate(), 0);
            } else {
                self.rounds_at_full_rate += 1;
            }
            if self.rounds_at_full_rate >= Self::FULL_ROUNDS {
                self.phase = BbrPhase::Drain;
            }
        }
        self.rates.push_back(0.0);
        if self.rates.len() > Self::RATE_ROUNDS {
            self.rates.pop_front();
        }
    }

    fn advance_phase(&mut self, ack: &Acknowledgement) {
        match self.phase {
            BbrPhase::Drain if ack.in_flight <= self.in_flight_at(1.0) => {
                self.phase = BbrPhase::ProbeBandwidth {
                    gain: self.first_gain,
                    since: ack.now,
                };
            }
            BbrPhase::ProbeBandwidth { gain, since } => {
                let is_old = ack.now - since > self.min_round_trip;
                let has_drained = gain == 1 && ack.in_flight <= self.in_flight_at(1.0);
                if is_old || has_drained {
                    let gain = (gain + 1) % Self::PROBE_GAINS.len();
                    self.phase = BbrPhase::ProbeBandwidth {
                        gain,
                        since: ack.now,
                    };
                }
            }
            _ => {}
        }
    }
}

impl Default for BbrWindow {
    fn default() -> Self {
        Self {
            window: INITIAL_WINDOW,
            rates: VecDeque::from([0.0]),
            min_round_trip: f64::INFINITY,
            full_rate: 0.0,
            rounds_at_full_rate: 0,
            phase: BbrPhase::Startup,
            first_gain: 2,
            is_conserving: false,
            window_before_loss: 0.0,
        }
    }
}

impl CongestionWindow for BbrWindow {
    fn window(&self) -> f64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<f64> {
        let rate = self.rate();
        (rate > 0.0).then(|| self.gain() * rate)
    }

    fn on_acknowledgement(&mut self, ack: &Acknowledgement) {
        self.min_round_trip = self.min_round_trip.min(ack.round_trip);
        if ack.ends_round {
            self.on_round_end(ack.is_window_limited);
            self.is_conserving = false;
        }
        if let Some(best) = self.rates.back_mut() {
            *best = best.max(ack.delivery_rate);
        }
        self.advance_phase(ack);
        let target = match self.phase {
            BbrPhase::Startup => self.in_flight_at(Self::STARTUP_GAIN),
            _ => self.in_flight_at(Self::WINDOW_GAIN),
        };
        if self.is_conserving {
            self.window = self.window.max(ack.in_flight + ack.bytes);
            return;
        }
        if !ack.in_recovery {
            self.window = self
                .window
                .max(std::mem::take(&mut self.window_before_loss));
        }
        let grown = self.window + ack.bytes;
        self.window = match self.phase {
            BbrPhase::Startup if self.window >= target => self.window,
            BbrPhase::Startup => grown,
            _ => grown.min(target),
        };
        self.window = self.window.max(4.0 * SEGMENT);
    }

    fn on_loss(&mut self, is_first: bool, in_flight: f64) {
        if is_first {
            self.window_before_loss = self.window_before_loss.max(self.window);
            self.is_conserving = true;
        }
        if self.is_conserving {
            self.window = in_flight.max(SEGMENT);
        }
    }

    fn on_idle(&mut self, _timeouts: f64) {}
}
