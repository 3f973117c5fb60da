//! Counts, in tests, the work of a login: equal work for unknown users can be counted, and need not
//! be timed.

use std::cell::Cell;

thread_local! {
    static HASHED: Cell<usize> = const { Cell::new(0) };
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn count_hash() {
    HASHED.set(HASHED.get() + 1);
}

/// Counts a comparison of two digests.
pub(super) fn count_comparison() {
    COMPARED.set(COMPARED.get() + 1);
}

/// Hashes and comparisons on this thread since the last call.
pub(super) fn take_counts() -> (usize, usize) {
    (HASHED.take(), COMPARED.take())
}
