//! A file on its way into the store: it commits, or it vanishes.
//!
//! Bytes go to a temporary file; [`Upload::commit`] compares the digests that came with them, makes them durable, and gives them their
//! key by one rename, under the key's lock, so that a condition that was checked still holds. Until then the key has what it had.
//! Dropping an upload removes what was written of it, and the folders that were made for it. All of this may wait for a disk.
//!
//! Here bytes are taken and written; `commit` is the end, `location` where the file is until then.

mod commit;
mod location;

use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use haul_digest::DigestSet;
use haul_plan::Checksum;
use rustix::io::{Errno, ReadWriteFlags};

use self::location::UploadLocation;
use super::quota::QuotaReservation;
use super::root::OpenScope;
use super::version::FileMetadata;
use super::{FileStore, StoreError};
use crate::ObjectKey;

/// Slices that one system call writes (`IOV_MAX` is 1024; more than these bring nothing).
const MAX_SLICES: usize = 64;

/// A write that fails rather than wait for a disk.
#[cfg(target_os = "linux")]
const NOWAIT: ReadWriteFlags = ReadWriteFlags::NOWAIT;

/// Bytes of a file that may be replaced without handing that over: what a file system does with its pages takes time, too.
pub(super) const SMALL_FILE: u64 = 1 << 20;

/// An upload.
#[derive(Debug)]
pub struct Upload {
    /// Where it goes.
    store: Arc<FileStore>,
    /// Under which key.
    key: ObjectKey,
    /// Where it is meanwhile. `None` where uploads are thrown away.
    location: Option<UploadLocation>,
    /// Bytes that came.
    len: u64,
    /// Bytes that were written.
    written: u64,
    /// Tells the store's syncing of them.
    unsynced: UnsyncedUpload,
    /// Their share of what the store may hold.
    reservation: QuotaReservation,
    /// What they must hash to.
    expected_digests: Vec<Checksum>,
    /// What they have hashed to so far.
    hashers: DigestSet,
    /// Whether nothing of it can wait for a disk.
    in_memory: bool,
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

/// What an upload came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedUpload {
    /// The version that has the key now.
    pub metadata: FileMetadata,
    /// Whether another had it before.
    pub replaced: bool,
}

impl Upload {
    /// Begins one. `expected_digests`: what its bytes must hash to. `reach`: where looking for its folder may lead.
    pub(super) fn begin(
        store: &Arc<FileStore>,
        key: &ObjectKey,
        wanted: Vec<Checksum>,
        reach: OpenScope,
    ) -> Result<Self, StoreError> {
        let room = store.temporaries.as_ref().ok_or(StoreError::ReadOnly)?;
        let place = match store.options.discard_uploads {
            true => None,
            false => Some(UploadLocation::new(store, room, key, reach)?),
        };
        let there = match &place {
            Some(place) if store.quota.is_limited() => place.existing_bytes(key),
            _ => 0,
        };
        Ok(Self {
            hashers: DigestSet::new(wanted.iter().map(|checksum| checksum.algorithm)),
            store: Arc::clone(store),
            key: key.clone(),
            in_memory: place.is_none() || reach == OpenScope::OneMount,
            location: place,
            len: 0,
            written: 0,
            unsynced: UnsyncedUpload::new(store),
            reservation: store.quota.reserve(key, there),
            expected_digests: wanted,
        })
    }

    /// Takes what came: it is counted, and hashed. What it is made of must be written next.
    ///
    /// # Errors
    /// When it is more than the store may hold.
    pub fn accept(&mut self, pieces: &[Bytes]) -> Result<(), StoreError> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.reservation.grow(bytes)?;
        if !self.hashers.is_empty() {
            pieces.iter().for_each(|piece| self.hashers.update(piece));
        }
        self.len += bytes;
        Ok(())
    }

    /// Writes what was taken; what of it is left after an error or a wait is what was not written.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn write(&mut self, pieces: &mut [Bytes]) -> Result<(), StoreError> {
        self.write_with(pieces, ReadWriteFlags::empty()).map(drop)
    }

    /// The same as far as nothing waits for a disk. Whether that is all of it.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn try_write(&mut self, pieces: &mut [Bytes]) -> Result<bool, StoreError> {
        let flags = match self.in_memory {
            true => ReadWriteFlags::empty(),
            false => NOWAIT,
        };
        self.write_with(pieces, flags)
    }

    fn write_with(
        &mut self,
        mut pieces: &mut [Bytes],
        flags: ReadWriteFlags,
    ) -> Result<bool, StoreError> {
        while let Some(first) = pieces.first() {
            let Some(place) = &self.location else {
                return Ok(true);
            };
            if first.is_empty() {
                pieces = &mut pieces[1..];
                continue;
            }
            let slices: Vec<IoSlice<'_>> = pieces
                .iter()
                .take(MAX_SLICES)
                .map(|piece| IoSlice::new(piece))
                .collect();
            let file = &place.temporary.file;
            let wrote = rustix::io::retry_on_intr(|| match flags.is_empty() {
                true => rustix::io::pwritev(file, &slices, self.written),
                false => rustix::io::pwritev2(file, &slices, self.written, flags),
            });
            let mut wrote = match wrote {
                // It would wait, or the file system cannot tell.
                Err(Errno::AGAIN | Errno::OPNOTSUPP) if !flags.is_empty() => return Ok(false),
                other => other?,
            };
            self.count_written(wrote as u64);
            for piece in pieces.iter_mut() {
                let part = wrote.min(piece.len());
                piece.advance(part);
                wrote -= part;
                if wrote == 0 {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// So many more bytes are in the file.
    fn count_written(&mut self, bytes: u64) {
        self.written += bytes;
        self.unsynced.add(bytes);
    }
}
