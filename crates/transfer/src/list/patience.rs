//! Reads that wait for a moment only.
//!
//! Where a list comes from a program that waits for results, its next line comes when those are there, and nobody may wait for it before: an
//! entry is complete, or it is not worth knowing. So the reader of lines can ask for a byte without waiting for long. It is far above the source,
//! with decoders and buffers between; these pass an error of the kind `WouldBlock` on, and go on with the next read.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest that a read waits which may not wait: of the 50 ms within which an entry begins (row C9).
const SHORT_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Whether reads of a source wait for bytes. Set by who reads, obeyed at the source.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadPatience {
    is_short: Arc<AtomicBool>,
}

impl ReadPatience {
    /// Calls a function whose reads wait for a moment only, and then fail with `WouldBlock`.
    pub(super) fn briefly<T>(&self, read: impl FnOnce() -> T) -> T {
        self.is_short.store(true, Ordering::Relaxed);
        let result = read();
        self.is_short.store(false, Ordering::Relaxed);
        result
    }
}

/// A file, a pipe or a terminal whose reads obey a [`ReadPatience`].
pub(super) struct PatientFile {
    pub(super) file: File,
    pub(super) patience: ReadPatience,
}

impl PatientFile {
    /// Whether there are bytes, or the end, within a moment. What cannot be asked is read.
    fn is_ready(&self) -> bool {
        let mut asked = [PollFd::new(&self.file, PollFlags::IN)];
        poll(&mut asked, Some(&SHORT_WAIT)) != Ok(0)
    }
}

impl Read for PatientFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.patience.is_short.load(Ordering::Relaxed) && !self.is_ready() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read(buffer)
    }
}
