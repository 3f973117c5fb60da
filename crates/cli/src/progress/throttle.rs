//! So many lines a second and no more, and how many were left out: a batch may fail thousands of times a second, and neither
//! a terminal nor an eye takes that.

use std::time::Duration;

/// Lines in a second. A screen is full after two, and what fails now and then is shown as it comes.
const MOST: u32 = 20;

/// What is counted together.
const SECOND: Duration = Duration::from_secs(1);

/// Lets some lines through.
#[derive(Debug, Default)]
pub(super) struct LineThrottle {
    /// When the second began that is counted.
    begun: Duration,
    /// Lines let through in it.
    shown: u32,
    /// Lines left out since that was last told.
    hidden: u64,
}

impl LineThrottle {
    /// Whether a line may be shown now. One that may not is counted.
    pub(super) fn admit(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.begun) >= SECOND {
            (self.begun, self.shown) = (now, 0);
        }
        // What was left out is told before more is shown.
        let admitted = self.shown < MOST && self.hidden == 0;
        if admitted {
            self.shown += 1;
        } else {
            self.hidden += 1;
        }
        admitted
    }

    /// How many were left out, when it is time to say so.
    pub(super) fn take_hidden(&mut self, now: Duration) -> Option<u64> {
        let due = self.hidden > 0 && now.saturating_sub(self.begun) >= SECOND;
        due.then(|| std::mem::take(&mut self.hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted_and_a_trickle_is_not() {
        let ms = Duration::from_millis;
        let mut throttle = LineThrottle::default();
        let shown = (0..100).filter(|n| throttle.admit(ms(*n))).count();
        assert_eq!(shown, 20);
        assert_eq!(throttle.take_hidden(ms(999)), None, "it is not over");
        assert!(!throttle.admit(ms(1000)), "not before the others are told");
        // That began a second of its own.
        assert_eq!(throttle.take_hidden(ms(2000)), Some(81));
        assert_eq!(throttle.take_hidden(ms(2000)), None, "once");
        let shown = (20..40).filter(|n| throttle.admit(ms(n * 100))).count();
        assert_eq!((shown, throttle.take_hidden(ms(9000))), (20, None));
    }
}
