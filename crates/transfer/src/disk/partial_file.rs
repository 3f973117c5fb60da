//! The partial file: it has a temporary name next to the final one, and one process at a time has it locked.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::PartialStorage;
use super::paths::sync_directory;
use super::planted_file::refuse_planted;
use super::positioned_io::{read_some_at, write_all_at};

/// A file under a temporary name, locked against other processes until this value is dropped (row B5).
#[derive(Debug)]
pub struct PartialFile {
    /// The open file; its lock is released with this value, and by the kernel when all processes
    /// that have it are gone, also by `kill -9`.
    file: File,
    /// Its path, for messages and for the rename.
    path: PathBuf,
    /// Whether it was not empty when it was opened: then there may be something to resume.
    had_content: bool,
}

impl PartialFile {
    /// Opens or creates the file and takes its lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when another process has the lock; [`io::ErrorKind::PermissionDenied`] when another user may have
    /// planted the file; else the error of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        loop {
            let file = open_options().open(path)?;
            refuse_planted(&file, path)?;
            lock(&file)?;
            // The process that had the lock may have renamed or removed the file between our open and our lock: then our
            // file has no name any more, and we open again.
            if is_same_file(&file, path)? {
                let had_content = file.metadata()?.len() > 0;
                return Ok(Self {
                    file,
                    path: path.to_owned(),
                    had_content,
                });
            }
        }
    }

    /// Whether the file was not empty when it was opened.
    #[must_use]
    pub fn had_content(&self) -> bool {
        self.had_content
    }

    /// Whether its path still leads to this file, and nobody put another file there.
    pub fn is_in_place(&self) -> io::Result<bool> {
        is_same_file(&self.file, &self.path)
    }

    /// The open file, to set its times and attributes before the rename.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for PartialFile {
    /// Releases the lock. Closing the file alone does not while a process that was forked has a copy of its descriptor.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl PartialStorage for PartialFile {
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        write_all_at(&self.file, offset, pieces)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match read_some_at(&self.file, offset + filled as u64, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory, Some(&self.file))
    }
}

/// Reads and writes, and does not truncate: existing bytes may be resumed. A symbolic link is not followed.
fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Takes the exclusive lock without waiting.
fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|e| match e {
        std::fs::TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        std::fs::TryLockError::Error(e) => e,
    })
}

/// Whether the path still names the open file.
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok(named.dev() == metadata.dev() && named.ino() == metadata.ino()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b5_the_lock_ends_with_its_value_though_a_forked_process_has_the_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = PartialFile::open(&path).unwrap();
        let locked = PartialFile::open(&path).map(drop).map_err(|e| e.kind());
        assert_eq!(locked, Err(io::ErrorKind::WouldBlock));
        // What a forked process has: another descriptor of the same open file.
        let copy = file.file().try_clone().unwrap();
        drop(file);
        assert!(PartialFile::open(&path).is_ok());
        drop(copy);
    }
}
