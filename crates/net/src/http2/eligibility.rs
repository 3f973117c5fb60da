//! Why the requests of a route go each over a connection of its own, and what shows that they should not.
//!
//! What is known of a way before its first handshake is how long it took to connect. A relay close by may answer that in place
//! of a far origin; how long answers take shows it, later.

use std::time::Duration;

/// After how many waits it is judged by them how long the way is: those for the handshakes and answers of the first few connections.
/// The quickest of fewer may be one that a busy machine on either side has held up.
const ENOUGH: usize = 8;

/// Why a connection is for one request at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http2Ineligible {
    /// The way is a short one, as far as is known.
    Near(RouteLatency),
    /// The origin has nothing else, or wants nothing else.
    Lasting,
}

/// How long a route took to answer: in handshakes, and from requests to heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouteLatency {
    least: Duration,
    count: usize,
}

impl Http2Ineligible {
    pub(crate) fn near() -> Self {
        let least = Duration::MAX;
        Self::Near(RouteLatency { least, count: 0 })
    }

    /// A handshake or an answer took so long. Tells the least that any has taken, if the way may be judged by that.
    pub(super) fn waited(&mut self, wait: Duration) -> Option<Duration> {
        let Self::Near(waits) = self else {
            return None;
        };
        waits.least = waits.least.min(wait);
        waits.count += 1;
        (waits.count >= ENOUGH).then_some(waits.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_millis(50);

    #[test]
    fn the_quickest_of_enough_answers_tells_how_long_the_way_is() {
        let mut apart = Http2Ineligible::near();
        for _ in 1..ENOUGH {
            assert_eq!(apart.waited(LONG), None);
        }
        assert_eq!(apart.waited(LONG), Some(LONG));
        assert_eq!(apart.waited(SHORT), Some(SHORT));
        assert_eq!(
            apart.waited(LONG),
            Some(SHORT),
            "one was quick, so the way is short"
        );
    }

    #[test]
    fn what_is_lasting_is_judged_by_nothing() {
        let mut apart = Http2Ineligible::Lasting;
        assert!((0..ENOUGH * 2).all(|_| apart.waited(LONG).is_none()));
    }
}
