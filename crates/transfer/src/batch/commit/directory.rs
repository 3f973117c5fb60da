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

use super::{BatchSink, FetchedFileContent, VerifiedFile, copy_error};
use crate::batch::job::BatchJob;
use crate::batch::outcome::JobOutcome;
use crate::disk::{
    FileOwner, FilePermissions, UnnamedFile, file_owner, or_current_directory, sync_directory,
};
use crate::error::{GetError, LocalError};
use crate::get::UnnamedBody;
use crate::manifest::{JobRowState, ManifestRow};
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
}

impl DirectorySink {
    pub(in crate::batch) fn new(existing: ExistingFilePolicy) -> Self {
        Self {
            existing,
            group: Vec::new(),
        }
    }

    fn name(&self, file: &UnnamedFile, job: &BatchJob) -> Result<(), GetError> {
        let paths = job.paths();
        let path = paths.path();
        let replaces = job.download.replaces_file || self.existing != ExistingFilePolicy::Keep;
        let linked = if !replaces {
            file.link(path)
        } else {
            if let Some(permissions) = FilePermissions::of_file(path) {
                permissions.apply(file.file());
            }
            file.replace(path, &paths.replacement())
        };
        linked.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                GetError::local(path.to_owned(), LocalError::AlreadyExists)
            }
            _ => GetError::io("give its name to", path.to_owned(), error),
        })
    }
}

impl BatchSink for DirectorySink {
    fn add(
        &mut self,
        file: Box<VerifiedFile>,
        content: FetchedFileContent,
    ) -> Result<(), Box<JobOutcome>> {
        let FetchedFileContent::Unnamed(UnnamedBody::File(unnamed)) = content else {
            unreachable!("the write buffer makes unnamed files, and large files have their names")
        };
        self.group.push((unnamed, file));
        Ok(())
    }

    fn commit(&mut self) -> Vec<JobOutcome> {
        let group = std::mem::take(&mut self.group);
        let (mut outcomes, mut named) = (Vec::with_capacity(group.len()), Vec::new());
        let synced = sync(&group);
        for (file, verified) in group {
            let path = &verified.job.path;
            let result = match &synced {
                Ok(()) => self.name(&file, &verified.job),
                Err(error) => Err(GetError::io("sync", path.clone(), copy_error(error))),
            };
            match result {
                Ok(()) => named.push((file, verified)),
                Err(GetError::Local {
                    error: LocalError::AlreadyExists,
                    ..
                }) => outcomes.push(name_taken(verified)),
                Err(error) => outcomes.push(JobOutcome::failed(&verified.job, error)),
            }
        }
        let durable = sync_names(&named);
        outcomes.extend(named.into_iter().map(|(_, verified)| match &durable {
            Ok(()) => JobOutcome::success(verified.row),
            Err(error) => {
                let path = verified.job.path.clone();
                let error = GetError::io("sync the directory of", path, copy_error(error));
                JobOutcome::failed(&verified.job, error)
            }
        }));
        outcomes
    }
}

/// The outcome of a file whose name was taken after the directory was checked, most likely by another haul. The other
/// file stays. If its mark says that it came from the same URL, the job counts as skipped. Otherwise this URL's file is
/// missing and the job has failed; the next run finds the name taken and looks which URL the file belongs to.
fn name_taken(verified: Box<VerifiedFile>) -> JobOutcome {
    let VerifiedFile { job, row, .. } = *verified;
    let path = job.path.clone();
    if file_owner(&path) != FileOwner::Resource(job.resource_id()) {
        return JobOutcome::failed(&job, GetError::local(path, LocalError::NameTaken));
    }
    JobOutcome::success(ManifestRow {
        state: JobRowState::Skipped,
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
    for (file, verified) in group {
        let file = file.file();
        let directory = verified.job.path.parent();
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
    for (_, verified) in named {
        let paths = verified.job.paths();
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
fn sync_all_of(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

/// The file system of a file.
fn device(file: &File) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.dev())
}
