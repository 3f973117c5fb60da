//! Links and origins in simulated time, step by step.

use std::time::Duration;

pub(crate) const MIB: f64 = 1_048_576.0;

/// The state of a connection, as a link sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedConnection {
    /// The number of the connection, from 0 on, in the order in which they were made.
    pub(crate) number: usize,
    /// How long ago its present response began.
    pub(crate) response_age: Duration,
    /// Bytes of the present response so far.
    pub(crate) sent: f64,
}

/// A link, and the origin behind it.
pub(crate) trait SimulatedLink {
    /// The round trip: what a connection costs to make.
    fn latency(&self) -> Duration;

    /// The time from a request to its response.
    fn response_latency(&self) -> Duration {
        self.latency()
    }

    /// The step of simulated time.
    fn step(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// The number of open connections at which the origin refuses one more.
    fn refuses_connection(&self, _open: usize) -> bool {
        false
    }

    /// The number of responses under way at which the origin responds 503 to one more request.
    fn responds_503(&self, _answering: usize) -> bool {
        false
    }

    /// How long the origin still counts a connection that was closed before the end of its response.
    fn counts_closed_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Bytes that each connection gets in a step of `seconds` that begins at `now`.
    fn bytes_in_step(
        &self,
        now: Duration,
        seconds: f64,
        connections: &[SimulatedConnection],
    ) -> Vec<f64>;
}

/// Each connection gets `rate`, all together `total`; each connection beyond those that reach the total costs
/// a share of it.
#[derive(Debug, Clone)]
pub(crate) struct CappedLink {
    pub(crate) latency: Duration,
    pub(crate) rate: f64,
    pub(crate) total: f64,
    /// Share of the total lost for each connection that was not needed to reach it.
    pub(crate) loss_per_connection: f64,
    /// Share of the total lost with each doubling of the connections beyond those needed to reach it.
    pub(crate) loss_per_doubling: f64,
    /// This connection gets a tenth of the rate.
    pub(crate) slow_connection: Option<usize>,
    /// This connection gets nothing after its first MiB.
    pub(crate) stalled_connection: Option<usize>,
    /// Further connections are refused.
    pub(crate) max_connections: usize,
    /// Further requests get a 503.
    pub(crate) max_responses: usize,
    /// How long a connection counts that was closed before the end of its response.
    pub(crate) counts_closed_for: Duration,
    /// The time from a request to its response, where that is more than the latency.
    pub(crate) response_latency: Duration,
    /// The step of simulated time.
    pub(crate) step: Duration,
    /// From this moment on the other link's values hold.
    pub(crate) changes_to: Option<(Duration, Box<Self>)>,
}

impl Default for CappedLink {
    fn default() -> Self {
        Self {
            latency: Duration::from_millis(20),
            rate: f64::INFINITY,
            total: f64::INFINITY,
            loss_per_connection: 0.0,
            loss_per_doubling: 0.0,
            step: Duration::from_millis(1),
            slow_connection: None,
            stalled_connection: None,
            max_connections: usize::MAX,
            max_responses: usize::MAX,
            counts_closed_for: Duration::ZERO,
            response_latency: Duration::ZERO,
            changes_to: None,
        }
    }
}

impl SimulatedLink for CappedLink {
    fn latency(&self) -> Duration {
        self.latency
    }

    fn response_latency(&self) -> Duration {
        self.latency.max(self.response_latency)
    }

    fn step(&self) -> Duration {
        self.step
    }

    fn refuses_connection(&self, open: usize) -> bool {
        open >= self.max_connections
    }

    fn responds_503(&self, answering: usize) -> bool {
        answering >= self.max_responses
    }

    fn counts_closed_for(&self) -> Duration {
        self.counts_closed_for
    }

    fn bytes_in_step(
        &self,
        now: Duration,
        seconds: f64,
        connections: &[SimulatedConnection],
    ) -> Vec<f64> {
        if let Some((_, later)) = self.changes_to.as_ref().filter(|(at, _)| now >= *at) {
            return later.bytes_in_step(now, seconds, connections);
        }
        let wanted = |connection: &SimulatedConnection| {
            let rate = if self.slow_connection == Some(connection.number) {
                self.rate / 10.0
            } else {
                self.rate
            };
            let is_stalled =
                self.stalled_connection == Some(connection.number) && connection.sent > MIB;
            if is_stalled {
                0.0
            } else {
                rate.min(self.total)
            }
        };
        let all_wanted: Vec<f64> = connections.iter().map(wanted).collect();
        let sum: f64 = all_wanted.iter().sum();
        let needed = (self.total / self.rate).ceil().max(1.0);
        let surplus = (connections.len() as f64 - needed).max(0.0);
        let doublings = (connections.len() as f64 / needed).log2().max(0.0);
        let total = self.total
            * (1.0 - self.loss_per_connection * surplus).max(0.5)
            * (1.0 - self.loss_per_doubling).powf(doublings);
        let share = if sum > total { total / sum } else { 1.0 };
        all_wanted
            .iter()
            .map(|wanted| wanted * share * seconds)
            .collect()
    }
}

/// nginx's `limit_rate`: each response begins with 2 MiB at once, and goes on with 2 MiB every half second. Between these bursts the last
/// bytes in the kernel's buffers trickle in.
#[derive(Debug)]
pub(crate) struct BurstyLink {
    /// What all bursts of a moment share, in bytes a second.
    pub(crate) total: f64,
    /// What a connection brings between its bursts, in bytes a second.
    pub(crate) trickle: f64,
}

impl Default for BurstyLink {
    fn default() -> Self {
        Self {
            total: f64::INFINITY,
            trickle: 0.0,
        }
    }
}

impl SimulatedLink for BurstyLink {
    fn latency(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn bytes_in_step(
        &self,
        _now: Duration,
        seconds: f64,
        connections: &[SimulatedConnection],
    ) -> Vec<f64> {
        let owed = |connection: &SimulatedConnection| {
            let seconds = connection.response_age.as_secs_f64();
            let allowed = 2.0 * MIB * (1.0 + (seconds / 0.5).floor()) + self.trickle * seconds;
            (allowed - connection.sent).max(0.0)
        };
        let owed: Vec<f64> = connections.iter().map(owed).collect();
        let share = (self.total * seconds / owed.iter().sum::<f64>()).min(1.0);
        owed.iter().map(|bytes| bytes * share).collect()
    }
}

/// An origin that brings 20 bytes in the first second of each response, and 4 MiB/s after it.
#[derive(Debug)]
pub(crate) struct DrippingOrigin {
    pub(crate) latency: Duration,
}

impl SimulatedLink for DrippingOrigin {
    fn latency(&self) -> Duration {
        self.latency
    }

    fn bytes_in_step(
        &self,
        _now: Duration,
        seconds: f64,
        connections: &[SimulatedConnection],
    ) -> Vec<f64> {
        let rate = |connection: &SimulatedConnection| match connection.response_age.as_secs() {
            0 => 20.0,
            _ => 4.0 * MIB,
        };
        let bytes = connections.iter().map(rate);
        bytes.map(|rate| rate * seconds).collect()
    }
}

/// A link with a noisy rate: each slice of time has a factor of its own, the same for all connections, whose
/// mean is 1.
#[derive(Debug)]
pub(crate) struct NoisyLink<L> {
    pub(crate) link: L,
    /// Selects the noise.
    pub(crate) seed: u64,
    /// How long each factor holds.
    pub(crate) slice: Duration,
    /// The standard deviation of the factors, which are evenly distributed: at most 0.57, where some slices
    /// bring nothing.
    pub(crate) scatter: f64,
}

impl<L> NoisyLink<L> {
    fn factor(&self, now: Duration) -> f64 {
        let slice = u64::try_from(now.as_nanos() / self.slice.as_nanos().max(1)).unwrap();
        // Evenly distributed numbers from 0 to 1 have the variance 1/12.
        1.0 + self.scatter * 12f64.sqrt() * (random(self.seed, slice) - 0.5)
    }
}

/// A number from 0 to 1 by the finaliser of SplitMix64 (Steele, Lea and Flood 2014): one index says nothing
/// of the next.
pub(crate) fn random(seed: u64, index: u64) -> f64 {
    let mut mixed = ((seed << 32) | (index + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl<L: SimulatedLink> SimulatedLink for NoisyLink<L> {
    fn latency(&self) -> Duration {
        self.link.latency()
    }

    fn response_latency(&self) -> Duration {
        self.link.response_latency()
    }

    fn step(&self) -> Duration {
        self.link.step()
    }

    fn refuses_connection(&self, open: usize) -> bool {
        self.link.refuses_connection(open)
    }

    fn bytes_in_step(
        &self,
        now: Duration,
        seconds: f64,
        connections: &[SimulatedConnection],
    ) -> Vec<f64> {
        self.link
            .bytes_in_step(now, seconds * self.factor(now), connections)
    }
}
