//! The thread that writes a log.
//!
//! It sleeps while there is nothing to do. The first line wakes it; it writes, waits a tenth of a second for more, writes those, and
//! so on, until there are none. A buffer that is half full wakes it early. Lines are nearly in the order in which they were logged:
//! within one write they are grouped by buffer. Each line has its time, by which a reader can sort.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::buffer::{LogBuffer, buffer_with_capacity};
use super::notice::{LogNotice, LogNoticeHandler};
use super::{DROPPED, LogSink, LogState, WRITTEN};
use crate::observe::FailureReports;

/// The time between writes: what a crash can lose.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

impl LogState {
    /// Writes until the log is closed.
    pub(super) fn run_writer(&self, mut sink: Box<dyn LogSink>, mut notify: LogNoticeHandler) {
        // Also when the sink panics.
        let _ended = self.ended.clone().drop_guard();
        let mut spare = buffer_with_capacity(self.buffer_size);
        let mut failures = FailureReports::default();
        loop {
            // Read before the buffers: lines that were logged before it was set are written.
            let is_closing = self.is_closing.load(Ordering::Acquire);
            if self.is_reopen_requested.swap(false, Ordering::AcqRel)
                && let Err(error) = sink.reopen()
            {
                notify(LogNotice::NotReopened(error));
            }
            let mut is_idle = true;
            for buffer in &self.buffers {
                buffer.swap(&mut spare);
                if !spare.is_empty() {
                    is_idle = false;
                    if let Some(notice) = self.write_lines(&mut *sink, &spare, &mut failures) {
                        notify(notice);
                    }
                    spare.clear();
                }
            }
            if is_closing {
                return;
            }
            if is_idle {
                self.sleep()
            } else {
                std::thread::park_timeout(WRITE_INTERVAL)
            }
        }
    }

    /// Writes some lines. Returns the notice about that, if there is one.
    fn write_lines(
        &self,
        sink: &mut dyn LogSink,
        lines: &[u8],
        failures: &mut FailureReports,
    ) -> Option<LogNotice> {
        let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        match sink.write(lines) {
            Ok(()) => {
                self.line_counts.add(WRITTEN, count);
                let dropped = failures.worked()?;
                Some(LogNotice::Mended { dropped })
            }
            Err(error) => {
                self.line_counts.add(DROPPED, count);
                let is_reported = failures.failed(count, Instant::now());
                is_reported.then_some(LogNotice::Failing(error))
            }
        }
    }

    /// Waits until there is a line or another request, whose thread unparks this one.
    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        // A sink that blocks may have used up the wake-up of a request, so the requests themselves are checked.
        let is_requested = self.is_closing.load(Ordering::Acquire)
            || self.is_reopen_requested.load(Ordering::Acquire);
        if !is_requested && self.buffers.iter().all(LogBuffer::is_empty) {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}
