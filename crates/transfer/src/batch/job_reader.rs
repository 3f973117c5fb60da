//! The thread that reads the lists: makes jobs of entries, gives them their names, and looks what is there already.
//!
//! It runs ahead of the workers by as much as the dispatcher takes, and waits when that is full: downloads begin with the first
//! entry, and a list of millions lies nowhere in memory.

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

/// What a batch reads.
pub type ListEntries = Box<dyn Iterator<Item = Result<ListEntry, BadLine>> + Send>;

/// Reads lists.
#[derive(Debug)]
pub(super) struct JobReader {
    /// The workers' side, which does not wait for a list that stands still (a pipe, a terminal) when it is through.
    pub(super) shared: Weak<BatchState>,
    /// What becomes of files that are there.
    pub(super) existing: ExistingFilePolicy,
    /// What lies between the batch and its files.
    pub(super) layer: StorageLayer,
    /// The retry budget of each job.
    pub(super) retry: RetryOptions,
    /// The settings.
    pub(super) options: BatchOptions,
    /// Whether files can be without a name where the batch's lie.
    pub(super) unnamed_files: bool,
    /// What earlier runs have done.
    pub(super) previous_runs: Option<PreviousRuns>,
    /// Where entries of an archive lie that are too large for memory; `None` where files get names.
    pub(super) staging_directory: Option<PathBuf>,
    /// The paths that were given out.
    pub(super) assigned_paths: AssignedPaths,
    /// Jobs of hosts that have enough of the window.
    pub(super) spill: SpillFile,
    /// What lies in the directories.
    pub(super) directory_cache: DirectoryCache,
    /// The next job's number.
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
                // At once, for nobody knows when the next line comes.
                Ok(Ok(job)) => {
                    shared.listed.fetch_add(1, Ordering::Relaxed);
                    self.enqueue(&shared, job);
                }
                Ok(Err(told)) => report_skipped(&shared, *told),
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

    /// Hands a job over, waiting for room, or puts it aside where its host has enough.
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

    /// Hands over what lies aside, as far as there is room.
    fn enqueue_spilled(&mut self, shared: &Arc<BatchState>) {
        while !self.spill.is_empty() {
            let taken = self.spill.pop(|host| shared.has_room_for(host));
            // What cannot be read back is a job that nobody would do or tell of.
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
                    let error = GetError::local("read what was put aside in", path, error);
                    return shared.halt(&error);
                }
            };
            let host = job.host();
            // Nobody else adds, so there still is room.
            if let Err(WindowFull::Window(job) | WindowFull::Host(job)) = shared.add(&host, job) {
                shared.put_back(job);
            }
        }
    }

    /// That files can be made where all of them go: better now than after each of them was fetched.
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

    /// A job, or what there is to tell of an entry that makes none.
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
        if let Some(told) = self.check_existing(&mut job) {
            return Err(told);
        }
        Ok(Box::new(job))
    }

    /// Looks what is there of a job already, and which road it goes; what there is to tell if it needs none.
    fn check_existing(&mut self, job: &mut BatchJob) -> Option<Box<SkippedEntry>> {
        let done = self
            .previous_runs
            .as_ref()
            .filter(|past| past.is_done(&job.manifest_url(), Some(&job.manifest_path())));
        if done.is_some() && self.existing != ExistingFilePolicy::Update && is_still_there(job) {
            return Some(Box::new(SkippedEntry::DoneEarlier));
        }
        if job.staging_path.is_none() && self.existing != ExistingFilePolicy::Keep {
            // What is to be replaced may be behind a link; what replaces it is made in its file system.
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
            if let Some(told) = check_existing_file(job, self.existing, row) {
                return Some(Box::new(SkippedEntry::Ended(told)));
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

    /// The path that an entry's file gets.
    fn assign_path(&mut self, entry: &ListEntry, index: u64) -> Result<PathBuf, Box<SkippedEntry>> {
        let subject = PathLayoutInput {
            url: &entry.url,
            index,
            line: entry.line,
        };
        let named = entry.path.clone();
        let explicit = named.is_some();
        let wanted = named.unwrap_or_else(|| self.options.layout.path(subject));
        // Those of another directory are told apart by it.
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
            // The names of entries in an archive are relative.
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

/// Says that the lists have ended, however the reading of them did.
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
    /// It ended as this says.
    Ended(CommitMessage),
    /// An earlier run has done it, and its row says so.
    DoneEarlier,
}

fn report_skipped(shared: &BatchState, told: SkippedEntry) {
    shared.listed.fetch_add(1, Ordering::Relaxed);
    match told {
        // The clerk ends after us, unless it panicked.
        SkippedEntry::Ended(delivery) => drop(shared.clerk.blocking_send(vec![delivery])),
        SkippedEntry::DoneEarlier => drop(shared.earlier.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Where an entry of an archive lies until it is in: the same on every run, so that a large one can be gone on with.
fn staging_path(directory: &Path, path: &Path) -> PathBuf {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    directory.join(&hash[..32])
}

/// Looks what lies under the final name; what there is to tell if the job ends with that. `done_row` is what the manifest says of it.
fn check_existing_file(
    job: &mut BatchJob,
    existing: ExistingFilePolicy,
    row: Option<ManifestRow>,
) -> Option<CommitMessage> {
    let path = job.path.clone();
    let found = match path.metadata() {
        Ok(found) => found,
        // A link that leads nowhere is a name that is taken.
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
            let what =
                "its size is not the one that the list says, and only --overwrite replaces it";
            Some(CommitMessage::failed(
                job,
                GetError::PathOccupied { path, reason: what },
            ))
        }
        ExistingFilePolicy::Keep if job.has_digest() => {
            job.strategy = BatchJobStrategy::VerifyExisting;
            None
        }
        // Whoever put it there: it stays, and nothing is said of it but that.
        ExistingFilePolicy::Keep => Some(CommitMessage::ended(ManifestRow {
            bytes: found.len(),
            ..job.row(RowState::Skipped)
        })),
        ExistingFilePolicy::Overwrite => None,
        ExistingFilePolicy::Update => {
            // A row's word is about the file that it was written for.
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

/// Whether what an earlier run has done is still there. Of an archive the rows know best: it may have been taken elsewhere.
fn is_still_there(job: &BatchJob) -> bool {
    job.staging_path.is_some() || job.path.symlink_metadata().is_ok()
}

/// A job whose file would take the place of the manifest.
fn would_replace_manifest(job: &BatchJob) -> CommitMessage {
    let why = io::Error::other("it is the manifest of this batch");
    CommitMessage::failed(job, GetError::local("replace", job.path.clone(), why))
}

/// A job that the lists named before.
fn duplicate_row(entry: &ListEntry) -> CommitMessage {
    CommitMessage::ended(ManifestRow {
        line: manifest_line(entry.line),
        url: haul_net::redacted_url(&entry.url).to_string(),
        state: RowState::Skipped,
        ..empty_row()
    })
}

/// A line that names no job.
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
