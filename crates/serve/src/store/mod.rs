//! The store: files beneath a directory, by their keys.
//!
//! It knows nothing of HTTP. A key is a plain file, so that people find their files with any other program, and other programs may
//! change them at any time: nothing is believed that was not looked at for this request.
//!
//! [`FileStore::read`] opens a version of a file, which stays that version while it is read; [`FileStore::put`] begins an [`Upload`], which
//! commits or vanishes; [`FileStore::delete`] removes; [`StoreRoot::open_folder`] is where listings begin. All of these may wait for a disk, and
//! run on [`DiskThreads`]'s threads; [`FileStore::read_now`] and what else ends so does without waiting what can be done so.
//!
//! What the parts do: `root` turns keys into descriptors, `object` is an open file, `version` what it is, `open_files` keeps some of them
//! between requests, `closing` lets go of them, `room` has the temporaries, `upload` fills them, `folders` makes the way to their keys, `quota`
//! counts, `recount` does so anew, `digest` keeps what an upload hashed to.

mod closing;
mod delete;
mod digest;
mod disk;
mod error;
mod folders;
mod list;
mod locks;
mod media;
mod object;
mod open_files;
mod options;
mod quota;
mod recount;
mod room;
mod root;
mod stamps;
mod sync;
mod sys;
#[cfg(test)]
mod tests;
mod upload;
mod usage;
mod version;

use std::path::Path;
use std::sync::Arc;

pub use disk::DiskThreads;
pub use error::StoreError;
pub use list::{
    EntryKind, FolderEntries, FolderEntry, FolderPage, ListingCursor, ListingCursorError,
    OpenFolder, PageRequest, PageStart, SortKey,
};
pub(crate) use list::{OpenedEntry, UnopenedEntry, modified};
pub use media::FilesystemKind;
pub use object::OpenObject;
pub use options::{FileStoreOptions, UploadDurability, UploadDurabilityError};
pub use root::{CachedLookup, StoreRoot};
pub use upload::{CommittedUpload, Upload};
pub use version::FileMetadata;

use crate::ObjectKey;
use closing::DeferredClose;
use folders::FolderCreator;
use haul_net::is_descriptor_limit;
use haul_plan::Checksum;
use locks::KeyLocks;
use object::OpenedKey;
use open_files::OpenFileCache;
use quota::StorageQuota;
use recount::QuotaRecount;
use room::TemporaryFolder;
use root::OpenScope;
use stamps::UploadTimestamps;
use sync::GroupSync;

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
    room: Option<TemporaryFolder>,
    /// Makes the way to keys.
    folders: Arc<FolderCreator>,
    /// Files that are asked for often.
    open_files: OpenFileCache,
    /// Where large ones are closed.
    closing: Arc<DeferredClose>,
    /// What it holds.
    quota: Arc<StorageQuota>,
    /// Finds out what other programs did to that.
    recount: QuotaRecount,
    /// One change of a key at a time.
    locks: KeyLocks,
    /// Times for uploads.
    stamps: UploadTimestamps,
    /// What makes uploads durable.
    syncing: GroupSync,
    /// Whether all of it is memory, but for what is mounted beneath it.
    is_memory: bool,
    /// Temporaries that an earlier process had left.
    cleaned: usize,
}

impl FileStore {
    /// Opens a directory as a store. Where it may be written to, what is left of uploads is removed; where it has a quota, what it
    /// holds is counted: a look at every file.
    ///
    /// # Errors
    /// When it is no directory, or may not be read, or written to as was asked for.
    pub fn open(path: &Path, options: FileStoreOptions) -> Result<Self, StoreError> {
        let root = StoreRoot::open(path)?;
        let root = match options.follows_links {
            true => root,
            false => root.without_links(),
        };
        let root = Arc::new(root);
        let (room, cleaned) = match options.writable {
            true => Some(TemporaryFolder::open(&root)?).unzip(),
            false => (None, None),
        };
        let used = match (options.writable, options.quota) {
            (true, Some(_)) => usage::of(root.top()),
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
            open_files: OpenFileCache::new(options.open_files),
            closing: Arc::default(),
            is_memory: root.is_memory(),
            root,
            options,
            room,
            locks: KeyLocks::default(),
            stamps: UploadTimestamps::default(),
            syncing: GroupSync::default(),
            cleaned: cleaned.unwrap_or(0),
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
    pub fn cleaned(&self) -> usize {
        self.cleaned
    }

    /// Opens the version of a file that has a key now.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read(&self, key: &ObjectKey) -> Result<Arc<OpenObject>, StoreError> {
        let opened = self.sparing(|| self.root.open_any(key))?;
        self.opened(key, OpenObject::of(opened)?)
    }

    /// The same without waiting for a disk: from what is open, or what the kernel has in its caches.
    pub fn read_now(&self, key: &ObjectKey) -> CachedLookup<Result<Arc<OpenObject>, StoreError>> {
        if let Some(object) = self.open_files.find(&self.root, key) {
            return CachedLookup::Done(Ok(object));
        }
        match self.root.open_now(key) {
            CachedLookup::Done(Ok(opened)) => match OpenObject::of_now(opened) {
                CachedLookup::Done(found) => {
                    CachedLookup::Done(found.and_then(|found| self.opened(key, found)))
                }
                CachedLookup::Wait => CachedLookup::Wait,
            },
            // Closing others to make room is for whoever may wait.
            CachedLookup::Done(Err(StoreError::Io(error))) if is_descriptor_limit(&error) => {
                CachedLookup::Wait
            }
            CachedLookup::Done(Err(error)) => CachedLookup::Done(Err(error)),
            CachedLookup::Wait => CachedLookup::Wait,
        }
    }

    /// Begins to put a file. `wanted`: what its bytes must hash to.
    ///
    /// # Errors
    /// When a part of the key is a file, or the store is for reading, or the disk says so.
    pub fn put(
        self: &Arc<Self>,
        key: &ObjectKey,
        wanted: Vec<Checksum>,
    ) -> Result<Upload, StoreError> {
        self.sparing(|| Upload::begin(self, key, wanted.clone(), OpenScope::Anywhere))
    }

    /// The same without waiting for a disk, where all of the store is memory.
    pub fn put_now(
        self: &Arc<Self>,
        key: &ObjectKey,
        wanted: &[Checksum],
    ) -> CachedLookup<Result<Upload, StoreError>> {
        if !self.is_memory && !self.options.discards {
            return CachedLookup::Wait;
        }
        match Upload::begin(self, key, wanted.to_vec(), OpenScope::OneMount) {
            // Its folder is on another mount: the kernel does not go there.
            Err(StoreError::NotFound) => CachedLookup::Wait,
            Err(StoreError::Io(error)) if is_descriptor_limit(&error) => CachedLookup::Wait,
            done => CachedLookup::Done(done),
        }
    }

    /// Asks `check` about what has a key now, and says whether anything has.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if it does not like that.
    pub fn check(&self, key: &ObjectKey, check: VersionCheck<'_>) -> Result<bool, StoreError> {
        let current = self.current(key)?;
        match check(current.as_ref()) {
            true => Ok(current.is_some()),
            false => Err(StoreError::Failed),
        }
    }

    /// Whether so many more bytes are within the quota, whatever they replace. It is a look, and no claim, and waits for nothing.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.quota.has_room(bytes)
    }

    /// Whether so many bytes in place of what has a key are. May wait for a disk.
    ///
    /// # Errors
    /// [`StoreError::OverQuota`] if they are not, and [`StoreError::NoSpace`] if the disk has no room for them: it needs that beside what
    /// is there.
    pub fn has_room_for(&self, key: &ObjectKey, bytes: u64) -> Result<(), StoreError> {
        if !self.options.discards && self.free_for(key).is_some_and(|free| free < bytes) {
            return Err(StoreError::NoSpace);
        }
        let there = key.split().map_or(0, |(above, name)| {
            let folder = self.root.open_folder(&above);
            folder.map_or(0, |folder| usage::counted(folder, name))
        });
        self.quota.admit(bytes, there)
    }

    /// Bytes that are free where a key is, or will be once its folders are made; `None` if the file system does not say.
    fn free_for(&self, key: &ObjectKey) -> Option<u64> {
        let mut folder = key.split()?.0;
        let found = loop {
            match self.root.open_folder(&folder) {
                Ok(found) => break found,
                Err(_) => folder = folder.split()?.0,
            }
        };
        let stat = rustix::fs::fstatvfs(found).ok()?;
        // Some, of networks, have no such count.
        (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Closes files that nobody asks for any more, and counts anew for a little while where there is a quota. To be called every
    /// few seconds, where waiting is allowed.
    pub fn sweep(&self) {
        self.open_files.sweep();
        if self.options.writable {
            self.recount.step(&self.quota, &self.root);
        }
    }

    /// Opens something, and once more if no descriptors were left and files that are kept open could leave some of theirs.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn sparing<T>(
        &self,
        open: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match open() {
            Err(StoreError::Io(error)) if is_descriptor_limit(&error) && self.spare() => open(),
            done => done,
        }
    }

    /// Closes a good part of the files that are kept open and that nobody is reading, since descriptors ran out. Whether there were any. May
    /// wait.
    pub fn spare(&self) -> bool {
        self.open_files.spare()
    }

    /// Large files that were removed are closed there from now on, and not by whoever happens to be the last to read them.
    pub fn close_on(&self, disk: &DiskThreads) {
        self.closing.use_disk(disk);
    }

    fn opened(&self, key: &ObjectKey, opened: OpenedKey) -> Result<Arc<OpenObject>, StoreError> {
        match opened {
            OpenedKey::File(mut object) => {
                object.closing = DeferredClose::of(&self.closing, object.meta().len);
                let object = Arc::new(object);
                self.open_files.keep(key, &object);
                Ok(object)
            }
            OpenedKey::Folder => Err(StoreError::IsFolder),
        }
    }

    /// What is known of what has a key now.
    fn current(&self, key: &ObjectKey) -> Result<Option<FileMetadata>, StoreError> {
        match self.read(key) {
            Ok(object) => Ok(Some(object.meta().clone())),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
