//! The thread that reads the lists. It turns entries into jobs, assigns their paths, and checks what exists already.
//!
//! It runs ahead of the workers as far as the dispatcher has room, and waits when it has none: downloads begin with the
//! first entry, and a list of millions of lines is never in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use haul_plan::{AssignedPaths, PathAssignment, PathCandidate, PathLayoutInput, RetryOptions};

use super::directory_cache::DirectoryCache;
use super::file_owner::OwnerCheck;
use super::group_commit::CommitMessage;
use super::job::{BatchJob, BatchJobStrategy, manifest_line};
use super::options::BatchOptions;
use super::sink::unstage;
use super::spill::SpillFile;
use super::spill_record;
use super::state::{BatchState, WindowFull};
use crate::disk::{
    DownloadPaths, StorageLayer, StoredValidators, load_validators, or_current_directory,
};
use crate::error::{ErrorClass, GetError};
use crate::list::{BadLine, ListEntry};
use crate::manifest::{ManifestRow, PreviousRuns, RowError, RowState, RowTimings};
use crate::options::ExistingFilePolicy;

/// The entries of a batch.
pub type ListEntries = Box<dyn Iterator<Item = Result<ListEntry, BadLine>> + Send>;

/// Reads the lists.
#[derive(Debug)]
pub(super) struct JobReader {
    /// Weak, so that a list that stands still (a pipe, a terminal) does not keep the batch alive.
    pub(super) shared: Weak<BatchState>,
    /// What to do with existing files.
    pub(super) existing: ExistingFilePolicy,
    /// The storage layer.
    pub(super) layer: StorageLayer,
    /// The retry budget of each job.
    pub(super) retry: RetryOptions,
    pub(super) options: BatchOptions,
    /// Whether the batch's file system supports unnamed files.
    pub(super) unnamed_files: bool,
    pub(super) previous_runs: Option<PreviousRuns>,
    /// Where large entries of an archive are stored meanwhile; `None` for a batch that writes files.
    pub(super) staging_directory: Option<PathBuf>,
    /// The paths that were assigned so far.
    pub(super) assigned_paths: AssignedPaths,
    /// Jobs of hosts that fill their share of the window.
    pub(super) spill: SpillFile,
    pub(super) directory_cache: DirectoryCache,
    pub(super) next_id: u64,
}

impl JobReader {
    /// Reads to the end, or until the batch is stopped.
    pub(super) fn run(mut self, entries: ListEntries) {
        let _closing = ListsEndGuard(Weak::clone(&self.shared));
        if let Err(error) = self.check_writable() {
            if let Some(shared) = self.shared.upgrade() {
                shared.halt(&error);
            }
            return;
        }
        for item in entries {
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            match item.map(|entry| self.job_for(entry)) {
                // Enqueued at once: nobody knows when the next line comes.
                Ok(Ok(job)) => {
                    shared.listed.fetch_add(1, Ordering::Relaxed);
                    self.enqueue(&shared, job);
                }
                Ok(Err(outcome)) => report_skipped(&shared, *outcome),
                Err(bad) => report_skipped(&shared, SkippedEntry::Ended(bad_line_row(&bad))),
            }
        }
        while !self.spill.is_empty() {
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            if shared.stop.is_cancelled() {
                return;
            }
            shared.wait_for_room();
            self.enqueue_spilled(&shared);
        }
    }

    /// Adds a job, waiting for room, or spills it if its host fills its share of the window.
    fn enqueue(&mut self, shared: &Arc<BatchState>, mut job: Box<BatchJob>) {
        let host = job.host();
        while !shared.stop.is_cancelled() {
            self.enqueue_spilled(shared);
            if self.spill.holds_jobs_of(&host) && self.spill_job(&host, &job) {
                return;
            }
            job = match shared.add(&host, job) {
                Ok(()) => return,
                Err(WindowFull::Host(job)) if self.spill_job(&host, &job) => return,
                Err(WindowFull::Host(job) | WindowFull::Window(job)) => job,
            };
            shared.wait_for_room();
        }
    }

    fn spill_job(&mut self, host: &str, job: &BatchJob) -> bool {
        let record = spill_record::encode(job).filter(|_| self.spill.has_room());
        record.is_some_and(|record| self.spill.push(host, &record).is_ok())
    }

    /// Adds spilled jobs as far as there is room.
    fn enqueue_spilled(&mut self, shared: &Arc<BatchState>) {
        while !self.spill.is_empty() {
            let taken = self.spill.pop(|host| shared.has_room_for(host));
            // A record that cannot be read back would be a job without an outcome.
            let read = taken.and_then(|taken| match taken {
                None => Ok(None),
                Some(record) => match spill_record::decode(&record, &self.retry) {
                    Some(job) => Ok(Some(Box::new(job))),
                    None => Err(io::ErrorKind::InvalidData.into()),
                },
            });
            let job = match read {
                Ok(Some(job)) => job,
                Ok(None) => return,
                Err(error) => {
                    let path = self.options.directory.clone();
                    let error = GetError::local("read the spilled jobs in", path, error);
                    return shared.halt(&error);
                }
            };
            let host = job.host();
            // This thread alone adds jobs, so there still is room.
            if let Err(WindowFull::Window(job) | WindowFull::Host(job)) = shared.add(&host, job) {
                shared.put_back(job);
            }
        }
    }

    /// Checks that files can be created, before any of them is fetched.
    fn check_writable(&mut self) -> Result<(), GetError> {
        let directory = self
            .staging_directory
            .as_ref()
            .unwrap_or(&self.options.directory);
        let directory = or_current_directory(directory);
        match self.layer.create_unnamed(directory) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.unnamed_files = false;
                Ok(())
            }
            Err(error) => Err(GetError::local("write into", directory.to_owned(), error)),
            Ok(_) => Ok(()),
        }
    }

    /// Makes a job, or the outcome of an entry that needs none.
    fn job_for(&mut self, entry: ListEntry) -> Result<Box<BatchJob>, Box<SkippedEntry>> {
        let index = self.next_id;
        self.next_id += 1;
        let path = self.assign_path(&entry, index)?;
        let staged = self
            .staging_directory
            .as_ref()
            .map(|directory| staging_path(directory, &path));
        let mut job = BatchJob::new(index, entry, (path, staged), &self.retry);
        let known = &job.download.checksums;
        let asked = self
            .options
            .checksums
            .iter()
            .filter(|asked| known.iter().all(|known| known.algorithm != asked.algorithm));
        let asked: Vec<_> = asked.cloned().collect();
        job.download.checksums.extend(asked);
        if let Some(outcome) = self.check_existing(&mut job) {
            return Err(outcome);
        }
        Ok(Box::new(job))
    }

    /// Checks what exists of a job already, which decides its strategy. Returns the outcome if nothing is to be done.
    fn check_existing(&mut self, job: &mut BatchJob) -> Option<Box<SkippedEntry>> {
        let done = self
            .previous_runs
            .as_ref()
            .filter(|past| past.is_done(&job.manifest_url(), Some(&job.manifest_path())));
        if done.is_some() && self.existing != ExistingFilePolicy::Update && is_still_there(job) {
            return Some(Box::new(SkippedEntry::DoneEarlier));
        }
        if job.staging_path.is_none() && self.existing != ExistingFilePolicy::Keep {
            // The file to be replaced may be behind a link. The new file is made in that file system.
            let real = DownloadPaths::following_links(job.path.clone())
                .path()
                .to_owned();
            job.link_target = Some(real).filter(|real| *real != job.path);
        }
        let target = job.paths();
        let directory = target.directory();
        if job.staging_path.is_some() && self.directory_cache.may_exist(directory, target.path()) {
            unstage(target.path());
        }
        let named = DownloadPaths::new(job.path.clone());
        if job.staging_path.is_none()
            && self.directory_cache.may_exist(named.directory(), &job.path)
        {
            if self
                .previous_runs
                .as_ref()
                .is_some_and(|past| past.is_manifest_path(&job.path))
            {
                return Some(Box::new(SkippedEntry::Ended(would_replace_manifest(job))));
            }
            let row = done
                .and_then(|past| past.done_row(&job.manifest_url(), Some(&job.manifest_path())));
            if let Some(outcome) = check_existing_file(job, self.existing, row) {
                return Some(Box::new(SkippedEntry::Ended(outcome)));
            }
        }
        let journal = target.journal();
        let begun = self.directory_cache.may_exist(directory, &journal)
            && journal.symlink_metadata().is_ok();
        if begun || !self.unnamed_files {
            job.strategy = BatchJobStrategy::PartialFile;
        }
        None
    }

    /// The path for an entry's file.
    fn assign_path(&mut self, entry: &ListEntry, index: u64) -> Result<PathBuf, Box<SkippedEntry>> {
        let subject = PathLayoutInput {
            url: &entry.url,
            index,
            line: entry.line,
        };
        let named = entry.path.clone();
        let explicit = named.is_some();
        let wanted = named.unwrap_or_else(|| self.options.layout.path(subject));
        // Equal names in different directories do not conflict.
        let wanted = match &entry.directory {
            Some(directory) => directory.join(wanted),
            None => wanted,
        };
        let mut owners = OwnerCheck {
            directory_cache: &mut self.directory_cache,
            previous_runs: self.previous_runs.as_ref(),
            directory: match self.staging_directory {
                Some(_) => None,
                None => Some(&self.options.directory),
            },
            overwrites: self.existing == ExistingFilePolicy::Overwrite,
            url: &entry.url,
        };
        let is_anothers = |candidate: PathCandidate<'_>| owners.belongs_to_other_url(&candidate);
        let placed = self
            .assigned_paths
            .assign(wanted.clone(), &entry.url, explicit, is_anothers);
        match placed {
            // Entries of an archive have relative names.
            PathAssignment::Assigned(path) if self.staging_directory.is_some() => Ok(path),
            PathAssignment::Assigned(path) => Ok(self.options.directory.join(path)),
            PathAssignment::Duplicate => Err(Box::new(SkippedEntry::Ended(duplicate_row(entry)))),
            PathAssignment::Conflict => {
                let url = Box::new(haul_net::without_credentials(&entry.url));
                let path = self.options.directory.join(wanted);
                let error = GetError::DuplicateName {
                    url,
                    path: path.clone(),
                };
                let job = BatchJob::new(index, entry.clone(), (path, None), &self.retry);
                Err(Box::new(SkippedEntry::Ended(CommitMessage::failed(
                    &job, error,
                ))))
            }
        }
    }
}

/// Closes the dispatcher when the reader ends, in whatever way.
struct ListsEndGuard(Weak<BatchState>);

impl Drop for ListsEndGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.dispatch().close();
            shared.over.notify_one();
        }
    }
}

/// An entry that makes no job.
enum SkippedEntry {
    /// Its outcome.
    Ended(CommitMessage),
    /// An earlier run has done it and has a row for it.
    DoneEarlier,
}

fn report_skipped(shared: &BatchState, outcome: SkippedEntry) {
    shared.listed.fetch_add(1, Ordering::Relaxed);
    match outcome {
        // The commit thread ends after this one, unless it panicked.
        SkippedEntry::Ended(delivery) => drop(shared.clerk.blocking_send(vec![delivery])),
        SkippedEntry::DoneEarlier => drop(shared.earlier.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Where a large entry of an archive is stored meanwhile. The name is the same in every run, so that a later run can
/// continue it.
fn staging_path(directory: &Path, path: &Path) -> PathBuf {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    directory.join(&hash[..32])
}

/// Checks the file under the final name. Returns the outcome if nothing is to be done. `row` is the manifest's.
fn check_existing_file(
    job: &mut BatchJob,
    existing: ExistingFilePolicy,
    row: Option<ManifestRow>,
) -> Option<CommitMessage> {
    let path = job.path.clone();
    let found = match path.metadata() {
        Ok(found) => found,
        // A dangling link takes the name.
        Err(_) if path.is_symlink() && existing == ExistingFilePolicy::Keep => {
            return Some(CommitMessage::failed(job, GetError::AlreadyExists { path }));
        }
        Err(_) => return None,
    };
    if found.is_dir() {
        return Some(CommitMessage::failed(job, GetError::IsDirectory { path }));
    }
    if !found.is_file() {
        let what = "it is not a regular file";
        return Some(CommitMessage::failed(
            job,
            GetError::PathOccupied { path, reason: what },
        ));
    }
    match existing {
        ExistingFilePolicy::Keep if job.has_other_size(found.len()) => {
            let what = "its size is not the one in the list, and only --overwrite replaces it";
            Some(CommitMessage::failed(
                job,
                GetError::PathOccupied { path, reason: what },
            ))
        }
        ExistingFilePolicy::Keep if job.has_digest() => {
            job.strategy = BatchJobStrategy::VerifyExisting;
            None
        }
        // Whoever made the file, it stays, and the row says no more than that.
        ExistingFilePolicy::Keep => Some(CommitMessage::ended(ManifestRow {
            bytes: found.len(),
            ..job.row(RowState::Skipped)
        })),
        ExistingFilePolicy::Overwrite => None,
        ExistingFilePolicy::Update => {
            // The row tells of the file that was written then.
            let tag = row
                .filter(|row| row.bytes == found.len())
                .and_then(|row| row.etag);
            job.stored_validators =
                load_validators(&path, job.resource_id()).map(|have| StoredValidators {
                    etag: have.etag.or(tag),
                    ..have
                });
            None
        }
    }
}

/// Whether the result of an earlier run is still there. An archive may have been moved away, so its rows decide.
fn is_still_there(job: &BatchJob) -> bool {
    job.staging_path.is_some() || job.path.symlink_metadata().is_ok()
}

/// The outcome of a job that would replace the manifest.
fn would_replace_manifest(job: &BatchJob) -> CommitMessage {
    let why = io::Error::other("it is the manifest of this batch");
    CommitMessage::failed(job, GetError::local("replace", job.path.clone(), why))
}

/// The outcome of a repeated entry.
fn duplicate_row(entry: &ListEntry) -> CommitMessage {
    CommitMessage::ended(ManifestRow {
        line: manifest_line(entry.line),
        url: haul_net::redacted_url(&entry.url).to_string(),
        state: RowState::Skipped,
        ..empty_row()
    })
}

/// The outcome of an unreadable line.
fn bad_line_row(bad: &BadLine) -> CommitMessage {
    CommitMessage::ended(ManifestRow {
        line: manifest_line(bad.line),
        error: Some(RowError {
            class: ErrorClass::Usage,
            text: format!("{bad}: {}", bad.problem),
        }),
        ..empty_row()
    })
}

/// A row of a job that was never begun.
fn empty_row() -> ManifestRow {
    ManifestRow {
        line: None,
        url: String::new(),
        path: None,
        state: RowState::Failed,
        status: None,
        bytes: 0,
        checksums: Vec::new(),
        etag: None,
        attempts: 0,
        timings: RowTimings::default(),
        error: None,
        shard: None,
    }
}
