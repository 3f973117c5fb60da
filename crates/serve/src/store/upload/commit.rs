//! Commits a complete upload: compares its digests, makes it durable, and renames it to its key.

use std::sync::Arc;

use super::location::{UploadLocation, parent};
use super::{CommittedUpload, SMALL_FILE, Upload};
use crate::store::created_folders::MAX_ATTEMPTS;
use crate::store::version::{
    DigestTimestampMark, FileMetadata, FileVersionId, set_modified, store_digest,
};
use crate::store::{FileStore, StoreError, UploadDurability, VersionCheck, flush};
use haul_digest::DigestSet;
use haul_plan::Checksum;

impl Upload {
    /// Commits the upload if `check` accepts the version that has the key now.
    ///
    /// # Errors
    /// When the bytes do not match their digests, a condition does not hold, or the disk fails;
    /// then the key keeps its old version.
    pub fn commit(
        mut self,
        check: Option<VersionCheck<'_>>,
    ) -> Result<CommittedUpload, StoreError> {
        let hashers = std::mem::take(&mut self.hashers);
        let digest = compare_digests(&self.expected_digests, hashers)?;
        let Some(mut location) = self.location.take() else {
            return discarded(&self.store, self.len, digest);
        };
        let (store, file) = (Arc::clone(&self.store), &location.temporary.file);
        let mark = if digest.is_some() || self.attributes.is_some() {
            DigestTimestampMark::Present
        } else {
            DigestTimestampMark::Absent
        };
        // A file system in memory reuses no inode number.
        if !self.in_memory || mark == DigestTimestampMark::Present {
            set_modified(file, store.timestamps.next(mark))?;
        }
        if mark == DigestTimestampMark::Present {
            let version = FileVersionId::from_stat(&rustix::fs::fstat(file)?);
            if let Some(digest) = &digest {
                store_digest(file, &version, digest);
            }
            if let Some(attributes) = &self.attributes {
                let record = store.records.write(file, &version, attributes)?;
                self.reservation.grow(record).inspect_err(|_| {
                    store.records.remove(version.inode());
                })?;
            }
        }
        self.unsynced.release();
        match store.options.durability {
            UploadDurability::None => {}
            // A group sync flushes one mount.
            UploadDurability::File if location.temporary.is_in_temporary_folder => {
                let mount = location.temporary.folder();
                store.group_sync.sync(mount, file, self.len)?;
            }
            UploadDurability::File if self.attributes.is_none() => flush::fdatasync(file)?,
            // The attributes, too.
            UploadDurability::File | UploadDurability::Full => flush::fsync(file)?,
        }
        let replaced_bytes = {
            let _lock = store.locks.lock(&self.key);
            let mut attempts = MAX_ATTEMPTS;
            loop {
                match self.rename_to_key(&location, check) {
                    // The folder is gone: another upload had created it and failed, or somebody
                    // removed it.
                    Err(StoreError::NotFound) if attempts > 0 => {
                        attempts -= 1;
                        location.reopen_folder(&store, &self.key)?;
                    }
                    other => break other?,
                }
            }
        };
        self.finish(location, replaced_bytes, digest)
    }

    /// Commits without conditions, if nothing waits or takes long; otherwise returns the upload.
    ///
    /// # Errors
    /// The upload, to be committed on a thread that may wait.
    pub fn try_commit(mut self) -> Result<Result<CommittedUpload, StoreError>, Box<Self>> {
        if !self.in_memory || !self.hashers.is_empty() || self.attributes.is_some() {
            return Err(Box::new(self));
        }
        let Some(location) = self.location.take() else {
            return Ok(discarded(&self.store, self.len, None));
        };
        // The holder of the lock may be waiting for a disk.
        let store = Arc::clone(&self.store);
        let Some(lock) = store.locks.try_lock(&self.key) else {
            self.location = Some(location);
            return Err(Box::new(self));
        };
        let path = self.try_rename_to_key(&location);
        drop(lock);
        match path.transpose() {
            None | Some(Err(StoreError::NotFound)) => {
                self.location = Some(location);
                Err(Box::new(self))
            }
            Some(path) => {
                Ok(path.and_then(|replaced_bytes| self.finish(location, replaced_bytes, None)))
            }
        }
    }

    /// Renames the file to its key, under the key's lock. Returns how many bytes a replaced file
    /// had.
    fn rename_to_key(
        &mut self,
        location: &UploadLocation,
        check: Option<VersionCheck<'_>>,
    ) -> Result<Option<u64>, StoreError> {
        let exists = check
            .map(|check| self.store.check(&self.key, check))
            .transpose()?;
        self.prepare_quota(location)?;
        match (location.rename_if_absent(&self.key)?, exists) {
            (true, _) => Ok(None),
            // The check found no file, but there is one now: another program's, which was not
            // checked.
            (false, Some(false)) => Err(StoreError::ConditionFailed),
            (false, _) => {
                let replaced_inode = location.existing_inode(&self.key);
                let replaced = location.rename_over(&self.key)?;
                let record = replaced_inode.map_or(0, |inode| self.store.records.remove(inode));
                Ok(Some(replaced + record))
            }
        }
    }

    /// Does the same without conditions. The outer `None`: the file to be replaced is so large that
    /// freeing it takes long.
    #[expect(
        clippy::option_option,
        reason = "nothing was replaced, or nothing was done"
    )]
    fn try_rename_to_key(
        &mut self,
        location: &UploadLocation,
    ) -> Result<Option<Option<u64>>, StoreError> {
        self.prepare_quota(location)?;
        if location.rename_if_absent(&self.key)? {
            return Ok(Some(None));
        }
        if location.existing_bytes(&self.key) > SMALL_FILE {
            return Ok(None);
        }
        Ok(Some(Some(location.rename_over(&self.key)?)))
    }

    /// The file to be replaced may have changed, so the reservation must be adjusted.
    fn prepare_quota(&mut self, location: &UploadLocation) -> Result<(), StoreError> {
        if self.store.quota.is_limited() {
            self.reservation.change(location.existing_bytes(&self.key))
        } else {
            Ok(())
        }
    }

    /// Finishes after the rename. `replaced_bytes` is the bytes of the replaced file, if any.
    fn finish(
        self,
        location: UploadLocation,
        replaced_bytes: Option<u64>,
        digest: Option<Checksum>,
    ) -> Result<CommittedUpload, StoreError> {
        let store = &self.store;
        store.open_files.remove(&self.key);
        // The bytes are in the file, even if syncing its name fails.
        self.reservation.commit(replaced_bytes.unwrap_or(0));
        let found = rustix::fs::fstat(&location.temporary.file);
        let folder = location.keep();
        let metadata =
            FileMetadata::new(&FileVersionId::from_stat(&found?), digest, self.attributes);
        if store.options.durability == UploadDurability::Full {
            store.folders.sync(&parent(&self.key)?, &folder)?;
        }
        Ok(CommittedUpload {
            metadata,
            replaced: replaced_bytes.is_some(),
        })
    }
}

/// The result of an upload that is discarded.
fn discarded(
    store: &FileStore,
    len: u64,
    digest: Option<Checksum>,
) -> Result<CommittedUpload, StoreError> {
    let metadata = FileMetadata::new(
        &FileVersionId::from_stat(&rustix::fs::fstat(store.root.top())?),
        digest,
        None,
    );
    Ok(CommittedUpload {
        metadata: FileMetadata { len, ..metadata },
        replaced: false,
    })
}

/// Compares the digests. Returns the strongest, to be stored.
fn compare_digests(
    expected: &[Checksum],
    hashers: DigestSet,
) -> Result<Option<Checksum>, StoreError> {
    let found = hashers.finish();
    for checksum in expected {
        let is_same = found.iter().any(|digested| {
            digested.algorithm == checksum.algorithm
                && Some(&digested.digest) == checksum.digest.as_ref()
        });
        if !is_same {
            return Err(StoreError::DigestMismatch(checksum.algorithm.name()));
        }
    }
    let strongest = expected
        .iter()
        .max_by_key(|checksum| checksum.algorithm.digest_len());
    // Short digests only protect against accidents: no tag is derived from them.
    Ok(strongest
        .filter(|checksum| checksum.algorithm.digest_len() > 16)
        .cloned())
}
