//! Files that have no name until they are whole.
//!
//! A file opened with `O_TMPFILE` belongs to a file system but to no directory. A killed process leaves nothing of it, so no
//! journal has to say which download it belongs to. When its bytes are right and durable, `linkat` gives it its name in one
//! step, which fails when the name is taken. Where the kernel or the file system has no such files, [`UnnamedFile::create`]
//! returns [`io::ErrorKind::Unsupported`], and the caller uses a temporary name instead.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;

use super::positioned_io::{read_some_at, write_all_at};

/// Whether files are linked by their path in `/proc/self/fd`, which every kernel supports. Linking by the descriptor alone
/// takes half the time, but all kernels except the newest require a privilege for it.
static LINK_BY_PROC_PATH: AtomicBool = AtomicBool::new(false);

/// An open file without a name.
#[derive(Debug)]
pub(crate) struct UnnamedFile {
    file: File,
}

impl UnnamedFile {
    /// Creates a file in the file system of a directory. The directory and its parents are created if they are missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there are no such files; else the system's error.
    pub(crate) fn create_in(directory: &Path) -> io::Result<Self> {
        match Self::create(directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(directory)?;
                Self::create(directory)
            }
            other => other,
        }
    }

    /// Creates a file in the file system of an existing directory.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there are no such files; else the system's error.
    pub(crate) fn create(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(CWD, directory, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(Self { file: file.into() }),
            // Kernels and file systems that do not know the flag answer with these.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The open file, to set attributes on it before it gets its name.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads from an offset; 0 at the end of the file.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match read_some_at(&self.file, offset, buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// The open file, to read it from its beginning.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Writes chunks one after another at an offset.
    pub(crate) fn write_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        write_all_at(&self.file, offset, chunks)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name is taken; else the system's error.
    pub(crate) fn link(&self, path: &Path) -> io::Result<()> {
        if !LINK_BY_PROC_PATH.load(Ordering::Relaxed) {
            match linkat(&self.file, "", CWD, path, AtFlags::EMPTY_PATH) {
                // Kernels that want a privilege for this, or do not know it, answer with these.
                Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {}
                other => return Ok(other?),
            }
        }
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, open, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        LINK_BY_PROC_PATH.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the file a name that may be taken. A process that opens the name gets the old file or this one, whole.
    ///
    /// A kill between the two steps leaves `temporary`, which the next call with it removes.
    pub(crate) fn replace(&self, path: &Path, temporary: &Path) -> io::Result<()> {
        match self.link(temporary) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                std::fs::remove_file(temporary)?;
                self.link(temporary)?;
            }
            other => other?,
        }
        std::fs::rename(temporary, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unnamed(directory: &Path, text: &'static str) -> Option<UnnamedFile> {
        match UnnamedFile::create(directory) {
            // On a file system without unnamed files the tests have nothing to test.
            Err(e) if e.kind() == io::ErrorKind::Unsupported => None,
            created => {
                let file = created.unwrap();
                file.write_at(0, &[Bytes::from_static(text.as_bytes())])
                    .unwrap();
                Some(file)
            }
        }
    }

    fn listing(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn b1_an_unnamed_file_is_in_no_directory_until_it_is_linked() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = unnamed(dir.path(), "new") else {
            return;
        };
        assert!(listing(dir.path()).is_empty());
        drop(file);
        assert!(listing(dir.path()).is_empty());
        let file = unnamed(dir.path(), "new").unwrap();
        file.link(&dir.path().join("f")).unwrap();
        assert_eq!(listing(dir.path()), ["f"]);
        assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"new");
    }

    #[test]
    fn b6_link_keeps_an_existing_file_and_replace_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, temporary) = (dir.path().join("f"), dir.path().join("by"));
        let Some(file) = unnamed(dir.path(), "new") else {
            return;
        };
        std::fs::write(&path, "old").unwrap();
        let error = file.link(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        // A kill between the two steps left this file.
        std::fs::write(&temporary, "left").unwrap();
        file.replace(&path, &temporary).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(listing(dir.path()), ["f"]);
    }
}
