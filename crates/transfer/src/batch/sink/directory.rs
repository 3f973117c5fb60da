//! Gives files their names in directories.
//!
//! Files come unnamed. Their bytes are synced together, then they get their names, and then their directories are
//! synced. So a final name never refers to bytes that a power cut could take.
//!
//! Many files are synced with one `syncfs` of the file system. It takes some milliseconds, where one sync for each of
//! thousands of files would take minutes. It also waits for bytes that other programs wrote, which delays rows but no
//! download.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use super::{BatchSink, FileContent, VerifiedFile};
use crate::batch::group_commit::EndedJob;
use crate::disk::{
    DownloadPaths, FileOwner, FilePermissions, UnnamedFile, file_owner, or_current_directory,
    sync_directory,
};
use crate::error::GetError;
use crate::get::single_response::UnnamedBody;
use crate::manifest::{ManifestRow, RowState};
use crate::options::ExistingFilePolicy;

/// Up to this many files or directories are synced one by one, which is cheaper than waiting for other programs' bytes.
const MAX_SINGLE_SYNCS: usize = 8;

/// A sink that writes files into directories.
#[derive(Debug)]
pub(in crate::batch) struct DirectorySink {
    /// What to do with existing files.
    existing: ExistingFilePolicy,
    /// Files that wait for their names.
    group: Vec<(UnnamedFile, Box<VerifiedFile>)>,
    /// Bytes in the group.
    bytes: u64,
}

impl DirectorySink {
    pub(in crate::batch) fn new(existing: ExistingFilePolicy) -> Self {
        Self {
            existing,
            group: Vec::new(),
            bytes: 0,
        }
    }

    /// Gives a file its name.
    fn name(&self, file: &UnnamedFile, paths: &DownloadPaths) -> Result<(), GetError> {
        let path = paths.path();
        let linked = if self.existing == ExistingFilePolicy::Keep {
            file.link(path)
        } else {
            if let Some(permissions) = FilePermissions::of_file(path) {
                permissions.apply(file.file());
            }
            file.replace(path, &paths.replacement())
        };
        linked.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => GetError::AlreadyExists {
                path: path.to_owned(),
            },
            _ => GetError::local("give its name to", path.to_owned(), error),
        })
    }
}

impl BatchSink for DirectorySink {
    fn add(&mut self, mut written: Box<VerifiedFile>) -> Result<(), Box<EndedJob>> {
        match std::mem::replace(&mut written.content, FileContent::Taken) {
            FileContent::Unnamed(UnnamedBody::File(file)) => {
                self.bytes += written.row.bytes;
                self.group.push((file, written));
                Ok(())
            }
            FileContent::Unnamed(UnnamedBody::Memory(..))
            | FileContent::Staged(_)
            | FileContent::Taken => {
                unreachable!("files are made on the table, and the larger ones are in their places")
            }
        }
    }

    fn pending(&self) -> (usize, u64) {
        (self.group.len(), self.bytes)
    }

    fn commit(&mut self) -> Vec<EndedJob> {
        let group = std::mem::take(&mut self.group);
        self.bytes = 0;
        let (mut ends, mut named) = (Vec::with_capacity(group.len()), Vec::new());
        let synced = sync(&group);
        for (file, written) in group {
            let path = &written.job.path;
            let result = match &synced {
                Ok(()) => self.name(&file, &written.job.paths()),
                Err(error) => Err(GetError::local("sync", path.clone(), copy_error(error))),
            };
            match result {
                Ok(()) => named.push((file, written)),
                Err(GetError::AlreadyExists { .. }) => ends.push(name_taken(written)),
                Err(error) => ends.push(EndedJob::failed(&written.job, error)),
            }
        }
        let durable = sync_names(&named);
        ends.extend(named.into_iter().map(|(_, written)| match &durable {
            Ok(()) => EndedJob::succeeded(written.row),
            Err(error) => {
                let path = written.job.path.clone();
                let error = GetError::local("sync the directory of", path, copy_error(error));
                EndedJob::failed(&written.job, error)
            }
        }));
        ends
    }

    fn rows_written(&mut self) -> Result<(), GetError> {
        Ok(())
    }

    fn finish(self: Box<Self>, _fruitless: bool) -> Result<(), GetError> {
        Ok(())
    }
}

/// The outcome of a file whose name was taken after the directory was checked, most likely by another haul. The other
/// file stays. If its mark says that it came from the same URL, the job counts as skipped. Otherwise this URL's file is
/// missing and the job has failed; the next run finds the name taken and looks which URL the file belongs to.
fn name_taken(written: Box<VerifiedFile>) -> EndedJob {
    let VerifiedFile { job, row, .. } = *written;
    let path = job.path.clone();
    if file_owner(&path) != FileOwner::Resource(job.resource_id()) {
        return EndedJob::failed(&job, GetError::NameTaken { path });
    }
    EndedJob::succeeded(ManifestRow {
        state: RowState::Skipped,
        ..row
    })
}

/// Makes the bytes of files durable.
fn sync(group: &[(UnnamedFile, Box<VerifiedFile>)]) -> io::Result<()> {
    if group.len() <= MAX_SINGLE_SYNCS {
        let mut files = group.iter().map(|(file, _)| file.file());
        return files.try_for_each(File::sync_data);
    }
    // A file is in the file system of its directory. Directories are fewer than files.
    let mut seen = BTreeSet::new();
    let mut devices = BTreeSet::new();
    for (file, written) in group {
        let file = file.file();
        let directory = written.job.path.parent();
        if seen.insert(directory) && devices.insert(device(file)?) {
            sync_all_of(file)?;
        }
    }
    Ok(())
}

/// Makes names durable, and those of the directories above, which may be new. A few directories are synced one by one,
/// if all of them can be opened. Otherwise their file systems are synced.
fn sync_names(named: &[(UnnamedFile, Box<VerifiedFile>)]) -> io::Result<()> {
    let mut directories = BTreeSet::new();
    for (_, written) in named {
        let paths = written.job.paths();
        let above = paths.directory().ancestors();
        directories.extend(above.map(|path| or_current_directory(path).to_owned()));
        if directories.len() > MAX_SINGLE_SYNCS {
            break;
        }
    }
    if directories.len() <= MAX_SINGLE_SYNCS
        && directories
            .iter()
            .all(|path| sync_directory(path, None).is_ok())
    {
        return Ok(());
    }
    let mut devices = BTreeSet::new();
    for (file, _) in named {
        if devices.insert(device(file.file())?) {
            sync_all_of(file.file())?;
        }
    }
    Ok(())
}

/// Makes everything in the file's file system durable.
#[cfg(target_os = "linux")]
fn sync_all_of(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all_of(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// The file system of a file.
#[cfg(target_os = "linux")]
fn device(file: &File) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.dev())
}

#[cfg(not(target_os = "linux"))]
fn device(_file: &File) -> io::Result<usize> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Ok(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A copy of an error: one failed sync is the error of many files.
pub(super) fn copy_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
