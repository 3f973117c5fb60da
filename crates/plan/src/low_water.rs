//! How many bytes are worth waking a reader for.
//!
//! Waking a task for every packet of a fast link costs more than reading the packet. So a reader is woken for the bytes of
//! a short [`GATHER_SECONDS`] at the rate they come, as a network card bundles its interrupts; on a slow link that is every byte.

/// What is waited for, in seconds at the present rate: far below what a person or the connection control would notice.
const GATHER_SECONDS: f64 = 0.004;

/// The most that is waited for. Socket buffers hold several times as much, so the peer is never held up by it.
const MAX_MARK: f64 = 256.0 * 1024.0;

/// Less than this is there at once anyway.
const MIN_MARK: f64 = 8.0 * 1024.0;

/// Bytes of a body that may be taken before the mark is moved again, half a megabyte, and what TLS and the HTTP reader hold by
/// then: they will not come over the socket again.
const RESERVED_TAIL: u64 = 1024 * 1024;

/// The low-water mark, in bytes, for a body that comes at `rate` bytes a second with `remaining` to come (`None`: unknown).
/// 1 means that every byte is worth being woken for. The mark never asks for bytes that will not come.
#[must_use]
pub fn low_water_mark(rate: f64, remaining: Option<u64>) -> u32 {
    // A rate that is not a number, from no time at all, is no reason to wait: clamping keeps it, comparing refuses it.
    let mark = (rate * GATHER_SECONDS).clamp(0.0, MAX_MARK);
    let enough = remaining.is_some_and(|left| left as f64 >= mark + RESERVED_TAIL as f64);
    if mark >= MIN_MARK && enough {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between LEAST and MOST"
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
    fn a_fast_link_is_read_in_large_pieces_and_a_slow_one_byte_by_byte() {
        assert_eq!(low_water_mark(1e9, Some(1 << 40)), 256 * 1024);
        assert_eq!(low_water_mark(10e6, Some(1 << 40)), 40_000);
        assert_eq!(low_water_mark(100e3, Some(1 << 40)), 1);
        assert_eq!(low_water_mark(f64::NAN, Some(1 << 40)), 1);
        assert_eq!(low_water_mark(f64::INFINITY, Some(1 << 40)), 256 * 1024);
    }

    #[test]
    fn a_body_of_unknown_length_is_never_waited_for() {
        assert_eq!(low_water_mark(1e9, None), 1);
    }

    proptest! {
        #[test]
        fn no_more_is_waited_for_than_will_come(rate in 0.0..1e12f64, remaining: u64) {
            let mark = u64::from(low_water_mark(rate, Some(remaining)));
            prop_assert!(mark == 1 || mark + RESERVED_TAIL <= remaining);
            prop_assert!(mark == 1 || mark as f64 <= (rate * GATHER_SECONDS).max(1.0));
        }
    }
}
