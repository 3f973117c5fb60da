//! The store's own room: `.haul` at the top, where uploads are until they are whole.
//!
//! An upload is written to a file here and renamed to its key, so that nobody ever sees part of it. A process that is killed leaves such
//! files; the next one removes them when it starts, by looking into one directory. It must not remove those of another process that
//! serves the same root just now: every process holds a shared lock on `.haul/lock`, and cleans up only if it gets it alone.
//!
//! A rename cannot leave its mount. An upload into a folder on another one is written into that folder, under a name that no
//! key can have, and the folder is noted in `.haul/strays` before, so that the next start finds those, too.
//!
//! If somebody removes the room while the store is open, uploads that were in it are lost, and the next one makes it again: opened and
//! locked as at the start, but nothing is cleaned up, since uploads of this process may be on other mounts, and not be noted any more.

mod leftovers;

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::root::{OpenScope, StoreRoot};
use super::{StoreError, root};
use crate::{ObjectKey, RESERVED_NAME, RESERVED_PREFIX};

/// Files of the room: what an upload is written to, to be read by nobody else meanwhile.
const CREATE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What whoever made the process wants to be left out is left out.
const FILE_MODE: Mode = Mode::RUSR
    .union(Mode::WUSR)
    .union(Mode::RGRP)
    .union(Mode::WGRP)
    .union(Mode::ROTH)
    .union(Mode::WOTH);

/// The room.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    /// As it was opened last.
    opened: RwLock<Arc<OpenTemporaryFolder>>,
    /// Held by whoever makes it again. Nobody who must not wait takes it.
    recreating: Mutex<()>,
    /// What names of this opening begin with: random, since processes in two containers, or on two machines, may have one number.
    prefix: String,
    /// Makes names: with the prefix, no two are the same.
    next: AtomicU64,
}

/// `.haul`.
#[derive(Debug)]
struct OpenTemporaryFolder {
    /// Open.
    folder: Arc<OwnedFd>,
    /// Which mount it is on.
    mount: Option<u64>,
    /// Locked, shared, for as long as this is.
    lock: File,
    /// Folders on other mounts that are noted in it.
    strays: Mutex<HashSet<ObjectKey>>,
}

/// A file that nobody sees yet. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    /// Where it is.
    folder: Arc<OwnedFd>,
    /// How it is called there.
    name: String,
    /// Open to be written.
    pub(super) file: File,
    /// Whether it is on the mount of the store's own room.
    pub(super) is_in_temporary_folder: bool,
}

impl TemporaryFolder {
    /// Makes the room if there is none, and removes what an earlier process left in it. Says how much that was.
    ///
    /// # Errors
    /// When it cannot be made: then nothing can be written here.
    pub(super) fn open(root: &StoreRoot) -> Result<(Self, usize), StoreError> {
        let opened = OpenTemporaryFolder::open(root)?;
        let mut removed = 0;
        if rustix::fs::flock(&opened.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            removed = leftovers::remove_leftovers(root, &opened.folder)?;
        }
        opened.lock_shared()?;
        let room = Self {
            opened: RwLock::new(Arc::new(opened)),
            recreating: Mutex::default(),
            prefix: format!("{RESERVED_PREFIX}{:032x}-", rand::random::<u128>()),
            next: AtomicU64::new(0),
        };
        Ok((room, removed))
    }

    /// A new file, on the mount of the folder that it will be moved to.
    ///
    /// # Errors
    /// What the disk says. That nothing is there: the folder has gone; or, to whoever must not wait, the room.
    pub(super) fn create_file(
        &self,
        root: &StoreRoot,
        key: &ObjectKey,
        target: &Arc<OwnedFd>,
        reach: OpenScope,
    ) -> Result<TemporaryFile, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", self.prefix);
        let opened = self.opened();
        match opened.temporary(&name, key, target, reach) {
            Err(StoreError::NotFound)
                if reach == OpenScope::Anywhere && !opened.is_current(root) =>
            {
                self.recreate(root)?.temporary(&name, key, target, reach)
            }
            other => other,
        }
    }

    fn opened(&self) -> Arc<OpenTemporaryFolder> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&opened)
    }

    /// Makes it again, unless somebody else has.
    fn recreate(&self, root: &StoreRoot) -> Result<Arc<OpenTemporaryFolder>, StoreError> {
        let _making = self
            .recreating
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = self.opened();
        if now.is_current(root) {
            return Ok(now);
        }
        let opened = match OpenTemporaryFolder::open(root) {
            Err(StoreError::NotFound) => return Err(StoreError::RootRemoved),
            other => other?,
        };
        opened.lock_shared()?;
        tracing::warn!(
            root = %root.path().display(),
            "{RESERVED_NAME} was removed, and uploads with it: it is made again"
        );
        let opened = Arc::new(opened);
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&opened);
        Ok(opened)
    }

    /// As if every folder were on another mount.
    #[cfg(test)]
    pub(super) fn pretend_other_mount(&mut self) {
        let opened = self
            .opened
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::get_mut(opened).expect("nobody uploads").mount = Some(u64::MAX);
    }
}

impl OpenTemporaryFolder {
    /// Opens it, and makes it if there is none.
    fn open(root: &StoreRoot) -> Result<Self, StoreError> {
        match rustix::fs::mkdirat(root.top(), RESERVED_NAME, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(root.top(), RESERVED_NAME, flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let own = Mode::RUSR | Mode::WUSR;
        let lock = File::from(rustix::fs::openat(&folder, "lock", flags, own)?);
        Ok(Self {
            mount: mount_id(&folder),
            folder: Arc::new(folder),
            lock,
            strays: Mutex::default(),
        })
    }

    /// Waits while another process cleans up, and keeps others from it.
    fn lock_shared(&self) -> Result<(), StoreError> {
        Ok(rustix::fs::flock(&self.lock, FlockOperation::LockShared)?)
    }

    /// Whether it is the root's room now.
    fn is_current(&self, root: &StoreRoot) -> bool {
        let there = rustix::fs::statat(root.top(), RESERVED_NAME, AtFlags::SYMLINK_NOFOLLOW);
        let this = rustix::fs::fstat(&*self.folder);
        there.is_ok_and(|there| {
            this.is_ok_and(|this| (there.st_dev, there.st_ino) == (this.st_dev, this.st_ino))
        })
    }

    fn temporary(
        &self,
        name: &str,
        key: &ObjectKey,
        target: &Arc<OwnedFd>,
        reach: OpenScope,
    ) -> Result<TemporaryFile, StoreError> {
        // The kernel may have kept to the one mount already.
        let is_ours = reach == OpenScope::OneMount || mount_id(&**target) == self.mount;
        let folder = if is_ours { &self.folder } else { target };
        if !is_ours {
            self.record_stray(key)?;
        }
        // What has that name, if anything has, is somebody else's.
        let file = rustix::fs::openat(&**folder, name, CREATE_FLAGS, FILE_MODE)?;
        Ok(TemporaryFile {
            folder: Arc::clone(folder),
            name: name.to_owned(),
            file: file.into(),
            is_in_temporary_folder: is_ours,
        })
    }

    /// Notes the folder of a key as one with uploads in it.
    fn record_stray(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let (folder, _) = key.split_parent().ok_or(StoreError::IsFolder)?;
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        if strays.contains(&folder) {
            return Ok(());
        }
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let list = rustix::fs::openat(&*self.folder, "strays", flags, Mode::RUSR | Mode::WUSR)?;
        let mut list = File::from(list);
        list.write_all(format!("{}\n", folder.escaped()).as_bytes())?;
        list.sync_data()?;
        strays.insert(folder);
        Ok(())
    }
}

impl TemporaryFile {
    /// The folder it is in: on its mount, and open for as long as it is.
    pub(super) fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// Whether another program has removed it.
    pub(super) fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Gives it a name in a folder of its mount. `replacing`: also where something has that name.
    ///
    /// # Errors
    /// `EXIST` where something has it and is not to be replaced.
    pub(super) fn rename(
        &self,
        folder: &OwnedFd,
        name: &[u8],
        replacing: bool,
    ) -> Result<(), Errno> {
        use rustix::fs::RenameFlags;
        let flags = if replacing {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        rustix::fs::renameat_with(&*self.folder, self.name.as_str(), folder, name, flags)
    }

    /// It has a name of its own now.
    pub(super) fn keep(mut self) {
        self.name.clear();
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.name.is_empty()
            && let Err(error) = root::unlink(&*self.folder, self.name.as_bytes(), AtFlags::empty())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, name = self.name, "a temporary file is left");
        }
    }
}

/// Which mount something is on: a file system may be mounted twice, and no rename goes from one to the other.
#[cfg(target_os = "linux")]
fn mount_id(folder: impl AsFd) -> Option<u64> {
    use rustix::fs::StatxFlags;
    let stat = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    Some(stat.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn mount_of(folder: impl AsFd) -> Option<u64> {
    Some(rustix::fs::fstat(folder).ok()?.st_dev as u64)
}
