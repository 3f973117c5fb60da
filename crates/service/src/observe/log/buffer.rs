//! Buffers of lines that wait for the writer.

use std::fmt;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Lines of some threads, on cache lines of its own.
#[repr(align(128))]
pub(super) struct LogBuffer(Mutex<Vec<u8>>);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogPush {
    /// The line was added; `is_pressing` if it made the buffer half full.
    Added { is_pressing: bool },
    /// The line does not fit.
    Full,
    /// Another thread has the lock.
    Locked,
}

impl LogBuffer {
    /// A buffer of `size` bytes, allocated now so that no line waits for the allocator.
    pub(super) fn new(size: usize) -> Self {
        Self(Mutex::new(buffer_with_capacity(size)))
    }

    /// Adds a line, unless the buffer is full or locked.
    pub(super) fn push(&self, size: usize, line: &[u8]) -> LogPush {
        match self.0.try_lock() {
            Ok(mut lines) => add(&mut lines, size, line),
            Err(TryLockError::Poisoned(poisoned)) => add(&mut poisoned.into_inner(), size, line),
            Err(TryLockError::WouldBlock) => LogPush::Locked,
        }
    }

    /// Adds a line after waiting for the lock, which is held while a line is copied.
    pub(super) fn push_waiting(&self, size: usize, line: &[u8]) -> LogPush {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut lines, size, line)
    }

    /// Exchanges its lines for another vector, which it fills next.
    pub(super) fn swap(&self, other: &mut Vec<u8>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *lines, other);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

/// Adds a line if it fits. A line longer than the whole buffer fits into an empty one.
fn add(lines: &mut Vec<u8>, size: usize, line: &[u8]) -> LogPush {
    let before = lines.len();
    if before > 0 && before + line.len() > size {
        return LogPush::Full;
    }
    lines.extend_from_slice(line);
    let half = size / 2;
    let is_pressing = before < half && lines.len() >= half;
    LogPush::Added { is_pressing }
}

pub(super) fn buffer_with_capacity(size: usize) -> Vec<u8> {
    Vec::with_capacity(size)
}

impl fmt::Debug for LogBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogBuffer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESSING: LogPush = LogPush::Added { is_pressing: true };
    const ADDED: LogPush = LogPush::Added { is_pressing: false };

    #[test]
    fn it_is_pressing_once_when_half_full_and_refuses_when_full() {
        let buffer = LogBuffer::new(10);
        assert!(buffer.is_empty());
        assert_eq!(buffer.push(10, b"abcd"), ADDED);
        assert_eq!(buffer.push(10, b"e"), PRESSING);
        assert_eq!(buffer.push_waiting(10, b"fghi"), ADDED);
        assert_eq!(buffer.push(10, b"jk"), LogPush::Full);
        assert_eq!(buffer.push_waiting(10, b"jk"), LogPush::Full);
        assert_eq!(buffer.push(10, b"j"), ADDED);
        let mut taken = Vec::new();
        buffer.swap(&mut taken);
        assert_eq!(taken, b"abcdefghij");
        assert!(buffer.is_empty());
        // Longer than the buffer, and alone.
        assert_eq!(buffer.push(10, b"abcdefghijklm"), PRESSING);
        assert_eq!(buffer.push(10, b"n"), LogPush::Full);
    }

    #[test]
    fn a_locked_buffer_is_not_waited_for() {
        let buffer = LogBuffer::new(10);
        let held = buffer.0.lock().unwrap();
        assert_eq!(buffer.push(10, b"a"), LogPush::Locked);
        drop(held);
        assert_eq!(buffer.push(10, b"a"), ADDED);
    }

    #[test]
    fn a_locked_buffer_can_be_waited_for() {
        let buffer = LogBuffer::new(10);
        let held = buffer.0.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| buffer.push_waiting(10, b"a"));
            drop(held);
            assert_eq!(waiting.join().unwrap(), ADDED);
        });
    }
}
