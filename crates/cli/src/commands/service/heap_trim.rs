//! When memory that connections had is given back to the system.
//!
//! A connection has some twenty kilobytes while something happens on it, and a wave of them leaves that behind as free memory in many small
//! pieces. While the next wave comes it is better kept; once it stays calm, ten thousand idle connections take half of what they would.

/// How many connections have to come to rest before it is worth while: some ten megabytes.
const ENOUGH: u64 = 500;

/// Watches how often connections came to rest.
#[derive(Debug, Default)]
pub(crate) struct HeapTrimmer {
    /// At the last look.
    last_seen: u64,
    /// When memory was last given back.
    last_trimmed: u64,
}

impl HeapTrimmer {
    /// Looks again, every half second or so. Whether it is time: many have come to rest, and hardly any since the last look.
    pub(crate) fn is_due(&mut self, rests: u64) -> bool {
        let is_calm = rests - self.last_seen < ENOUGH;
        let is_much = rests - self.last_trimmed >= ENOUGH;
        self.last_seen = rests;
        if is_calm && is_much {
            self.last_trimmed = rests;
        }
        is_calm && is_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_a_wave() {
        let mut ebb = HeapTrimmer::default();
        let looks = [0, 10, 5_000, 10_000, 10_020, 10_020, 10_400, 10_600, 10_600];
        let given: Vec<u64> = looks
            .into_iter()
            .filter(|rests| ebb.is_due(*rests))
            .collect();
        assert_eq!(given, [10_020, 10_600]);
    }
}
