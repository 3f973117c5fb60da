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
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::{Errno, ReadWriteFlags};

use super::object::{Identity, Meta};
use super::options::Durability;
use super::quota::Claimed;
use super::room::Temporary;
use super::root::Reach;
use super::stamps::Mark;
use super::{Check, Store, StoreError, digest};
use crate::Key;

/// Slices that one system call writes (`IOV_MAX` is 1024; more than these bring nothing).
const SLICES: usize = 64;

/// A write that fails rather than wait for a disk.
#[cfg(target_os = "linux")]
const NOWAIT: ReadWriteFlags = ReadWriteFlags::NOWAIT;

/// Bytes of a file that may be replaced without handing that over: what a file system does with its pages takes time, too.
pub(super) const LITTLE: u64 = 1 << 20;

/// An upload.
#[derive(Debug)]
pub struct Upload {
    /// Where it goes.
    store: Arc<Store>,
    /// Under which key.
    key: Key,
    /// Where it is meanwhile. `None` where uploads are thrown away.
    place: Option<Place>,
    /// Bytes that came.
    len: u64,
    /// Bytes that were written.
    written: u64,
    /// Tells the store's syncing of them.
    under_way: UnderWay,
    /// Their share of what the store may hold.
    claimed: Claimed,
    /// What they must hash to.
    wanted: Vec<Checksum>,
    /// What they have hashed to so far.
    hashers: Hashers,
    /// Whether nothing of it can wait for a disk.
    in_memory: bool,
}

/// Bytes that an upload has written and that need not be on the disk yet.
#[derive(Debug)]
struct UnderWay {
    store: Arc<Store>,
    bytes: u64,
}

impl UnderWay {
    fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            bytes: 0,
        }
    }

    fn wrote(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.store.syncing.wrote(bytes);
    }

    fn end(&mut self) {
        self.store.syncing.over(std::mem::take(&mut self.bytes));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where an upload is before it has its key.
#[derive(Debug)]
struct Place {
    /// The key's folder.
    folder: Arc<OwnedFd>,
    /// Folders that were made for it.
    made: Vec<Key>,
    /// What is written.
    temporary: Temporary,
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
    /// Begins one. `wanted`: what its bytes must hash to. `reach`: where looking for its folder may lead.
    pub(super) fn begin(
        store: &Arc<Store>,
        key: &Key,
        wanted: Vec<Checksum>,
        reach: Reach,
    ) -> Result<Self, StoreError> {
        let room = store.room.as_ref().ok_or(StoreError::ReadOnly)?;
        let (above, _) = key.split().ok_or(StoreError::IsFolder)?;
        let place = match store.options.discards {
            true => None,
            false => {
                let (folder, made) = store.root.make_folder(&above, reach)?;
                let folder = Arc::new(folder);
                let temporary = room.temporary(key, &folder, reach)?;
                Some(Place {
                    folder,
                    made,
                    temporary,
                })
            }
        };
        Ok(Self {
            hashers: Hashers::new(wanted.iter().map(|checksum| checksum.algorithm)),
            store: Arc::clone(store),
            key: key.clone(),
            in_memory: place.is_none() || reach == Reach::OneMount,
            place,
            len: 0,
            written: 0,
            under_way: UnderWay::new(store),
            claimed: store.quota.claim(),
            wanted,
        })
    }

    /// Takes what came: it is counted, and hashed. What it is made of must be written next.
    ///
    /// # Errors
    /// When it is more than the store may hold.
    pub fn take(&mut self, pieces: &[Bytes]) -> Result<(), StoreError> {
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.claimed.more(bytes)?;
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
        self.write_as(pieces, ReadWriteFlags::empty()).map(drop)
    }

    /// The same as far as nothing waits for a disk. Whether that is all of it.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn write_now(&mut self, pieces: &mut [Bytes]) -> Result<bool, StoreError> {
        let flags = match self.in_memory {
            true => ReadWriteFlags::empty(),
            false => NOWAIT,
        };
        self.write_as(pieces, flags)
    }

    fn write_as(
        &mut self,
        mut pieces: &mut [Bytes],
        flags: ReadWriteFlags,
    ) -> Result<bool, StoreError> {
        let Some(place) = &self.place else {
            return Ok(true);
        };
        let file = &place.temporary.file;
        while let Some(first) = pieces.first() {
            if first.is_empty() {
                pieces = &mut pieces[1..];
                continue;
            }
            let slices: Vec<IoSlice<'_>> = pieces
                .iter()
                .take(SLICES)
                .map(|piece| IoSlice::new(piece))
                .collect();
            let wrote = rustix::io::retry_on_intr(|| match flags.is_empty() {
                true => rustix::io::pwritev(file, &slices, self.written),
                false => rustix::io::pwritev2(file, &slices, self.written, flags),
            });
            let mut wrote = match wrote {
                // It would wait, or the file system cannot tell.
                Err(Errno::AGAIN | Errno::OPNOTSUPP) if !flags.is_empty() => return Ok(false),
                other => other?,
            };
            self.written += wrote as u64;
            self.under_way.wrote(wrote as u64);
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

    /// Gives it its key, if `check` likes what has it now.
    ///
    /// # Errors
    /// When the bytes are not what they should be, a condition does not hold, or the disk fails; then the key has what it had.
    pub fn commit(mut self, check: Option<Check<'_>>) -> Result<Put, StoreError> {
        let hashers = std::mem::take(&mut self.hashers);
        let digest = matched(&self.wanted, hashers)?;
        let Some(place) = self.place.take() else {
            return thrown_away(&self.store, self.len, digest);
        };
        let (store, file) = (&self.store, &place.temporary.file);
        let mark = match digest {
            Some(_) => Mark::Digest,
            None => Mark::Plain,
        };
        // A file system in memory gives no number twice.
        if !self.in_memory || mark == Mark::Digest {
            stamp(file, store.stamps.next(mark))?;
        }
        if let Some(digest) = &digest {
            digest::keep(file, &Identity::of(&rustix::fs::fstat(file)?), digest);
        }
        self.under_way.end();
        match store.options.durability {
            Durability::None => {}
            Durability::File => match &store.room {
                // One flush is of one mount.
                Some(room) if place.temporary.is_at_home => {
                    store.syncing.sync(room.folder(), file, self.len)?;
                }
                _ => rustix::fs::fdatasync(file)?,
            },
            Durability::Full => rustix::fs::fsync(file)?,
        }
        let gone = {
            let _lock = store.locks.lock(&self.key);
            let is_there = check
                .map(|check| store.check(&self.key, check))
                .transpose()?;
            match (place.name_new(&self.key)?, is_there) {
                (true, _) => None,
                // What was looked at and not there is there by now: another program's, which nobody has looked at.
                (false, Some(false)) => return Err(StoreError::Failed),
                (false, _) => Some(place.replace(&self.key)?),
            }
        };
        self.done(place, gone, digest)
    }

    /// Commits without conditions, if nothing of that waits or takes long; else gives the upload back.
    ///
    /// # Errors
    /// The upload, to be committed where waiting is allowed.
    pub fn commit_now(mut self) -> Result<Result<Put, StoreError>, Box<Self>> {
        if !self.in_memory || !self.hashers.is_empty() {
            return Err(Box::new(self));
        }
        let Some(place) = self.place.take() else {
            return Ok(thrown_away(&self.store, self.len, None));
        };
        // Whoever has it may be waiting for a disk.
        let store = Arc::clone(&self.store);
        let Some(lock) = store.locks.try_lock(&self.key) else {
            self.place = Some(place);
            return Err(Box::new(self));
        };
        let named = match place.name_new(&self.key) {
            Ok(true) => Ok(None),
            Ok(false) if place.is_little(&self.key) => place.replace(&self.key).map(Some),
            Ok(false) => {
                drop(lock);
                self.place = Some(place);
                return Err(Box::new(self));
            }
            Err(error) => Err(error),
        };
        drop(lock);
        Ok(named.and_then(|gone| self.done(place, gone, None)))
    }

    /// It has its key. `gone`: how long the file was that had it.
    fn done(
        self,
        place: Place,
        gone: Option<u64>,
        digest: Option<Checksum>,
    ) -> Result<Put, StoreError> {
        let store = &self.store;
        store.open_files.forget(&self.key);
        // The bytes are the file's, whatever is said of its name from here on.
        self.claimed.keep();
        store.quota.gone(gone.unwrap_or(0));
        let meta = Meta::new(
            &Identity::of(&rustix::fs::fstat(&place.temporary.file)?),
            digest,
        );
        place.temporary.keep();
        if store.options.durability == Durability::Full {
            store.sync_names(&place.folder, &place.made)?;
        }
        Ok(Put {
            meta,
            replaced: gone.is_some(),
        })
    }
}

impl Place {
    /// Gives it the key's name if nothing has that. Whether it did.
    fn name_new(&self, key: &Key) -> Result<bool, StoreError> {
        match self.temporary.rename(&self.folder, name(key)?, false) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            // The file system cannot refuse to replace: a look before must do.
            Err(Errno::INVAL) if self.is_free(key) => {
                self.temporary.rename(&self.folder, name(key)?, true)?;
                Ok(true)
            }
            Err(Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it the key's name, which something has. Says how long that was.
    fn replace(&self, key: &Key) -> Result<u64, StoreError> {
        let before = self.before(key);
        match self.temporary.rename(&self.folder, name(key)?, true) {
            Ok(()) => Ok(before),
            Err(Errno::ISDIR | Errno::NOTDIR) => Err(StoreError::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether what has the name is soon forgotten by its file system.
    fn is_little(&self, key: &Key) -> bool {
        self.before(key) <= LITTLE
    }

    fn is_free(&self, key: &Key) -> bool {
        let Ok(name) = name(key) else { return false };
        let found = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        found.is_err_and(|error| error == Errno::NOENT)
    }

    fn before(&self, key: &Key) -> u64 {
        let Ok(name) = name(key) else { return 0 };
        let stat = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(0, |stat| stat.st_size.unsigned_abs())
    }
}

/// What a key is called in its folder.
fn name(key: &Key) -> Result<&[u8], StoreError> {
    Ok(key.split_ref().ok_or(StoreError::IsFolder)?.1)
}

/// What is said of an upload that was thrown away.
fn thrown_away(store: &Store, len: u64, digest: Option<Checksum>) -> Result<Put, StoreError> {
    let meta = Meta::new(&Identity::of(&rustix::fs::fstat(store.root.top())?), digest);
    Ok(Put {
        meta: Meta { len, ..meta },
        replaced: false,
    })
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
