//! Lines that wait for the writer: those of some threads, in a bound.

use std::fmt;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Bytes of a line, if it is not of somebody who tries how long one may be.
const USUAL_LINE: usize = 1024;

/// Lines of some threads. On cache lines of its own.
#[repr(align(128))]
pub(super) struct Buffer(Mutex<Vec<u8>>);

/// What became of a line.
pub(super) enum Pushed {
    /// It was taken; `is_pressing` when the buffer became half full by it.
    Taken { is_pressing: bool },
    /// There is no room, or another thread is at it.
    Refused,
}

impl Buffer {
    /// With all its room from the start, so that no line waits for the allocator.
    pub(super) fn new(share: usize) -> Self {
        Self(Mutex::new(room_for(share)))
    }

    /// Has a line put into it, unless it is full or in use.
    pub(super) fn push(&self, share: usize, render: impl FnOnce(&mut Vec<u8>)) -> Pushed {
        let mut lines = match self.0.try_lock() {
            Ok(lines) => lines,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Pushed::Refused,
        };
        let before = lines.len();
        if before >= share {
            return Pushed::Refused;
        }
        render(&mut lines);
        let half = share / 2;
        let is_pressing = before < half && lines.len() >= half;
        Pushed::Taken { is_pressing }
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

/// Room for what a buffer holds, and for the line that fills it.
pub(super) fn room_for(share: usize) -> Vec<u8> {
    Vec::with_capacity(share + USUAL_LINE)
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buffer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(buffer: &Buffer, text: &str) -> Option<bool> {
        match buffer.push(10, |lines| lines.extend_from_slice(text.as_bytes())) {
            Pushed::Taken { is_pressing } => Some(is_pressing),
            Pushed::Refused => None,
        }
    }

    #[test]
    fn it_presses_once_when_half_full_and_refuses_when_full() {
        let buffer = Buffer::new(10);
        assert!(buffer.is_empty());
        assert_eq!(push(&buffer, "abcd"), Some(false));
        assert_eq!(push(&buffer, "e"), Some(true));
        assert_eq!(push(&buffer, "fghi"), Some(false));
        // Less than a line over.
        assert_eq!(push(&buffer, "jklm"), Some(false));
        assert_eq!(push(&buffer, "n"), None);
        let mut taken = Vec::new();
        buffer.swap(&mut taken);
        assert_eq!(taken, b"abcdefghijklm");
        assert!(buffer.is_empty());
        assert_eq!(push(&buffer, "abcdefghijklm"), Some(true));
    }

    #[test]
    fn nobody_waits_for_one_in_use() {
        let buffer = Buffer::new(10);
        let held = buffer.0.lock().unwrap();
        assert_eq!(push(&buffer, "a"), None);
        drop(held);
        assert_eq!(push(&buffer, "a"), Some(false));
    }
}
