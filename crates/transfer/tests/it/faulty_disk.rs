//! A wrapper with faults, between the engine and its partial file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use haul_transfer::disk::{PartialStorage, StorageWrapping};

/// The faults of a [`SlowOrFullDisk`], and counters of its use.
#[derive(Debug, Default)]
pub(crate) struct DiskFaults {
    /// The duration of each write.
    pub(crate) write_delay: Duration,
    /// The duration of each read.
    pub(crate) read_delay: Duration,
    /// Free space in bytes, shared by all files; `None` is unlimited.
    pub(crate) free_bytes: Option<AtomicU64>,
    /// The number of bytes written.
    pub(crate) written: AtomicU64,
    /// The number of reads started.
    pub(crate) reads: AtomicU64,
    /// The directories that were synced.
    pub(crate) synced: Mutex<Vec<PathBuf>>,
    /// The directory whose sync fails.
    pub(crate) unsyncable: Option<PathBuf>,
}

impl DiskFaults {
    /// A wrapping that gives every partial file these faults.
    pub(crate) fn wrapping(self: &Arc<Self>) -> StorageWrapping {
        let faults = Arc::clone(self);
        StorageWrapping::new(move |file| {
            Arc::new(SlowOrFullDisk {
                file,
                faults: Arc::clone(&faults),
            })
        })
    }
}

/// A file on a disk with faults.
#[derive(Debug)]
struct SlowOrFullDisk {
    file: Arc<dyn PartialStorage>,
    faults: Arc<DiskFaults>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a slow disk blocks the thread that uses it: that is what is tested"
)]
fn block_for(time: Duration) {
    std::thread::sleep(time);
}

impl PartialStorage for SlowOrFullDisk {
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        block_for(self.faults.write_delay);
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        if let Some(free_bytes) = &self.faults.free_bytes {
            let subtract = |free: u64| free.checked_sub(bytes);
            free_bytes
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, subtract)
                .map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        }
        self.file.write_at(offset, pieces)?;
        self.faults.written.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.faults.reads.fetch_add(1, Ordering::SeqCst);
        block_for(self.faults.read_delay);
        self.file.read_at(offset, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        if self.faults.unsyncable.as_deref() == Some(directory) {
            return Err(io::Error::other("directory sync failed"));
        }
        let mut synced = self.faults.synced.lock().unwrap();
        synced.push(directory.to_owned());
        self.file.sync_directory(directory)
    }
}
