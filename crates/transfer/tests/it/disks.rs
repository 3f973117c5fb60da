//! Disks that misbehave, put between the engine and its partial file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use haul_transfer::disk::{PartialStorage, StorageLayer};

/// What a [`UnreliableDisk`] does to those who use it.
#[derive(Debug, Default)]
pub(crate) struct DiskFaults {
    /// How long each write takes.
    pub(crate) write: Duration,
    /// How long each read takes.
    pub(crate) read: Duration,
    /// So many bytes fit in all, counted over all files; `None` is no limit.
    pub(crate) room: Option<AtomicU64>,
    /// Bytes written.
    pub(crate) written: AtomicU64,
    /// Reads begun.
    pub(crate) reads: AtomicU64,
    /// The directories whose names were made durable.
    pub(crate) synced: Mutex<Vec<PathBuf>>,
    /// The one whose names cannot be.
    pub(crate) unsyncable: Option<PathBuf>,
}

impl DiskFaults {
    /// Such a disk under every partial file.
    pub(crate) fn layer(self: &Arc<Self>) -> StorageLayer {
        let manners = Arc::clone(self);
        StorageLayer::new(move |file| {
            Arc::new(UnreliableDisk {
                file,
                manners: Arc::clone(&manners),
            })
        })
    }
}

/// A file on a disk with bad manners.
#[derive(Debug)]
struct UnreliableDisk {
    file: Arc<dyn PartialStorage>,
    manners: Arc<DiskFaults>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a slow disk blocks the thread that uses it: that is what is tested"
)]
fn takes(time: Duration) {
    std::thread::sleep(time);
}

impl PartialStorage for UnreliableDisk {
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        takes(self.manners.write);
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        if let Some(room) = &self.manners.room {
            let less = |room: u64| room.checked_sub(bytes);
            room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        }
        self.file.write_at(offset, pieces)?;
        self.manners.written.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.manners.reads.fetch_add(1, Ordering::SeqCst);
        takes(self.manners.read);
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
        if self.manners.unsyncable.as_deref() == Some(directory) {
            return Err(io::Error::other("no names are kept here"));
        }
        let mut synced = self.manners.synced.lock().unwrap();
        synced.push(directory.to_owned());
        self.file.sync_directory(directory)
    }
}
