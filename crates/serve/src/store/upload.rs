//! An upload into the store: it commits, or it is discarded.
//!
//! Bytes go to a temporary file. [`Upload::commit`] compares their digests, makes them durable, and
//! renames the file to its key under the key's lock, so that a condition that was checked still
//! holds. Until then the key keeps its old version. Dropping an upload removes the temporary file
//! and the folders that were created for it. All of this may wait for a disk.
//!
//! This file accepts and writes bytes; `commit` finishes the upload, and `location` is the
//! temporary file with its folders.

mod commit;
mod location;

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use haul_digest::DigestSet;
use haul_net::is_descriptor_limit;
use haul_plan::Checksum;
use rustix::io::{Errno, ReadWriteFlags};

use self::location::UploadLocation;
use super::quota::QuotaReservation;
use super::root::{CachedLookup, OpenScope};
use super::version::FileMetadata;
use super::{FileStore, ObjectAttributes, StoreError};
use crate::ObjectKey;

/// Maximum slices of one write (`IOV_MAX` is 1024, but more than these bring nothing).
const MAX_SLICES: usize = 64;

/// A write that fails instead of waiting for a disk.
const NOWAIT: ReadWriteFlags = ReadWriteFlags::NOWAIT;

/// Maximum bytes of a file that a reactor may replace or delete: the file system takes time to free
/// larger ones.
pub(super) const SMALL_FILE: u64 = 1 << 20;

/// An unfinished upload.
#[derive(Debug)]
pub struct Upload {
    store: Arc<FileStore>,
    key: ObjectKey,
    /// The temporary file. `None` if uploads are discarded.
    location: Option<UploadLocation>,
    /// Bytes accepted.
    len: u64,
    written: u64,
    /// Reports unsynced bytes to the store.
    unsynced: UnsyncedUpload,
    /// The upload's share of the quota.
    reservation: QuotaReservation,
    /// The digests that the bytes must match.
    expected_digests: Vec<Checksum>,
    /// Hash the bytes accepted so far.
    hashers: DigestSet,
    /// Whether no operation on it can wait for a disk.
    in_memory: bool,
    /// What is stored with the file.
    attributes: Option<Arc<ObjectAttributes>>,
}

/// Bytes that an upload has written and that need not be on the disk yet.
#[derive(Debug)]
struct UnsyncedUpload {
    store: Arc<FileStore>,
    bytes: u64,
}

impl UnsyncedUpload {
    fn new(store: &Arc<FileStore>) -> Self {
        Self {
            store: Arc::clone(store),
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.store.group_sync.add_unsynced(bytes);
    }

    fn release(&mut self) {
        self.store
            .group_sync
            .remove_unsynced(std::mem::take(&mut self.bytes));
    }
}

impl Drop for UnsyncedUpload {
    fn drop(&mut self) {
        self.release();
    }
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedUpload {
    /// The new version.
    pub metadata: FileMetadata,
    /// Whether it replaced another version.
    pub replaced: bool,
}

impl FileStore {
    /// Begins an upload whose bytes must match the digests in `expected`.
    ///
    /// # Errors
    /// When a parent in the key is a file, the store is read-only, or the disk fails.
    pub fn begin_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        expected: Vec<Checksum>,
    ) -> Result<Upload, StoreError> {
        self.retry_after_closing(|| Upload::begin(self, key, expected.clone(), OpenScope::Anywhere))
    }

    /// Does the same without waiting for a disk, if the whole store is in memory.
    pub fn try_begin_upload(
        self: &Arc<Self>,
        key: &ObjectKey,
        expected: &[Checksum],
    ) -> CachedLookup<Result<Upload, StoreError>> {
        if !self.is_memory && !self.options.discard_uploads {
            return CachedLookup::WouldBlock;
        }
        match Upload::begin(self, key, expected.to_vec(), OpenScope::OneMount) {
            // The folder is on another mount, which this open does not enter.
            Err(StoreError::NotFound) => CachedLookup::WouldBlock,
            Err(StoreError::Io(error)) if is_descriptor_limit(&error) => CachedLookup::WouldBlock,
            done => CachedLookup::Ready(done),
        }
    }
}

impl Upload {
    /// Begins an upload. `expected` are the digests that its bytes must match; `scope` bounds where
    /// its folder may be.
    pub(super) fn begin(
        store: &Arc<FileStore>,
        key: &ObjectKey,
        expected: Vec<Checksum>,
        scope: OpenScope,
    ) -> Result<Self, StoreError> {
        let temporaries = store.temporaries.as_ref().ok_or(StoreError::ReadOnly)?;
        let location = if store.options.discard_uploads {
            None
        } else {
            Some(UploadLocation::new(store, temporaries, key, scope)?)
        };
        let existing = match &location {
            Some(location) if store.quota.is_limited() => location.existing_bytes(key),
            _ => 0,
        };
        Ok(Self {
            hashers: DigestSet::new(expected.iter().map(|checksum| checksum.algorithm)),
            store: Arc::clone(store),
            key: key.clone(),
            in_memory: location.is_none() || scope == OpenScope::OneMount,
            location,
            attributes: None,
            len: 0,
            written: 0,
            unsynced: UnsyncedUpload::new(store),
            reservation: store.quota.reserve(key, existing),
            expected_digests: expected,
        })
    }

    pub fn set_attributes(&mut self, attributes: ObjectAttributes) {
        self.attributes = Some(Arc::new(attributes));
    }

    /// Accepts bytes: counts and hashes them. The same bytes must be written next.
    ///
    /// # Errors
    /// When they exceed the quota.
    pub fn accept(&mut self, chunks: &[Bytes]) -> Result<(), StoreError> {
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.reservation.grow(bytes)?;
        if !self.hashers.is_empty() {
            chunks.iter().for_each(|chunk| self.hashers.update(chunk));
        }
        self.len += bytes;
        Ok(())
    }

    /// Writes accepted bytes. After an error, the unwritten bytes are left in `chunks`.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn write(&mut self, chunks: &mut [Bytes]) -> Result<(), StoreError> {
        self.write_with(chunks, ReadWriteFlags::empty()).map(drop)
    }

    /// Writes as much as needs no waiting. Returns whether that was everything.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn try_write(&mut self, chunks: &mut [Bytes]) -> Result<bool, StoreError> {
        let flags = if self.in_memory {
            ReadWriteFlags::empty()
        } else {
            NOWAIT
        };
        self.write_with(chunks, flags)
    }

    fn write_with(
        &mut self,
        mut chunks: &mut [Bytes],
        flags: ReadWriteFlags,
    ) -> Result<bool, StoreError> {
        while let Some(first) = chunks.first() {
            let Some(location) = &self.location else {
                return Ok(true);
            };
            if first.is_empty() {
                chunks = &mut chunks[1..];
                continue;
            }
            let slices: Vec<IoSlice<'_>> = chunks
                .iter()
                .take(MAX_SLICES)
                .map(|chunk| IoSlice::new(chunk))
                .collect();
            let file = &location.temporary.file;
            let written = rustix::io::retry_on_intr(|| {
                if flags.is_empty() {
                    rustix::io::pwritev(file, &slices, self.written)
                } else {
                    rustix::io::pwritev2(file, &slices, self.written, flags)
                }
            });
            let mut written = match written {
                // It would wait, or the file system does not support the flag.
                Err(Errno::AGAIN | Errno::OPNOTSUPP) if !flags.is_empty() => return Ok(false),
                other => other?,
            };
            self.count_written(written as u64);
            for chunk in chunks.iter_mut() {
                let part = written.min(chunk.len());
                chunk.advance(part);
                written -= part;
                if written == 0 {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Takes over the quota's bytes of an upload in parts.
    pub(super) fn take_parts(&mut self, upload: &str, bytes: u64) {
        self.reservation.take_parts(upload, bytes);
    }

    /// Takes a file of `len` bytes as what was written, without a copy. Returns whether that was
    /// possible: the file must be on the mount of the temporary folder, which must know links.
    ///
    /// # Errors
    /// When it exceeds the quota.
    pub(super) fn adopt(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        len: u64,
    ) -> Result<bool, StoreError> {
        let Some(location) = &mut self.location else {
            return Ok(false);
        };
        let temporary = &mut location.temporary;
        if !temporary.is_in_temporary_folder || temporary.link_from(folder, name).is_err() {
            return Ok(false);
        }
        self.reservation.grow(len)?;
        self.len = len;
        self.count_written(len);
        Ok(true)
    }

    /// Appends a range of a file.
    ///
    /// # Errors
    /// When it exceeds the quota, or the disk fails.
    pub(super) fn append_file(
        &mut self,
        from: &File,
        offset: u64,
        len: u64,
    ) -> Result<(), StoreError> {
        self.reservation.grow(len)?;
        self.len += len;
        if let Some(location) = &self.location {
            copy_range(from, offset, &location.temporary.file, self.written, len)?;
        }
        self.count_written(len);
        Ok(())
    }

    /// Counts bytes that were written to the file.
    fn count_written(&mut self, bytes: u64) {
        self.written += bytes;
        self.unsynced.add(bytes);
    }
}

/// Copies a range of a file into another. The kernel does that, without a copy where the file
/// system knows how.
pub(super) fn copy_range(
    from: &File,
    mut offset: u64,
    to: &File,
    mut at: u64,
    mut len: u64,
) -> Result<(), StoreError> {
    while len > 0 {
        let step = usize::try_from(len).unwrap_or(usize::MAX).min(1 << 30);
        let copied = rustix::fs::copy_file_range(from, Some(&mut offset), to, Some(&mut at), step);
        let copied = match copied {
            Err(Errno::INTR) => continue,
            // It is another file system, or one that does not know the call.
            Err(Errno::XDEV | Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => {
                return copy_by_reading(from, offset, to, at, len);
            }
            other => other?,
        };
        if copied == 0 {
            return Err(StoreError::UploadRemoved);
        }
        len -= copied as u64;
    }
    Ok(())
}

fn copy_by_reading(
    from: &File,
    mut offset: u64,
    to: &File,
    mut at: u64,
    mut len: u64,
) -> Result<(), StoreError> {
    let mut buffer = vec![0; 1 << 20];
    while len > 0 {
        let step = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
        let read =
            rustix::io::retry_on_intr(|| rustix::io::pread(from, &mut buffer[..step], offset))?;
        if read == 0 {
            return Err(StoreError::UploadRemoved);
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(to, rest, at))?;
            rest = &rest[written..];
            at += written as u64;
        }
        offset += read as u64;
        len -= read as u64;
    }
    Ok(())
}
