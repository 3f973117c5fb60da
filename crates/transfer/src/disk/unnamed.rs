//! Files that have no name until they are whole.
//!
//! A file opened with `O_TMPFILE` lies in its file system and in no directory: a process that is killed leaves nothing of it, and
//! so no journal has to say whose it is. When its bytes are right and durable, a link gives it its name, in one step of the
//! kernel's that fails when the name is taken. Where the system or the file system cannot do this, [`UnnamedFile::create`] says so
//! ([`io::ErrorKind::Unsupported`]), and the caller takes the way by a temporary name.

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;

use super::part::{read_some_at, write_all_at};

/// An open file without a name.
#[derive(Debug)]
pub(crate) struct UnnamedFile {
    file: File,
}

impl UnnamedFile {
    /// The open file, for what is set on it before it gets its name.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A file in the file system of a directory, which is made if it is not there, as those above it are.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there is no such thing; else what the system says.
    pub(crate) fn create_in(directory: &Path) -> io::Result<Self> {
        match Self::create(directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(directory)?;
                Self::create(directory)
            }
            other => other,
        }
    }

    /// Reads from an offset; 0 at the end.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match read_some_at(&self.file, offset, buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// The open file, to be read from its beginning.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Writes pieces one after another at an offset.
    pub(crate) fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        write_all_at(&self.file, offset, pieces)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
    use rustix::io::Errno;

    use super::{Path, UnnamedFile, io};

    /// Whether files are linked by their place among our open ones, as every kernel can. By the descriptor alone is half the work, but
    /// wants a privilege of all but the newest.
    static BY_PLACE: AtomicBool = AtomicBool::new(false);

    impl UnnamedFile {
        /// A file in the file system of a directory.
        ///
        /// # Errors
        /// [`io::ErrorKind::Unsupported`] where there is no such thing; else what the system says.
        pub(crate) fn create(directory: &Path) -> io::Result<Self> {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            match openat(CWD, directory, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => Ok(Self { file: file.into() }),
                // What kernels and file systems say that take the flag for something else.
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                    Err(io::ErrorKind::Unsupported.into())
                }
                Err(error) => Err(error.into()),
            }
        }

        /// Gives the file its name.
        ///
        /// # Errors
        /// [`io::ErrorKind::AlreadyExists`] when the name is taken; else what the system says.
        pub(crate) fn link(&self, path: &Path) -> io::Result<()> {
            if !BY_PLACE.load(Ordering::Relaxed) {
                match linkat(&self.file, "", CWD, path, AtFlags::EMPTY_PATH) {
                    // What a kernel says that wants a privilege for it, or knows nothing of it.
                    Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {}
                    other => return Ok(other?),
                }
            }
            let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, open, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
            BY_PLACE.store(true, Ordering::Relaxed);
            Ok(())
        }

        /// Gives the file a name that may be taken: whoever opens it gets the old file or this one, whole.
        ///
        /// A kill between the two steps leaves `by`, which the next call with it removes.
        ///
        /// # Errors
        /// What the system says.
        pub(crate) fn replace(&self, path: &Path, by: &Path) -> io::Result<()> {
            match self.link(by) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    std::fs::remove_file(by)?;
                    self.link(by)?;
                }
                other => other?,
            }
            std::fs::rename(by, path)
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl UnnamedFile {
    /// There is no such thing here.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], always.
    pub(crate) fn create(_directory: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called, since no such file can be had.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], always.
    pub(crate) fn link(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called, since no such file can be had.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], always.
    pub(crate) fn replace(&self, _path: &Path, _by: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn unnamed(directory: &Path, text: &'static str) -> Option<UnnamedFile> {
        match UnnamedFile::create(directory) {
            // Where tests run on such a file system, they test the other way.
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
    fn b1_nothing_is_seen_of_a_file_before_it_has_its_name() {
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
    fn b6_a_name_that_is_taken_stays_with_its_file_unless_it_is_to_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, by) = (dir.path().join("f"), dir.path().join("by"));
        let Some(file) = unnamed(dir.path(), "new") else {
            return;
        };
        std::fs::write(&path, "old").unwrap();
        let error = file.link(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        // What a kill left between the two steps.
        std::fs::write(&by, "left").unwrap();
        file.replace(&path, &by).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(listing(dir.path()), ["f"]);
    }
}
