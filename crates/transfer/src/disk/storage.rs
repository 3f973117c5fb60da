//! The interface between the engine and a partial file, and a hook to wrap it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::UnnamedFile;
use super::paths::sync_directory;

/// A file that several workers write at offsets and a checksum reads back.
///
/// Every method blocks: the engine calls them through [`blocking`](super::blocking).
pub trait PartialStorage: Send + Sync + fmt::Debug {
    /// Writes the pieces one after another at `offset`: all of them, or it returns an error.
    ///
    /// # Errors
    /// The error of the system: disk full, quota, a lost device.
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()>;

    /// Fills `buffer` from `offset`. It reads fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Syncs: when it returns, everything written so far survives a power cut.
    ///
    /// # Errors
    /// The error of the system; after an error nothing may be assumed to be on disk.
    fn sync(&self) -> io::Result<()>;

    /// Truncates the file to this length, or extends it with a hole.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// The length of the file.
    fn length(&self) -> io::Result<u64>;

    /// Syncs a directory in the file's path: when it returns, the names in it survive a power cut. File systems that cannot
    /// sync a directory order such operations themselves, so their refusal is not an error.
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory, None)
    }
}

/// Wraps each partial file that the engine uses: not at all by default, or in a wrapper of the caller that limits, counts or
/// fails. Locks, names and times are those of the file itself.
#[derive(Clone, Default)]
pub struct StorageWrapping {
    wrap: Option<Arc<StorageWrapper>>,
    /// True for directories without unnamed files.
    lacks_unnamed_files: Option<Arc<DirectoryPredicate>>,
    /// Whether files keep neither times nor attributes.
    lacks_metadata: bool,
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
            lacks_metadata: false,
        }
    }

    /// The same wrapping, without unnamed files in the directories for which `is_excluded` is true, as on file systems that
    /// have no such files.
    #[must_use]
    pub fn without_unnamed_files_in(
        mut self,
        is_excluded: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.lacks_unnamed_files = Some(Arc::new(is_excluded));
        self
    }

    /// The same wrapping, and files keep neither times nor extended attributes, as on some file systems.
    #[must_use]
    pub fn without_metadata(mut self) -> Self {
        self.lacks_metadata = true;
        self
    }

    pub(crate) fn lacks_metadata(&self) -> bool {
        self.lacks_metadata
    }

    /// An unnamed file in the file system of a directory; see [`UnnamedFile::create_in`].
    pub(crate) fn create_unnamed(&self, directory: &Path) -> io::Result<UnnamedFile> {
        match &self.lacks_unnamed_files {
            Some(is_excluded) if is_excluded(directory) => Err(io::ErrorKind::Unsupported.into()),
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
