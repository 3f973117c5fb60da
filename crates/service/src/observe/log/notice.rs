//! What there is to tell of a log that goes on.

use std::io;

/// What there is to tell of a log that goes on.
#[derive(Debug)]
pub enum LogNotice {
    /// It cannot be written: lines are dropped, and counted, until it can.
    Failing(io::Error),
    /// It can be written again.
    Mended {
        /// Lines that were dropped meanwhile, for that.
        dropped: u64,
    },
    /// Its file cannot be opened again under its name: the old one is written on.
    NotReopened(io::Error),
}

/// Who is told, on the thread that writes.
pub(super) type LogNoticeHandler = Box<dyn FnMut(LogNotice) + Send>;
