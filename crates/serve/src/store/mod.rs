//! The store: files beneath a directory, by their keys.
//!
//! It knows nothing of HTTP. A key is a plain file, so that people find their files with any other program, and other programs may
//! change them at any time: nothing is believed that was not looked at for this request.
//!
//! [`FileStore::open_file`] opens a version of a file, which stays that version while it is read; [`FileStore::begin_upload`] begins an [`Upload`], which
//! commits or vanishes; [`FileStore::delete`] removes; [`StoreRoot::open_folder`] is where listings begin. All of these may wait for a disk, and
//! run on [`DiskThreads`]'s threads; [`FileStore::try_open_file`] and what else ends so does without waiting what can be done so.
//!
//! What the parts do: `root` turns keys into descriptors, `object` is an open file, `version` what it is, `max_open_files` keeps some of them
//! between requests, `deferred_close` lets go of them, `temporaries` has the temporaries, `upload` fills them, `folders` makes the way to their keys, `quota`
//! counts, `recount` does so anew, `digest` keeps what an upload hashed to.

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

/// What a caller thinks of the version that has a key, or of there being none.
pub type VersionCheck<'a> = &'a dyn Fn(Option<&FileMetadata>) -> bool;

/// A store, open.
#[derive(Debug)]
pub struct FileStore {
    /// What it lies beneath. Listings and archives have it, too, for as long as they are read.
    root: Arc<StoreRoot>,
    /// How it was opened.
    options: FileStoreOptions,
    /// Where uploads are until they are whole; none in a store for reading.
    temporaries: Option<TemporaryFolder>,
    /// Makes the way to keys.
    folders: Arc<FolderCreator>,
    /// Files that are asked for often.
    open_files: OpenFileCache,
    /// Where large ones are closed.
    deferred_close: Arc<DeferredClose>,
    /// What it holds.
    quota: Arc<StorageQuota>,
    /// Finds out what other programs did to that.
    recount: QuotaRecount,
    /// One change of a key at a time.
    locks: KeyLocks,
    /// Times for uploads.
    timestamps: UploadTimestamps,
    /// What makes uploads durable.
    group_sync: GroupSync,
    /// Whether all of it is memory, but for what is mounted beneath it.
    is_memory: bool,
    /// Temporaries that an earlier process had left.
    removed_leftovers: usize,
}

impl FileStore {
    /// Opens a directory as a store. Where it may be written to, what is left of uploads is removed; where it has a quota, what it
    /// holds is counted: a look at every file.
    ///
    /// # Errors
    /// When it is no directory, or may not be read, or written to as was asked for.
    pub fn open(path: &Path, options: FileStoreOptions) -> Result<Self, StoreError> {
        let root = StoreRoot::open(path)?;
        let root = match options.follow_links {
            true => root,
            false => root.without_links(),
        };
        let root = Arc::new(root);
        let (room, cleaned) = match options.writable {
            true => Some(TemporaryFolder::open(&root)?).unzip(),
            false => (None, None),
        };
        let used = match (options.writable, options.quota) {
            (true, Some(_)) => usage::folder_bytes(root.top()),
            _ => 0,
        };
        let is_durable = options.writable && options.durability == UploadDurability::Full;
        if is_durable {
            // Folders that an earlier process had made, and was killed before it told anybody.
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
            temporaries: room,
            locks: KeyLocks::default(),
            timestamps: UploadTimestamps::default(),
            group_sync: GroupSync::default(),
            removed_leftovers: cleaned.unwrap_or(0),
        })
    }

    /// What it lies beneath: for listings.
    #[must_use]
    pub fn root(&self) -> &Arc<StoreRoot> {
        &self.root
    }

    /// How it was opened.
    #[must_use]
    pub fn options(&self) -> &FileStoreOptions {
        &self.options
    }

    /// How many temporaries of an earlier process were removed.
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

    /// The same without waiting for a disk: from what is open, or what the kernel has in its caches.
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
            // Closing others to make room is for whoever may wait.
            CachedLookup::Ready(Err(StoreError::Io(error))) if is_descriptor_limit(&error) => {
                CachedLookup::WouldBlock
            }
            CachedLookup::Ready(Err(error)) => CachedLookup::Ready(Err(error)),
            CachedLookup::WouldBlock => CachedLookup::WouldBlock,
        }
    }

    /// Begins to put a file. `wanted`: what its bytes must hash to.
    ///
    /// # Errors
    /// When a part of the key is a file, or the store is for reading, or the disk says so.
    pub fn begin_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        wanted: Vec<Checksum>,
    ) -> Result<Upload, StoreError> {
        self.retry_after_closing(|| Upload::begin(self, key, wanted.clone(), OpenScope::Anywhere))
    }

    /// The same without waiting for a disk, where all of the store is memory.
    pub fn try_begin_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        wanted: &[Checksum],
    ) -> CachedLookup<Result<Upload, StoreError>> {
        if !self.is_memory && !self.options.discard_uploads {
            return CachedLookup::WouldBlock;
        }
        match Upload::begin(self, key, wanted.to_vec(), OpenScope::OneMount) {
            // Its folder is on another mount: the kernel does not go there.
            Err(StoreError::NotFound) => CachedLookup::WouldBlock,
            Err(StoreError::Io(error)) if is_descriptor_limit(&error) => CachedLookup::WouldBlock,
            done => CachedLookup::Ready(done),
        }
    }

    /// Asks `check` about what has a key now, and says whether anything has.
    ///
    /// # Errors
    /// [`StoreError::ConditionFailed`] if it does not like that.
    pub fn check(&self, key: &ObjectKey, check: VersionCheck<'_>) -> Result<bool, StoreError> {
        let current = self.current_metadata(key)?;
        match check(current.as_ref()) {
            true => Ok(current.is_some()),
            false => Err(StoreError::ConditionFailed),
        }
    }

    /// Whether so many more bytes are within the quota, whatever they replace. It is a look, and no claim, and waits for nothing.
    #[must_use]
    pub fn fits_quota(&self, bytes: u64) -> bool {
        self.quota.fits(bytes)
    }

    /// Whether so many bytes in place of what has a key are. May wait for a disk.
    ///
    /// # Errors
    /// [`StoreError::OverQuota`] if they are not, and [`StoreError::NoSpace`] if the disk has no room for them: it needs that beside what
    /// is there.
    pub fn check_space(&self, key: &ObjectKey, bytes: u64) -> Result<(), StoreError> {
        if !self.options.discard_uploads && self.free_bytes(key).is_some_and(|free| free < bytes) {
            return Err(StoreError::NoSpace);
        }
        let there = key.split_parent().map_or(0, |(above, name)| {
            let folder = self.root.open_folder(&above);
            folder.map_or(0, |folder| usage::file_bytes(folder, name))
        });
        self.quota.check(bytes, there)
    }

    /// Bytes that are free where a key is, or will be once its folders are made; `None` if the file system does not say.
    fn free_bytes(&self, key: &ObjectKey) -> Option<u64> {
        let mut folder = key.split_parent()?.0;
        let found = loop {
            match self.root.open_folder(&folder) {
                Ok(found) => break found,
                Err(_) => folder = folder.split_parent()?.0,
            }
        };
        let stat = rustix::fs::fstatvfs(found).ok()?;
        // Some, of networks, have no such count.
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Closes files that nobody asks for any more, and counts anew for a little while where there is a quota. To be called every
    /// few seconds, where waiting is allowed.
    pub fn maintain(&self) {
        self.open_files.sweep();
        if self.options.writable {
            self.recount.step(&self.quota, &self.root);
        }
    }

    /// Opens something, and once more if no descriptors were left and files that are kept open could leave some of theirs.
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

    /// Closes a good part of the files that are kept open and that nobody is reading, since descriptors ran out. Whether there were any. May
    /// wait.
    pub fn close_idle_files(&self) -> bool {
        self.open_files.close_idle()
    }

    /// Large files that were removed are closed there from now on, and not by whoever happens to be the last to read them.
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

    /// What is known of what has a key now.
    fn current_metadata(&self, key: &ObjectKey) -> Result<Option<FileMetadata>, StoreError> {
        match self.open_file(key) {
            Ok(object) => Ok(Some(object.metadata().clone())),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
