//! The least that the engine needs of a partial file, so that a test can put another disk under it.

use std::fmt;
use std::io;

use bytes::Bytes;

/// A file that is written at offsets by several workers and read back by a checksum.
///
/// Every method blocks: the engine calls them through [`blocking`](super::blocking).
pub trait Storage: Send + Sync + fmt::Debug {
    /// Writes the pieces one after the other from `offset` on: all of them, or an error.
    ///
    /// # Errors
    /// What the system says: disk full, quota, a lost device.
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()>;

    /// Fills `buffer` from `offset` on; fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns when everything written so far would survive a power cut.
    ///
    /// # Errors
    /// What the system says; after an error nothing may be claimed to be on disk.
    fn sync(&self) -> io::Result<()>;

    /// Makes the file this long, cutting or extending with a hole.
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// How long the file is.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<u64>;
}
