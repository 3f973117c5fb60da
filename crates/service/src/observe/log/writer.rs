//! The thread that writes a log, and does nothing else.
//!
//! It sleeps while there is nothing to do. The first line wakes it; it writes, lets more gather for a tenth of a second, writes
//! those, and so on, until there are none. A buffer that is half full wakes it early. Lines are near the order in which they were
//! logged, not in it: within one write they are sorted by buffer. Each has its time, and whoever reads logs of several reactors sorts anyway.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::buffer::{LogBuffer, buffer_with_capacity};
use super::notice::{LogNotice, LogNoticeHandler};
use super::{DROPPED, LogSink, LogState, WRITTEN};
use crate::observe::FailureReports;

/// For how long lines gather before they are written: what is lost to a crash, and ten writes a second.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

impl LogState {
    /// The writer's life.
    pub(super) fn run_writer(&self, mut sink: Box<dyn LogSink>, mut tell: LogNoticeHandler) {
        // Also when the sink panics.
        let _ended = self.ended.clone().drop_guard();
        let mut spare = buffer_with_capacity(self.buffer_size);
        let mut failing = FailureReports::default();
        loop {
            // Looked at before the buffers: what was logged before it was set is written.
            let is_closing = self.is_closing.load(Ordering::Acquire);
            if self.is_reopen_requested.swap(false, Ordering::AcqRel)
                && let Err(error) = sink.reopen()
            {
                tell(LogNotice::NotReopened(error));
            }
            let mut is_idle = true;
            for buffer in &self.buffers {
                buffer.swap(&mut spare);
                if !spare.is_empty() {
                    is_idle = false;
                    if let Some(news) = self.write_lines(&mut *sink, &spare, &mut failing) {
                        tell(news);
                    }
                    spare.clear();
                }
            }
            if is_closing {
                return;
            }
            match is_idle {
                true => self.sleep(),
                false => std::thread::park_timeout(WRITE_INTERVAL),
            }
        }
    }

    /// Writes some lines. What is to be told of that.
    fn write_lines(
        &self,
        sink: &mut dyn LogSink,
        lines: &[u8],
        failing: &mut FailureReports,
    ) -> Option<LogNotice> {
        let count = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        match sink.write(lines) {
            Ok(()) => {
                self.line_counts.add(WRITTEN, count);
                let dropped = failing.worked()?;
                Some(LogNotice::Mended { dropped })
            }
            Err(error) => {
                self.line_counts.add(DROPPED, count);
                let is_told = failing.failed(count, Instant::now());
                is_told.then_some(LogNotice::Failing(error))
            }
        }
    }

    /// Waits until there is a line, or something else to do: whoever has it unparks this thread, now or already.
    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        if self.buffers.iter().all(LogBuffer::is_empty) {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}
