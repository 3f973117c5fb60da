//! How large a claim is.

use std::time::Duration;

/// A request costs one latency in which its connection is idle. Segments that take this many latencies keep
/// that cost near 3 %.
const LATENCIES_PER_SEGMENT: f64 = 32.0;

/// A claim takes about this number of seconds at most, unless the latency requires more: a surplus connection closes
/// when its claim ends, so this is how long it takes to get along with fewer. At 20 ms of latency it costs 1
/// %.
const MAX_CLAIM_SECONDS: f64 = 2.0;

/// The part of an even share that a connection claims on a long path. Connections are equally fast until packets are lost, and which of them
/// are slow from then on is chance: the rest is for the fast ones.
const CLAIMED_SHARE: f64 = 0.75;

/// Weight of a new measurement: the last five or so count.
const AVERAGE_WEIGHT: f64 = 0.2;

/// The share of the rate limit from which on the limit, and no connection, is what slows the download.
const RATE_LIMIT_SHARE: f64 = 0.8;

/// Limits on the sizes of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentOptions {
    /// The length of the first request's range, in bytes.
    pub first_request: u64,
    /// The least size of claims, in bytes, except for the file's last.
    pub min_size: u64,
    /// The least part of a slow worker's rest that is taken over, in bytes.
    pub min_takeover: u64,
    /// The greatest size of claims.
    pub max_size: u64,
    /// The size of all claims, instead of the limits above.
    pub fixed_size: Option<u64>,
    /// The highest number of connections: claims leave enough for all of them.
    pub connections: usize,
    /// The rate that all connections together are limited to, in bytes a second. At the limit none is slow by
    /// itself, and taking from it wins nothing.
    pub rate_limit: Option<u64>,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self {
            // Most files are smaller and then need one request; a larger one has begun before the second is
            // requested.
            first_request: 16 << 20,
            // At 1 MiB the request's head is a thousandth of a percent and its latency is what counts.
            min_size: 1 << 20,
            // A smaller part is fetched sooner by the worker that has it.
            min_takeover: 256 << 10,
            // What a stalled connection can keep to itself until it is taken over.
            max_size: 64 << 20,
            fixed_size: None,
            connections: 16,
            rate_limit: None,
        }
    }
}

impl SegmentOptions {
    /// Whether an idle worker may take a part of a slow worker's rest, while all workers together receive
    /// `total_rate` bytes a second; the rest of a silent one it may always take.
    pub(super) fn allows_splitting(&self, total_rate: f64) -> bool {
        self.fixed_size.is_none() && !self.is_at_rate_limit(total_rate)
    }

    /// Whether `total_rate` bytes a second are about as many as the user allows.
    pub(super) fn is_at_rate_limit(&self, total_rate: f64) -> bool {
        let limit = self.rate_limit;
        limit.is_some_and(|limit| total_rate >= RATE_LIMIT_SHARE * limit as f64)
    }

    /// The size of the next claim, for a connection that is expected to bring `rate` bytes a second. `remaining` are all bytes that are
    /// still to come, claimed or not.
    ///
    /// On a long path it is [most of an even share](CLAIMED_SHARE) of them, so that all connections end together and few further requests
    /// cost a round trip. On a short one it is half of an even share of the unclaimed bytes: there is room for connections to
    /// come, and the last claims are small.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, as intended"
    )]
    pub(super) fn size(
        &self,
        pace: &ConnectionPace,
        rate: Option<f64>,
        unclaimed: u64,
        remaining: u64,
        workers: u64,
    ) -> u64 {
        if let Some(fixed) = self.fixed_size {
            return fixed.max(1);
        }
        let connections = self.connections.max(1) as u64;
        let share = match pace.is_long_path {
            true if workers == 1 && self.is_too_small_to_share(pace, remaining) => remaining,
            true => self.long_path_share(remaining.div_ceil(connections)),
            false => (unclaimed / (2 * connections)).min(unclaimed.div_ceil(workers)),
        };
        let max_for_duration = rate.map_or(u64::MAX, |rate| {
            (MAX_CLAIM_SECONDS.max(LATENCIES_PER_SEGMENT * pace.latency()) * rate) as u64
        });
        // Workers that end together need no more than their share of everything that is still to come. Until a claim
        // has ended, more workers may follow, and need a share, too.
        let sharers = if pace.rate.is_none() {
            connections
        } else {
            workers
        };
        let min_worthwhile = pace.min_worthwhile_size(rate).min(remaining / sharers);
        // One connection needs one response.
        let max_size = if connections == 1 {
            u64::MAX
        } else {
            self.max_size
        };
        share
            .min(max_for_duration)
            .max(min_worthwhile)
            .clamp(self.min_size(pace), max_size.max(self.min_size))
    }

    /// The part of an even share that a connection claims on a long path. A small share is not worth a second request.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, as intended"
    )]
    fn long_path_share(&self, even: u64) -> u64 {
        ((CLAIMED_SHARE * even as f64) as u64).max(even.min(self.min_size))
    }

    /// The length of the first request's range. On a long path it is what one connection brings until others have come up to speed. What they
    /// took of a longer response would be on its way already, and lost; and a connection that is so far ahead keeps the others slow. With TLS
    /// they begin a round trip later, when the first has twice the window.
    pub(super) fn first_request_size(&self, is_long_path: bool, has_tls: bool) -> u64 {
        match self.fixed_size {
            Some(fixed) => fixed.max(1),
            None if is_long_path && self.connections > 1 => {
                let parts = if has_tls { 4 } else { 2 };
                self.first_request.min(self.min_shared_size() / parts)
            }
            None => self.first_request.max(1),
        }
    }

    /// The part of the first response that its connection fetches. On a long path the others get the rest, and begin at once.
    pub(super) fn first_share(&self, pace: &ConnectionPace, remaining: u64) -> u64 {
        let is_small = self.is_too_small_to_share(pace, remaining);
        if pace.is_long_path && self.fixed_size.is_none() && !is_small {
            remaining
                .div_ceil(self.connections.max(1) as u64)
                .max(self.min_shared_size())
        } else {
            u64::MAX
        }
    }

    /// Whether the connections that have begun bring what is left of the file before another one has come up to speed.
    pub(super) fn is_too_small_to_share(&self, pace: &ConnectionPace, remaining: u64) -> bool {
        pace.is_long_path && remaining <= self.min_shared_size()
    }

    /// As many bytes as these come sooner over one connection than over several, on a long path: new ones have to come up to speed beside
    /// one that may fill the link already.
    fn min_shared_size(&self) -> u64 {
        self.min_size.saturating_mul(4)
    }

    /// The least size of claims. On a long path shares may be smaller: a connection is slow at first, and many are not.
    fn min_size(&self, pace: &ConnectionPace) -> u64 {
        if pace.is_long_path {
            self.min_size.min(2 * self.min_takeover)
        } else {
            self.min_size
        }
    }

    /// The whole of a gap that is hardly more than the least size, so that no tiny rest is left; else 0.
    pub(super) fn whole_gap_if_small(&self, pace: &ConnectionPace, gap: u64) -> u64 {
        if self.fixed_size.is_none() && gap < self.min_size(pace).saturating_mul(2) {
            gap
        } else {
            0
        }
    }
}

/// How fast this job's connections and responses are.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionPace {
    /// Seconds from a request to the head of its response.
    latency: Option<f64>,
    /// Bytes a second of one connection, once its response has begun.
    rate: Option<f64>,
    /// Seconds from the head of a response until it has begun.
    begin: Option<f64>,
    /// Whether the path is so long that a connection needs time to come up to speed, and that each request costs some.
    pub(super) is_long_path: bool,
    /// Whether `rate` is that of the claiming worker, and not of all workers.
    is_of_claimer: bool,
}

impl ConnectionPace {
    /// The pace with the rate of the claiming worker, if that is known.
    pub(super) fn with_rate(&self, rate: Option<f64>) -> Self {
        match rate {
            Some(_) => Self {
                rate,
                is_of_claimer: true,
                ..*self
            },
            None => self.clone(),
        }
    }

    /// Whether the rate is that of the claiming worker.
    pub(super) fn is_of_claimer(&self) -> bool {
        self.is_of_claimer
    }

    /// The expected rate of the claiming worker while another connection brings `slow`, in
    /// bytes a second.
    pub(super) fn expected_rate(&self, slow: f64) -> f64 {
        match self.rate {
            Some(rate) if self.is_of_claimer => rate,
            // Without a finished claim to compare with, the idle worker's connection counts as equally fast.
            rate => rate.unwrap_or(slow).max(slow),
        }
    }

    /// The head of a response arrived after this time.
    pub(super) fn response_took(&mut self, after: Duration) {
        update_average(&mut self.latency, after.as_secs_f64());
    }

    /// The first bytes of a response took so long.
    pub(super) fn response_began(&mut self, after: Duration) {
        update_average(&mut self.begin, after.as_secs_f64());
    }

    /// Seconds from the head of a response until it has begun, lately.
    pub(super) fn begins(&self) -> Option<f64> {
        self.begin
    }

    /// A claim ended after this time, with this number of bytes. On a long path those of less than a round trip were one window, which came at the
    /// rate of the whole link, and say nothing of what a connection brings.
    pub(super) fn claim_finished(&mut self, bytes: u64, during: Option<Duration>) {
        let seconds = during.unwrap_or_default().as_secs_f64();
        let is_window = self.is_long_path && seconds < self.latency();
        if bytes > 0 && seconds > 0.0 && !is_window {
            update_average(&mut self.rate, bytes as f64 / seconds);
        }
    }

    /// Seconds from a request to the head of its response; 0 while that is unknown.
    pub(super) fn latency(&self) -> f64 {
        self.latency.unwrap_or(0.0)
    }

    /// The expected rate of a connection, in bytes a second.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// The size, in bytes, below which the latency of a request weighs too much, at `rate` bytes a second.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, as intended"
    )]
    fn min_worthwhile_size(&self, rate: Option<f64>) -> u64 {
        (LATENCIES_PER_SEGMENT * self.latency() * rate.unwrap_or(0.0)) as u64
    }
}

fn update_average(average: &mut Option<f64>, new: f64) {
    *average = Some(average.map_or(new, |old| old + AVERAGE_WEIGHT * (new - old)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_claim_takes_two_seconds_at_most_unless_responses_are_late() {
        let options = SegmentOptions::default();
        let mut pace = ConnectionPace::default();
        let size =
            |pace: &ConnectionPace, rate| options.size(pace, rate, 4096 * MIB, 4096 * MIB, 4);
        assert_eq!(size(&pace, None), 64 * MIB);
        assert_eq!(size(&pace, Some(8.0 * MIB as f64)), 16 * MIB);
        assert_eq!(size(&pace, Some(1000.0)), options.min_size);
        pace.claim_finished(8 * MIB, Some(Duration::from_secs(1)));
        pace.response_took(Duration::from_millis(125));
        assert_eq!(size(&pace, pace.rate()), 32 * MIB);
    }

    #[test]
    fn one_window_on_a_long_path_is_no_rate() {
        let in_ms = |ms| Some(Duration::from_millis(ms));
        let mut pace = ConnectionPace {
            is_long_path: true,
            ..ConnectionPace::default()
        };
        pace.response_took(Duration::from_millis(100));
        pace.claim_finished(MIB, in_ms(99));
        assert_eq!(pace.rate(), None);
        pace.claim_finished(MIB, in_ms(1000));
        pace.claim_finished(MIB, in_ms(40));
        assert_eq!(pace.rate(), Some(MIB as f64));
        pace.is_long_path = false;
        pace.claim_finished(MIB, in_ms(40));
        assert!(pace.rate() > Some(MIB as f64));
    }
}
