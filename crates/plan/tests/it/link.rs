//! Links and origins in simulated time, step by step.

use std::time::Duration;

pub(crate) const MIB: f64 = 1_048_576.0;

/// A connection as a link sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimulatedConnection {
    /// Its number, from 0 on, in the order of their making.
    pub(crate) connection: usize,
    /// Since its present request began to be answered.
    pub(crate) since: Duration,
    /// Bytes of the present answer so far.
    pub(crate) sent: f64,
}

/// What a link and the origin behind it give.
pub(crate) trait SimulatedLink {
    /// The time there and back: what a connection costs to make.
    fn latency(&self) -> Duration;

    /// From a request to its answer.
    fn answers_after(&self) -> Duration {
        self.latency()
    }

    /// How fine time runs.
    fn step(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Whether one more connection is refused when so many are open.
    fn refuses(&self, _open: usize) -> bool {
        false
    }

    /// Whether a request on one more connection is answered 503 when so many others are being answered.
    fn is_busy(&self, _answering: usize) -> bool {
        false
    }

    /// For how long the origin still counts a connection that was closed before its answer's end.
    fn lingers(&self) -> Duration {
        Duration::ZERO
    }

    /// Bytes that each flow gets in a step of `seconds` that begins at `now`.
    fn give(&self, now: Duration, seconds: f64, flows: &[SimulatedConnection]) -> Vec<f64>;
}

/// Each connection gets `rate`, all together `total`; each one beyond what reaches the total costs a share of it.
#[derive(Debug, Clone)]
pub(crate) struct CappedLink {
    pub(crate) latency: Duration,
    pub(crate) rate: f64,
    pub(crate) total: f64,
    /// Share of the total lost for each connection that was not needed to reach it.
    pub(crate) loss: f64,
    /// Share of the total lost with each doubling of the connections past those needed to reach it.
    pub(crate) crowding: f64,
    /// This connection gets a tenth.
    pub(crate) slow: Option<usize>,
    /// This connection gets nothing after its first MiB.
    pub(crate) stalled: Option<usize>,
    /// No more connections than this.
    pub(crate) most: usize,
    /// No more answers at a time than this: 503 to the others.
    pub(crate) answers: usize,
    /// How long a connection counts that was closed before its answer's end.
    pub(crate) lingers: Duration,
    /// From a request to its answer, where that is more than the latency.
    pub(crate) late: Duration,
    /// How fine time runs.
    pub(crate) step: Duration,
    /// From this moment on the other values hold.
    pub(crate) later: Option<(Duration, Box<Self>)>,
}

impl Default for CappedLink {
    fn default() -> Self {
        Self {
            latency: Duration::from_millis(20),
            rate: f64::INFINITY,
            total: f64::INFINITY,
            loss: 0.0,
            crowding: 0.0,
            step: Duration::from_millis(1),
            slow: None,
            stalled: None,
            most: usize::MAX,
            answers: usize::MAX,
            lingers: Duration::ZERO,
            late: Duration::ZERO,
            later: None,
        }
    }
}

impl SimulatedLink for CappedLink {
    fn latency(&self) -> Duration {
        self.latency
    }

    fn answers_after(&self) -> Duration {
        self.latency.max(self.late)
    }

    fn step(&self) -> Duration {
        self.step
    }

    fn refuses(&self, open: usize) -> bool {
        open >= self.most
    }

    fn is_busy(&self, answering: usize) -> bool {
        answering >= self.answers
    }

    fn lingers(&self) -> Duration {
        self.lingers
    }

    fn give(&self, now: Duration, seconds: f64, flows: &[SimulatedConnection]) -> Vec<f64> {
        if let Some((_, later)) = self.later.as_ref().filter(|(at, _)| now >= *at) {
            return later.give(now, seconds, flows);
        }
        let wish = |flow: &SimulatedConnection| {
            let own = if self.slow == Some(flow.connection) {
                self.rate / 10.0
            } else {
                self.rate
            };
            let dead = self.stalled == Some(flow.connection) && flow.sent > MIB;
            if dead { 0.0 } else { own.min(self.total) }
        };
        let wishes: Vec<f64> = flows.iter().map(wish).collect();
        let sum: f64 = wishes.iter().sum();
        let needed = (self.total / self.rate).ceil().max(1.0);
        let surplus = (flows.len() as f64 - needed).max(0.0);
        let doublings = (flows.len() as f64 / needed).log2().max(0.0);
        let total = self.total
            * (1.0 - self.loss * surplus).max(0.5)
            * (1.0 - self.crowding).powf(doublings);
        let share = if sum > total { total / sum } else { 1.0 };
        wishes.iter().map(|wish| wish * share * seconds).collect()
    }
}

/// nginx's `limit_rate`: each answer begins with 2 MiB at once, and goes on with 2 MiB every half second.
#[derive(Debug)]
pub(crate) struct BurstyLink;

impl SimulatedLink for BurstyLink {
    fn latency(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn give(&self, _now: Duration, _seconds: f64, flows: &[SimulatedConnection]) -> Vec<f64> {
        let allowed = |flow: &SimulatedConnection| {
            2.0 * MIB * (1.0 + (flow.since.as_secs_f64() / 0.5).floor())
        };
        flows
            .iter()
            .map(|flow| (allowed(flow) - flow.sent).max(0.0))
            .collect()
    }
}

/// A link whose rate jumps about: each slice of time has a factor of its own, the same for all, whose mean is 1.
#[derive(Debug)]
pub(crate) struct NoisyLink<L> {
    pub(crate) link: L,
    /// Which noise.
    pub(crate) seed: u64,
    /// How long each factor holds.
    pub(crate) slice: Duration,
    /// The standard deviation of the factors, which are spread evenly: at most 0.57, where some slices bring nothing.
    pub(crate) scatter: f64,
}

impl<L> NoisyLink<L> {
    fn factor(&self, now: Duration) -> f64 {
        let slice = u64::try_from(now.as_nanos() / self.slice.as_nanos().max(1)).unwrap();
        // Evenly spread numbers from 0 to 1 have the variance 1/12.
        1.0 + self.scatter * 12f64.sqrt() * (random(self.seed, slice) - 0.5)
    }
}

/// A number from 0 to 1 by the finaliser of SplitMix64 (Steele, Lea and Flood 2014): one index says nothing of the next.
fn random(seed: u64, index: u64) -> f64 {
    let mut mixed = ((seed << 32) | (index + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl<L: SimulatedLink> SimulatedLink for NoisyLink<L> {
    fn latency(&self) -> Duration {
        self.link.latency()
    }

    fn answers_after(&self) -> Duration {
        self.link.answers_after()
    }

    fn step(&self) -> Duration {
        self.link.step()
    }

    fn refuses(&self, open: usize) -> bool {
        self.link.refuses(open)
    }

    fn give(&self, now: Duration, seconds: f64, flows: &[SimulatedConnection]) -> Vec<f64> {
        self.link.give(now, seconds * self.factor(now), flows)
    }
}
