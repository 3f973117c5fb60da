//! The access log: lines gathered by the threads that serve, written by one that does nothing else.
//!
//! A line is rendered by the thread that served its request, and copied into a buffer of that thread (one of a fixed number, as
//! in [`Sharded`]). The buffer has a lock, which is tried, then the next buffer's, and so on: nobody holds one for longer than it
//! takes to copy a line or to swap two vectors, and nobody holds one while the disk is at work. Only where more threads log than there
//! are buffers can all be in use; then its own is waited for, rather than the line lost. When none has room, as when the disk hangs,
//! the line is dropped and counted.

mod buffer;
mod sink;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::sharded::{shards, thread_number};
use super::{Exposition, FamilyKind, LogFormat, Record, Sharded, Source};
use buffer::{Buffer, Pushed};
pub use sink::{LogSink, LogTarget};

/// Counters of lines.
const WRITTEN: usize = 0;
const DROPPED: usize = 1;

/// What is logged where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Where lines go.
    pub target: LogTarget,
    /// What they look like.
    pub format: LogFormat,
    /// Bytes that wait for the disk at most, shared evenly among the threads' buffers. One more of
    /// these is being written.
    pub room: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            target: LogTarget::Stdout,
            format: LogFormat::default(),
            // Some 20,000 lines: a fifth of a second at full speed, a disk's hiccup.
            room: 4 << 20,
        }
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its file cannot be opened for writing.
    #[error("cannot open the access log {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no thread for it.
    #[error("cannot start the thread of the access log")]
    Thread(#[source] io::Error),
}

/// A log that is being written. Dropped, it is closed without waiting.
#[derive(Debug)]
pub struct AccessLog {
    /// What it has in common with its writer.
    shared: Arc<Shared>,
    /// Whom to wake.
    writer: Thread,
    /// What lines look like.
    format: LogFormat,
}

#[derive(Debug)]
struct Shared {
    /// A power of two of them.
    buffers: Box<[Buffer]>,
    /// Bytes of each.
    share: usize,
    /// Lines, by what became of them.
    counts: Sharded<2>,
    /// Whether the writer waits for a line. Read after each line, written seldom.
    is_asleep: AtomicBool,
    /// Whether the file is to be opened again.
    is_stale: AtomicBool,
    /// Whether the writer is to end.
    is_closing: AtomicBool,
    /// Cancelled when the writer has ended.
    ended: CancellationToken,
}

impl AccessLog {
    /// Opens a log and starts its writer.
    ///
    /// # Errors
    /// When its file cannot be opened, or no thread started.
    pub fn open(options: &LogOptions) -> Result<Self, LogError> {
        let sink = options
            .target
            .open()
            .map_err(|(path, source)| LogError::Open { path, source })?;
        Self::start(sink, options.format, options.room)
    }

    /// Starts a log whose lines go into `sink`; see [`LogOptions`].
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(sink: Box<dyn LogSink>, format: LogFormat, room: usize) -> Result<Self, LogError> {
        let count = shards();
        let share = (room / count).max(1);
        let shared = Arc::new(Shared {
            buffers: (0..count).map(|_| Buffer::new(share)).collect(),
            share,
            counts: Sharded::new(),
            is_asleep: AtomicBool::new(false),
            is_stale: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            ended: CancellationToken::new(),
        });
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || its.write_out(sink))
            .map_err(LogError::Thread)?;
        Ok(Self {
            shared,
            writer: thread.thread().clone(),
            format,
        })
    }

    /// Logs a request, or drops its line and counts that. It never waits for the disk.
    pub fn write(&self, record: &Record) {
        thread_local! {
            /// A line in the making. Not made in a buffer: a lock that is held so long is in the way of others.
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let logged = LINE.try_with(|line| {
            let mut line = line.borrow_mut();
            line.clear();
            self.format.render(record, &mut line);
            self.push(&line);
        });
        // A thread that is ending, and drops the last of its requests.
        if logged.is_err() {
            self.shared.counts.add(DROPPED, 1);
        }
    }

    fn push(&self, line: &[u8]) {
        let shared = &*self.shared;
        match shared.push(line) {
            Pushed::Full | Pushed::InUse => shared.counts.add(DROPPED, 1),
            Pushed::Taken { is_pressing: true } => self.writer.unpark(),
            // The writer looked at the buffer, under its lock, after it had said that it would sleep: either it saw this line,
            // or this sees what it said.
            Pushed::Taken { is_pressing: false } => {
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
        self.shared.is_stale.store(true, Ordering::Release);
        self.writer.unpark();
    }

    /// Has all lines written that were logged so far, and waits for that up to `limit`; whether it was done by then. Cancelled,
    /// it is done all the same. Lines that are logged later are lost.
    pub async fn close(&self, limit: Duration) -> bool {
        self.begin_close();
        let ended = tokio::time::timeout(limit, self.shared.ended.cancelled());
        ended.await.is_ok()
    }

    /// Lines that were not written: there was no room for them, or the disk failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.counts.sum(DROPPED)
    }

    fn begin_close(&self) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.writer.unpark();
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.begin_close();
    }
}

impl Source for AccessLog {
    fn tell(&self, out: &mut Exposition) {
        for (name, counter, help) in [
            (
                "haul_access_log_lines_written_total",
                WRITTEN,
                "Lines of the access log written.",
            ),
            (
                "haul_access_log_lines_dropped_total",
                DROPPED,
                "Lines of the access log dropped, for the disk was slow or failed.",
            ),
        ] {
            out.single(
                name,
                FamilyKind::Counter,
                help,
                self.shared.counts.sum(counter),
            );
        }
    }
}

impl Shared {
    /// Puts a line into this thread's buffer, or another that is free, or its own in turn when all are in use.
    fn push(&self, line: &[u8]) -> Pushed {
        let mine = thread_number();
        let mut is_in_use = false;
        for n in 0..self.buffers.len() {
            match self.buffer(mine + n).push(self.share, line) {
                Pushed::Full => {}
                Pushed::InUse => is_in_use = true,
                taken @ Pushed::Taken { .. } => return taken,
            }
        }
        match is_in_use {
            true => self.buffer(mine).push_in_turn(self.share, line),
            false => Pushed::Full,
        }
    }

    /// The buffer of that number; they are taken round and round.
    fn buffer(&self, number: usize) -> &Buffer {
        &self.buffers[number & (self.buffers.len() - 1)]
    }
}
