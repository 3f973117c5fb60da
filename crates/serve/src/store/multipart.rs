//! Uploads in parts, until they are complete.
//!
//! An upload is a folder in `.haul/multipart`, and survives a restart. `upload` says what it is of.
//! `parts` has a line for each part that was acknowledged; the last line of a number counts, so a
//! part that is sent again replaces the first one when it is whole, and not before.
//!
//! **Parts lie where they belong.** The length of the first part that arrives becomes the slot: part
//! `n` is written at `(n - 1) * slot` of one file. If all parts but the last fill theirs, that file
//! is the object, and completing the upload writes nothing a second time. A part that does not fit,
//! or is sent again, gets a file of its own and is copied to its slot in the end. Parts that leave
//! gaps are copied into a new file.
//!
//! Nothing tells a part that a power cut has lost from one that is there. So parts are synced before
//! they are acknowledged or, with `--durability none`, forgotten when the machine has been started
//! since.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use tokio::time::Instant;

use super::StoreError;
use super::attributes::ObjectAttributes;
use super::file_store::{FileStore, UploadDurability, VersionCheck};
use super::flush;
use super::list::modification_time;
use super::stored_upload::{
    CREATE_FLAGS, DATA, INFO, PARTS, PartSlots, StoredPart, StoredUpload, StoredUploadInfo,
    read_parts,
};
use super::upload::{CommittedUpload, Upload, copy_range};
use super::upload_folders::{FOLDER, FOLDER_FLAGS, UNNAMED, is_upload_id, remove_upload};
use super::usage::file_bytes;
use crate::{ObjectKey, RESERVED_NAME};

/// Maximum bytes of the description of an upload.
const MAX_INFO: u64 = 1 << 20;

impl FileStore {
    /// Begins an upload in parts. Returns its identifier.
    ///
    /// # Errors
    /// When the store is read-only, or the disk fails.
    pub fn begin_parts(&self, info: &StoredUploadInfo) -> Result<String, StoreError> {
        let all = self.multipart_folder()?;
        let id = format!("{:032x}", rand::random::<u128>());
        let text = serde_json::to_vec(info).map_err(std::io::Error::other)?;
        self.upload_counts
            .begin(&info.bucket, Instant::now(), || self.count_uploads())?;
        let begun = self
            .quota
            .reserve_part(&id, text.len() as u64)
            .and_then(|()| create_upload(&all, &id, &text));
        if begun.is_err() {
            self.quota.release_parts(&id);
            self.upload_counts.end(&info.bucket);
        }
        begun.map(|()| id)
    }

    /// How many uploads each bucket has that have not ended.
    fn count_uploads(&self) -> Result<HashMap<String, usize>, StoreError> {
        let mut counts = HashMap::new();
        self.for_each_upload(|_, info| *counts.entry(info.bucket).or_default() += 1)?;
        Ok(counts)
    }

    /// The folder of uploads, which is created if it is missing.
    fn multipart_folder(&self) -> Result<OwnedFd, StoreError> {
        if !self.options.writable {
            return Err(StoreError::ReadOnly);
        }
        let path = format!("{RESERVED_NAME}/{FOLDER}");
        match rustix::fs::mkdirat(self.root.top(), path.as_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(rustix::fs::openat(
            self.root.top(),
            path,
            FOLDER_FLAGS,
            Mode::empty(),
        )?)
    }

    /// An upload that has not ended.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the disk's error.
    pub fn stored_upload(&self, id: &str) -> Result<Arc<StoredUpload>, StoreError> {
        if !is_upload_id(id) {
            return Err(StoreError::NotFound);
        }
        self.uploads.find_or_open(id, || {
            let folder = open_upload(&self.multipart_folder()?, id)?;
            // The server was killed when the object had its name and this was not removed yet. What is
            // written to this file from here on would be written to the object.
            let data = rustix::fs::statat(&folder, DATA, AtFlags::SYMLINK_NOFOLLOW);
            if data.is_ok_and(|data| data.st_nlink > 1) {
                remove_upload(&self.multipart_folder()?, id)?;
                return Err(StoreError::NotFound);
            }
            let info = read_info(&folder)?;
            let is_synced = self.options.durability != UploadDurability::None;
            StoredUpload::new(id, info, folder, is_synced, Arc::clone(&self.quota))
        })
    }

    /// Hands over all uploads that have not ended, in any order: their identifiers, and what they are of.
    ///
    /// # Errors
    /// The disk's error.
    pub fn for_each_upload(
        &self,
        mut take: impl FnMut(String, StoredUploadInfo),
    ) -> Result<(), StoreError> {
        let all = self.multipart_folder()?;
        for id in upload_ids(&all)? {
            match open_upload(&all, &id).and_then(|folder| read_info(&folder)) {
                Ok(info) => take(id, info),
                Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Aborts all uploads to a bucket.
    ///
    /// # Errors
    /// The disk's error.
    pub fn abort_uploads_of(&self, bucket: &str) -> Result<(), StoreError> {
        let mut ids = Vec::new();
        self.for_each_upload(|id, info| ids.extend((info.bucket == bucket).then_some(id)))?;
        for id in ids {
            let aborted = self
                .stored_upload(&id)
                .and_then(|upload| self.abort_parts(&upload));
            match aborted {
                Ok(()) | Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Counts the parts of uploads that an earlier process began, if there is a quota.
    pub(super) fn count_stored_parts(&self) -> Result<(), StoreError> {
        let folder = format!("{RESERVED_NAME}/{FOLDER}");
        let found = rustix::fs::statat(self.root.top(), folder, AtFlags::SYMLINK_NOFOLLOW);
        if !self.quota.is_limited() || found.is_err() {
            return Ok(());
        }
        let all = self.multipart_folder()?;
        for id in upload_ids(&all)? {
            let folder = open_upload(&all, &id)?;
            let parts = read_parts(&folder)?;
            let bytes: u64 = parts.values().map(|part| part.len).sum();
            let info = file_bytes(&folder, INFO.as_bytes());
            self.quota.count_parts(&id, bytes + info);
        }
        Ok(())
    }

    /// Aborts an upload and removes its parts.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it has ended, [`StoreError::Busy`], or the disk's error.
    pub fn abort_parts(&self, upload: &StoredUpload) -> Result<(), StoreError> {
        let mut slots = upload.lock_idle()?;
        self.end(upload, &mut slots)
    }

    /// Ends an upload and removes what is left of it.
    fn end(&self, upload: &StoredUpload, slots: &mut PartSlots) -> Result<(), StoreError> {
        slots.is_ended = true;
        let all = self.multipart_folder();
        let removed = all.and_then(|all| remove_upload(&all, upload.id()));
        // Afterwards, or a request could open it once more meanwhile.
        self.uploads.remove(upload.id());
        self.quota.release_parts(upload.id());
        self.upload_counts.end(&upload.info().bucket);
        removed
    }

    /// Removes uploads to which nothing was added for this long.
    pub fn expire_parts(&self, age: Duration) {
        let Ok(all) = self.multipart_folder() else {
            return;
        };
        for id in upload_ids(&all).unwrap_or_default() {
            let Ok(folder) = open_upload(&all, &id) else {
                continue;
            };
            let modified = |name| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            let latest = modified(PARTS)
                .or_else(|_| modified(INFO))
                .map_or_else(|_| SystemTime::now(), |stat| modification_time(&stat));
            let unused = SystemTime::now().duration_since(latest).unwrap_or_default();
            if unused <= age {
                continue;
            }
            let aborted = self
                .stored_upload(&id)
                .and_then(|upload| self.abort_parts(&upload));
            match aborted {
                Ok(()) => tracing::info!(id, "an unfinished upload has expired"),
                Err(StoreError::NotFound) => {}
                Err(error) => tracing::warn!(%error, "an unfinished upload could not be removed"),
            }
        }
    }

    /// Completes an upload with these parts, in their order, if `check` accepts the version that
    /// has the key now. If that fails, the upload is as before.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it has ended; [`StoreError::Busy`]; a condition that does not hold, or the disk's error.
    pub fn complete_parts(
        self: &Arc<Self>,
        upload: &StoredUpload,
        key: &ObjectKey,
        parts: &[StoredPart],
        attributes: ObjectAttributes,
        check: Option<VersionCheck<'_>>,
    ) -> Result<CommittedUpload, StoreError> {
        let completing = upload.begin_completing()?;
        if let Some(check) = check {
            self.check(key, check)?;
        }
        let mut object = self.begin_upload(key, Vec::new())?;
        let total = parts.iter().map(|part| part.len).sum();
        object.take_parts(upload.id(), total);
        let all = upload.parts()?;
        // A client may have sent a part again while the first request for it is still writing: what
        // that writes must not be the object.
        if !completing.is_writing && fills_slots(parts, &all, completing.slot) {
            let data = upload.open_existing(DATA)?;
            for (part, offset) in moved_parts(parts, completing.slot.unwrap_or(0)) {
                let from = upload.open_existing(&part.file)?;
                copy_range(&from, part.offset, &data, offset, part.len)?;
            }
            // Bytes of a part that was sent again and is shorter now.
            data.set_len(total)?;
            drop(data);
            if !object.adopt(&upload.folder, DATA, total)? {
                append_parts(upload, &mut object, parts, completing.slot)?;
            }
        } else {
            for part in parts {
                let from = upload.open_existing(&part.file)?;
                object.append_file(&from, part.offset, part.len)?;
            }
        }
        object.set_attributes(attributes);
        let committed = object.commit(check)?;
        if let Err(error) = self.end(upload, &mut upload.lock()) {
            // The object is whole. What is left expires.
            tracing::warn!(%error, "the parts of a complete upload could not be removed");
        }
        Ok(committed)
    }
}

/// Creates the folder of an upload, and in it what the upload is of.
fn create_upload(all: &OwnedFd, id: &str, info: &[u8]) -> Result<(), StoreError> {
    let new = format!("{UNNAMED}{id}");
    rustix::fs::mkdirat(all, new.as_str(), Mode::RWXU)?;
    let folder = rustix::fs::openat(all, new.as_str(), FOLDER_FLAGS, Mode::empty())?;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(rustix::fs::openat(&folder, INFO, CREATE_FLAGS, mode)?);
    file.write_all(info)?;
    flush::fdatasync(&file)?;
    Ok(rustix::fs::renameat(all, new.as_str(), all, id)?)
}

fn open_upload(all: &OwnedFd, id: &str) -> Result<OwnedFd, StoreError> {
    Ok(rustix::fs::openat(all, id, FOLDER_FLAGS, Mode::empty())?)
}

/// The identifiers of all uploads that have not ended.
fn upload_ids(all: &OwnedFd) -> Result<Vec<String>, StoreError> {
    let names = Dir::read_from(all)?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| is_upload_id(name)).collect())
}

/// What the upload in a folder is of.
fn read_info(folder: &OwnedFd) -> Result<StoredUploadInfo, StoreError> {
    let info = rustix::fs::openat(folder, INFO, OFlags::RDONLY, Mode::empty())?;
    let mut text = Vec::new();
    File::from(info).take(MAX_INFO).read_to_end(&mut text)?;
    // Its beginning was cut off: nobody knows its identifier.
    serde_json::from_slice(&text).map_err(|_| StoreError::NotFound)
}

/// Appends parts that are all in their slots by now.
fn append_parts(
    upload: &StoredUpload,
    object: &mut Upload,
    parts: &[StoredPart],
    slot: Option<u64>,
) -> Result<(), StoreError> {
    let data = upload.open_existing(DATA)?;
    for part in parts {
        let offset = u64::from(part.number - 1) * slot.unwrap_or(0);
        object.append_file(&data, offset, part.len)?;
    }
    Ok(())
}

/// Parts that are not in their slots, and where those are.
fn moved_parts(parts: &[StoredPart], slot: u64) -> impl Iterator<Item = (&StoredPart, u64)> {
    let offset = move |part: &StoredPart| u64::from(part.number - 1) * slot;
    parts
        .iter()
        .filter(|part| part.file != DATA)
        .map(move |part| (part, offset(part)))
}

/// Whether these parts, each in its slot, are the object: they are numbered from 1, all but the last
/// fill their slots, and no other part is in the file.
fn fills_slots(parts: &[StoredPart], all: &BTreeMap<u16, StoredPart>, slot: Option<u64>) -> bool {
    let Some(slot) = slot else { return false };
    let is_next = |(at, part): (usize, &StoredPart)| {
        let is_last = at + 1 == parts.len();
        let fits = if is_last {
            part.len <= slot
        } else {
            part.len == slot
        };
        usize::from(part.number) == at + 1 && fits
    };
    let others = || {
        all.values()
            .filter(|part| usize::from(part.number) > parts.len())
    };
    parts.iter().enumerate().all(is_next) && others().all(|part| part.file != DATA)
}
