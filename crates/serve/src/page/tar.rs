//! A folder as a tar archive, packed while it is sent.
//!
//! The walk goes from directory to directory by descriptors: each one is opened relative to the one above it, and no link is
//! followed, so that it cannot leave the folder or run in a circle whatever is moved meanwhile. It goes in the directories' own order,
//! and holds one descriptor and one buffer a level, [`MAX_DEPTH`] of them at most.
//!
//! What is packed: regular files and folders, with their times, as modes 644 and 755. A link to a file beneath the root is packed as
//! that file, as the listing shows it and a GET answers it; a link to a folder is left out, as what it leads to may be above. What
//! is neither file nor folder is left out too; [`FolderTar::skipped`] counts both for the log.
//!
//! What is a file or a folder is in the archive, or the archive ends with an error and not with an end: one that looks whole holds all that
//! there was to hold. So it ends at what may not be read, or cannot be.
//!
//! The header of a file comes before its bytes and says how many there are. From a file that grows meanwhile, so many are taken. One
//! that shrinks cannot be packed any more, and the archive ends with an error: the connection has to be cut short, as bytes that were
//! made up would be a wrong file.
//!
//! The format is GNU's, as it holds names of any bytes and any length, and sizes above 8 GiB, and everybody reads it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fs::Stat;
use tar::{EntryType, Header};

use super::display::DisplayName;
use crate::ObjectKey;
use crate::store::{
    EntryKind, FolderEntries, OpenFolder, OpenedEntry, StoreError, UnopenedEntry, modification_time,
};

/// Bytes in a piece of the archive.
const CHUNK: usize = 128 * 1024;

/// Bytes in a block, the archive's unit.
const BLOCK: usize = 512;

/// Bytes of a name that a header holds; longer ones have an entry of their own.
const HEADER_NAME_BYTES: usize = 100;

/// Folders within folders. Each one on the way is open.
pub const MAX_DEPTH: usize = 100;

/// What the top of the store is called in an archive, so that unpacking one makes one folder in any case.
const ROOT_NAME: &[u8] = b"files";

/// An archive, in pieces. Each step may wait for a disk; between two of them no thread is held.
#[derive(Debug)]
pub struct FolderTar {
    /// What is packed.
    folder: ObjectKey,
    /// The folders that are being walked, the outermost first.
    levels: Vec<FolderTarLevel>,
    /// The path in the archive of the innermost folder, with a slash at its end.
    path: Vec<u8>,
    /// The file that is being packed.
    current_file: Option<FolderTarFile>,
    skipped: u64,
    /// Set by the end or an error.
    is_finished: bool,
}

/// A folder that is being walked.
#[derive(Debug)]
struct FolderTarLevel {
    entries: FolderEntries,
    /// How much of the path is that of the folder above.
    parent_path_len: usize,
}

/// A file that is being packed.
#[derive(Debug)]
struct FolderTarFile {
    file: File,
    path: Vec<u8>,
    /// Bytes that its header has promised and that are still to come.
    remaining: u64,
    /// Zeros after it, to the end of a block.
    padding: usize,
}

/// Why an archive ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum FolderTarError {
    /// A file has lost bytes that were promised.
    #[error("{path} became shorter while it was packed")]
    FileShrank {
        /// In the archive.
        path: String,
    },
    /// Folders within folders, too many of them.
    #[error("{path} is more than {MAX_DEPTH} folders deep")]
    TooDeep {
        /// In the archive.
        path: String,
    },
    /// A disk's word.
    #[error("{path} cannot be read")]
    Unreadable {
        /// In the archive.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The name that a browser is to save the archive of a folder under.
#[must_use]
pub fn archive_name(key: &ObjectKey) -> Vec<u8> {
    [folder_name(key), b".tar"].concat()
}

fn folder_name(key: &ObjectKey) -> &[u8] {
    key.segments().last().unwrap_or(ROOT_NAME)
}

impl FolderTar {
    /// Begins. All of it will be in one folder that is called as the one packed is.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(folder: OpenFolder) -> io::Result<Self> {
        let path = [folder_name(folder.key()), b"/"].concat();
        let entries = folder.into_entries()?;
        Ok(Self {
            folder: entries.key().clone(),
            levels: vec![FolderTarLevel {
                entries,
                parent_path_len: 0,
            }],
            path,
            current_file: None,
            skipped: 0,
            is_finished: false,
        })
    }

    /// How many entries could not be packed so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Goes on by a bit. False at the end.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, FolderTarError> {
        if let Some(body) = &mut self.current_file {
            if body.fill(out)? {
                self.current_file = None;
            }
            return Ok(true);
        }
        let Some(level) = self.levels.last_mut() else {
            if self.skipped > 0 {
                let (folder, left_out) = (&self.folder, self.skipped);
                tracing::warn!(%folder, left_out, "a tar was sent without some of what is in the folder");
            }
            out.resize(out.len() + 2 * BLOCK, 0);
            return Ok(false);
        };
        match level.entries.next_member() {
            Ok(Some(Ok(opened))) => self.add(opened, out)?,
            Ok(Some(Err(missed))) => self.handle_unopened(missed)?,
            Ok(None) => {
                self.path.truncate(level.parent_path_len);
                self.levels.pop();
            }
            Err(source) => return Err(unreadable(&self.path, source)),
        }
        Ok(true)
    }

    /// Packs what was opened: a file's header, whose bytes follow, or a folder, which is walked next.
    fn add(&mut self, opened: OpenedEntry, out: &mut Vec<u8>) -> Result<(), FolderTarError> {
        let mut path = [&self.path[..], &opened.name].concat();
        match opened.kind {
            EntryKind::File => {
                let len = u64::try_from(opened.stat.st_size).unwrap_or(0);
                write_entry_header(out, &path, len, &opened.stat);
                self.current_file = Some(FolderTarFile::new(opened.fd, path, len));
            }
            EntryKind::Folder if !opened.is_link => {
                if self.levels.len() == MAX_DEPTH {
                    let path = DisplayName(&path).to_string();
                    return Err(FolderTarError::TooDeep { path });
                }
                path.push(b'/');
                write_entry_header(out, &path, 0, &opened.stat);
                let Some(level) = self.levels.last() else {
                    return Ok(());
                };
                let entries = level.entries.descend(opened);
                let entries = entries.map_err(|source| unreadable(&path, source))?;
                let above = self.path.len();
                self.levels.push(FolderTarLevel {
                    entries,
                    parent_path_len: above,
                });
                self.path = path;
            }
            EntryKind::Folder | EntryKind::Other => self.skipped += 1,
        }
        Ok(())
    }

    /// What could not be opened ends the archive, unless it is nothing that would be in it.
    fn handle_unopened(&mut self, missed: UnopenedEntry) -> Result<(), FolderTarError> {
        let source = match missed.error {
            // Gone meanwhile, or a link that leads nowhere: it is not listed either.
            StoreError::NotFound => return Ok(()),
            StoreError::SpecialFile | StoreError::Conflict | StoreError::TooLong => {
                self.skipped += 1;
                return Ok(());
            }
            StoreError::Io(source) => source,
            StoreError::PermissionDenied => io::ErrorKind::PermissionDenied.into(),
            other => io::Error::other(other),
        };
        Err(unreadable(&[&self.path[..], &missed.name].concat(), source))
    }
}

fn unreadable(path: &[u8], source: io::Error) -> FolderTarError {
    let path = DisplayName(path).to_string();
    FolderTarError::Unreadable { path, source }
}

impl Iterator for FolderTar {
    type Item = Result<Bytes, FolderTarError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }
        let mut out = Vec::with_capacity(CHUNK);
        // A header with the longest path has some 5 KB.
        while out.len() < CHUNK - 8 * 1024 {
            match self.step(&mut out) {
                Ok(true) => {}
                Ok(false) => {
                    self.is_finished = true;
                    break;
                }
                Err(error) => {
                    self.is_finished = true;
                    return Some(Err(error));
                }
            }
        }
        Some(Ok(Bytes::from(out)))
    }
}

impl FolderTarFile {
    fn new(fd: OwnedFd, path: Vec<u8>, len: u64) -> Self {
        Self {
            file: File::from(fd),
            path,
            remaining: len,
            padding: padding(len),
        }
    }

    /// Fills a piece as far as the file goes. True when that was its end.
    fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, FolderTarError> {
        let room = CHUNK.saturating_sub(out.len()) as u64;
        let wanted = self.remaining.min(room);
        let read = (&mut self.file).take(wanted).read_to_end(out);
        let read = read.map_err(|source| unreadable(&self.path, source))?;
        if (read as u64) < wanted {
            let path = DisplayName(&self.path).to_string();
            return Err(FolderTarError::FileShrank { path });
        }
        self.remaining -= wanted;
        if self.remaining > 0 {
            return Ok(false);
        }
        out.resize(out.len() + self.padding, 0);
        Ok(true)
    }
}

/// Writes the header of a file or, if the path ends in a slash, a folder.
fn write_entry_header(out: &mut Vec<u8>, path: &[u8], len: u64, stat: &Stat) {
    if path.len() > HEADER_NAME_BYTES {
        // The name with a NUL, as the content of an entry before the one that it names.
        let len = path.len() as u64 + 1;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_mode(0o644);
        write_header(out, header, b"././@LongLink", len);
        out.extend_from_slice(path);
        out.resize(out.len() + 1 + padding(len), 0);
    }
    let mut header = Header::new_gnu();
    let is_folder = path.ends_with(b"/");
    if is_folder {
        header.set_entry_type(EntryType::Directory);
    }
    header.set_mode(if is_folder { 0o755 } else { 0o644 });
    let since = modification_time(stat).duration_since(SystemTime::UNIX_EPOCH);
    header.set_mtime(since.map_or(0, |since| since.as_secs()));
    write_header(out, header, path, len);
}

/// Completes a header and writes it.
fn write_header(out: &mut Vec<u8>, mut header: Header, path: &[u8], len: u64) {
    let short = &path[..path.len().min(HEADER_NAME_BYTES)];
    header.as_old_mut().name[..short.len()].copy_from_slice(short);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(len);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
}

/// Zeros after so many bytes, to the end of a block.
fn padding(len: u64) -> usize {
    let over = usize::try_from(len % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

#[cfg(test)]
mod tests;
