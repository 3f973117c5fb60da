//! The root directory: the only place where a key becomes a file descriptor.
//!
//! An [`ObjectKey`] cannot climb out by its text, but a link in the tree could lead out, and could
//! be created between a check and an open. So the kernel resolves the path: `openat2(2)` with
//! `RESOLVE_BENEATH` follows links that stay beneath the root and refuses all others, whatever
//! happens to the tree meanwhile. Where that call is missing (a sandbox, an old kernel), each
//! segment is opened alone and no link is followed.
//!
//! Everything here may wait for a disk, except [`StoreRoot::try_open`]: it uses the kernel's caches
//! alone (`RESOLVE_CACHED`), and reports when they are not enough.
//!
//! # File systems
//!
//! The kind of file system that a file is on, which says whether a call may block.
//!
//! A reactor must not wait for a disk. Most requests are for files in the page cache, and handing a
//! read to another thread costs more than the read. So reads are attempted in a way that fails
//! instead of waiting (`RWF_NOWAIT`). Only some file systems support that. On others, and where
//! even `stat` may go over a network, everything runs on threads that may wait.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::StoreError;
use crate::{ObjectKey, RESERVED_NAME};

/// Flags to open a file for reading. Without `NONBLOCK`, opening a pipe would wait for a writer.
const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Flags to open a folder for reading.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub struct StoreRoot {
    /// Open as long as the store is, so that the root stays the root if it is moved.
    top: OwnedFd,
    /// The path it was opened by, for messages.
    path: PathBuf,
    has_openat2: bool,
    /// The kind of file system on the root's mount.
    filesystem: FilesystemKind,
    /// Whether links that stay beneath the root are followed.
    follow_links: bool,
    /// Whether the removal of the directory was logged.
    removal_logged: AtomicBool,
}

/// How far an open may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenScope {
    /// Wherever the key leads.
    Anywhere,
    /// Only to what is in the kernel's caches.
    CachedOnly,
    /// Only to what is on the root's own mount.
    OneMount,
}

/// The result of an attempt that must not wait.
#[derive(Debug)]
pub enum CachedLookup<T> {
    /// It needed no waiting.
    Ready(T),
    /// It would wait: repeat it on a thread that may.
    WouldBlock,
}

impl<T> CachedLookup<T> {
    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }
}

impl StoreRoot {
    /// Opens a directory.
    ///
    /// # Errors
    /// When it is not a directory, or may not be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let top = rustix::fs::openat(CWD, path, FOLDER_FLAGS, Mode::empty())?;
        let mut root = Self {
            path: path.to_owned(),
            filesystem: FilesystemKind::of_file(&top),
            follow_links: true,
            removal_logged: AtomicBool::new(false),
            top,
            has_openat2: true,
        };
        root.has_openat2 = root.probe_openat2();
        Ok(root)
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same root, following no links.
    #[must_use]
    pub fn without_links(mut self) -> Self {
        self.follow_links = false;
        self
    }

    /// The same root, without `openat2`.
    #[cfg(test)]
    pub(crate) fn segment_by_segment(mut self) -> Self {
        self.has_openat2 = false;
        self
    }

    /// The directory itself.
    pub(super) fn top(&self) -> &OwnedFd {
        &self.top
    }

    /// Opens a file or folder for reading.
    pub fn open_any(&self, key: &ObjectKey) -> Result<OwnedFd, StoreError> {
        let opened = self.open_with(key, READ_FLAGS, OpenScope::Anywhere);
        opened.map_err(|errno| self.to_store_error(errno))
    }

    /// Opens a file or folder if that needs no disk.
    pub(super) fn try_open(&self, key: &ObjectKey) -> CachedLookup<Result<OwnedFd, StoreError>> {
        if !self.has_openat2 || self.filesystem == FilesystemKind::Remote {
            return CachedLookup::WouldBlock;
        }
        match self.open_with(key, READ_FLAGS, OpenScope::CachedOnly) {
            // `AGAIN`: not all of the path is cached. `INVAL`: the kernel does not know the flag.
            // `XDEV`: the path leads to another mount, where even an open may wait, or it leads
            // out: a thread that may wait finds out which.
            Err(Errno::AGAIN | Errno::INVAL | Errno::XDEV) => CachedLookup::WouldBlock,
            other => CachedLookup::Ready(other.map_err(|errno| self.to_store_error(errno))),
        }
    }

    /// Whether everything on the root's mount is in memory, and the kernel can keep to that mount.
    pub(super) fn is_memory(&self) -> bool {
        self.has_openat2 && self.filesystem == FilesystemKind::Memory
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// See [`StoreError`]. Anything but a folder is a conflict.
    pub fn open_folder(&self, key: &ObjectKey) -> Result<OwnedFd, StoreError> {
        if key.is_root() && self.is_removed() {
            return Err(StoreError::RootRemoved);
        }
        let opened = self.open_with(key, FOLDER_FLAGS, OpenScope::Anywhere);
        opened.map_err(|errno| self.to_store_error(errno))
    }

    pub(super) fn open_folder_on_root_mount(&self, key: &ObjectKey) -> Result<OwnedFd, StoreError> {
        Ok(self.open_with(key, FOLDER_FLAGS, OpenScope::OneMount)?)
    }

    /// Opens a folder within a scope; returns the raw error for the code that creates missing
    /// folders.
    pub(super) fn open_folder_within(
        &self,
        key: &ObjectKey,
        scope: OpenScope,
    ) -> Result<OwnedFd, Errno> {
        self.open_with(key, FOLDER_FLAGS, scope)
    }

    /// Whether the directory itself was removed; it then looks empty. Logs that once.
    pub(super) fn is_removed(&self) -> bool {
        let is_gone = rustix::fs::fstat(&self.top).is_ok_and(|stat| stat.st_nlink == 0);
        if is_gone && !self.removal_logged.swap(true, Ordering::Relaxed) {
            let path = self.path.display();
            tracing::error!(%path, "the served folder was removed: create it again, then restart the server");
        }
        is_gone
    }

    /// Converts an error of opening.
    fn to_store_error(&self, errno: Errno) -> StoreError {
        match errno {
            Errno::NOENT if self.is_removed() => StoreError::RootRemoved,
            other => other.into(),
        }
    }

    /// Looks up what a path leads to. Follows links wherever they lead, so the result is only good
    /// for comparing with an open file. Needs no disk while that file is open, which keeps its path
    /// cached.
    pub(super) fn stat(&self, key: &ObjectKey) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.top, key.as_path(), AtFlags::empty())
    }

    fn open_with(
        &self,
        key: &ObjectKey,
        flags: OFlags,
        scope: OpenScope,
    ) -> Result<OwnedFd, Errno> {
        if let Some(name) = key.name_like_reserved() {
            if scope == OpenScope::CachedOnly {
                return Err(Errno::AGAIN);
            }
            if self.is_own_folder(name) {
                return Err(Errno::ACCESS);
            }
        }
        if self.has_openat2 {
            return open_beneath(&self.top, key.as_path(), flags, scope, self.follow_links);
        }
        // `O_NOFOLLOW` on each segment: no link is followed.
        let mut at: Option<OwnedFd> = None;
        let segments: Vec<_> = key.segments().collect();
        for (index, segment) in segments.iter().enumerate() {
            let is_last = index + 1 == segments.len();
            let flags = if is_last { flags } else { FOLDER_FLAGS } | OFlags::NOFOLLOW;
            let from = at.as_ref().unwrap_or(&self.top);
            at = Some(rustix::fs::openat(from, *segment, flags, Mode::empty())?);
        }
        match at {
            Some(found) => Ok(found),
            None => rustix::fs::openat(&self.top, ".", flags, Mode::empty()),
        }
    }

    /// Whether a name is another name of the folder that the store has for itself, as on a file system that folds case.
    fn is_own_folder(&self, name: &[u8]) -> bool {
        let inode = |name: &[u8]| {
            let stat = rustix::fs::statat(&self.top, name, AtFlags::empty()).ok()?;
            Some((stat.st_dev, stat.st_ino))
        };
        inode(name).is_some_and(|found| Some(found) == inode(RESERVED_NAME.as_bytes()))
    }

    fn probe_openat2(&self) -> bool {
        open_beneath(
            &self.top,
            Path::new("."),
            FOLDER_FLAGS,
            OpenScope::Anywhere,
            true,
        )
        .is_ok()
    }
}

/// Opens a path that the kernel keeps beneath `top`.
fn open_beneath(
    top: &OwnedFd,
    path: &Path,
    flags: OFlags,
    scope: OpenScope,
    links: bool,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match scope {
        OpenScope::Anywhere => {}
        OpenScope::CachedOnly => resolve |= ResolveFlags::CACHED | ResolveFlags::NO_XDEV,
        OpenScope::OneMount => resolve |= ResolveFlags::NO_XDEV,
    }
    if !links {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    loop {
        match rustix::fs::openat2(top, path, flags, Mode::empty(), resolve) {
            // A rename somewhere in the tree ran at the same time: the kernel asks for another
            // attempt.
            Err(Errno::AGAIN) if scope != OpenScope::CachedOnly => {}
            other => return other,
        }
    }
}

/// Removes a name from a folder.
pub(super) fn unlink(folder: impl AsFd, name: &[u8], flags: AtFlags) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, flags)?)
}

/// Kinds of file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesystemKind {
    /// Everything is in memory: no call blocks.
    Memory,
    /// A disk of this machine behind the page cache.
    LocalDisk,
    /// A network, a user-space program, or unknown: any call may block.
    Remote,
}

/// The numbers of `statfs(2)` (linux/magic.h).
mod magic {
    pub(super) const MEMORY: [u64; 2] =
        [0x0102_1994 /* tmpfs */, 0x8584_58f6 /* ramfs */];
    pub(super) const CACHED: [u64; 8] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0xf2f5_2010, // f2fs
        0xca45_1a4e, // bcachefs
        0x2fc1_2fc1, // zfs
        0x794c_7630, // overlayfs
        0x7371_7368, // squashfs
    ];
}

impl FilesystemKind {
    /// The kind of file system that an open file is on.
    #[must_use]
    pub fn of_file(file: impl AsFd) -> Self {
        let Ok(found) = rustix::fs::fstatfs(file) else {
            return Self::Remote;
        };
        // A signed word on most architectures; its lower half counts.
        #[expect(clippy::cast_sign_loss, reason = "the numbers are bit patterns")]
        let kind = found.f_type as u64 & 0xffff_ffff;
        match kind {
            _ if magic::MEMORY.contains(&kind) => Self::Memory,
            _ if magic::CACHED.contains(&kind) => Self::LocalDisk,
            _ => Self::Remote,
        }
    }
}

#[cfg(test)]
mod tests;
