//! The end of an upload that is whole: its digests are compared, it is made durable, and it gets its key.

use std::fs::File;
use std::sync::Arc;

use haul_digest::DigestSet;
use haul_plan::Checksum;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};

use super::place::{UploadLocation, above};
use super::{CommittedUpload, LITTLE, Upload};
use crate::store::folders::TRIES;
use crate::store::options::UploadDurability;
use crate::store::stamps::DigestMark;
use crate::store::version::{FileMetadata, FileVersionId};
use crate::store::{FileStore, StoreError, VersionCheck, digest};

impl Upload {
    /// Gives it its key, if `check` likes what has it now.
    ///
    /// # Errors
    /// When the bytes are not what they should be, a condition does not hold, or the disk fails; then the key has what it had.
    pub fn commit(
        mut self,
        check: Option<VersionCheck<'_>>,
    ) -> Result<CommittedUpload, StoreError> {
        let hashers = std::mem::take(&mut self.hashers);
        let digest = matched(&self.wanted, hashers)?;
        let Some(mut place) = self.place.take() else {
            return thrown_away(&self.store, self.len, digest);
        };
        let (store, file) = (Arc::clone(&self.store), &place.temporary.file);
        let mark = match digest {
            Some(_) => DigestMark::Digest,
            None => DigestMark::Plain,
        };
        // A file system in memory gives no number twice.
        if !self.in_memory || mark == DigestMark::Digest {
            stamp(file, store.stamps.next(mark))?;
        }
        if let Some(digest) = &digest {
            digest::keep(file, &FileVersionId::of(&rustix::fs::fstat(file)?), digest);
        }
        self.under_way.end();
        match store.options.durability {
            UploadDurability::None => {}
            // One flush is of one mount.
            UploadDurability::File if place.temporary.is_at_home => {
                let mount = place.temporary.folder();
                store.syncing.sync(mount, file, self.len)?;
            }
            UploadDurability::File => rustix::fs::fdatasync(file)?,
            UploadDurability::Full => rustix::fs::fsync(file)?,
        }
        let gone = {
            let _lock = store.locks.lock(&self.key);
            let mut tries = TRIES;
            loop {
                match self.name(&place, check) {
                    // Its folder is gone: another upload that came to nothing had made it, or somebody removed it.
                    Err(StoreError::NotFound) if tries > 0 => {
                        tries -= 1;
                        place.find_again(&store, &self.key)?;
                    }
                    other => break other?,
                }
            }
        };
        self.done(place, gone, digest)
    }

    /// Commits without conditions, if nothing of that waits or takes long; else gives the upload back.
    ///
    /// # Errors
    /// The upload, to be committed where waiting is allowed.
    pub fn commit_now(mut self) -> Result<Result<CommittedUpload, StoreError>, Box<Self>> {
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
        let named = self.name_now(&place);
        drop(lock);
        match named.transpose() {
            None | Some(Err(StoreError::NotFound)) => {
                self.place = Some(place);
                Err(Box::new(self))
            }
            Some(named) => Ok(named.and_then(|gone| self.done(place, gone, None))),
        }
    }

    /// Gives it its name under the key's lock. Says how many bytes the file had that it replaced, if it did.
    fn name(
        &mut self,
        place: &UploadLocation,
        check: Option<VersionCheck<'_>>,
    ) -> Result<Option<u64>, StoreError> {
        let is_there = check
            .map(|check| self.store.check(&self.key, check))
            .transpose()?;
        self.claim(place)?;
        match (place.name_new(&self.key)?, is_there) {
            (true, _) => Ok(None),
            // What was looked at and not there is there by now: another program's, which nobody has looked at.
            (false, Some(false)) => Err(StoreError::Failed),
            (false, _) => Ok(Some(place.replace(&self.key)?)),
        }
    }

    /// The same without conditions. `None`: what it would replace is not soon forgotten by its file system.
    #[expect(
        clippy::option_option,
        reason = "nothing was replaced, or nothing was done"
    )]
    fn name_now(&mut self, place: &UploadLocation) -> Result<Option<Option<u64>>, StoreError> {
        self.claim(place)?;
        if place.name_new(&self.key)? {
            return Ok(Some(None));
        }
        if place.before(&self.key) > LITTLE {
            return Ok(None);
        }
        Ok(Some(Some(place.replace(&self.key)?)))
    }

    /// What it counted on may have gone.
    fn claim(&mut self, place: &UploadLocation) -> Result<(), StoreError> {
        match self.store.quota.is_kept() {
            true => self.claimed.change(place.before(&self.key)),
            false => Ok(()),
        }
    }

    /// It has its key. `gone`: how many bytes the file had that it replaced.
    fn done(
        self,
        place: UploadLocation,
        gone: Option<u64>,
        digest: Option<Checksum>,
    ) -> Result<CommittedUpload, StoreError> {
        let store = &self.store;
        store.open_files.forget(&self.key);
        // The bytes are the file's, whatever is said of its name from here on.
        self.claimed.keep(gone.unwrap_or(0));
        let found = rustix::fs::fstat(&place.temporary.file);
        let folder = place.keep();
        let meta = FileMetadata::new(&FileVersionId::of(&found?), digest);
        if store.options.durability == UploadDurability::Full {
            store.folders.sync(&above(&self.key)?, &folder)?;
        }
        Ok(CommittedUpload {
            meta,
            replaced: gone.is_some(),
        })
    }
}

/// What is said of an upload that was thrown away.
fn thrown_away(
    store: &FileStore,
    len: u64,
    digest: Option<Checksum>,
) -> Result<CommittedUpload, StoreError> {
    let meta = FileMetadata::new(
        &FileVersionId::of(&rustix::fs::fstat(store.root.top())?),
        digest,
    );
    Ok(CommittedUpload {
        meta: FileMetadata { len, ..meta },
        replaced: false,
    })
}

/// Compares the digests. The strongest is worth keeping.
fn matched(wanted: &[Checksum], hashers: DigestSet) -> Result<Option<Checksum>, StoreError> {
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
fn stamp(file: &File, modified: Timespec) -> Result<(), StoreError> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: modified,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}
