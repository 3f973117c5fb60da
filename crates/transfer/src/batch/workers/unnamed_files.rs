//! Learns which file systems do not support unnamed files although the batch's directory does: those that are mounted
//! below it, or behind a link in it.
//!
//! The first jobs with such a path find out and switch to partial files; later ones start with a partial file. As long
//! as no such file system is known, which is nearly always the case, this costs one load of a flag.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::batch::job::{BatchJob, BatchJobStrategy};
use crate::disk::{blocking, directory_of, or_current_directory};

/// The file systems without support for unnamed files.
#[derive(Debug, Default)]
pub(super) struct UnnamedFileSupport {
    /// Whether any is known.
    any: AtomicBool,
    devices: Mutex<BTreeSet<u64>>,
}

impl UnnamedFileSupport {
    /// Records the file system of a job that has switched to a partial file.
    pub(super) fn note_unsupported(&self, job: &BatchJob) {
        if job.strategy == BatchJobStrategy::PartialFile
            && let Ok(device) = blocking(|| device_of(directory_of(job.written_path())))
        {
            let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
            devices.insert(device);
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// The job's strategy, after switching it to a partial file if its file system is known not to support unnamed
    /// files.
    pub(super) fn strategy_of(&self, job: &mut BatchJob) -> BatchJobStrategy {
        if self.is_unsupported(job) {
            job.use_partial_file();
        }
        job.strategy
    }

    fn is_unsupported(&self, job: &BatchJob) -> bool {
        self.any.load(Ordering::Relaxed)
            && blocking(|| device_of(directory_of(job.written_path()))).is_ok_and(|device| {
                let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
                devices.contains(&device)
            })
    }
}

/// The file system of a directory. The directory and those above it may not exist yet.
fn device_of(directory: &Path) -> io::Result<u64> {
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
