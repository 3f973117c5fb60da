//! An archive that somebody reads while it is written: nothing can be taken back, so one failure is the end of it.

use std::fmt;
use std::io::{self, BufWriter, Write};

use bytes::Bytes;

use super::entry_header::END;
use super::error::ArchiveError;

/// Bytes gathered before they are handed on.
const GATHERED: usize = 256 * 1024;

/// The reader's end of a pipe is elsewhere.
pub(super) struct ArchiveStream {
    writer: BufWriter<Box<dyn Write + Send>>,
    /// Bytes written.
    end: u64,
    /// Whether something was written that is no whole entry.
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
            writer: BufWriter::with_capacity(GATHERED, writer),
            end: 0,
            broken: false,
        }
    }

    /// Where the last whole entry ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn write(&mut self, pieces: &[Bytes]) -> Result<(), ArchiveError> {
        if self.broken {
            // Not a broken pipe: what broke it need not be its reader, who may wait for more.
            let why = io::Error::other("an entry broke off before");
            return Err(ArchiveError::Stream(why));
        }
        pieces
            .iter()
            .try_for_each(|piece| self.writer.write_all(piece))
            .map_err(ArchiveError::Stream)
    }

    /// What was written up to here is a whole entry.
    pub(super) fn complete_entry(&mut self, end: u64) {
        self.end = end;
    }

    /// An entry failed half way.
    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// Hands on what was gathered, so that rows may speak of it.
    pub(super) fn flush(&mut self) -> Result<(), ArchiveError> {
        let flushed = self
            .write(&[])
            .and_then(|()| self.writer.flush().map_err(ArchiveError::Stream));
        self.broken |= flushed.is_err();
        flushed
    }

    /// Ends the archive.
    pub(super) fn finish(&mut self) -> Result<(), ArchiveError> {
        self.write(&[Bytes::from_static(&END)])?;
        self.flush()
    }
}
