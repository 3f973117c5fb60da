//! The directory that everything lies beneath, and the only place where a key becomes a file descriptor.
//!
//! A [`ObjectKey`] cannot climb by what it says; a link in the tree could still lead out, and could be put there between a look and an
//! open. So the kernel resolves: `openat2(2)` with `RESOLVE_BENEATH`, which follows links that stay beneath the root and refuses
//! all others, whatever anybody does to the tree meanwhile. Where there is no such call (a sandbox, another system), each segment is
//! opened by itself and no link is followed at all.
//!
//! Everything here may wait for a disk, except what ends in `_now`: it does what can be done from the kernel's caches
//! (`RESOLVE_CACHED`) and says when that is not enough.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{FilesystemKind, StoreError};
use crate::ObjectKey;

/// A file is opened to be read. Without `NONBLOCK`, a pipe would wait for a writer.
const READ_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A folder is opened to be read.
const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// The top of the store.
#[derive(Debug)]
pub struct StoreRoot {
    /// Open for as long as the store is, so that the root stays the root if it is moved.
    top: OwnedFd,
    /// How it was called, for messages.
    path: PathBuf,
    /// Whether the kernel resolves whole keys.
    has_openat2: bool,
    /// What the root lies on, and all on its mount.
    filesystem: FilesystemKind,
    /// Whether links are followed as long as they stay beneath.
    follow_links: bool,
    /// Whether it was told that it was removed.
    removal_logged: AtomicBool,
}

/// How far opening something may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenScope {
    /// Wherever the key does.
    Anywhere,
    /// To what is in the kernel's caches.
    CachedOnly,
    /// To what is on the root's own mount.
    OneMount,
}

/// What a look into the kernel's caches came to.
#[derive(Debug)]
pub enum CachedLookup<T> {
    /// That is it.
    Ready(T),
    /// It is not cached: ask on a thread that may wait.
    WouldBlock,
}

impl<T> CachedLookup<T> {
    /// Whether that is it.
    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }
}

impl StoreRoot {
    /// Opens a directory.
    ///
    /// # Errors
    /// When it is none, or may not be read.
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

    /// As it was called.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same, following no link at all.
    #[must_use]
    pub fn without_links(mut self) -> Self {
        self.follow_links = false;
        self
    }

    /// The same without the kernel's help, as where it has none to give.
    #[cfg(test)]
    pub(crate) fn segment_by_segment(mut self) -> Self {
        self.has_openat2 = false;
        self
    }

    /// The directory itself.
    pub(super) fn top(&self) -> &OwnedFd {
        &self.top
    }

    /// Opens what has a key, to be read; folders, too.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_any(&self, key: &ObjectKey) -> Result<OwnedFd, StoreError> {
        let opened = self.open_with(key, READ_FLAGS, OpenScope::Anywhere);
        opened.map_err(|errno| self.to_store_error(errno))
    }

    /// Opens what has a key, if that needs nothing from a disk.
    pub(super) fn try_open(&self, key: &ObjectKey) -> CachedLookup<Result<OwnedFd, StoreError>> {
        if !self.has_openat2 || self.filesystem == FilesystemKind::Remote {
            return CachedLookup::WouldBlock;
        }
        match self.open_with(key, READ_FLAGS, OpenScope::CachedOnly) {
            // `AGAIN`: not all of the way is cached. `INVAL`: a kernel that does not know the flag. `XDEV`: it leads to another mount,
            // where even an open may ask somebody, or it leads out: whoever may wait finds out which.
            Err(Errno::AGAIN | Errno::INVAL | Errno::XDEV) => CachedLookup::WouldBlock,
            other => CachedLookup::Ready(other.map_err(|errno| self.to_store_error(errno))),
        }
    }

    /// Whether all that is on its own mount is memory, and the kernel keeps to that mount.
    pub(super) fn is_memory(&self) -> bool {
        self.has_openat2 && self.filesystem == FilesystemKind::Memory
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// See [`StoreError`]. What is no folder is a conflict.
    pub fn open_folder(&self, key: &ObjectKey) -> Result<OwnedFd, StoreError> {
        if key.is_root() && self.is_removed() {
            return Err(StoreError::RootRemoved);
        }
        let opened = self.open_with(key, FOLDER_FLAGS, OpenScope::Anywhere);
        opened.map_err(|errno| self.to_store_error(errno))
    }

    /// Opens a folder on the root's own mount.
    pub(super) fn open_folder_on_root_mount(&self, key: &ObjectKey) -> Result<OwnedFd, StoreError> {
        Ok(self.open_with(key, FOLDER_FLAGS, OpenScope::OneMount)?)
    }

    /// The same within some reach, for whoever makes what is missing.
    pub(super) fn open_folder_within(
        &self,
        key: &ObjectKey,
        reach: OpenScope,
    ) -> Result<OwnedFd, Errno> {
        self.open_with(key, FOLDER_FLAGS, reach)
    }

    /// Whether the directory itself was removed: it is then as if it were empty. That is told once.
    pub(super) fn is_removed(&self) -> bool {
        let is_gone = rustix::fs::fstat(&self.top).is_ok_and(|stat| stat.st_nlink == 0);
        if is_gone && !self.removal_logged.swap(true, Ordering::Relaxed) {
            let path = self.path.display();
            tracing::error!(%path, "the folder that is served was removed: make it again, then restart the server");
        }
        is_gone
    }

    /// What it means that something cannot be opened.
    fn to_store_error(&self, errno: Errno) -> StoreError {
        match errno {
            Errno::NOENT if self.is_removed() => StoreError::RootRemoved,
            other => other.into(),
        }
    }

    /// What the system knows of what a path leads to. Links are followed wherever they lead, so that it is good for one thing:
    /// comparing with what was opened before. Needs nothing from a disk while that is open, which keeps the way cached.
    pub(super) fn stat(&self, key: &ObjectKey) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.top, key.as_path(), AtFlags::empty())
    }

    fn open_with(
        &self,
        key: &ObjectKey,
        flags: OFlags,
        reach: OpenScope,
    ) -> Result<OwnedFd, Errno> {
        if self.has_openat2 {
            return open_beneath(&self.top, key.as_path(), flags, reach, self.follow_links);
        }
        // `O_NOFOLLOW` on each segment: nothing but what really lies there.
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

    #[cfg(target_os = "linux")]
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

    #[cfg(not(target_os = "linux"))]
    fn kernel_resolves(&self) -> bool {
        false
    }
}

/// Opens a path that the kernel keeps beneath `top`.
#[cfg(target_os = "linux")]
fn open_beneath(
    top: &OwnedFd,
    path: &Path,
    flags: OFlags,
    reach: OpenScope,
    links: bool,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match reach {
        OpenScope::Anywhere => {}
        OpenScope::CachedOnly => resolve |= ResolveFlags::CACHED | ResolveFlags::NO_XDEV,
        OpenScope::OneMount => resolve |= ResolveFlags::NO_XDEV,
    }
    if !links {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    loop {
        match rustix::fs::openat2(top, path, flags, Mode::empty(), resolve) {
            // A rename somewhere in the tree ran beside it: the kernel asks to be asked again.
            Err(Errno::AGAIN) if reach != OpenScope::CachedOnly => {}
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn beneath(_: &OwnedFd, _: &Path, _: OFlags, _: OpenScope, _: bool) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Removes a name from a folder.
pub(super) fn unlink(folder: impl AsFd, name: &[u8], flags: AtFlags) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, flags)?)
}

#[cfg(test)]
mod tests;
