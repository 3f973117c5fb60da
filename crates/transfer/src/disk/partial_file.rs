//! The partial file: a real file beside its final name, held by one process at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::PartialStorage;
use super::paths::sync_directory;
use super::positioned_io::{read_some_at, write_all_at};

/// A file under a temporary name, locked against a second process for as long as this value lives (row B5).
#[derive(Debug)]
pub struct PartialFile {
    /// The open file; its lock goes when it is closed, also by `kill -9`.
    file: File,
    /// Its path, for messages and for the rename.
    path: PathBuf,
    /// Whether it held anything when it was opened: something to resume.
    had_content: bool,
}

impl PartialFile {
    /// Opens or creates the file and takes its lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when another process holds it; else what the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        loop {
            let file = open_options().open(path)?;
            lock(&file)?;
            // The holder before us may have renamed or removed the file between our open and our lock: then
            // what we hold has no name any more, and we begin again.
            if is_same_file(&file, path)? {
                let found = file.metadata()?.len() > 0;
                return Ok(Self {
                    file,
                    path: path.to_owned(),
                    had_content: found,
                });
            }
        }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it held anything when it was opened.
    #[must_use]
    pub fn had_content(&self) -> bool {
        self.had_content
    }

    /// Whether its name still leads to it, and not to a file that somebody put there.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_in_place(&self) -> io::Result<bool> {
        is_same_file(&self.file, &self.path)
    }

    /// The open file, for what is set on it before the rename (times, attributes).
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
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

/// Readable and writable, never cut on opening: what is there may be resumed. Not followed when a link is there.
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

/// Whether the open file is still the one that the path names.
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok(named.dev() == ours.dev() && named.ino() == ours.ino()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
