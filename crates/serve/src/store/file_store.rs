//! The store's operations on files: open, upload, check and delete by key.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use haul_net::is_descriptor_limit;

use super::attribute_records::AttributeRecords;
use super::attributes::ObjectAttributes;
use super::created_folders::FolderCreator;
use super::disk_threads::{DeferredClose, DiskThreads};
use super::error::StoreError;
use super::flush;
use super::group_sync::GroupSync;
use super::object::{OpenObject, OpenedKey};
use super::open_files::OpenFileCache;
use super::quota::StorageQuota;
use super::root::{CachedLookup, StoreRoot};
use super::stored_upload::StoredUploads;
use super::temporary_files::TemporaryFolder;
use super::upload_counts::UploadCounts;
use super::usage::{self, QuotaRecount};
use super::version::{
    DigestTimestampMark, FileMetadata, FileVersionId, UploadTimestamps, set_modified,
};
use crate::ObjectKey;

/// A condition on the version that has a key now; `None` means that no file has it.
pub type VersionCheck<'a> = &'a dyn Fn(Option<&FileMetadata>) -> bool;

#[derive(Debug, Clone)]
pub struct FileStoreOptions {
    /// Whether files may be changed. A read-only store creates nothing, not even its temporary
    /// folder.
    pub writable: bool,
    /// Whether links that stay beneath the root are followed. If users have rights to only a part
    /// of the store they must not be: a link in that part would lead out of it.
    pub follow_links: bool,
    /// What an acknowledged upload survives.
    pub durability: UploadDurability,
    /// Maximum bytes of all files together; `None` leaves it to the disk.
    pub quota: Option<u64>,
    /// Maximum files that stay open between requests.
    pub max_open_files: usize,
    /// Whether uploads are discarded instead of written: to measure everything but the disk.
    pub discard_uploads: bool,
}

impl Default for FileStoreOptions {
    fn default() -> Self {
        Self {
            writable: false,
            follow_links: true,
            durability: UploadDurability::default(),
            quota: None,
            // A hundredth of the descriptors that common systems allow a process. The cache has
            // shards, and some are full before all are: with 1024 entries for a thousand files, one
            // request in twenty found its file closed.
            max_open_files: 4096,
            discard_uploads: false,
        }
    }
}

/// How durable an upload is when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UploadDurability {
    /// The system has the bytes: a crash of this program loses nothing, a power cut may.
    None,
    /// The bytes are on the disk (`fdatasync`): a power cut leaves the old version or the new one,
    /// each whole.
    #[default]
    File,
    /// The name is durable too (`fsync` of the folder): a power cut leaves the new version.
    Full,
}

#[derive(Debug)]
pub struct FileStore {
    /// The root directory. Listings and archives share it for as long as they are read.
    pub(super) root: Arc<StoreRoot>,
    pub(super) options: FileStoreOptions,
    /// Temporary files of uploads; `None` in a read-only store.
    pub(super) temporaries: Option<TemporaryFolder>,
    /// Uploads in parts.
    pub(super) uploads: StoredUploads,
    pub(super) upload_counts: UploadCounts,
    /// The attributes of objects.
    pub(super) records: AttributeRecords,
    /// Creates the parent folders of keys.
    pub(super) folders: Arc<FolderCreator>,
    /// Files that are requested often.
    pub(super) open_files: OpenFileCache,
    /// Closes large files.
    pub(super) deferred_close: Arc<DeferredClose>,
    /// Counts what the store holds.
    pub(super) quota: Arc<StorageQuota>,
    /// Finds out what other programs added or removed.
    pub(super) recount: QuotaRecount,
    /// Allows one change of a key at a time.
    pub(super) locks: KeyLocks,
    /// Modification times of uploads.
    pub(super) timestamps: UploadTimestamps,
    /// Makes uploads durable.
    pub(super) group_sync: GroupSync,
    /// Whether everything on the root's mount is in memory.
    pub(super) is_memory: bool,
    /// Temporary files of an earlier process that were removed.
    pub(super) removed_leftovers: usize,
}

impl FileStore {
    /// Opens a directory as a store. A writable store removes temporary files that an earlier
    /// process left. A store with a quota counts its bytes, which looks up every file.
    ///
    /// # Errors
    /// When the path is not a directory, or may not be read, or written to as the options ask.
    pub fn open(path: &Path, options: FileStoreOptions) -> Result<Self, StoreError> {
        let root = StoreRoot::open(path)?;
        let root = if options.follow_links {
            root
        } else {
            root.without_links()
        };
        let root = Arc::new(root);
        let (temporaries, cleaned) = if options.writable {
            Some(TemporaryFolder::open(&root)?).unzip()
        } else {
            (None, None)
        };
        let used = match (options.writable, options.quota) {
            (true, Some(_)) => usage::folder_bytes(root.top()),
            _ => 0,
        };
        let is_durable = options.writable && options.durability == UploadDurability::Full;
        if is_durable {
            // An earlier process may have created folders and been killed before it synced them.
            flush::syncfs(root.top())?;
        }
        let store = Self {
            uploads: StoredUploads::default(),
            upload_counts: UploadCounts::default(),
            records: AttributeRecords::new(&root),
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
        };
        if store.options.writable {
            store.count_stored_parts()?;
        }
        Ok(store)
    }

    /// The root directory, for listings.
    #[must_use]
    pub fn root(&self) -> &Arc<StoreRoot> {
        &self.root
    }

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
    pub fn open_file(&self, key: &ObjectKey) -> Result<Arc<OpenObject>, StoreError> {
        let opened = self.retry_after_closing(|| self.root.open_any(key))?;
        self.share_opened(key, OpenObject::from_fd(opened, &self.records)?)
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
            CachedLookup::Ready(Ok(opened)) => match OpenObject::try_from_fd(opened, &self.records)
            {
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

    /// Changes the attributes of an object, if it is still the one that has the key.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the key has another version by now, or the disk's error.
    pub fn set_attributes(
        &self,
        key: &ObjectKey,
        object: &OpenObject,
        change: impl FnOnce(&mut ObjectAttributes),
    ) -> Result<(), StoreError> {
        if !self.options.writable {
            return Err(StoreError::ReadOnly);
        }
        let _lock = self.locks.lock(key);
        let current = self.open_file(key)?;
        if !current.identity.is_same_content(&object.identity) {
            return Err(StoreError::NotFound);
        }
        let mut attributes = current.metadata().attributes.as_deref().cloned();
        let mut version = current.identity;
        if attributes.is_none() {
            // The time of a file says whether it has attributes.
            let time = self.timestamps.next(DigestTimestampMark::Present);
            set_modified(current.file(), time)?;
            version = FileVersionId::from_stat(&rustix::fs::fstat(current.file())?);
        }
        change(attributes.get_or_insert_default());
        self.open_files.remove(key);
        let attributes = attributes.unwrap_or_default();
        // The next recount finds what changed.
        self.records
            .write(current.file(), &version, &attributes)
            .map(drop)
    }

    /// Checks a condition on the version that has a key now. Returns whether there is one.
    ///
    /// # Errors
    /// [`StoreError::ConditionFailed`] if the condition does not hold.
    pub fn check(&self, key: &ObjectKey, check: VersionCheck<'_>) -> Result<bool, StoreError> {
        let current = self.current_metadata(key)?;
        if check(current.as_ref()) {
            Ok(current.is_some())
        } else {
            Err(StoreError::ConditionFailed)
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
    /// [`StoreError::OverQuota`] if the quota has no room, and [`StoreError::NoSpace`] if the disk
    /// has none: it must hold both versions for a while.
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
        self.uploads.sweep();
        if self.options.writable {
            self.recount.step(&self.quota, &self.root);
        }
    }

    /// Opens something; if no descriptors are left, closes cached files and tries once more.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn retry_after_closing<T>(
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
    pub(super) fn current_metadata(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<FileMetadata>, StoreError> {
        match self.open_file(key) {
            Ok(object) => Ok(Some(object.metadata().clone())),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// More than the threads that could hold one.
const LOCKS: usize = 128;

/// One lock for each hash.
/// Locks that allow one change of a key at a time.
///
/// A change checks a condition and then renames: no other change may come between. Keys of one hash
/// share a lock. Locks are held for a few system calls on threads that may wait, and never two at a
/// time.
#[derive(Debug)]
pub(super) struct KeyLocks {
    /// By a hash that no client knows.
    locks: Box<[Mutex<()>]>,
    hasher: RandomState,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self {
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl KeyLocks {
    /// Waits until nobody else changes the key.
    pub(super) fn lock(&self, key: &ObjectKey) -> MutexGuard<'_, ()> {
        self.lock_of(key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` instead of waiting, while somebody changes the key or another one of the same
    /// hash.
    pub(super) fn try_lock(&self, key: &ObjectKey) -> Option<MutexGuard<'_, ()>> {
        match self.lock_of(key).try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_of(&self, key: &ObjectKey) -> &Mutex<()> {
        let index = self.hasher.hash_one(key) % LOCKS as u64;
        &self.locks[usize::try_from(index).unwrap_or(0)]
    }
}
