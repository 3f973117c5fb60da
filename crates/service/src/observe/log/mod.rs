//! A log: lines gathered by the threads that serve, written by one that does nothing else.
//!
//! What a line says is its owner's affair. It is rendered by the thread that has something to log, and copied into a buffer of that
//! thread (one of a fixed number, as in [`ShardedCounters`]). The buffer has a lock, which is tried, then the next buffer's, and so on: nobody
//! holds one for longer than it takes to copy a line or to swap two vectors, and nobody holds one while the disk is at work. Only where
//! more threads log than there are buffers can all be in use; then its own is waited for, rather than the line lost. When none has room,
//! as when the disk hangs, the line is dropped and counted.

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

/// Counters of lines.
const WRITTEN: usize = 0;
const DROPPED: usize = 1;

/// What is logged where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Where lines go.
    pub target: LogTarget,
    /// Bytes that wait for the disk at most, shared evenly among the threads' buffers. One more of
    /// these is being written.
    pub capacity: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            target: LogTarget::Stdout,
            // Some 20,000 lines: a fifth of a second at full speed, a disk's hiccup.
            capacity: 4 << 20,
        }
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its file cannot be opened for writing.
    #[error("cannot open the {name} {}", path.display())]
    Open {
        /// What the log is called.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no thread for it.
    #[error("cannot start the thread of the {name}")]
    Thread {
        /// What the log is called.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A log that is being written. Dropped, it is closed without waiting.
#[derive(Debug)]
pub struct LineLog {
    /// What it has in common with its writer.
    shared: Arc<LogState>,
    /// Whom to wake.
    writer: Thread,
}

#[derive(Debug)]
struct LogState {
    /// What it is called.
    name: &'static str,
    /// A power of two of them.
    buffers: Box<[LogBuffer]>,
    /// Bytes of each.
    buffer_size: usize,
    /// Lines, by what became of them.
    line_counts: ShardedCounters<2>,
    /// Whether the writer waits for a line. Read after each line, written seldom.
    is_asleep: AtomicBool,
    /// Whether the file is to be opened again.
    is_reopen_requested: AtomicBool,
    /// Whether the writer is to end.
    is_closing: AtomicBool,
    /// Cancelled when the writer has ended.
    ended: CancellationToken,
}

impl LineLog {
    /// Opens a log and starts its writer. It is called by `name` in messages, and with underscores in the names of metrics: a word or two
    /// in lower case, as `access log`, that no other log of the process has. While it runs, its writer has news for `write_metrics`.
    ///
    /// # Errors
    /// When its file cannot be opened, or no thread started.
    pub fn open(
        name: &'static str,
        options: &LogOptions,
        tell: impl FnMut(LogNotice) + Send + 'static,
    ) -> Result<Self, LogError> {
        let failed = |(path, source)| LogError::Open { name, path, source };
        let sink = options.target.open().map_err(failed)?;
        Self::start_with_notices(name, sink, options.capacity, Box::new(tell))
    }

    /// Starts a log whose lines go into `sink`, and of which nobody is told anything; see [`open`](Self::open) and [`LogOptions`].
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(
        name: &'static str,
        sink: Box<dyn LogSink>,
        room: usize,
    ) -> Result<Self, LogError> {
        Self::start_with_notices(name, sink, room, Box::new(|_| {}))
    }

    fn start_with_notices(
        name: &'static str,
        sink: Box<dyn LogSink>,
        room: usize,
        tell: LogNoticeHandler,
    ) -> Result<Self, LogError> {
        let count = shard_count();
        let share = (room / count).max(1);
        let shared = Arc::new(LogState {
            name,
            buffers: (0..count).map(|_| LogBuffer::new(share)).collect(),
            buffer_size: share,
            line_counts: ShardedCounters::new(),
            is_asleep: AtomicBool::new(false),
            is_reopen_requested: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            ended: CancellationToken::new(),
        });
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(name.replace(' ', "-"))
            .spawn(move || its.run_writer(sink, tell))
            .map_err(|source| LogError::Thread { name, source })?;
        Ok(Self {
            shared,
            writer: thread.thread().clone(),
        })
    }

    /// Logs a line, or drops it and counts that. `render` appends it, and the newline at its end, which is the only one in it; where it
    /// appends nothing, nothing is logged. It never waits for the disk.
    pub fn write(&self, render: impl FnOnce(&mut Vec<u8>)) {
        thread_local! {
            /// A line in the making. Not made in a buffer: a lock that is held so long is in the way of others.
            static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let logged = LINE.try_with(|kept| {
            // Taken meanwhile: whoever renders may have something to log, too.
            let mut line = kept.take();
            line.clear();
            render(&mut line);
            debug_assert!(line.is_empty() || line.ends_with(b"\n"), "half a line");
            if !line.is_empty() {
                self.push(&line);
            }
            kept.set(line);
        });
        // A thread that is ending, and drops the last of what it served.
        if logged.is_err() {
            self.shared.line_counts.add(DROPPED, 1);
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    fn push(&self, line: &[u8]) {
        let shared = &*self.shared;
        match shared.push(line) {
            LogPush::Full | LogPush::Locked => shared.line_counts.add(DROPPED, 1),
            LogPush::Added { is_pressing: true } => self.writer.unpark(),
            // The writer looked at the buffer, under its lock, after it had said that it would sleep: either it saw this line,
            // or this sees what it said.
            LogPush::Added { is_pressing: false } => {
                if shared.is_asleep.load(Ordering::Relaxed)
                    && shared.is_asleep.swap(false, Ordering::Relaxed)
                {
                    self.writer.unpark();
                }
            }
        }
    }

    /// Has the file opened again, under its name, before anything else is written: the old one was moved away. At once; when it
    /// cannot be opened, the old one is written on.
    pub fn reopen(&self) {
        self.shared
            .is_reopen_requested
            .store(true, Ordering::Release);
        self.writer.unpark();
    }

    /// Has all lines written that were logged so far, and waits for that up to `limit`; whether it was done by then. Cancelled,
    /// it is done all the same. Lines that are logged later are lost.
    pub async fn close(&self, limit: Duration) -> bool {
        self.request_close();
        let ended = tokio::time::timeout(limit, self.shared.ended.cancelled());
        ended.await.is_ok()
    }

    /// Lines that were not written: there was no room for them, or the disk failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.line_counts.sum(DROPPED)
    }

    fn request_close(&self) {
        self.shared.is_closing.store(true, Ordering::Release);
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
        let log = self.shared.name;
        let word = log.replace(' ', "_");
        for (counter, what, why) in [
            (WRITTEN, "written", ""),
            (DROPPED, "dropped", ", for the disk was slow or failed"),
        ] {
            let name = format!("haul_{word}_lines_{what}_total");
            let help = format!("Lines of the {log} {what}{why}.");
            let count = self.shared.line_counts.sum(counter);
            out.single(&name, MetricKind::Counter, &help, count);
        }
    }
}

impl LogState {
    /// Puts a line into this thread's buffer, or another that is free, or its own in turn when all are in use.
    fn push(&self, line: &[u8]) -> LogPush {
        let mine = thread_number();
        let mut is_in_use = false;
        for n in 0..self.buffers.len() {
            match self.buffer(mine + n).push(self.buffer_size, line) {
                LogPush::Full => {}
                LogPush::Locked => is_in_use = true,
                taken @ LogPush::Added { .. } => return taken,
            }
        }
        match is_in_use {
            true => self.buffer(mine).push_waiting(self.buffer_size, line),
            false => LogPush::Full,
        }
    }

    /// The buffer of that number; they are taken round and round.
    fn buffer(&self, number: usize) -> &LogBuffer {
        &self.buffers[number & (self.buffers.len() - 1)]
    }
}
