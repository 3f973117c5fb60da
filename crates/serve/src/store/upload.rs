//! A file on its way into the store: it commits, or it vanishes.
//!
//! Bytes go to a temporary file; [`Upload::commit`] compares the digests that came with them, makes them durable, and gives them their
//! key by one rename, under the key's lock, so that a condition that was checked still holds. Until then the key has what it had.
//! Dropping an upload removes what was written of it. All of this may wait for a disk.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use haul_digest::Hashers;
use haul_plan::Checksum;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::object::{Identity, Meta};
use super::options::Durability;
use super::quota::Claimed;
use super::room::Temporary;
use super::{Check, Store, StoreError, digest};
use crate::Key;

/// Slices that one system call writes (`IOV_MAX` is 1024; more than these bring nothing).
const SLICES: usize = 64;

/// An upload.
#[derive(Debug)]
pub struct Upload {
    /// Where it goes.
    store: Arc<Store>,
    /// Under which key.
    key: Key,
    /// The key's folder.
    folder: OwnedFd,
    /// Folders that were made for it.
    made: Vec<Key>,
    /// Where it is meanwhile. `None` where uploads are thrown away.
    temporary: Option<Temporary>,
    /// Bytes that came.
    len: u64,
    /// Their share of what the store may hold.
    claimed: Claimed,
    /// What they must hash to.
    wanted: Vec<Checksum>,
    /// What they have hashed to so far.
    hashers: Hashers,
}

/// What an upload came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The version that has the key now.
    pub meta: Meta,
    /// Whether another had it before.
    pub replaced: bool,
}

impl Upload {
    /// Begins one. `wanted`: what its bytes must hash to.
    pub(super) fn begin(
        store: &Arc<Store>,
        key: &Key,
        wanted: Vec<Checksum>,
    ) -> Result<Self, StoreError> {
        let room = store.room.as_ref().ok_or(StoreError::ReadOnly)?;
        let (above, _) = key.split().ok_or(StoreError::IsFolder)?;
        let (folder, made) = store.root.make_folder(&above)?;
        let temporary = match store.options.discards {
            true => None,
            false => Some(room.temporary(key, &folder)?),
        };
        Ok(Self {
            hashers: Hashers::new(wanted.iter().map(|checksum| checksum.algorithm)),
            store: Arc::clone(store),
            key: key.clone(),
            folder,
            made,
            temporary,
            len: 0,
            claimed: store.quota.claim(),
            wanted,
        })
    }

    /// Writes what came.
    ///
    /// # Errors
    /// When the disk is full, or the store's quota.
    pub fn write(&mut self, mut pieces: &mut [Bytes]) -> Result<(), StoreError> {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        self.claimed.more(bytes as u64)?;
        if !self.hashers.is_empty() {
            pieces.iter().for_each(|piece| self.hashers.update(piece));
        }
        let mut at = self.len;
        self.len += bytes as u64;
        let Some(temporary) = &self.temporary else {
            return Ok(());
        };
        while let Some(first) = pieces.first_mut() {
            if first.is_empty() {
                pieces = &mut pieces[1..];
                continue;
            }
            let slices: Vec<IoSlice<'_>> = pieces
                .iter()
                .take(SLICES)
                .map(|piece| IoSlice::new(piece))
                .collect();
            let mut written =
                rustix::io::retry_on_intr(|| rustix::io::pwritev(&temporary.file, &slices, at))?;
            at += written as u64;
            for piece in pieces.iter_mut() {
                let part = written.min(piece.len());
                piece.advance(part);
                written -= part;
                if written == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives it its key, if `check` likes what has it now.
    ///
    /// # Errors
    /// When the bytes are not what they should be, a condition does not hold, or the disk fails; then the key has what it had.
    pub fn commit(self, check: Option<Check<'_>>) -> Result<Put, StoreError> {
        let digest = matched(&self.wanted, self.hashers)?;
        let Some(temporary) = self.temporary else {
            let meta = Meta::new(&Identity::of(&rustix::fs::fstat(&self.folder)?), digest);
            return Ok(Put {
                meta: Meta {
                    len: self.len,
                    ..meta
                },
                replaced: false,
            });
        };
        let (store, file) = (&self.store, &temporary.file);
        stamp(file, store.stamps.next())?;
        if let Some(digest) = &digest {
            digest::keep(file, &Identity::of(&rustix::fs::fstat(file)?), digest);
        }
        match store.options.durability {
            Durability::None => {}
            Durability::File => rustix::fs::fdatasync(file)?,
            Durability::Full => rustix::fs::fsync(file)?,
        }
        let (_, name) = self.key.split().ok_or(StoreError::IsFolder)?;
        let gone = {
            let _lock = store.locks.lock(&self.key);
            if let Some(check) = check {
                store.check(&self.key, check)?;
            }
            let gone = replace(&temporary, &self.folder, name)?;
            store.open_files.forget(&self.key);
            gone
        };
        // The bytes are the file's from here on, whatever is said of its name.
        self.claimed.keep();
        store.quota.gone(gone.unwrap_or(0));
        let meta = Meta::new(&Identity::of(&rustix::fs::fstat(file)?), digest);
        temporary.keep();
        if store.options.durability == Durability::Full {
            store.sync_names(&self.folder, &self.made)?;
        }
        Ok(Put {
            meta,
            replaced: gone.is_some(),
        })
    }
}

/// Renames, and says how long the file was that had the name, if there was one.
fn replace(
    temporary: &Temporary,
    folder: &OwnedFd,
    name: &[u8],
) -> Result<Option<u64>, StoreError> {
    match temporary.rename(folder, name, false) {
        Ok(()) => return Ok(None),
        // `INVAL`: the file system cannot refuse to replace.
        Err(Errno::EXIST | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    let before = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    match temporary.rename(folder, name, true) {
        Ok(()) => Ok(before.ok().map(|stat| stat.st_size.try_into().unwrap_or(0))),
        Err(Errno::ISDIR | Errno::NOTDIR) => Err(StoreError::Conflict),
        Err(error) => Err(error.into()),
    }
}

/// Compares the digests. The strongest is worth keeping.
fn matched(wanted: &[Checksum], hashers: Hashers) -> Result<Option<Checksum>, StoreError> {
    let found = hashers.finish();
    for checksum in wanted {
        let is_same = found.iter().any(|digested| {
            digested.algorithm == checksum.algorithm
                && Some(&digested.digest) == checksum.digest.as_ref()
        });
        if !is_same {
            return Err(StoreError::Mismatch(checksum.algorithm.name()));
        }
    }
    let strongest = wanted
        .iter()
        .max_by_key(|checksum| checksum.algorithm.digest_len());
    // Eight bytes and fewer are against accidents alone: no tag is made of them.
    Ok(strongest
        .filter(|checksum| checksum.algorithm.digest_len() > 16)
        .cloned())
}

/// Sets a file's time of modification.
fn stamp(file: &std::fs::File, modified: Timespec) -> Result<(), StoreError> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: modified,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}
