//! Limits lines a second and counts the rest: a batch may fail thousands of times a second, which neither a terminal nor a reader can
//! follow.

use std::time::Duration;

/// Lines a second. They fill a screen in two seconds, and occasional failures are shown as they occur.
const MOST: u32 = 20;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct LineThrottle {
    /// When the current second started.
    started: Duration,
    /// Lines shown in it.
    shown: u32,
    /// Lines left out since the count was last taken.
    hidden: u64,
}

impl LineThrottle {
    /// Whether a line may be shown now; otherwise it is counted.
    pub(super) fn admit(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.started) >= SECOND {
            (self.started, self.shown) = (now, 0);
        }
        // The count is shown before further lines.
        let admitted = self.shown < MOST && self.hidden == 0;
        if admitted {
            self.shown += 1;
        } else {
            self.hidden += 1;
        }
        admitted
    }

    /// How many lines were left out, once a second.
    pub(super) fn take_hidden(&mut self, now: Duration) -> Option<u64> {
        let due = self.hidden > 0 && now.saturating_sub(self.started) >= SECOND;
        due.then(|| std::mem::take(&mut self.hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_limited_and_counted_and_a_trickle_is_not() {
        let ms = Duration::from_millis;
        let mut throttle = LineThrottle::default();
        let shown = (0..100).filter(|n| throttle.admit(ms(*n))).count();
        assert_eq!(shown, 20);
        assert_eq!(
            throttle.take_hidden(ms(999)),
            None,
            "the second is not over"
        );
        assert!(!throttle.admit(ms(1000)), "the count comes first");
        // That began a second of its own.
        assert_eq!(throttle.take_hidden(ms(2000)), Some(81));
        assert_eq!(throttle.take_hidden(ms(2000)), None, "once");
        let shown = (20..40).filter(|n| throttle.admit(ms(n * 100))).count();
        assert_eq!((shown, throttle.take_hidden(ms(9000))), (20, None));
    }
}
