//! An open file of the store: opened once, shared by all its readers, and closed on another thread
//! if that may take long.
//!
//! It is one version of the file ([`version`](super::version)) and stays that. Bytes in memory are
//! read without waiting; for others the caller learns that it must wait.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use haul_plan::Checksum;
use memmap2::Mmap;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::StoreError;
use super::attribute_records::AttributeRecords;
use super::attributes::ObjectAttributes;
use super::disk_threads::DeferredClose;
use super::root::{CachedLookup, FilesystemKind};
use super::version::{FileMetadata, FileVersionId, read_stored_digest};

/// Bytes between two probes for residency, and of one read while prefetching: the kernel's
/// readahead.
const READAHEAD: usize = 128 << 10;

/// One open version of a file. It stays that version when the key gets another.
#[derive(Debug)]
pub struct OpenObject {
    /// Open for reading, until this is dropped.
    file: Option<File>,
    metadata: FileMetadata,
    /// To compare with the version that the key leads to later.
    pub(super) identity: FileVersionId,
    /// Whether reading may wait.
    filesystem: FilesystemKind,
    /// A mapping of the file, made when it is first needed. `None`: the system had no room for one.
    mapping: OnceLock<Option<Mmap>>,
    /// Closes the file if that may take long.
    pub(super) deferred_close: Option<Arc<DeferredClose>>,
}

/// What a key leads to.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(super) enum OpenedKey {
    File(OpenObject),
    Folder,
}

impl OpenObject {
    /// The open file. It is shared, so it must be read by offsets, which moves no position.
    #[must_use]
    #[expect(clippy::expect_used, reason = "it is taken by dropping alone")]
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("it is open")
    }

    #[must_use]
    pub fn metadata(&self) -> &FileMetadata {
        &self.metadata
    }

    /// The mapping that `map` makes; it is called once.
    pub(crate) fn mapping(&self, make: impl FnOnce(&File) -> io::Result<Mmap>) -> Option<&Mmap> {
        let made = || {
            make(self.file())
                .ok()
                .filter(|map| map.len() as u64 == self.metadata.len)
        };
        self.mapping.get_or_init(made).as_ref()
    }

    /// Whether any call on the file may block.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.filesystem == FilesystemKind::Remote
    }

    /// Checks that the file is still what it was when it was opened. Waits for a disk if
    /// [`OpenObject::is_remote`].
    ///
    /// Compares its length and the time of its last modification. The time of change (ctime) is no
    /// use: it advances when another file takes its name, and this one is sent to its end all the
    /// same.
    ///
    /// # Errors
    /// When the file has changed, or cannot be looked up.
    pub fn check_unchanged(&self) -> io::Result<()> {
        let now = self.file().metadata()?;
        if now.len() == self.metadata.len && now.modified()? == self.metadata.modified {
            return Ok(());
        }
        Err(io::Error::other("the file was changed while it was sent"))
    }

    /// Identifies an open descriptor. May wait for the stored digest.
    ///
    /// # Errors
    /// When it is neither a file nor a folder, or cannot be looked up.
    pub(super) fn from_fd(
        opened: OwnedFd,
        records: &AttributeRecords,
    ) -> Result<OpenedKey, StoreError> {
        let Some(identity) = stat_version(&opened)? else {
            return Ok(OpenedKey::Folder);
        };
        let stored = if identity.may_have_digest() {
            StoredWithFile::read(&opened, &identity, records)
        } else {
            StoredWithFile::default()
        };
        let filesystem = FilesystemKind::of_file(&opened);
        Ok(OpenedKey::File(Self::new(
            opened, identity, stored, filesystem,
        )))
    }

    /// Does the same without waiting; impossible if a digest may be stored on a disk.
    pub(super) fn try_from_fd(
        opened: OwnedFd,
        records: &AttributeRecords,
    ) -> CachedLookup<Result<OpenedKey, StoreError>> {
        let identity = match stat_version(&opened) {
            Ok(Some(identity)) => identity,
            Ok(None) => return CachedLookup::Ready(Ok(OpenedKey::Folder)),
            Err(error) => return CachedLookup::Ready(Err(error)),
        };
        let filesystem = FilesystemKind::of_file(&opened);
        let stored = match (identity.may_have_digest(), filesystem) {
            (false, _) => StoredWithFile::default(),
            (true, FilesystemKind::Memory) => StoredWithFile::read(&opened, &identity, records),
            (true, _) => return CachedLookup::WouldBlock,
        };
        CachedLookup::Ready(Ok(OpenedKey::File(Self::new(
            opened, identity, stored, filesystem,
        ))))
    }

    fn new(
        opened: OwnedFd,
        identity: FileVersionId,
        stored: StoredWithFile,
        filesystem: FilesystemKind,
    ) -> Self {
        Self {
            file: Some(opened.into()),
            metadata: FileMetadata::new(&identity, stored.digest, stored.attributes),
            identity,
            filesystem,
            mapping: OnceLock::new(),
            deferred_close: None,
        }
    }

    /// Reads at an offset if that needs no disk. `None`: it would wait. Zero is the end of the
    /// file.
    pub fn try_read(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        match self.filesystem {
            FilesystemKind::Memory => self.read(buffer, offset).map(Some),
            FilesystemKind::LocalDisk => read_cached(self.file(), buffer, offset),
            FilesystemKind::Remote => Ok(None),
        }
    }

    /// Reads at an offset. May wait. Zero is the end of the file.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| {
            rustix::io::pread(self.file(), &mut *buffer, offset)
        })?)
    }

    /// Whether a range can be sent without waiting, judged by one byte in each `READAHEAD`.
    #[must_use]
    pub fn is_resident(&self, range: Range<u64>) -> bool {
        match self.filesystem {
            FilesystemKind::Memory => true,
            FilesystemKind::Remote => false,
            FilesystemKind::LocalDisk => (range.start..range.end)
                .step_by(READAHEAD)
                .chain(range.end.checked_sub(1))
                .all(|at| matches!(read_cached(self.file(), &mut [0], at), Ok(Some(_)))),
        }
    }

    /// Reads a range into the page cache, so that sending it does not wait. May wait.
    pub fn prefetch(&self, range: Range<u64>) -> io::Result<()> {
        let mut buffer = vec![0; READAHEAD];
        let mut at = range.start;
        while at < range.end {
            match self.read(&mut buffer, at)? {
                0 => break,
                read => at += read as u64,
            }
        }
        Ok(())
    }
}

impl Drop for OpenObject {
    /// The last close of a large deleted file frees its space, which takes long.
    fn drop(&mut self) {
        let Some(deferred_close) = self.deferred_close.take() else {
            return;
        };
        let has_name = |file: &File| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink > 0);
        let file = self.file.take();
        // On a remote file system even this `fstat` may wait, so it is skipped.
        if self.is_remote() || !file.as_ref().is_some_and(has_name) {
            deferred_close.drop_later((self.mapping.take(), file));
        }
    }
}

/// What is stored with a version of a file.
#[derive(Debug, Default)]
struct StoredWithFile {
    digest: Option<Checksum>,
    attributes: Option<Arc<ObjectAttributes>>,
}

impl StoredWithFile {
    fn read(opened: &OwnedFd, identity: &FileVersionId, records: &AttributeRecords) -> Self {
        Self {
            digest: read_stored_digest(opened, identity),
            attributes: records.read(opened, identity),
        }
    }
}

/// The version of a file; `None` for a folder.
fn stat_version(opened: &OwnedFd) -> Result<Option<FileVersionId>, StoreError> {
    let stat = rustix::fs::fstat(opened)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some(FileVersionId::from_stat(&stat))),
        FileType::Directory => Ok(None),
        _ => Err(StoreError::SpecialFile),
    }
}

/// Reads from the page cache alone.
fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    use rustix::io::ReadWriteFlags;
    let mut slices = [io::IoSliceMut::new(buffer)];
    match rustix::io::preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => Ok(Some(read)),
        // Not in memory; or this file system does not support the flag, and every read may wait.
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn records() -> AttributeRecords {
        let root = crate::store::StoreRoot::open(std::path::Path::new("."));
        AttributeRecords::new(&Arc::new(root.expect("a root")))
    }

    fn object(path: &std::path::Path) -> OpenObject {
        let file = File::open(path).expect("a file");
        match OpenObject::from_fd(file.into(), &records()).expect("an object") {
            OpenedKey::File(object) => object,
            OpenedKey::Folder => panic!("a folder"),
        }
    }

    #[test]
    fn recently_written_bytes_are_read_without_waiting() {
        for folder in ["/dev/shm", "."] {
            let folder = tempfile::tempdir_in(folder).expect("a directory");
            let path = folder.path().join("f");
            fs::write(&path, [7; 300_000]).expect("a file");
            let object = object(&path);
            let mut buffer = [0; 10];
            assert_eq!(object.read(&mut buffer, 299_995).expect("the end"), 5);
            assert_eq!(object.read(&mut buffer, 300_000).expect("beyond"), 0);
            object.prefetch(0..300_000).expect("all of it");
            if !object.is_remote() {
                assert!(object.is_resident(0..300_000), "{}", path.display());
                let read = object.try_read(&mut buffer, 0).expect("the start");
                assert_eq!((read, buffer), (Some(10), [7; 10]));
            }
        }
    }

    #[test]
    fn folders_and_devices_are_not_objects() {
        let folder = tempfile::tempdir().expect("a directory");
        let opened = File::open(folder.path()).expect("a folder");
        assert!(matches!(
            OpenObject::from_fd(opened.into(), &records()),
            Ok(OpenedKey::Folder)
        ));
        let device = File::open("/dev/null").expect("a device");
        assert!(matches!(
            OpenObject::from_fd(device.into(), &records()),
            Err(StoreError::SpecialFile)
        ));
    }
}
