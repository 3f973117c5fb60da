//! An archive that is read while it is written. Nothing can be taken back, so one failure ends it.

use std::fmt;
use std::io::{self, BufWriter, Write};

use bytes::Bytes;

use super::entry_header::END;
use super::error::ArchiveError;

/// Bytes that are buffered before they are written.
const BUFFER: usize = 256 * 1024;

/// An archive on a pipe or a device.
pub(super) struct ArchiveStream {
    writer: BufWriter<Box<dyn Write + Send>>,
    /// End of the last complete entry.
    end: u64,
    /// Whether a partial entry was written.
    broken: bool,
}

impl fmt::Debug for ArchiveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, broken, .. } = self;
        write!(f, "Stream {{ end: {end}, broken: {broken} }}")
    }
}

impl ArchiveStream {
    pub(super) fn new(writer: Box<dyn Write + Send>) -> Self {
        Self {
            writer: BufWriter::with_capacity(BUFFER, writer),
            end: 0,
            broken: false,
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn write(&mut self, pieces: &[Bytes]) -> Result<(), ArchiveError> {
        if self.broken {
            // Not `BrokenPipe`: the reader may be well and wait for more.
            let why = io::Error::other("an earlier entry is incomplete");
            return Err(ArchiveError::Stream(why));
        }
        pieces
            .iter()
            .try_for_each(|piece| self.writer.write_all(piece))
            .map_err(ArchiveError::Stream)
    }

    /// Marks everything up to `end` as complete entries.
    pub(super) fn complete_entry(&mut self, end: u64) {
        self.end = end;
    }

    /// An entry failed half way.
    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// Writes the buffered bytes, so that manifest rows may record them.
    pub(super) fn flush(&mut self) -> Result<(), ArchiveError> {
        let flushed = self
            .write(&[])
            .and_then(|()| self.writer.flush().map_err(ArchiveError::Stream));
        self.broken |= flushed.is_err();
        flushed
    }

    /// Writes the end of the archive.
    pub(super) fn finish(&mut self) -> Result<(), ArchiveError> {
        self.write(&[Bytes::from_static(&END)])?;
        self.flush()
    }
}
