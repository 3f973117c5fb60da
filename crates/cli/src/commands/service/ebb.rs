//! When memory that connections had is given back to the system.
//!
//! A connection has some twenty kilobytes while something happens on it, and a wave of them leaves that behind as free memory in many small
//! pieces. While the next wave comes it is better kept; once it stays calm, ten thousand idle connections take half of what they would.

/// How many connections have to come to rest before it is worth while: some ten megabytes.
const MANY: u64 = 500;

/// Watches how often connections came to rest.
#[derive(Debug, Default)]
pub(crate) struct HeapTrimmer {
    /// At the last look.
    seen: u64,
    /// When memory was last given back.
    given: u64,
}

impl HeapTrimmer {
    /// Looks again, every half second or so. Whether it is time: many have come to rest, and hardly any since the last look.
    pub(crate) fn is_time(&mut self, rests: u64) -> bool {
        let is_calm = rests - self.seen < MANY;
        let is_much = rests - self.given >= MANY;
        self.seen = rests;
        if is_calm && is_much {
            self.given = rests;
        }
        is_calm && is_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_after_a_wave_once() {
        let mut ebb = HeapTrimmer::default();
        let looks = [0, 10, 5_000, 10_000, 10_020, 10_020, 10_400, 10_600, 10_600];
        let given: Vec<u64> = looks
            .into_iter()
            .filter(|rests| ebb.is_time(*rests))
            .collect();
        assert_eq!(given, [10_020, 10_600]);
    }
}
