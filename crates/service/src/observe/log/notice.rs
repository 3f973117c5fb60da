//! Events of a running log that its server reports.

use std::io;

/// An event of a running log.
#[derive(Debug)]
pub enum LogNotice {
    /// Writing fails: lines are dropped and counted.
    Failing(io::Error),
    /// Writing works again.
    Mended {
        /// The number of lines that were dropped meanwhile.
        dropped: u64,
    },
    /// The file cannot be opened again by its name: the old file is used on.
    NotReopened(io::Error),
}

/// Called on the thread that writes.
pub(super) type LogNoticeHandler = Box<dyn FnMut(LogNotice) + Send>;
