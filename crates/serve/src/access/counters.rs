//! Counts, in tests, what a login costs: how much work is done for a stranger is a matter of counting, not of clocks.

use std::cell::Cell;

thread_local! {
    static HASHED: Cell<usize> = const { Cell::new(0) };
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// A password was hashed.
pub(super) fn count_hash() {
    HASHED.set(HASHED.get() + 1);
}

/// Two digests were compared.
pub(super) fn count_comparison() {
    COMPARED.set(COMPARED.get() + 1);
}

/// Hashes and comparisons on this thread since it was last asked.
pub(super) fn take_counts() -> (usize, usize) {
    (HASHED.take(), COMPARED.take())
}
