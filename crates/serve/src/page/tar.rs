//! A folder as a tar archive, packed while it is sent.
//!
//! The walk goes from directory to directory by descriptors: each one is opened relative to its
//! parent, without following links, so it can neither leave the folder nor loop, whatever is moved
//! meanwhile. It uses the directories' own order, and holds one descriptor and one buffer for each
//! level, [`MAX_DEPTH`] at most.
//!
//! It packs regular files and folders, with their times, as modes 644 and 755. A link to a file
//! beneath the root is packed as that file, as in a listing and a GET; a link to a folder is
//! skipped, as its target may be a parent. Pipes, sockets and devices are skipped too;
//! [`FolderTar::skipped`] counts both for the log.
//!
//! An archive that looks complete is complete: if a file or folder may not be read, or cannot be,
//! the archive ends with an error and without an end mark.
//!
//! The header of a file precedes its bytes and states their number. From a file that grows
//! meanwhile, that many are packed. If a file shrinks, the archive ends with an error and the
//! connection must be closed early, as invented bytes would make a wrong file.
//!
//! The format is GNU's: it holds names of any bytes and any length, and sizes above 8 GiB, and
//! every tar reads it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use bytes::Bytes;
use haul_plan::UnixTime;
use rustix::fs::Stat;
use tar::{EntryType, Header};

use super::display::DisplayName;
use crate::ObjectKey;
use crate::store::{
    EntryKind, FolderEntries, OpenFolder, OpenedEntry, StoreError, UnopenedEntry, modification_time,
};

/// Bytes of a chunk of the archive.
const CHUNK: usize = 128 * 1024;

/// Bytes of a block, the archive's unit.
const BLOCK: usize = 512;

/// Bytes of a name that a header holds; longer names have an entry of their own.
const HEADER_NAME_BYTES: usize = 100;

/// Maximum depth of folders. Each one on the path is open.
pub const MAX_DEPTH: usize = 100;

/// The name of the root in an archive, so that unpacking makes one folder in any case.
const ROOT_NAME: &[u8] = b"files";

/// An archive in chunks. Each step may wait for a disk; between two steps no thread is held.
#[derive(Debug)]
pub struct FolderTar {
    /// The folder that is packed.
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
    /// Length of the parent folder's path.
    parent_path_len: usize,
}

/// A file that is being packed.
#[derive(Debug)]
struct FolderTarFile {
    file: File,
    path: Vec<u8>,
    /// Bytes that its header states and that are still to come.
    remaining: u64,
    /// Zeros after it, to the end of a block.
    padding: usize,
}

/// Why an archive ends early.
#[derive(Debug, thiserror::Error)]
pub enum FolderTarError {
    /// A file has fewer bytes than its header states.
    #[error("{path} shrank while it was packed")]
    FileShrank {
        /// Its path in the archive.
        path: String,
    },
    #[error("{path} is more than {MAX_DEPTH} folders deep")]
    TooDeep {
        /// Its path in the archive.
        path: String,
    },
    /// The disk failed, or denies access.
    #[error("{path} cannot be read")]
    Unreadable {
        /// Its path in the archive.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The file name for a folder's archive.
#[must_use]
pub fn archive_name(key: &ObjectKey) -> Vec<u8> {
    [folder_name(key), b".tar"].concat()
}

fn folder_name(key: &ObjectKey) -> &[u8] {
    key.segments().last().unwrap_or(ROOT_NAME)
}

impl FolderTar {
    /// Packs a folder. Everything is in one folder of the same name.
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

    /// How many entries were skipped so far.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Packs a bit more. Returns false at the end.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, FolderTarError> {
        if let Some(body) = &mut self.current_file {
            if body.fill(out)? {
                self.current_file = None;
            }
            return Ok(true);
        }
        let Some(level) = self.levels.last_mut() else {
            if self.skipped > 0 {
                let (folder, skipped) = (&self.folder, self.skipped);
                tracing::warn!(%folder, skipped, "a tar archive was sent without some entries of the folder");
            }
            out.resize(out.len() + 2 * BLOCK, 0);
            return Ok(false);
        };
        match level.entries.next_member() {
            Ok(Some(Ok(entry))) => self.add(entry, out)?,
            Ok(Some(Err(unopened))) => self.handle_unopened(unopened)?,
            Ok(None) => {
                self.path.truncate(level.parent_path_len);
                self.levels.pop();
            }
            Err(source) => return Err(unreadable(&self.path, source)),
        }
        Ok(true)
    }

    /// Packs an entry: a file's header, with its bytes to follow, or a folder, which is walked
    /// next.
    fn add(&mut self, entry: OpenedEntry, out: &mut Vec<u8>) -> Result<(), FolderTarError> {
        let mut path = [&self.path[..], &entry.name].concat();
        match entry.kind {
            EntryKind::File => {
                let len = u64::try_from(entry.stat.st_size).unwrap_or(0);
                write_entry_header(out, &path, len, &entry.stat);
                self.current_file = Some(FolderTarFile::new(entry.fd, path, len));
            }
            EntryKind::Folder if !entry.is_link => {
                if self.levels.len() == MAX_DEPTH {
                    let path = DisplayName(&path).to_string();
                    return Err(FolderTarError::TooDeep { path });
                }
                path.push(b'/');
                write_entry_header(out, &path, 0, &entry.stat);
                let Some(level) = self.levels.last() else {
                    return Ok(());
                };
                let entries = level
                    .entries
                    .descend(entry)
                    .map_err(|source| unreadable(&path, source))?;
                let parents = self.path.len();
                self.levels.push(FolderTarLevel {
                    entries,
                    parent_path_len: parents,
                });
                self.path = path;
            }
            EntryKind::Folder | EntryKind::Other => self.skipped += 1,
        }
        Ok(())
    }

    /// An entry that cannot be opened ends the archive, unless it would have been skipped.
    fn handle_unopened(&mut self, unopened: UnopenedEntry) -> Result<(), FolderTarError> {
        let source = match unopened.error {
            // Deleted meanwhile, or a link that leads nowhere: a listing omits it too.
            StoreError::NotFound => return Ok(()),
            StoreError::SpecialFile | StoreError::Conflict | StoreError::TooLong => {
                self.skipped += 1;
                return Ok(());
            }
            StoreError::Io(source) => source,
            StoreError::PermissionDenied => io::ErrorKind::PermissionDenied.into(),
            other => io::Error::other(other),
        };
        Err(unreadable(
            &[&self.path[..], &unopened.name].concat(),
            source,
        ))
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

    /// Fills a chunk with the file's bytes. Returns true at its end.
    fn fill(&mut self, out: &mut Vec<u8>) -> Result<bool, FolderTarError> {
        let room = CHUNK.saturating_sub(out.len()) as u64;
        let wanted = self.remaining.min(room);
        let read = (&mut self.file)
            .take(wanted)
            .read_to_end(out)
            .map_err(|source| unreadable(&self.path, source))?;
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
    let modified = UnixTime::from(modification_time(stat)).whole_seconds();
    set_modified(&mut header, i64::try_from(modified).unwrap_or_default());
    write_header(out, header, path, len);
}

/// Sets the time of an entry. GNU tar has times before 1970 as binary numbers.
fn set_modified(header: &mut Header, seconds: i64) {
    match u64::try_from(seconds) {
        Ok(seconds) => header.set_mtime(seconds),
        Err(_) => {
            let field = &mut header.as_old_mut().mtime;
            field.fill(0xff);
            field[4..].copy_from_slice(&seconds.to_be_bytes());
        }
    }
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

/// Number of zeros after `len` bytes, to the end of a block.
fn padding(len: u64) -> usize {
    let over = usize::try_from(len % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

#[cfg(test)]
mod tests;
