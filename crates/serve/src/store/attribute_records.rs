//! What an upload says about its object beside the bytes: S3's entity tag, checksums, header fields
//! and tags.
//!
//! They are one record in one extended attribute of the file, so they move and disappear with it.
//! The record names the version of the file that it belongs to; a file that another program wrote
//! to afterwards has none. The time of the file says whether there is a record at all
//! ([`version`](super::version)), so other files cost no lookup.
//!
//! Where the attribute does not fit (ext4 has 4 KiB for all of a file's) or the file system has
//! none, the record is a file in `.haul/attributes`, named by the inode. Such a file is removed with
//! its object; one that is left behind belongs to no version that there is.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::root::StoreRoot;
use super::version::FileVersionId;
use super::{ObjectAttributes, StoreError, flush, root};
use crate::RESERVED_NAME;

/// The extended attribute.
const ATTRIBUTE: &str = "user.haul.s3";

/// The folder of records that are files, beneath the root.
pub(super) const FOLDER: &str = "attributes";

/// Maximum bytes of a record: 10,000 parts with a checksum each.
const MAX_RECORD: usize = 4 << 20;

/// Bytes that are read at first: nearly every record is shorter.
const FIRST_READ: usize = 4 << 10;

#[derive(Debug, Serialize, Deserialize)]
struct StoredRecord<T> {
    /// The version of the file that it belongs to.
    version: String,
    #[serde(flatten)]
    attributes: T,
}

/// Reads and writes the records of a store.
#[derive(Debug)]
pub(super) struct AttributeRecords {
    root: Arc<StoreRoot>,
    /// Whether there is a folder of records.
    has_folder: AtomicBool,
}

impl AttributeRecords {
    pub(super) fn new(root: &Arc<StoreRoot>) -> Self {
        let folder = format!("{RESERVED_NAME}/{FOLDER}");
        let found = rustix::fs::statat(root.top(), folder, AtFlags::SYMLINK_NOFOLLOW);
        Self {
            root: Arc::clone(root),
            has_folder: AtomicBool::new(found.is_ok()),
        }
    }

    /// The attributes of this version of an open file.
    pub(super) fn read(
        &self,
        file: impl AsFd,
        version: &FileVersionId,
    ) -> Option<Arc<ObjectAttributes>> {
        let parsed = |text: &[u8]| {
            let record: StoredRecord<ObjectAttributes> = serde_json::from_slice(text).ok()?;
            (record.version == version.digest_binding()).then(|| Arc::new(record.attributes))
        };
        let of_file = read_attribute(file).and_then(|text| parsed(&text));
        of_file.or_else(|| parsed(&self.read_file(version.inode())?))
    }

    /// Stores the attributes of this version of an open file. Returns how many bytes a file of their own has.
    ///
    /// # Errors
    /// The disk's error, when there is room neither in the file's attributes nor for a file.
    pub(super) fn write(
        &self,
        file: impl AsFd,
        version: &FileVersionId,
        attributes: &ObjectAttributes,
    ) -> Result<u64, StoreError> {
        let record = StoredRecord {
            version: version.digest_binding(),
            attributes,
        };
        let text = serde_json::to_vec(&record).map_err(std::io::Error::other)?;
        match rustix::fs::fsetxattr(&file, ATTRIBUTE, &text, XattrFlags::empty()) {
            Ok(()) => Ok(0),
            Err(error) => {
                tracing::debug!(%error, "the attributes of an object become a file of their own");
                // An earlier record must not be found first.
                let _ = rustix::fs::fremovexattr(&file, ATTRIBUTE);
                self.write_file(version.inode(), &text)?;
                Ok(text.len() as u64)
            }
        }
    }

    /// Removes the record of a file that is gone, if it was a file of its own. Returns how many bytes it had.
    pub(super) fn remove(&self, inode: u64) -> u64 {
        if !self.has_folder.load(Ordering::Relaxed) {
            return 0;
        }
        let path = path(inode);
        let found = rustix::fs::statat(self.root.top(), path.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let bytes = found.map_or(0, |stat| stat.st_size.try_into().unwrap_or(0));
        match root::unlink(self.root.top(), path.as_bytes(), AtFlags::empty()) {
            Ok(()) => bytes,
            Err(_) => 0,
        }
    }

    fn read_file(&self, inode: u64) -> Option<Vec<u8>> {
        if !self.has_folder.load(Ordering::Relaxed) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root.top(), path(inode), flags, Mode::empty()).ok()?;
        let mut text = Vec::new();
        let limit = MAX_RECORD as u64;
        File::from(file).take(limit).read_to_end(&mut text).ok()?;
        Some(text)
    }

    fn write_file(&self, inode: u64, text: &[u8]) -> Result<(), StoreError> {
        let folder = format!("{RESERVED_NAME}/{FOLDER}");
        match rustix::fs::mkdirat(self.root.top(), folder, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.has_folder.store(true, Ordering::Relaxed);
        let (path, new) = (
            path(inode),
            format!("{}.{:016x}", path(inode), rand::random::<u64>()),
        );
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(
            self.root.top(),
            new.as_str(),
            flags,
            mode,
        )?);
        let written = file.write_all(text).and_then(|()| flush::fdatasync(&file));
        let renamed = written.map_err(StoreError::from).and_then(|()| {
            let top = self.root.top();
            Ok(rustix::fs::renameat(top, new.as_str(), top, path)?)
        });
        if renamed.is_err() {
            let _ = root::unlink(self.root.top(), new.as_bytes(), AtFlags::empty());
        }
        renamed
    }
}

/// The path of a record that is a file, beneath the root.
fn path(inode: u64) -> String {
    format!("{RESERVED_NAME}/{FOLDER}/{inode}")
}

fn read_attribute(file: impl AsFd) -> Option<Vec<u8>> {
    let mut buffer = vec![0; FIRST_READ];
    loop {
        match rustix::fs::fgetxattr(&file, ATTRIBUTE, &mut buffer[..]) {
            Ok(length) => {
                buffer.truncate(length);
                return Some(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < MAX_RECORD => buffer.resize(MAX_RECORD, 0),
            Err(_) => return None,
        }
    }
}

/// Marks a folder as an object of its own, whose key ends in a slash. Where the file system has no
/// attributes, it is a folder like any other.
pub(super) fn mark_folder(folder: impl AsFd) {
    if let Err(error) = rustix::fs::fsetxattr(folder, ATTRIBUTE, b"folder", XattrFlags::empty()) {
        tracing::debug!(%error, "a folder could not be marked as an object");
    }
}

/// Whether a folder is an object of its own.
pub(super) fn is_marked_folder(folder: impl AsFd) -> bool {
    rustix::fs::fgetxattr(folder, ATTRIBUTE, &mut [0_u8; 16][..]).is_ok()
}

/// Takes the mark away.
pub(super) fn unmark_folder(folder: impl AsFd) {
    let _ = rustix::fs::fremovexattr(folder, ATTRIBUTE);
}
