//! Lines that wait for the writer: those of some threads, in a bound.

use std::fmt;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Lines of some threads. On cache lines of its own.
#[repr(align(128))]
pub(super) struct LogBuffer(Mutex<Vec<u8>>);

/// What became of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogPush {
    /// It was taken; `is_pressing` when the buffer became half full by it.
    Added { is_pressing: bool },
    /// There is no room for it.
    Full,
    /// Another thread is at the buffer.
    Locked,
}

impl LogBuffer {
    /// With all its room from the start, so that no line waits for the allocator.
    pub(super) fn new(share: usize) -> Self {
        Self(Mutex::new(buffer_with_capacity(share)))
    }

    /// Puts a line into it, unless it is full or in use.
    pub(super) fn push(&self, share: usize, line: &[u8]) -> LogPush {
        match self.0.try_lock() {
            Ok(mut lines) => add(&mut lines, share, line),
            Err(TryLockError::Poisoned(poisoned)) => add(&mut poisoned.into_inner(), share, line),
            Err(TryLockError::WouldBlock) => LogPush::Locked,
        }
    }

    /// The same, but waits for whoever is at it: as long as a line is copied, or until the system lets them go on.
    pub(super) fn push_waiting(&self, share: usize, line: &[u8]) -> LogPush {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut lines, share, line)
    }

    /// Takes its lines, and leaves it another vector, whose room it fills next.
    pub(super) fn swap(&self, other: &mut Vec<u8>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *lines, other);
    }

    /// Whether no line waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

/// Adds a line where it fits. One that is longer than all of it has to be alone.
fn add(lines: &mut Vec<u8>, share: usize, line: &[u8]) -> LogPush {
    let before = lines.len();
    if before > 0 && before + line.len() > share {
        return LogPush::Full;
    }
    lines.extend_from_slice(line);
    let half = share / 2;
    let is_pressing = before < half && lines.len() >= half;
    LogPush::Added { is_pressing }
}

/// Room for what a buffer holds.
pub(super) fn buffer_with_capacity(share: usize) -> Vec<u8> {
    Vec::with_capacity(share)
}

impl fmt::Debug for LogBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buffer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESSING: LogPush = LogPush::Added { is_pressing: true };
    const TAKEN: LogPush = LogPush::Added { is_pressing: false };

    #[test]
    fn it_presses_once_when_half_full_and_refuses_when_full() {
        let buffer = LogBuffer::new(10);
        assert!(buffer.is_empty());
        assert_eq!(buffer.push(10, b"abcd"), TAKEN);
        assert_eq!(buffer.push(10, b"e"), PRESSING);
        assert_eq!(buffer.push_waiting(10, b"fghi"), TAKEN);
        assert_eq!(buffer.push(10, b"jk"), LogPush::Full);
        assert_eq!(buffer.push_waiting(10, b"jk"), LogPush::Full);
        assert_eq!(buffer.push(10, b"j"), TAKEN);
        let mut taken = Vec::new();
        buffer.swap(&mut taken);
        assert_eq!(taken, b"abcdefghij");
        assert!(buffer.is_empty());
        // Longer than all of it, and alone.
        assert_eq!(buffer.push(10, b"abcdefghijklm"), PRESSING);
        assert_eq!(buffer.push(10, b"n"), LogPush::Full);
    }

    #[test]
    fn one_in_use_is_not_waited_for() {
        let buffer = LogBuffer::new(10);
        let held = buffer.0.lock().unwrap();
        assert_eq!(buffer.push(10, b"a"), LogPush::Locked);
        drop(held);
        assert_eq!(buffer.push(10, b"a"), TAKEN);
    }

    #[test]
    fn one_in_use_can_be_waited_for() {
        let buffer = LogBuffer::new(10);
        let held = buffer.0.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| buffer.push_waiting(10, b"a"));
            drop(held);
            assert_eq!(waiting.join().unwrap(), TAKEN);
        });
    }
}
