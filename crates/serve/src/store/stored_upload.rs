//! An upload in parts: its description, its parts, and what is being written to it.
//! [`multipart`](super::multipart) says how they lie on the disk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::attributes::ObjectAttributes;
use super::flush;
use super::quota::StorageQuota;
use super::root::unlink;

/// What an upload is of.
pub(super) const INFO: &str = "upload";
/// The parts that were acknowledged, a line each.
pub(super) const PARTS: &str = "parts";
/// The file with the slots.
pub(super) const DATA: &str = "data";

/// Maximum uploads that are open at once: each holds a descriptor.
const MAX_OPEN: usize = 256;

/// Parts smaller than this get files of their own: only the last part may be so small.
const MIN_SLOT: u64 = 5 << 20;

pub(super) const CREATE_FLAGS: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What an upload in parts is of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredUploadInfo {
    pub bucket: String,
    /// The key as S3 has it.
    pub key: String,
    /// When it began, in seconds since 1970.
    pub initiated: u64,
    /// What the object will have.
    pub attributes: ObjectAttributes,
    /// S3's name of the checksum algorithm of the parts.
    pub algorithm: String,
    /// Whether the object's checksum is that of the parts' checksums.
    pub is_composite: bool,
    /// Whether the client named no algorithm: then it may send parts with checksums of another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_default_checksum: bool,
}

/// A part that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPart {
    /// From 1 to 10,000.
    pub number: u16,
    /// Bytes.
    pub len: u64,
    /// The MD5, in hexadecimal.
    pub etag: String,
    /// The checksum of the upload's algorithm, in base64.
    pub checksum: String,
    /// When it was acknowledged, in seconds since 1970.
    pub modified: u64,
    /// The file it is in, and where.
    pub(super) file: String,
    pub(super) offset: u64,
    /// The start of the machine in which it was written, if it was not synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

/// An upload that is being completed. Dropped before it has ended, it goes on.
#[derive(Debug)]
pub(super) struct CompletingUpload<'a> {
    upload: &'a StoredUpload,
    /// Bytes of a slot, once known.
    pub(super) slot: Option<u64>,
    /// Whether a part is still being written to its slot.
    pub(super) is_writing: bool,
}

impl Drop for CompletingUpload<'_> {
    fn drop(&mut self) {
        self.upload.lock().is_completing = false;
    }
}

/// Uploads that are in use.
#[derive(Debug, Default)]
pub(super) struct StoredUploads {
    open: Mutex<HashMap<String, OpenUpload>>,
}

/// An upload that is in use, or was a moment ago.
#[derive(Debug)]
struct OpenUpload {
    upload: Arc<StoredUpload>,
    /// Whether it was used since the last sweep.
    is_recent: bool,
}

/// An upload in parts.
#[derive(Debug)]
pub struct StoredUpload {
    id: String,
    info: StoredUploadInfo,
    pub(super) folder: OwnedFd,
    /// Whether parts are synced before they are acknowledged.
    is_synced: bool,
    quota: Arc<StorageQuota>,
    slots: Mutex<PartSlots>,
}

/// Where parts are being written.
#[derive(Debug, Default)]
pub(super) struct PartSlots {
    /// It was completed or aborted.
    pub(super) is_ended: bool,
    /// It is being completed, which may take as long as copying the object.
    is_completing: bool,
    /// Bytes of a slot, once known.
    pub(super) slot: Option<u64>,
    /// Slots that were given out.
    pub(super) taken: HashSet<u16>,
    /// Parts that are being written to their slots.
    pub(super) writing: usize,
}

/// A part that is being written. Dropped before its end, it leaves nothing.
#[derive(Debug)]
pub struct PartWriter {
    upload: Arc<StoredUpload>,
    number: u16,
    file: File,
    name: String,
    offset: u64,
    /// Bytes of the quota.
    reserved: u64,
    written: u64,
    is_finished: bool,
}

impl StoredUpload {
    /// An upload whose folder is open.
    ///
    /// # Errors
    /// The disk's error.
    pub(super) fn new(
        id: &str,
        info: StoredUploadInfo,
        folder: OwnedFd,
        is_synced: bool,
        quota: Arc<StorageQuota>,
    ) -> Result<Self, StoreError> {
        let upload = Self {
            id: id.to_owned(),
            info,
            folder,
            is_synced,
            quota,
            slots: Mutex::default(),
        };
        let parts = upload.parts()?;
        let in_slots = || parts.values().filter(|part| part.file == DATA);
        let slot = in_slots().map(|part| match part.number {
            1 => part.len,
            number => part.offset / u64::from(number - 1),
        });
        *upload.lock() = PartSlots {
            slot: slot.max(),
            taken: in_slots().map(|part| part.number).collect(),
            ..PartSlots::default()
        };
        Ok(upload)
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn info(&self) -> &StoredUploadInfo {
        &self.info
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PartSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless the upload has ended or is being completed: nobody waits for that.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Busy`].
    pub(super) fn lock_idle(&self) -> Result<MutexGuard<'_, PartSlots>, StoreError> {
        let slots = self.lock();
        match (slots.is_ended, slots.is_completing) {
            (true, _) => Err(StoreError::NotFound),
            (false, true) => Err(StoreError::Busy("the upload is being completed")),
            (false, false) => Ok(slots),
        }
    }

    /// Keeps others from adding parts, from ending it and from completing it, too.
    ///
    /// # Errors
    /// As [`StoredUpload::lock_idle`].
    pub(super) fn begin_completing(&self) -> Result<CompletingUpload<'_>, StoreError> {
        let mut slots = self.lock_idle()?;
        slots.is_completing = true;
        Ok(CompletingUpload {
            upload: self,
            slot: slots.slot,
            is_writing: slots.writing > 0,
        })
    }

    pub(super) fn open_file(&self, name: &str) -> Result<File, StoreError> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        let file = rustix::fs::openat(&self.folder, name, CREATE_FLAGS, mode)?;
        Ok(File::from(file))
    }

    /// Opens a file of parts that must be there.
    pub(super) fn open_existing(&self, name: &str) -> Result<File, StoreError> {
        let flags = CREATE_FLAGS.difference(OFlags::CREATE);
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::empty())?;
        Ok(File::from(file))
    }

    /// Begins a part of this many bytes.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the upload has ended; a part that exceeds the quota, or the disk's
    /// error.
    pub fn begin_part(self: &Arc<Self>, number: u16, len: u64) -> Result<PartWriter, StoreError> {
        let mut slots = self.lock_idle()?;
        // Nothing is held for bytes that may never come.
        self.quota.check(len, 0)?;
        if slots.slot.is_none() && len >= MIN_SLOT {
            slots.slot = Some(len);
        }
        let slot = slots
            .slot
            .filter(|slot| len <= *slot)
            .filter(|_| slots.taken.insert(number));
        let (name, offset) = match slot {
            Some(slot) => (DATA.to_owned(), u64::from(number - 1) * slot),
            None => (format!("part-{number}-{:016x}", rand::random::<u64>()), 0),
        };
        let opened = self.open_file(&name);
        if opened.is_err() && slot.is_some() {
            slots.taken.remove(&number);
        }
        let file = opened?;
        slots.writing += usize::from(slot.is_some());
        drop(slots);
        Ok(PartWriter {
            upload: Arc::clone(self),
            number,
            file,
            name,
            offset,
            reserved: 0,
            written: 0,
            is_finished: false,
        })
    }

    /// The parts that were acknowledged, by their numbers.
    ///
    /// # Errors
    /// The disk's error.
    pub fn parts(&self) -> Result<BTreeMap<u16, StoredPart>, StoreError> {
        read_parts(&self.folder)
    }

    fn append(&self, part: &StoredPart) -> Result<(), StoreError> {
        let _slots = self.lock_idle()?;
        let mut line = serde_json::to_vec(part).map_err(std::io::Error::other)?;
        line.push(b'\n');
        let flags = CREATE_FLAGS | OFlags::APPEND;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(&self.folder, PARTS, flags, mode)?);
        // After a line that was cut off, a new one must begin.
        let len = file.metadata()?.len();
        let mut last = [b'\n'];
        if len > 0 {
            rustix::io::pread(&file, &mut last[..], len - 1)?;
        }
        if last != *b"\n" {
            line.insert(0, b'\n');
        }
        file.write_all(&line)?;
        if self.is_synced {
            flush::fdatasync(&file)?;
        }
        Ok(())
    }
}

impl PartWriter {
    /// Writes the next bytes.
    ///
    /// # Errors
    /// When they exceed the quota; the disk's error.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        let quota = &self.upload.quota;
        quota.reserve_part(&self.upload.id, bytes.len() as u64)?;
        self.reserved += bytes.len() as u64;
        while !bytes.is_empty() {
            let at = self.offset + self.written;
            let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.file, bytes, at))?;
            self.written += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Ends the part: from here on it is there.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the upload has ended meanwhile, or the disk's error.
    pub fn finish(mut self, etag: String, checksum: String) -> Result<StoredPart, StoreError> {
        let is_synced = self.upload.is_synced;
        if is_synced {
            flush::fdatasync(&self.file)?;
        }
        let part = StoredPart {
            number: self.number,
            len: self.written,
            etag,
            checksum,
            modified: seconds(SystemTime::now()),
            file: self.name.clone(),
            offset: self.offset,
            boot: (!is_synced).then(boot_id),
        };
        self.upload.append(&part)?;
        self.is_finished = true;
        Ok(part)
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        let is_in_slot = self.name == DATA;
        if !self.is_finished {
            let is_freed = if is_in_slot {
                free_range(&self.file, self.offset, self.written).is_ok()
            } else {
                unlink(&self.upload.folder, self.name.as_bytes(), AtFlags::empty()).is_ok()
            };
            // Bytes that stay on the disk count until the upload is over.
            if is_freed {
                self.upload
                    .quota
                    .release_part(&self.upload.id, self.reserved);
            }
        }
        if is_in_slot {
            let mut slots = self.upload.lock();
            slots.writing -= 1;
            if !self.is_finished {
                slots.taken.remove(&self.number);
            }
        }
    }
}

/// Gives bytes of a file back to the disk. The file keeps its length.
fn free_range(file: &File, offset: u64, len: u64) -> Result<(), Errno> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match len {
        0 => Ok(()),
        _ => rustix::fs::fallocate(file, flags, offset, len),
    }
}

impl StoredUploads {
    /// An upload that is open, or that `open` opens.
    ///
    /// # Errors
    /// Those of `open`; [`StoreError::Busy`].
    pub(super) fn find_or_open(
        &self,
        id: &str,
        open: impl FnOnce() -> Result<StoredUpload, StoreError>,
    ) -> Result<Arc<StoredUpload>, StoreError> {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(id) {
            known.is_recent = true;
            return Ok(Arc::clone(&known.upload));
        }
        if all.len() >= MAX_OPEN {
            all.retain(|_, open| Arc::strong_count(&open.upload) > 1);
        }
        if all.len() >= MAX_OPEN {
            return Err(StoreError::Busy("too many uploads are in use"));
        }
        let upload = Arc::new(open()?);
        let entry = OpenUpload {
            upload: Arc::clone(&upload),
            is_recent: true,
        };
        all.insert(id.to_owned(), entry);
        Ok(upload)
    }

    /// Forgets an upload that has ended.
    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Closes uploads that nobody has used since the last call: each holds a descriptor.
    pub(super) fn sweep(&self) {
        self.lock().retain(|_, open| {
            let is_used = Arc::strong_count(&open.upload) > 1;
            std::mem::take(&mut open.is_recent) || is_used
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenUpload>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts in an upload's folder that were acknowledged, by their numbers.
pub(super) fn read_parts(folder: &OwnedFd) -> Result<BTreeMap<u16, StoredPart>, StoreError> {
    let mut parts = BTreeMap::new();
    let boot = boot_id();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, PARTS, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(parts),
        Err(error) => return Err(error.into()),
    };
    for line in BufReader::new(file).lines() {
        // The last line may have been cut off: that part was not acknowledged.
        let Ok(part) = serde_json::from_str::<StoredPart>(&line?) else {
            continue;
        };
        if part.boot.as_ref().is_none_or(|of| *of == boot) {
            parts.insert(part.number, part)
        } else {
            parts.remove(&part.number)
        };
    }
    Ok(parts)
}

/// Identifies the start of the machine.
fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
