//! Where files cannot be without a name although they can where the batch's lie: on a file system that is mounted beneath its directory,
//! or that a link in it leads to.
//!
//! The first jobs that go there find out, and go the roads of partial files, which need no such files; later ones go there at once.
//! As long as no such place is known - nearly always - that costs a look at a flag.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::job::{BatchJob, BatchJobStrategy};
use crate::disk::{blocking, or_current_directory};

/// The file systems where they cannot.
#[derive(Debug, Default)]
pub(super) struct UnnamedFileSupport {
    /// Whether there is any.
    any: AtomicBool,
    devices: Mutex<BTreeSet<u64>>,
}

impl UnnamedFileSupport {
    /// Remembers where a job goes that has turned to the roads of partial files.
    pub(super) fn note_unsupported(&self, job: &BatchJob) {
        if job.strategy == BatchJobStrategy::PartialFile
            && let Ok(device) = blocking(|| device(job.paths().directory()))
        {
            let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            devices.insert(device);
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// The road of a job: that of partial files, if it goes to such a place.
    pub(super) fn strategy_of(&self, job: &mut BatchJob) -> BatchJobStrategy {
        if self.has(job) {
            job.use_partial_file();
        }
        job.strategy
    }

    fn has(&self, job: &BatchJob) -> bool {
        self.any.load(Ordering::Relaxed)
            && blocking(|| device(job.paths().directory())).is_ok_and(|device| {
                let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
                devices.contains(&device)
            })
    }
}

/// The file system of a directory, which may have yet to be made, as those above it.
#[cfg(unix)]
fn device(directory: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Err(io::ErrorKind::NotFound.into());
    for directory in directory.ancestors() {
        found = or_current_directory(directory).metadata();
        match &found {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
    Ok(found?.dev())
}

/// Elsewhere no file can be without a name, and no job goes to where it could.
#[cfg(not(unix))]
fn device(directory: &Path) -> io::Result<u64> {
    or_current_directory(directory).metadata().map(|_| 0)
}
