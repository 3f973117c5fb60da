//! Links and origins in simulated time, a millisecond a step.

use std::time::Duration;

pub(crate) const MIB: f64 = 1_048_576.0;

/// A connection as a link sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// Its number, from 0 on, in the order of their making.
    pub(crate) connection: usize,
    /// Since its present request began to be answered.
    pub(crate) since: Duration,
    /// Bytes of the present answer so far.
    pub(crate) sent: f64,
}

/// What a link and the origin behind it give.
pub(crate) trait Link {
    /// From a request to its answer; also what a connection costs to make.
    fn latency(&self) -> Duration;

    /// Whether one more connection is refused when so many are open.
    fn refuses(&self, _open: usize) -> bool {
        false
    }

    /// Bytes that each flow gets in a step of `seconds` that begins at `now`.
    fn give(&self, now: Duration, seconds: f64, flows: &[Flow]) -> Vec<f64>;
}

/// Each connection gets `rate`, all together `total`; each one beyond what reaches the total costs a share of it.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) latency: Duration,
    pub(crate) rate: f64,
    pub(crate) total: f64,
    /// Share of the total lost for each connection that was not needed to reach it.
    pub(crate) loss: f64,
    /// This connection gets a tenth.
    pub(crate) slow: Option<usize>,
    /// This connection gets nothing after its first MiB.
    pub(crate) stalled: Option<usize>,
    /// No more connections than this.
    pub(crate) most: usize,
    /// From this moment on the other values hold.
    pub(crate) later: Option<(Duration, Box<Self>)>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            latency: Duration::from_millis(20),
            rate: f64::INFINITY,
            total: f64::INFINITY,
            loss: 0.0,
            slow: None,
            stalled: None,
            most: usize::MAX,
            later: None,
        }
    }
}

impl Link for Limits {
    fn latency(&self) -> Duration {
        self.latency
    }

    fn refuses(&self, open: usize) -> bool {
        open >= self.most
    }

    fn give(&self, now: Duration, seconds: f64, flows: &[Flow]) -> Vec<f64> {
        if let Some((_, later)) = self.later.as_ref().filter(|(at, _)| now >= *at) {
            return later.give(now, seconds, flows);
        }
        let wish = |flow: &Flow| {
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
        let total = self.total * (1.0 - self.loss * surplus).max(0.5);
        let share = if sum > total { total / sum } else { 1.0 };
        wishes.iter().map(|wish| wish * share * seconds).collect()
    }
}

/// nginx's `limit_rate`: each answer begins with 2 MiB at once, and goes on with 2 MiB every half second.
#[derive(Debug)]
pub(crate) struct Bursts;

impl Link for Bursts {
    fn latency(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn give(&self, _now: Duration, _seconds: f64, flows: &[Flow]) -> Vec<f64> {
        let allowed = |flow: &Flow| 2.0 * MIB * (1.0 + (flow.since.as_secs_f64() / 0.5).floor());
        flows
            .iter()
            .map(|flow| (allowed(flow) - flow.sent).max(0.0))
            .collect()
    }
}
