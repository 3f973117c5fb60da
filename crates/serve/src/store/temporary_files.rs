//! The temporary folder `.haul` beneath the root, where uploads are written until they are
//! complete.
//!
//! An upload is written to a file here and then renamed to its key, so nobody ever sees a part of
//! it. A process that is killed leaves such files; the next process removes them at start by
//! reading this one directory. It must not remove the files of another process that serves the same
//! root: every process holds a shared lock on `.haul/lock`, and cleans up only if it gets the lock
//! exclusively.
//!
//! A rename cannot leave its mount. An upload into a folder on another mount is written into that
//! folder, under a name that no key can have. The folder is first recorded in `.haul/strays`, so
//! that the next start finds those files too.
//!
//! If the temporary folder is removed while the store is open, the uploads in it are lost, and the
//! next upload creates it again: opened and locked as at the start, but without cleaning up, since
//! uploads of this process may be in folders on other mounts that are no longer recorded.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use haul_plan::may_be_planted;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::StoreError;
use super::flush;
use super::root::{OpenScope, StoreRoot, unlink};
use super::upload_folders::remove_ended;
use crate::{ObjectKey, RESERVED_NAME, RESERVED_PREFIX};

/// A temporary file is new, and written by one upload only.
const CREATE_FLAGS: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Permissions before the process's umask is applied.
const FILE_MODE: Mode = Mode::RUSR
    .union(Mode::WUSR)
    .union(Mode::RGRP)
    .union(Mode::WGRP)
    .union(Mode::ROTH)
    .union(Mode::WOTH);

#[derive(Debug)]
pub(super) struct TemporaryFolder {
    /// The folder as it was last opened.
    opened: RwLock<Arc<OpenTemporaryFolder>>,
    /// Held while the folder is created again. Never taken by a caller that must not wait.
    recreating: Mutex<()>,
    /// Prefix of the names of this process: random, since processes in two containers, or on two
    /// machines, may have the same process id.
    prefix: String,
    /// The number of the next name.
    next: AtomicU64,
}

/// The open `.haul`.
#[derive(Debug)]
struct OpenTemporaryFolder {
    folder: Arc<OwnedFd>,
    mount: Option<u64>,
    /// Holds the shared lock.
    lock: File,
    /// Folders on other mounts that are recorded in it.
    strays: Mutex<HashSet<ObjectKey>>,
}

/// A file that nobody sees yet. Dropping it removes it.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    folder: Arc<OwnedFd>,
    /// Its name in the folder.
    name: String,
    /// Open for writing.
    pub(super) file: File,
    /// Whether it is in `.haul` and not on another mount.
    pub(super) is_in_temporary_folder: bool,
}

impl TemporaryFolder {
    /// Creates the folder if it is missing, and removes what an earlier process left in it. Returns
    /// the number of removed files.
    ///
    /// # Errors
    /// When it cannot be created: then nothing can be written here.
    pub(super) fn open(root: &StoreRoot) -> Result<(Self, usize), StoreError> {
        let opened = OpenTemporaryFolder::open(root)?;
        let mut removed = 0;
        if rustix::fs::flock(&opened.lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            removed = remove_leftovers(root, &opened.folder)?;
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

    /// Creates a file on the mount of the folder that it will be moved to.
    ///
    /// # Errors
    /// The disk's error. `NotFound`: the target folder was removed or, for a caller that must not
    /// wait, the temporary folder.
    pub(super) fn create_file(
        &self,
        root: &StoreRoot,
        key: &ObjectKey,
        target: &Arc<OwnedFd>,
        scope: OpenScope,
    ) -> Result<TemporaryFile, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", self.prefix);
        let opened = self.opened();
        match opened.temporary(&name, key, target, scope) {
            Err(StoreError::NotFound)
                if scope == OpenScope::Anywhere && !opened.is_current(root) =>
            {
                self.recreate(root)?.temporary(&name, key, target, scope)
            }
            other => other,
        }
    }

    fn opened(&self) -> Arc<OpenTemporaryFolder> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&opened)
    }

    /// Creates the folder again, unless somebody else has.
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
            "{RESERVED_NAME} was removed with all unfinished uploads: it is created again"
        );
        let opened = Arc::new(opened);
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&opened);
        Ok(opened)
    }

    /// Pretends that every other folder is on another mount.
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
    /// Opens the folder, and creates it if it is missing.
    fn open(root: &StoreRoot) -> Result<Self, StoreError> {
        match rustix::fs::mkdirat(root.top(), RESERVED_NAME, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(root.top(), RESERVED_NAME, flags, Mode::empty())?;
        refuse_planted(&folder, root.top())?;
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

    /// Takes the shared lock. Waits while another process cleans up, and keeps others from cleaning
    /// up.
    fn lock_shared(&self) -> Result<(), StoreError> {
        Ok(rustix::fs::flock(&self.lock, FlockOperation::LockShared)?)
    }

    /// Whether it is still the folder at that path.
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
        scope: OpenScope,
    ) -> Result<TemporaryFile, StoreError> {
        // With `OneMount` the kernel has made sure of the mount already.
        let is_ours = scope == OpenScope::OneMount || mount_id(&**target) == self.mount;
        let folder = if is_ours { &self.folder } else { target };
        if !is_ours {
            self.record_stray(key)?;
        }
        // If the name exists, which is unlikely, the file belongs to another process.
        let file = rustix::fs::openat(&**folder, name, CREATE_FLAGS, FILE_MODE)?;
        Ok(TemporaryFile {
            folder: Arc::clone(folder),
            name: name.to_owned(),
            file: file.into(),
            is_in_temporary_folder: is_ours,
        })
    }

    /// Records the folder of a key as one that holds temporary files.
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
        flush::fdatasync(&list)?;
        strays.insert(folder);
        Ok(())
    }
}

/// Refuses a folder for temporary files that another user may have planted: he would own what is stored.
fn refuse_planted(folder: &OwnedFd, root: &OwnedFd) -> Result<(), StoreError> {
    let (folder, root) = (rustix::fs::fstat(folder)?, rustix::fs::fstat(root)?);
    let user = rustix::process::geteuid().as_raw();
    if may_be_planted(folder.st_uid, user, root.st_uid, root.st_mode) {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the folder .haul in it belongs to another user, and others may write there: remove it, or serve another folder",
        )
        .into())
    } else {
        Ok(())
    }
}

impl TemporaryFile {
    /// The folder it is in: on the same mount, and open as long as this is.
    pub(super) fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// Whether another program has removed it.
    pub(super) fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Renames it into a folder on its mount. `replacing` allows replacing an existing file.
    ///
    /// # Errors
    /// `EXIST` if the name exists and must not be replaced.
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

    /// Becomes another name of a file on the same mount. If that fails, it is what it was.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn link_from(&mut self, folder: &OwnedFd, name: &str) -> Result<(), Errno> {
        let new = format!("{}-parts", self.name);
        rustix::fs::linkat(folder, name, &*self.folder, new.as_str(), AtFlags::empty())?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*self.folder, new.as_str(), flags, Mode::empty());
        let (unneeded, opened) = match opened {
            Ok(file) => (std::mem::replace(&mut self.name, new), Ok(file)),
            Err(error) => (new, Err(error)),
        };
        let _ = unlink(&*self.folder, unneeded.as_bytes(), AtFlags::empty());
        self.file = opened?.into();
        Ok(())
    }

    /// Keeps the file, which has its final name now.
    pub(super) fn keep(mut self) {
        self.name.clear();
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.name.is_empty()
            && let Err(error) = unlink(&*self.folder, self.name.as_bytes(), AtFlags::empty())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, name = self.name, "a temporary file could not be removed");
        }
    }
}

/// The mount that a folder is on: a file system may be mounted twice, and no rename goes from one
/// mount to the other.
fn mount_id(folder: impl AsFd) -> Option<u64> {
    use rustix::fs::StatxFlags;
    let stat = rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    Some(stat.stx_mnt_id)
}

/// Removes the temporary files of a process that was killed: in `.haul`, and in the folders that it
/// recorded. Returns their number.
pub(super) fn remove_leftovers(root: &StoreRoot, room: &OwnedFd) -> Result<usize, StoreError> {
    let mut removed = remove_temporaries(room)?;
    // After the temporary names of complete uploads in parts: another name is the object's.
    removed += remove_ended(room)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(strays) = rustix::fs::openat(room, "strays", flags, Mode::empty()) else {
        return Ok(removed);
    };
    let mut all_done = true;
    for line in io::BufRead::lines(io::BufReader::new(File::from(strays))) {
        let Ok(line) = line else { break };
        // The line was cut off, or the folder is gone or not mounted now.
        let Ok(path) = ObjectKey::parse(&line) else {
            continue;
        };
        match root.open_folder(&path.key) {
            Ok(folder) => removed += remove_temporaries(&folder)?,
            Err(error) => {
                tracing::warn!(folder = %path.key, %error, "temporary files may be left in a folder");
                all_done = matches!(error, StoreError::NotFound | StoreError::Conflict) && all_done;
            }
        }
    }
    if all_done {
        unlink(room, b"strays", AtFlags::empty())?;
    }
    Ok(removed)
}

fn remove_temporaries(folder: &OwnedFd) -> Result<usize, StoreError> {
    let mut removed = 0;
    // Collects the names first: reading a directory while it changes is not defined.
    let names: Vec<_> = Dir::read_from(folder)?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| name.to_bytes().starts_with(RESERVED_PREFIX.as_bytes()))
        .collect();
    for name in names {
        unlink(
            folder,
            OsStr::from_bytes(name.to_bytes()).as_bytes(),
            AtFlags::empty(),
        )?;
        removed += 1;
    }
    Ok(removed)
}
