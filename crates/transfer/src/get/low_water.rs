//! How many bytes are worth waking a reader for.
//!
//! Waking a task for every packet of a fast link costs more than reading the packet. So a reader is woken
//! only when the bytes of [`GATHER_SECONDS`] have come, as a network card coalesces its interrupts; on a slow
//! link every byte wakes it.

/// How long bytes gather, in seconds: far below what a person or the connection control would notice.
const GATHER_SECONDS: f64 = 0.004;

/// The highest mark, in bytes. Socket buffers hold several times as much, so the peer is never held up.
const MAX_MARK: f64 = 256.0 * 1024.0;

/// A lower mark is not worth setting: fewer bytes than this come at once anyway.
const MIN_MARK: f64 = 8.0 * 1024.0;

/// Bytes at the end of a body for which no mark is set: what may be read before the mark is moved again (half
/// a megabyte), and what TLS and the HTTP reader hold by then. Those bytes will not come over the socket
/// again.
const RESERVED_TAIL: u64 = 1024 * 1024;

/// The low-water mark, in bytes, for a body that arrives at `rate` bytes a second and has `remaining` bytes
/// left (`None`: unknown). 1 means that every byte wakes the reader. The mark never waits for bytes that will
/// not come.
#[must_use]
pub(super) fn low_water_mark(rate: f64, remaining: Option<u64>) -> u32 {
    // A rate of NaN, over a time of zero, sets no mark: `clamp` keeps it, and the comparison below is false.
    let mark = (rate * GATHER_SECONDS).clamp(0.0, MAX_MARK);
    let has_enough_left = remaining.is_some_and(|left| left as f64 >= mark + RESERVED_TAIL as f64);
    if mark >= MIN_MARK && has_enough_left {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between MIN_MARK and MAX_MARK"
        )]
        let mark = mark as u32;
        mark
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fast_link_is_read_in_large_chunks_and_a_slow_one_byte_by_byte() {
        assert_eq!(low_water_mark(1e9, Some(1 << 40)), 256 * 1024);
        assert_eq!(low_water_mark(10e6, Some(1 << 40)), 40_000);
        assert_eq!(low_water_mark(100e3, Some(1 << 40)), 1);
        assert_eq!(low_water_mark(f64::NAN, Some(1 << 40)), 1);
        assert_eq!(low_water_mark(f64::INFINITY, Some(1 << 40)), 256 * 1024);
    }

    #[test]
    fn a_body_of_unknown_length_has_no_mark() {
        assert_eq!(low_water_mark(1e9, None), 1);
    }

    proptest! {
        #[test]
        fn the_mark_never_waits_for_more_bytes_than_will_come(rate in 0.0..1e12f64, remaining: u64) {
            let mark = u64::from(low_water_mark(rate, Some(remaining)));
            prop_assert!(mark == 1 || mark + RESERVED_TAIL <= remaining);
            prop_assert!(mark == 1 || mark as f64 <= (rate * GATHER_SECONDS).max(1.0));
        }
    }
}
