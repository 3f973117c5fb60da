//! Brings ranges of files into memory before the kernel sends them, so that sending never waits for
//! a disk.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::store::{DiskThreads, OpenObject};

/// Bytes that are checked, and read into memory, at a time.
const WINDOW: u64 = 4 << 20;

/// A read into the page cache.
type PendingPrefetch = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// What of the file that is being sent is in memory.
pub(crate) struct FilePrefetch {
    disk: DiskThreads,
    /// The range that is known to be in memory.
    resident: Range<u64>,
    /// Runs while the range is being read.
    pending: Option<PendingPrefetch>,
}

impl fmt::Debug for FilePrefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePrefetch")
            .field("resident", &self.resident)
            .finish_non_exhaustive()
    }
}

impl FilePrefetch {
    pub(crate) fn new(disk: DiskThreads) -> Self {
        Self {
            disk,
            resident: 0..0,
            pending: None,
        }
    }

    /// Forgets the file.
    pub(crate) fn reset(&mut self) {
        self.resident = 0..0;
    }

    /// Whether a read is running.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Waits until the start of a range is in memory, and returns the end of what is. If it is not,
    /// a thread that may wait reads it.
    pub(crate) fn poll_resident(
        &mut self,
        cx: &mut Context<'_>,
        object: &Arc<OpenObject>,
        range: &Range<u64>,
    ) -> Poll<io::Result<u64>> {
        loop {
            if let Some(pending) = &mut self.pending {
                let result = ready!(pending.as_mut().poll(cx));
                self.pending = None;
                result?;
            }
            if self.resident.contains(&range.start) {
                return Poll::Ready(Ok(self.resident.end));
            }
            self.resident = range.start..range.end.min(range.start + WINDOW);
            if object.is_resident(self.resident.clone()) {
                return Poll::Ready(Ok(self.resident.end));
            }
            let (object, window) = (Arc::clone(object), self.resident.clone());
            self.pending = Some(Box::pin(self.disk.run(move || object.prefetch(window))));
        }
    }
}
