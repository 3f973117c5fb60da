//! The least that the engine needs of a partial file, and the place to put something between it and the file.

use std::fmt;
use std::io;
use std::sync::Arc;

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

/// What lies between the engine and each partial file: nothing, unless a caller puts a wrapper there that limits, counts or
/// fails. Locks, names and times stay the file's own.
#[derive(Clone, Default)]
pub struct Layer(Option<Arc<Wrap>>);

type Wrap = dyn Fn(Arc<dyn Storage>) -> Arc<dyn Storage> + Send + Sync;

impl Layer {
    /// Wraps each file as `wrap` does.
    pub fn new(
        wrap: impl Fn(Arc<dyn Storage>) -> Arc<dyn Storage> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(wrap)))
    }

    pub(crate) fn over(&self, file: Arc<dyn Storage>) -> Arc<dyn Storage> {
        match &self.0 {
            Some(wrap) => wrap(file),
            None => file,
        }
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layer").field(&self.0.is_some()).finish()
    }
}
