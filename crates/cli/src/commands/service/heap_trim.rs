//! Decides when freed memory of connections is returned to the system.
//!
//! A connection uses some twenty kilobytes while something happens on it, and a wave of connections leaves that behind as free memory in
//! many small pieces. It is better kept while the next wave comes; once it is calm, ten thousand idle connections need half of the memory.

/// Connections that must have come to rest before a trim is worthwhile: some ten megabytes.
const ENOUGH: u64 = 500;

#[derive(Debug, Default)]
pub(crate) struct HeapTrimmer {
    /// The count at the last check.
    last_seen: u64,
    /// The count at the last trim.
    last_trimmed: u64,
}

impl HeapTrimmer {
    /// Checks, about every half second, with the number of times that connections came to rest. Returns whether to trim: many have come to
    /// rest since the last trim, and hardly any since the last check.
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
        let mut trimmer = HeapTrimmer::default();
        let counts = [0, 10, 5_000, 10_000, 10_020, 10_020, 10_400, 10_600, 10_600];
        let trimmed: Vec<u64> = counts
            .into_iter()
            .filter(|rests| trimmer.is_due(*rests))
            .collect();
        assert_eq!(trimmed, [10_020, 10_600]);
    }
}
