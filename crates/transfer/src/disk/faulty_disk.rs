//! A test disk that is full, or whose syncs fail.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::{PartialStorage, StorageWrapping};

/// The behaviour of the disk, and the calls made to it.
#[derive(Debug)]
pub(crate) struct FaultyDisk {
    /// The most bytes that a file can have; of a longer write only the part that fits is written.
    pub(crate) capacity: AtomicU64,
    /// Whether files can be made shorter while the disk is full.
    pub(crate) can_shrink: AtomicBool,
    pub(crate) sync_fails: AtomicBool,
    /// What was done: `w` for a write, `s` for a sync.
    pub(crate) calls: Mutex<String>,
}

impl FaultyDisk {
    pub(crate) fn with_capacity(room: u64) -> Arc<Self> {
        Arc::new(Self {
            capacity: AtomicU64::new(room),
            can_shrink: AtomicBool::new(true),
            sync_fails: AtomicBool::new(false),
            calls: Mutex::default(),
        })
    }

    pub(crate) fn wrapping(self: &Arc<Self>) -> StorageWrapping {
        let disk = Arc::clone(self);
        StorageWrapping::new(move |file| {
            let disk = Arc::clone(&disk);
            Arc::new(FaultyStorage { file, disk })
        })
    }

    pub(crate) fn calls(&self) -> String {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

#[derive(Debug)]
struct FaultyStorage {
    file: Arc<dyn PartialStorage>,
    disk: Arc<FaultyDisk>,
}

impl PartialStorage for FaultyStorage {
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        self.disk.calls.lock().unwrap().push('w');
        let bytes = pieces.concat();
        let room = self
            .disk
            .capacity
            .load(Ordering::SeqCst)
            .saturating_sub(offset);
        let fits = usize::try_from(room).unwrap_or(usize::MAX);
        if bytes.len() > fits {
            let front = Bytes::copy_from_slice(&bytes[..fits]);
            self.file.write_at(offset, &[front])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_at(offset, &[Bytes::from(bytes)])
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.calls.lock().unwrap().push('s');
        if self.disk.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.file.sync()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !self.disk.can_shrink.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}
