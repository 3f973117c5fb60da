//! A log of lines: threads put lines into buffers, and one thread writes them.
//!
//! The thread that logs renders the line and copies it into its buffer (one of a fixed number, as in [`ShardedCounters`]). It tries the lock of
//! that buffer, then of the next, and so on: a lock is held only while a line is copied or two vectors are swapped, never while the disk is
//! busy. All can be locked only if more threads log than there are buffers; then the thread waits for its own. If the line fits into no
//! buffer, as when the disk hangs, it is dropped and counted.

mod buffer;
mod notice;
mod sink;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::sharded::{shard_count, thread_number};
use super::{MetricKind, MetricSource, MetricsText, ShardedCounters};
use buffer::{LogBuffer, LogPush};
pub use notice::LogNotice;
use notice::LogNoticeHandler;
pub use sink::{LogSink, LogTarget};

/// The indexes of the counters.
const WRITTEN: usize = 0;
const DROPPED: usize = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// The destination of lines.
    pub target: LogTarget,
    /// The bytes that may wait for the disk, divided evenly among the buffers. The contents of one more buffer may be
    /// in the middle of a write.
    pub capacity: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            target: LogTarget::Stdout,
            // About 20,000 lines: a fifth of a second at full speed.
            capacity: 4 << 20,
        }
    }
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be opened for writing.
    #[error("cannot open the {name} {}", path.display())]
    Open {
        name: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread of the {name}")]
    Thread {
        name: &'static str,
        source: io::Error,
    },
}

/// A running log. Dropping it closes it without waiting.
#[derive(Debug)]
pub struct LineLog {
    state: Arc<LogState>,
    writer: Thread,
}

#[derive(Debug)]
struct LogState {
    name: &'static str,
    /// Their number is a power of two.
    buffers: Box<[LogBuffer]>,
    /// The bytes of each buffer.
    buffer_size: usize,
    /// The lines that were written and dropped.
    line_counts: ShardedCounters<2>,
    /// Whether the writer sleeps. Read after each line, seldom written.
    is_asleep: AtomicBool,
    is_reopen_requested: AtomicBool,
    is_closing: AtomicBool,
    /// Cancelled when the writer has ended.
    ended: CancellationToken,
}

impl LineLog {
    /// Opens a log and starts its writer. Messages use its `name`, and metrics the same with underscores: a word or two
    /// in lower case, for example `access log`, that no other log of the process has. The writer calls `notify` for each notice.
    ///
    /// # Errors
    /// When the file cannot be opened, or the thread not be started.
    pub fn open(
        name: &'static str,
        options: &LogOptions,
        notify: impl FnMut(LogNotice) + Send + 'static,
    ) -> Result<Self, LogError> {
        let failed = |(path, source)| LogError::Open { name, path, source };
        let sink = options.target.open().map_err(failed)?;
        Self::start_with_notices(name, sink, options.capacity, Box::new(notify))
    }

    /// Starts a log that writes to `sink`, without notices; see [`open`](Self::open) and [`LogOptions`].
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        name: &'static str,
        sink: Box<dyn LogSink>,
        capacity: usize,
    ) -> Result<Self, LogError> {
        Self::start_with_notices(name, sink, capacity, Box::new(|_| {}))
    }

    fn start_with_notices(
        name: &'static str,
        sink: Box<dyn LogSink>,
        capacity: usize,
        notify: LogNoticeHandler,
    ) -> Result<Self, LogError> {
        let count = shard_count();
        let buffer_size = (capacity / count).max(1);
        let state = Arc::new(LogState {
            name,
            buffers: (0..count).map(|_| LogBuffer::new(buffer_size)).collect(),
            buffer_size,
            line_counts: ShardedCounters::new(),
            is_asleep: AtomicBool::new(false),
            is_reopen_requested: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            ended: CancellationToken::new(),
        });
        let state_of_writer = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name(name.replace(' ', "-"))
            .spawn(move || state_of_writer.run_writer(sink, notify))
            .map_err(|source| LogError::Thread { name, source })?;
        Ok(Self {
            state,
            writer: thread.thread().clone(),
        })
    }

    /// Logs a line, or drops and counts it. `render` appends the line, which ends in its only newline; if it appends nothing, nothing is
    /// logged. It never waits for the disk.
    pub fn write(&self, render: impl FnOnce(&mut Vec<u8>)) {
        thread_local! {
            /// The line that is being rendered. Rendering into a buffer would hold its lock too long.
            static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let logged = LINE.try_with(|kept| {
            // Taken, since `render` may log as well.
            let mut line = kept.take();
            line.clear();
            render(&mut line);
            debug_assert!(
                line.is_empty() || line.ends_with(b"\n"),
                "an incomplete line"
            );
            if !line.is_empty() {
                self.push(&line);
            }
            kept.set(line);
        });
        // This thread is ending, and drops its last requests.
        if logged.is_err() {
            self.state.line_counts.add(DROPPED, 1);
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.state.name
    }

    fn push(&self, line: &[u8]) {
        let state = &*self.state;
        match state.push(line) {
            LogPush::Full | LogPush::Locked => state.line_counts.add(DROPPED, 1),
            LogPush::Added { is_pressing: true } => self.writer.unpark(),
            // The writer sets `is_asleep` before it checks the buffers, under their locks: either it sees this line, or this
            // thread sees `is_asleep`.
            LogPush::Added { is_pressing: false } => {
                if state.is_asleep.load(Ordering::Relaxed)
                    && state.is_asleep.swap(false, Ordering::Relaxed)
                {
                    self.writer.unpark();
                }
            }
        }
    }

    /// Opens the file again by its name before anything else is written, since the old file was renamed. If that fails, the old file
    /// is used on.
    pub fn reopen(&self) {
        self.state
            .is_reopen_requested
            .store(true, Ordering::Release);
        self.writer.unpark();
    }

    /// Writes all lines that were logged so far, and ends. Returns whether that took no longer than `limit`. It is done also if this
    /// future is dropped. Later lines are lost.
    pub async fn close(&self, limit: Duration) -> bool {
        self.request_close();
        let ended = tokio::time::timeout(limit, self.state.ended.cancelled());
        ended.await.is_ok()
    }

    /// The number of lines that were not written, since no buffer had room or the disk failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.state.line_counts.sum(DROPPED)
    }

    fn request_close(&self) {
        self.state.is_closing.store(true, Ordering::Release);
        self.writer.unpark();
    }
}

impl Drop for LineLog {
    fn drop(&mut self) {
        self.request_close();
    }
}

impl MetricSource for LineLog {
    fn write_metrics(&self, out: &mut MetricsText) {
        let log = self.state.name;
        let word = log.replace(' ', "_");
        for (counter, outcome, reason) in [
            (WRITTEN, "written", ""),
            (DROPPED, "dropped", ", for the disk was slow or failed"),
        ] {
            let name = format!("haul_{word}_lines_{outcome}_total");
            let help = format!("Lines of the {log} {outcome}{reason}.");
            let count = self.state.line_counts.sum(counter);
            out.single(&name, MetricKind::Counter, &help, count);
        }
    }
}

impl LogState {
    /// Adds a line to this thread's buffer, to the next one that is not locked, or waits for its own if all are locked.
    fn push(&self, line: &[u8]) -> LogPush {
        let own = thread_number();
        let mut is_locked = false;
        for n in 0..self.buffers.len() {
            match self.buffer(own + n).push(self.buffer_size, line) {
                LogPush::Full => {}
                LogPush::Locked => is_locked = true,
                added @ LogPush::Added { .. } => return added,
            }
        }
        if is_locked {
            self.buffer(own).push_waiting(self.buffer_size, line)
        } else {
            LogPush::Full
        }
    }

    /// The buffer of a number, modulo their count.
    fn buffer(&self, number: usize) -> &LogBuffer {
        &self.buffers[number & (self.buffers.len() - 1)]
    }
}
