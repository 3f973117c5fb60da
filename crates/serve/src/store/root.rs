//! The directory that everything lies beneath, and the only place where a key becomes a file descriptor.
//!
//! A [`Key`] cannot climb by what it says; a link in the tree could still lead out, and could be put there between a look and an
//! open. So the kernel resolves: `openat2(2)` with `RESOLVE_BENEATH`, which follows links that stay beneath the root and refuses
//! all others, whatever anybody does to the tree meanwhile. Where there is no such call (a sandbox, another system), each segment is
//! opened by itself and no link is followed at all.
//!
//! Everything here may wait for a disk, except what ends in `_now`: it does what can be done from the kernel's caches
//! (`RESOLVE_CACHED`) and says when that is not enough.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Media, StoreError};
use crate::Key;

/// A file is opened to be read. Without `NONBLOCK`, a pipe would wait for a writer.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A folder is opened to be read.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Folders are made for everybody whom the process's mask does not leave out.
const FOLDER_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// The top of the store.
#[derive(Debug)]
pub struct Root {
    /// Open for as long as the store is, so that the root stays the root if it is moved.
    top: OwnedFd,
    /// How it was called, for messages.
    path: PathBuf,
    /// Whether the kernel resolves whole keys.
    by_kernel: bool,
    /// What the root lies on, and all on its mount.
    media: Media,
    /// Whether links are followed as long as they stay beneath.
    follows_links: bool,
}

/// How far opening something may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Wherever the key does.
    Anywhere,
    /// To what is in the kernel's caches.
    Cached,
    /// To what is on the root's own mount.
    OneMount,
}

/// What a look into the kernel's caches came to.
#[derive(Debug)]
pub enum Now<T> {
    /// That is it.
    Done(T),
    /// It is not cached: ask on a thread that may wait.
    Wait,
}

impl<T> Now<T> {
    /// Whether that is it.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl Root {
    /// Opens a directory.
    ///
    /// # Errors
    /// When it is none, or may not be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let top = rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?;
        let mut root = Self {
            path: path.to_owned(),
            media: Media::of(&top),
            follows_links: true,
            top,
            by_kernel: true,
        };
        root.by_kernel = root.kernel_resolves();
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
        self.follows_links = false;
        self
    }

    /// The same without the kernel's help, as where it has none to give.
    #[cfg(test)]
    pub(crate) fn segment_by_segment(mut self) -> Self {
        self.by_kernel = false;
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
    pub fn open_any(&self, key: &Key) -> Result<OwnedFd, StoreError> {
        Ok(self.open_with(key, READ, Reach::Anywhere)?)
    }

    /// Opens what has a key, if that needs nothing from a disk.
    pub(super) fn open_now(&self, key: &Key) -> Now<Result<OwnedFd, StoreError>> {
        if !self.by_kernel || self.media == Media::Remote {
            return Now::Wait;
        }
        match self.open_with(key, READ, Reach::Cached) {
            // `AGAIN`: not all of the way is cached. `INVAL`: a kernel that does not know the flag. `XDEV`: it leads to another mount,
            // where even an open may ask somebody, or it leads out: whoever may wait finds out which.
            Err(Errno::AGAIN | Errno::INVAL | Errno::XDEV) => Now::Wait,
            other => Now::Done(other.map_err(StoreError::from)),
        }
    }

    /// Whether all that is on its own mount is memory, and the kernel keeps to that mount.
    pub(super) fn is_memory(&self) -> bool {
        self.by_kernel && self.media == Media::Memory
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// See [`StoreError`]. What is no folder is a conflict.
    pub fn open_folder(&self, key: &Key) -> Result<OwnedFd, StoreError> {
        Ok(self.open_with(key, FOLDER, Reach::Anywhere)?)
    }

    /// Opens a folder on the root's own mount.
    pub(super) fn open_near(&self, key: &Key) -> Result<OwnedFd, StoreError> {
        Ok(self.open_with(key, FOLDER, Reach::OneMount)?)
    }

    /// Opens a folder, and makes it and those on the way where they are missing. Says which of them it made.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) fn make_folder(
        &self,
        key: &Key,
        reach: Reach,
    ) -> Result<(OwnedFd, Vec<Key>), StoreError> {
        match self.open_with(key, FOLDER, reach) {
            Err(Errno::NOENT) => {}
            other => return Ok((other?, Vec::new())),
        }
        let (above, name) = key.split().ok_or(StoreError::NotFound)?;
        let (folder, mut made) = self.make_folder(&above, reach)?;
        match rustix::fs::mkdirat(&folder, name, FOLDER_MODE) {
            Ok(()) => made.push(key.clone()),
            // Somebody else was quicker; or a link that leads nowhere is there, as the next open will say.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok((self.open_with(key, FOLDER, reach)?, made))
    }

    /// What the system knows of what a path leads to. Links are followed wherever they lead, so that it is good for one thing:
    /// comparing with what was opened before. Needs nothing from a disk while that is open, which keeps the way cached.
    pub(super) fn identity_of(&self, key: &Key) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.top, key.as_path(), AtFlags::empty())
    }

    fn open_with(&self, key: &Key, flags: OFlags, reach: Reach) -> Result<OwnedFd, Errno> {
        if self.by_kernel {
            return beneath(&self.top, key.as_path(), flags, reach, self.follows_links);
        }
        // `O_NOFOLLOW` on each segment: nothing but what really lies there.
        let mut at: Option<OwnedFd> = None;
        let segments: Vec<_> = key.segments().collect();
        for (index, segment) in segments.iter().enumerate() {
            let is_last = index + 1 == segments.len();
            let flags = if is_last { flags } else { FOLDER } | OFlags::NOFOLLOW;
            let from = at.as_ref().unwrap_or(&self.top);
            at = Some(rustix::fs::openat(from, *segment, flags, Mode::empty())?);
        }
        match at {
            Some(found) => Ok(found),
            None => rustix::fs::openat(&self.top, ".", flags, Mode::empty()),
        }
    }

    #[cfg(target_os = "linux")]
    fn kernel_resolves(&self) -> bool {
        beneath(&self.top, Path::new("."), FOLDER, Reach::Anywhere, true).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn kernel_resolves(&self) -> bool {
        false
    }
}

/// Opens a path that the kernel keeps beneath `top`.
#[cfg(target_os = "linux")]
fn beneath(
    top: &OwnedFd,
    path: &Path,
    flags: OFlags,
    reach: Reach,
    links: bool,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match reach {
        Reach::Anywhere => {}
        Reach::Cached => resolve |= ResolveFlags::CACHED | ResolveFlags::NO_XDEV,
        Reach::OneMount => resolve |= ResolveFlags::NO_XDEV,
    }
    if !links {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    loop {
        match rustix::fs::openat2(top, path, flags, Mode::empty(), resolve) {
            // A rename somewhere in the tree ran beside it: the kernel asks to be asked again.
            Err(Errno::AGAIN) if reach != Reach::Cached => {}
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn beneath(_: &OwnedFd, _: &Path, _: OFlags, _: Reach, _: bool) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Removes a name from a folder.
pub(super) fn unlink(folder: impl AsFd, name: &[u8], flags: AtFlags) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, flags)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn key(path: &str) -> Key {
        Key::parse(path).expect("a key").key
    }

    fn read(root: &Root, path: &str) -> Result<String, StoreError> {
        let mut text = String::new();
        fs::File::from(root.open_any(&key(path))?)
            .read_to_string(&mut text)
            .map_err(StoreError::from)?;
        Ok(text)
    }

    /// A root with links of all kinds, and what they must not reach.
    fn tree() -> tempfile::TempDir {
        let all = tempfile::tempdir().expect("a directory");
        let root = all.path().join("root");
        fs::create_dir_all(root.join("a/b")).expect("folders");
        fs::write(root.join("a/b/f"), "inside").expect("a file");
        fs::write(all.path().join("secret"), "outside").expect("a file");
        symlink("../../secret", root.join("a/up")).expect("a link");
        symlink(all.path().join("secret"), root.join("absolute")).expect("a link");
        symlink(all.path(), root.join("out")).expect("a link");
        symlink("b/f", root.join("a/in")).expect("a link");
        symlink("loop", root.join("loop")).expect("a link");
        symlink("/proc/self/root", root.join("magic")).expect("a link");
        all
    }

    #[test]
    fn d2_links_that_lead_out_are_not_followed() {
        let all = tree();
        let open = || Root::open(&all.path().join("root")).expect("a root");
        for root in [open(), open().segment_by_segment()] {
            assert_eq!(read(&root, "/a/b/f").expect("inside"), "inside");
            for path in [
                "/a/up",
                "/absolute",
                "/out/secret",
                "/loop",
                "/magic/etc/passwd",
            ] {
                let found = read(&root, path);
                let refused = matches!(found, Err(StoreError::NotFound | StoreError::Conflict));
                assert!(refused, "{path}: {found:?}");
            }
            let made = root.make_folder(&key("/out/new"), Reach::Anywhere);
            assert!(made.is_err() && !all.path().join("new").exists());
        }
        assert_eq!(read(&open(), "/a/in").expect("a link inside"), "inside");
        let strict = open().without_links();
        assert!(matches!(read(&strict, "/a/in"), Err(StoreError::NotFound)));
        assert_eq!(read(&strict, "/a/b/f").expect("inside"), "inside");
    }

    #[test]
    fn d2_a_link_swapped_in_while_files_are_opened_is_not_followed() {
        let all = tree();
        let base = all.path().join("root");
        let root = Root::open(&base).expect("a root");
        let (file, link, at) = (base.join("file"), base.join("link"), base.join("swap"));
        fs::write(&file, "inside").expect("a file");
        symlink("../secret", &link).expect("a link");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for from in [&file, &link] {
                        let aside = base.join("aside");
                        // Made anew each time: a rename of one hard link over another does nothing.
                        if *from == file {
                            fs::write(&aside, "inside").expect("a file");
                        } else {
                            symlink("../secret", &aside).expect("a link");
                        }
                        fs::rename(&aside, &at).expect("a swap");
                    }
                }
            });
            let mut seen = [0, 0];
            while seen.contains(&0) {
                match read(&root, "/swap") {
                    Ok(text) => {
                        assert_eq!(text, "inside");
                        seen[0] += 1;
                    }
                    Err(StoreError::NotFound) => seen[1] += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn folders_on_the_way_are_made_and_told() {
        let all = tree();
        let root = Root::open(&all.path().join("root")).expect("a root");
        let (_, made) = root
            .make_folder(&key("/a/x/y"), Reach::Anywhere)
            .expect("folders");
        assert_eq!(made, [key("/a/x"), key("/a/x/y")]);
        let (_, made) = root
            .make_folder(&key("/a/x/y"), Reach::Anywhere)
            .expect("there");
        assert!(made.is_empty());
        let beneath_a_file = root.make_folder(&key("/a/b/f/z"), Reach::Anywhere);
        assert!(matches!(beneath_a_file, Err(StoreError::Conflict)));
    }

    #[test]
    fn what_was_opened_a_moment_ago_is_opened_without_waiting() {
        let all = tree();
        let root = Root::open(&all.path().join("root")).expect("a root");
        read(&root, "/a/b/f").expect("it warms the caches");
        if root.by_kernel {
            assert!(matches!(root.open_now(&key("/a/b/f")), Now::Done(Ok(_))));
        }
        assert!(matches!(
            root.segment_by_segment().open_now(&key("/a/b/f")),
            Now::Wait
        ));
    }
}
