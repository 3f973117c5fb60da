//! The store: files beneath a directory, by their keys.
//!
//! It knows nothing of HTTP. Each object is a plain file, so users find their files with any other
//! program. Other programs may change them at any time, so nothing is trusted that was not checked
//! for this request.
//!
//! [`FileStore::open_file`] opens a version of a file, which stays that version while it is read.
//! [`FileStore::begin_upload`] begins an [`Upload`], which commits or is discarded.
//! [`FileStore::delete`] deletes. Listings begin with [`StoreRoot::open_folder`]. All of these may
//! wait for a disk and run on [`DiskThreads`]; the `try_` functions do the same where it needs no
//! waiting.
//!
//! `root` opens descriptors by key, `object` is an open file, `version` identifies its content,
//! `open_files` caches open files between requests, `deferred_close` closes them; `temporary_files` holds temporary
//! files, `upload` fills them, `created_folders` creates parent folders; `quota` counts bytes, `recount`
//! counts them again; `stored_digest` stores the digests of uploads.

mod created_folders;
mod deferred_close;
mod delete;
mod disk_threads;
mod error;
mod filesystem_kind;
mod group_sync;
mod list;
mod locks;
mod object;
mod open_files;
mod options;
mod quota;
mod recount;
mod root;
mod stored_digest;
mod sys;
mod temporary_files;
#[cfg(test)]
mod tests;
mod timestamps;
mod upload;
mod usage;
mod version;

use std::path::Path;
use std::sync::Arc;

pub use disk_threads::DiskThreads;
pub use error::StoreError;
pub use filesystem_kind::FilesystemKind;
pub use list::{
    EntryKind, FolderEntries, FolderEntry, FolderPage, ListingCursor, ListingCursorError,
    OpenFolder, PageRequest, PageStart, SortKey,
};
pub(crate) use list::{OpenedEntry, UnopenedEntry, modification_time};
pub use object::OpenObject;
pub use options::{FileStoreOptions, UploadDurability, UploadDurabilityError};
pub use root::{CachedLookup, StoreRoot};
pub use upload::{CommittedUpload, Upload};
pub use version::FileMetadata;

use crate::ObjectKey;
use created_folders::FolderCreator;
use deferred_close::DeferredClose;
use group_sync::GroupSync;
use haul_net::is_descriptor_limit;
use haul_plan::Checksum;
use locks::KeyLocks;
use object::OpenedKey;
use open_files::OpenFileCache;
use quota::StorageQuota;
use recount::QuotaRecount;
use root::OpenScope;
use temporary_files::TemporaryFolder;
use timestamps::UploadTimestamps;

/// A condition on the version that has a key now; `None` means that no file has it.
pub type VersionCheck<'a> = &'a dyn Fn(Option<&FileMetadata>) -> bool;

/// An open store.
#[derive(Debug)]
pub struct FileStore {
    /// The root directory. Listings and archives share it for as long as they are read.
    root: Arc<StoreRoot>,
    /// The options it was opened with.
    options: FileStoreOptions,
    /// Temporary files of uploads; `None` in a read-only store.
    temporaries: Option<TemporaryFolder>,
    /// Creates the parent folders of keys.
    folders: Arc<FolderCreator>,
    /// Files that are requested often.
    open_files: OpenFileCache,
    /// Closes large files.
    deferred_close: Arc<DeferredClose>,
    /// Counts what the store holds.
    quota: Arc<StorageQuota>,
    /// Finds out what other programs added or removed.
    recount: QuotaRecount,
    /// Allows one change of a key at a time.
    locks: KeyLocks,
    /// Modification times of uploads.
    timestamps: UploadTimestamps,
    /// Makes uploads durable.
    group_sync: GroupSync,
    /// Whether everything on the root's mount is in memory.
    is_memory: bool,
    /// Temporary files of an earlier process that were removed.
    removed_leftovers: usize,
}

impl FileStore {
    /// Opens a directory as a store. A writable store removes temporary files that an earlier
    /// process left. A store with a quota counts its bytes, which looks up every file.
    ///
    /// # Errors
    /// When the path is not a directory, or may not be read, or written to as the options ask.
    pub fn open(path: &Path, options: FileStoreOptions) -> Result<Self, StoreError> {
        let root = StoreRoot::open(path)?;
        let root = match options.follow_links {
            true => root,
            false => root.without_links(),
        };
        let root = Arc::new(root);
        let (temporaries, cleaned) = match options.writable {
            true => Some(TemporaryFolder::open(&root)?).unzip(),
            false => (None, None),
        };
        let used = match (options.writable, options.quota) {
            (true, Some(_)) => usage::folder_bytes(root.top()),
            _ => 0,
        };
        let is_durable = options.writable && options.durability == UploadDurability::Full;
        if is_durable {
            // An earlier process may have created folders and been killed before it synced them.
            rustix::fs::syncfs(root.top())?;
        }
        Ok(Self {
            folders: Arc::new(FolderCreator::new(Arc::clone(&root), is_durable)),
            recount: QuotaRecount::new(),
            quota: Arc::new(StorageQuota::new(used, options.quota)),
            open_files: OpenFileCache::new(options.max_open_files),
            deferred_close: Arc::default(),
            is_memory: root.is_memory(),
            root,
            options,
            temporaries,
            locks: KeyLocks::default(),
            timestamps: UploadTimestamps::default(),
            group_sync: GroupSync::default(),
            removed_leftovers: cleaned.unwrap_or(0),
        })
    }

    /// The root directory, for listings.
    #[must_use]
    pub fn root(&self) -> &Arc<StoreRoot> {
        &self.root
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &FileStoreOptions {
        &self.options
    }

    /// How many temporary files of an earlier process were removed.
    #[must_use]
    pub fn removed_leftovers(&self) -> usize {
        self.removed_leftovers
    }

    /// Opens the version of a file that has a key now.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_file(&self, key: &ObjectKey) -> Result<Arc<OpenObject>, StoreError> {
        let opened = self.retry_after_closing(|| self.root.open_any(key))?;
        self.share_opened(key, OpenObject::from_fd(opened)?)
    }

    /// Does the same without waiting for a disk: with a cached open file, or by the kernel's
    /// caches.
    pub fn try_open_file(
        &self,
        key: &ObjectKey,
    ) -> CachedLookup<Result<Arc<OpenObject>, StoreError>> {
        if let Some(object) = self.open_files.find(&self.root, key) {
            return CachedLookup::Ready(Ok(object));
        }
        match self.root.try_open(key) {
            CachedLookup::Ready(Ok(opened)) => match OpenObject::try_from_fd(opened) {
                CachedLookup::Ready(found) => {
                    CachedLookup::Ready(found.and_then(|found| self.share_opened(key, found)))
                }
                CachedLookup::WouldBlock => CachedLookup::WouldBlock,
            },
            // Closing other files may wait, so a thread that may wait does it.
            CachedLookup::Ready(Err(StoreError::Io(error))) if is_descriptor_limit(&error) => {
                CachedLookup::WouldBlock
            }
            CachedLookup::Ready(Err(error)) => CachedLookup::Ready(Err(error)),
            CachedLookup::WouldBlock => CachedLookup::WouldBlock,
        }
    }

    /// Begins an upload whose bytes must match the digests in `expected`.
    ///
    /// # Errors
    /// When a parent in the key is a file, the store is read-only, or the disk fails.
    pub fn begin_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        expected: Vec<Checksum>,
    ) -> Result<Upload, StoreError> {
        self.retry_after_closing(|| Upload::begin(self, key, expected.clone(), OpenScope::Anywhere))
    }

    /// Does the same without waiting for a disk, if the whole store is in memory.
    pub fn try_begin_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        expected: &[Checksum],
    ) -> CachedLookup<Result<Upload, StoreError>> {
        if !self.is_memory && !self.options.discard_uploads {
            return CachedLookup::WouldBlock;
        }
        match Upload::begin(self, key, expected.to_vec(), OpenScope::OneMount) {
            // The folder is on another mount, which this open does not enter.
            Err(StoreError::NotFound) => CachedLookup::WouldBlock,
            Err(StoreError::Io(error)) if is_descriptor_limit(&error) => CachedLookup::WouldBlock,
            done => CachedLookup::Ready(done),
        }
    }

    /// Checks a condition on the version that has a key now. Returns whether there is one.
    ///
    /// # Errors
    /// [`StoreError::ConditionFailed`] if the condition does not hold.
    pub fn check(&self, key: &ObjectKey, check: VersionCheck<'_>) -> Result<bool, StoreError> {
        let current = self.current_metadata(key)?;
        match check(current.as_ref()) {
            true => Ok(current.is_some()),
            false => Err(StoreError::ConditionFailed),
        }
    }

    /// Whether the quota has room for this many more bytes, whatever they replace. Reserves nothing
    /// and does not wait.
    #[must_use]
    pub fn fits_quota(&self, bytes: u64) -> bool {
        self.quota.fits(bytes)
    }

    /// Checks that a file of this many bytes can replace the one that has the key. May wait for a
    /// disk.
    ///
    /// # Errors
    /// [`StoreError::OverQuota`] if the quota has no room, and [`StoreError::NoSpace`] if the disk has none: it must hold both versions for a while.
    pub fn check_space(&self, key: &ObjectKey, bytes: u64) -> Result<(), StoreError> {
        if !self.options.discard_uploads && self.free_bytes(key).is_some_and(|free| free < bytes) {
            return Err(StoreError::NoSpace);
        }
        let there = key.split_parent().map_or(0, |(parent, name)| {
            let folder = self.root.open_folder(&parent);
            folder.map_or(0, |folder| usage::file_bytes(folder, name))
        });
        self.quota.check(bytes, there)
    }

    /// Free bytes of the file system on which the key is or will be; `None` if it does not say.
    fn free_bytes(&self, key: &ObjectKey) -> Option<u64> {
        let mut folder = key.split_parent()?.0;
        let found = loop {
            match self.root.open_folder(&folder) {
                Ok(found) => break found,
                Err(_) => folder = folder.split_parent()?.0,
            }
        };
        let stat = rustix::fs::fstatvfs(found).ok()?;
        // Some network file systems do not report this.
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Closes cached files that are no longer requested, and continues the recount if there is a
    /// quota. To be called every few seconds, on a thread that may wait.
    pub fn maintain(&self) {
        self.open_files.sweep();
        if self.options.writable {
            self.recount.step(&self.quota, &self.root);
        }
    }

    /// Opens something; if no descriptors are left, closes cached files and tries once more.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn retry_after_closing<T>(
        &self,
        open: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match open() {
            Err(StoreError::Io(error))
                if is_descriptor_limit(&error) && self.close_idle_files() =>
            {
                open()
            }
            done => done,
        }
    }

    /// Closes about half of the cached files that nobody is reading, since descriptors ran out.
    /// Returns whether there were any. May wait.
    pub fn close_idle_files(&self) -> bool {
        self.open_files.close_idle()
    }

    /// Sets the threads that close large deleted files, so that their last reader does not have to.
    pub fn set_threads(&self, disk: &DiskThreads) {
        self.deferred_close.set_threads(disk);
    }

    fn share_opened(
        &self,
        key: &ObjectKey,
        opened: OpenedKey,
    ) -> Result<Arc<OpenObject>, StoreError> {
        match opened {
            OpenedKey::File(mut object) => {
                object.deferred_close =
                    DeferredClose::for_file(&self.deferred_close, object.metadata().len);
                let object = Arc::new(object);
                self.open_files.insert(key, &object);
                Ok(object)
            }
            OpenedKey::Folder => Err(StoreError::IsFolder),
        }
    }

    /// The metadata of the version that has a key now.
    fn current_metadata(&self, key: &ObjectKey) -> Result<Option<FileMetadata>, StoreError> {
        match self.open_file(key) {
            Ok(object) => Ok(Some(object.metadata().clone())),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
