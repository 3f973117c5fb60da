//! The end of an upload that is whole: its digests are compared, it is made durable, and it gets its key.

use std::fs::File;
use std::sync::Arc;

use haul_digest::DigestSet;
use haul_plan::Checksum;
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};

use super::location::{UploadLocation, parent};
use super::{CommittedUpload, SMALL_FILE, Upload};
use crate::store::created_folders::MAX_ATTEMPTS;
use crate::store::options::UploadDurability;
use crate::store::timestamps::DigestMark;
use crate::store::version::{FileMetadata, FileVersionId};
use crate::store::{FileStore, StoreError, VersionCheck, stored_digest};

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
        let digest = compare_digests(&self.expected_digests, hashers)?;
        let Some(mut place) = self.location.take() else {
            return discarded(&self.store, self.len, digest);
        };
        let (store, file) = (Arc::clone(&self.store), &place.temporary.file);
        let mark = match digest {
            Some(_) => DigestMark::Present,
            None => DigestMark::Absent,
        };
        // A file system in memory gives no number twice.
        if !self.in_memory || mark == DigestMark::Present {
            set_modified(file, store.timestamps.next(mark))?;
        }
        if let Some(digest) = &digest {
            stored_digest::store_digest(
                file,
                &FileVersionId::from_stat(&rustix::fs::fstat(file)?),
                digest,
            );
        }
        self.unsynced.release();
        match store.options.durability {
            UploadDurability::None => {}
            // One flush is of one mount.
            UploadDurability::File if place.temporary.is_in_temporary_folder => {
                let mount = place.temporary.folder();
                store.group_sync.sync(mount, file, self.len)?;
            }
            UploadDurability::File => rustix::fs::fdatasync(file)?,
            UploadDurability::Full => rustix::fs::fsync(file)?,
        }
        let gone = {
            let _lock = store.locks.lock(&self.key);
            let mut tries = MAX_ATTEMPTS;
            loop {
                match self.rename_to_key(&place, check) {
                    // Its folder is gone: another upload that came to nothing had made it, or somebody removed it.
                    Err(StoreError::NotFound) if tries > 0 => {
                        tries -= 1;
                        place.reopen_folder(&store, &self.key)?;
                    }
                    other => break other?,
                }
            }
        };
        self.finish(place, gone, digest)
    }

    /// Commits without conditions, if nothing of that waits or takes long; else gives the upload back.
    ///
    /// # Errors
    /// The upload, to be committed where waiting is allowed.
    pub fn try_commit(mut self) -> Result<Result<CommittedUpload, StoreError>, Box<Self>> {
        if !self.in_memory || !self.hashers.is_empty() {
            return Err(Box::new(self));
        }
        let Some(place) = self.location.take() else {
            return Ok(discarded(&self.store, self.len, None));
        };
        // Whoever has it may be waiting for a disk.
        let store = Arc::clone(&self.store);
        let Some(lock) = store.locks.try_lock(&self.key) else {
            self.location = Some(place);
            return Err(Box::new(self));
        };
        let named = self.try_rename_to_key(&place);
        drop(lock);
        match named.transpose() {
            None | Some(Err(StoreError::NotFound)) => {
                self.location = Some(place);
                Err(Box::new(self))
            }
            Some(named) => Ok(named.and_then(|gone| self.finish(place, gone, None))),
        }
    }

    /// Gives it its name under the key's lock. Says how many bytes the file had that it replaced, if it did.
    fn rename_to_key(
        &mut self,
        place: &UploadLocation,
        check: Option<VersionCheck<'_>>,
    ) -> Result<Option<u64>, StoreError> {
        let is_there = check
            .map(|check| self.store.check(&self.key, check))
            .transpose()?;
        self.prepare_quota(place)?;
        match (place.rename_if_absent(&self.key)?, is_there) {
            (true, _) => Ok(None),
            // What was looked at and not there is there by now: another program's, which nobody has looked at.
            (false, Some(false)) => Err(StoreError::ConditionFailed),
            (false, _) => Ok(Some(place.rename_over(&self.key)?)),
        }
    }

    /// The same without conditions. `None`: what it would replace is not soon forgotten by its file system.
    #[expect(
        clippy::option_option,
        reason = "nothing was replaced, or nothing was done"
    )]
    fn try_rename_to_key(
        &mut self,
        place: &UploadLocation,
    ) -> Result<Option<Option<u64>>, StoreError> {
        self.prepare_quota(place)?;
        if place.rename_if_absent(&self.key)? {
            return Ok(Some(None));
        }
        if place.existing_bytes(&self.key) > SMALL_FILE {
            return Ok(None);
        }
        Ok(Some(Some(place.rename_over(&self.key)?)))
    }

    /// What it counted on may have gone.
    fn prepare_quota(&mut self, place: &UploadLocation) -> Result<(), StoreError> {
        match self.store.quota.is_limited() {
            true => self.reservation.change(place.existing_bytes(&self.key)),
            false => Ok(()),
        }
    }

    /// It has its key. `gone`: how many bytes the file had that it replaced.
    fn finish(
        self,
        place: UploadLocation,
        gone: Option<u64>,
        digest: Option<Checksum>,
    ) -> Result<CommittedUpload, StoreError> {
        let store = &self.store;
        store.open_files.remove(&self.key);
        // The bytes are the file's, whatever is said of its name from here on.
        self.reservation.commit(gone.unwrap_or(0));
        let found = rustix::fs::fstat(&place.temporary.file);
        let folder = place.keep();
        let meta = FileMetadata::new(&FileVersionId::from_stat(&found?), digest);
        if store.options.durability == UploadDurability::Full {
            store.folders.sync(&parent(&self.key)?, &folder)?;
        }
        Ok(CommittedUpload {
            metadata: meta,
            replaced: gone.is_some(),
        })
    }
}

/// What is said of an upload that was thrown away.
fn discarded(
    store: &FileStore,
    len: u64,
    digest: Option<Checksum>,
) -> Result<CommittedUpload, StoreError> {
    let meta = FileMetadata::new(
        &FileVersionId::from_stat(&rustix::fs::fstat(store.root.top())?),
        digest,
    );
    Ok(CommittedUpload {
        metadata: FileMetadata { len, ..meta },
        replaced: false,
    })
}

/// Compares the digests. The strongest is worth keeping.
fn compare_digests(
    wanted: &[Checksum],
    hashers: DigestSet,
) -> Result<Option<Checksum>, StoreError> {
    let found = hashers.finish();
    for checksum in wanted {
        let is_same = found.iter().any(|digested| {
            digested.algorithm == checksum.algorithm
                && Some(&digested.digest) == checksum.digest.as_ref()
        });
        if !is_same {
            return Err(StoreError::DigestMismatch(checksum.algorithm.name()));
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
fn set_modified(file: &File, modified: Timespec) -> Result<(), StoreError> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: modified,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}
