//! The least that the engine needs of a partial file, and the place to put something between it and the file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::UnnamedFile;
use super::paths::sync_directory;

/// A file that is written at offsets by several workers and read back by a checksum.
///
/// Every method blocks: the engine calls them through [`blocking`](super::blocking).
pub trait PartialStorage: Send + Sync + fmt::Debug {
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

    /// Returns when the names in a directory of the file's path would survive a power cut. File systems that cannot sync a directory
    /// order these themselves, so that their refusal is no error.
    ///
    /// # Errors
    /// What the system says.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory, None)
    }
}

/// What is between the engine and each partial file: nothing, unless a caller puts a wrapper there that limits, counts or
/// fails. Locks, names and times stay the file's own.
#[derive(Clone, Default)]
pub struct StorageWrapping {
    /// What wraps each file.
    wrap: Option<Arc<StorageWrapper>>,
    /// Where files have names from the start.
    lacks_unnamed_files: Option<Arc<DirectoryPredicate>>,
}

type StorageWrapper = dyn Fn(Arc<dyn PartialStorage>) -> Arc<dyn PartialStorage> + Send + Sync;

type DirectoryPredicate = dyn Fn(&Path) -> bool + Send + Sync;

impl StorageWrapping {
    /// Wraps each file as `wrap` does.
    pub fn new(
        wrap: impl Fn(Arc<dyn PartialStorage>) -> Arc<dyn PartialStorage> + Send + Sync + 'static,
    ) -> Self {
        Self {
            wrap: Some(Arc::new(wrap)),
            lacks_unnamed_files: None,
        }
    }

    /// The same, in which files cannot be without a name in the directories for which `lacks_unnamed_files` is true, as on file systems that
    /// do not have such files.
    #[must_use]
    pub fn without_unnamed_files_in(
        mut self,
        named: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.lacks_unnamed_files = Some(Arc::new(named));
        self
    }

    /// A file without a name in the file system of a directory; see [`UnnamedFile::create_in`].
    pub(crate) fn create_unnamed(&self, directory: &Path) -> io::Result<UnnamedFile> {
        match &self.lacks_unnamed_files {
            Some(named) if named(directory) => Err(io::ErrorKind::Unsupported.into()),
            _ => UnnamedFile::create_in(directory),
        }
    }

    pub(crate) fn wrap_file(&self, file: Arc<dyn PartialStorage>) -> Arc<dyn PartialStorage> {
        match &self.wrap {
            Some(wrap) => wrap(file),
            None => file,
        }
    }
}

impl fmt::Debug for StorageWrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer")
            .field("wrap", &self.wrap.is_some())
            .field("named", &self.lacks_unnamed_files.is_some())
            .finish()
    }
}
