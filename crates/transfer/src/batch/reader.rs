//! The thread that reads the lists. It turns entries into jobs, assigns their paths, and checks what exists already.
//!
//! It runs ahead of the workers as far as the queue has room, and waits when it has none: downloads begin with the first
//! entry, and a list of millions of lines is never in memory.

mod directory_cache;
mod file_owner;
mod linked_folders;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use haul_plan::Checksum;
use tokio_util::sync::CancellationToken;

use super::commit::{CommitMessage, remove_stale_staged};
use super::counters::BatchCounters;
use super::existing_file::{check_existing, unexpected_content};
use super::job::{BatchJob, BatchJobStrategy, manifest_line, manifest_path};
use super::job_queue::JobQueue;
use super::options::{BatchOptions, StopReason};
use super::outcome::{JobOutcome, error_chain};
use super::output::BatchOutput;
use super::published_rows::PublishedRows;
use super::workers::WorkerPool;
use crate::checksum::hex;
use crate::disk::{DownloadPaths, StorageWrapping, folds_names, or_current_directory};
use crate::error::{ErrorClass, GetError, LocalError};
use crate::layout::{AssignedPaths, PathAssignment, PathCandidate, PathLayoutInput};
use crate::list::{BadLine, ListEntry};
use crate::listed_version::{ListedVersion, NotedVersion};
use crate::manifest::{JobRowState, ManifestRow, ManifestRowError, PreviousRuns};
use crate::options::{ExistingFilePolicy, GetOptions};
use crate::response::ContentExpectation;
use directory_cache::DirectoryCache;
use file_owner::FileOwnerLookup;
use linked_folders::LinkedFolders;

/// The memory that jobs of slow hosts may take while haul reads on to those of other hosts, in bytes: some 10,000 jobs. All that a batch
/// needs is 64 MiB (row C1).
const MAX_READ_AHEAD: usize = 8 << 20;

/// Why a job has no file: the folder is on a disk that folds names.
const SAME_NAME_IN_FOLDER: &str = "the folder takes another file's name for the same, which differs only in the case or form of letters";

/// The same, where another folder would have the file.
const BEHIND_LINK: &str = "it is a link, and files are not written behind links to folders";

/// The entries of a batch.
pub type ListEntries = Box<dyn Iterator<Item = Result<ListEntry, BadLine>> + Send>;

/// What the reader needs to know about the batch.
#[derive(Debug)]
pub(super) struct ReaderSettings {
    pub(super) options: BatchOptions,
    /// What to do with existing files.
    pub(super) existing_files: ExistingFilePolicy,
    /// What files must be like, existing ones too.
    pub(super) expected_content: ContentExpectation,
    pub(super) storage_wrapping: StorageWrapping,
    /// Where notes about files are that their file system does not keep.
    pub(super) notes_directory: Option<PathBuf>,
    pub(super) previous_runs: Option<PreviousRuns>,
    /// Where large files are stored meanwhile; `None` for a batch that writes files.
    pub(super) staging_directory: Option<PathBuf>,
    /// Whether files have no paths, and are only staged.
    pub(super) is_memory: bool,
}

/// Reads the lists.
#[derive(Debug)]
pub(super) struct JobReader {
    settings: ReaderSettings,
    /// Weak, so that a list that stands still (a pipe, a terminal) does not keep the batch alive.
    workers: Weak<WorkerPool>,
    queue: Arc<JobQueue>,
    counters: Arc<BatchCounters>,
    /// Ends the batch.
    stop: CancellationToken,
    /// Whether the batch's file system supports unnamed files.
    has_unnamed_files: bool,
    /// The paths that were assigned so far.
    assigned_paths: AssignedPaths,
    /// The memory of the largest job so far, in bytes.
    largest_job: usize,
    directory_cache: DirectoryCache,
    linked_folders: LinkedFolders,
    next_id: u64,
}

impl ReaderSettings {
    /// Settings for a batch without earlier runs.
    pub(super) fn new(options: &BatchOptions, get: &GetOptions, output: &BatchOutput) -> Self {
        Self {
            options: options.clone(),
            existing_files: get.existing_file,
            expected_content: get.expected_content.clone(),
            storage_wrapping: get.storage_wrapping.clone(),
            notes_directory: get.notes_directory.clone(),
            previous_runs: None,
            staging_directory: output.staging_directory().map(Path::to_owned),
            is_memory: output.is_memory(),
        }
    }

    /// The directory that files are written into.
    fn output_directory(&self) -> &Path {
        let staging = self.staging_directory.as_ref();
        staging.unwrap_or(&self.options.directory)
    }

    /// Where results are kept for entries that repeat a URL. Without paths no entry repeats another.
    pub(super) fn published_rows(&self) -> Option<PublishedRows> {
        let is_wanted = self.options.repeats_have_results && !self.is_memory;
        is_wanted.then(|| PublishedRows::new(self.output_directory()))
    }
}

impl JobReader {
    pub(super) fn new(
        settings: ReaderSettings,
        workers: &Arc<WorkerPool>,
        queue: Arc<JobQueue>,
        counters: Arc<BatchCounters>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            workers: Arc::downgrade(workers),
            queue,
            counters,
            stop,
            has_unnamed_files: true,
            assigned_paths: AssignedPaths::new(),
            largest_job: 1,
            directory_cache: DirectoryCache::default(),
            linked_folders: LinkedFolders::default(),
            next_id: 0,
            settings,
        }
    }

    /// Reads to the end, or until the batch is stopped.
    pub(super) fn run(mut self, entries: ListEntries) {
        let _guard = ListsEndGuard {
            queue: Arc::clone(&self.queue),
            workers: Weak::clone(&self.workers),
            stop: self.stop.clone(),
        };
        if let Err(error) = self.check_writable() {
            return self.halt(StopReason::LocalIo, error_chain(&error));
        }
        for item in entries {
            let Some(workers) = self.workers.upgrade() else {
                return;
            };
            let job = match item {
                Ok(entry) => self.job_for(entry),
                Err(bad) if bad.problem.is_wrong_file() => {
                    return self.halt(StopReason::UnusableList, bad_line_text(&bad));
                }
                Err(bad) => Err(SkippedEntry::from(bad_line_outcome(&bad))),
            };
            self.counters.count_listed();
            match job {
                // Enqueued at once: nobody knows when the next line comes.
                Ok(job) => {
                    self.counters.count_job(job.listed_size());
                    self.enqueue(&workers, job);
                }
                Err(SkippedEntry::Outcome(mut outcome)) => {
                    // Its bytes are none that were planned.
                    outcome.row.listed_size = None;
                    workers.report(*outcome);
                }
                Err(SkippedEntry::DoneEarlier(row)) => {
                    self.counters.count_done_earlier();
                    if let Some(row) = row {
                        workers.report(CommitMessage::DoneEarlier(row));
                    }
                }
            }
        }
    }

    /// Adds a job, waiting for room.
    fn enqueue(&mut self, workers: &Arc<WorkerPool>, mut job: Box<BatchJob>) {
        self.largest_job = self.largest_job.max(job.memory());
        let max_window = MAX_READ_AHEAD / self.largest_job;
        while !self.stop.is_cancelled() {
            job = match self.queue.try_add(job, max_window) {
                Ok(true) => return workers.start_jobs(),
                Ok(false) => return,
                Err(job) => job,
            };
            self.queue.wait_for_room();
        }
    }

    fn halt(&self, reason: StopReason, text: String) {
        self.counters.stop(reason, text);
        self.stop.cancel();
    }

    /// Checks that files can be created, before any of them is fetched.
    fn check_writable(&mut self) -> Result<(), GetError> {
        let directory = or_current_directory(self.settings.output_directory());
        match self.settings.storage_wrapping.create_unnamed(directory) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.has_unnamed_files = false;
                Ok(())
            }
            // Only large files need it.
            Err(_) if self.settings.is_memory => Ok(()),
            Err(error) => Err(GetError::io("write into", directory.to_owned(), error)),
            Ok(_) => Ok(()),
        }
    }

    /// Makes a job of an entry, unless nothing is to be done for it.
    fn job_for(&mut self, entry: ListEntry) -> Result<Box<BatchJob>, SkippedEntry> {
        let id = self.next_id;
        self.next_id += 1;
        let (path, staging_path) = self.job_paths(&entry, id)?;
        let mut job = BatchJob::new(id, entry, path, staging_path);
        let listed = &job.download.checksums;
        let requested = self.settings.options.checksums.iter();
        let further: Vec<_> = requested
            .filter(|sum| {
                listed
                    .iter()
                    .all(|listed| listed.algorithm != sum.algorithm)
            })
            .cloned()
            .collect();
        job.download.checksums.extend(further);
        match self.skip_existing(&mut job) {
            Some(skipped) => Err(skipped),
            None => Ok(Box::new(job)),
        }
    }

    /// Checks what exists of a job already, which decides its strategy. `Some` if nothing is to be done.
    fn skip_existing(&mut self, job: &mut BatchJob) -> Option<SkippedEntry> {
        let policy = self.settings.existing_files;
        let previous_runs = self.settings.previous_runs.as_ref();
        let recorded = previous_runs.and_then(|runs| DoneJob::find(runs, job));
        let unexpected = match job.staging_path {
            Some(_) => None,
            None => unexpected_content(&job.path, &self.settings.expected_content),
        };
        if let Some(recorded) = &recorded
            && unexpected.is_none()
            && policy != ExistingFilePolicy::Update
            && is_still_there(job)
            && recorded.is_as_listed(job)
        {
            let reports_rows = self.settings.options.report_every_row;
            let row = reports_rows.then(|| Box::new(recorded.skipped_row(job)));
            return Some(SkippedEntry::DoneEarlier(row));
        }
        if job.staging_path.is_none() {
            if self.directory_cache.may_exist(&job.path) {
                if previous_runs.is_some_and(|runs| runs.is_manifest_path(&job.path)) {
                    return Some(manifest_outcome(job).into());
                }
                let row = recorded.and_then(|recorded| recorded.row());
                let notes = self.settings.notes_directory.as_deref();
                if let Some(outcome) = check_existing(job, policy, row, unexpected, notes) {
                    return Some(outcome.into());
                }
            }
            if policy != ExistingFilePolicy::Keep || job.download.replaces_file {
                // The file to be replaced may be behind a link. The new file is made in that file system.
                let target = DownloadPaths::following_links(job.path.clone())
                    .path()
                    .to_owned();
                job.link_target = Some(target).filter(|target| *target != job.path);
            }
        }
        if self.look_for_partial_file(job) || !self.has_unnamed_files {
            job.strategy = BatchJobStrategy::PartialFile;
        }
        None
    }

    /// Whether an earlier run has left a part of the file. A whole one that it has left in the staging directory is removed.
    fn look_for_partial_file(&mut self, job: &BatchJob) -> bool {
        // The staging directory of a batch into memory is its own.
        if self.settings.is_memory || self.directory_cache.is_empty(job.written_path()) {
            return false;
        }
        if let Some(staged) = &job.staging_path
            && self.directory_cache.may_exist(staged)
        {
            remove_stale_staged(staged);
        }
        let journal = job.paths().journal();
        self.directory_cache.may_exist(&journal) && journal.symlink_metadata().is_ok()
    }

    /// The path for an entry's file, and where a large file is stored meanwhile.
    fn job_paths(
        &mut self,
        entry: &ListEntry,
        id: u64,
    ) -> Result<(PathBuf, Option<PathBuf>), SkippedEntry> {
        if let Some(directory) = &self.settings.staging_directory
            && self.settings.is_memory
        {
            let path = join(directory, &id.to_string());
            return Ok((path.clone(), Some(path)));
        }
        let path = self.assign_path(entry, id)?;
        let options = &self.settings.options;
        if self.settings.staging_directory.is_none()
            && !options.follows_links
            && let Some(link) = self.linked_folders.find(&options.directory, &path)
        {
            let error = GetError::local(
                link,
                LocalError::Occupied {
                    reason: BEHIND_LINK,
                    is_replaceable: false,
                },
            );
            return Err(failed_outcome(id, entry, path, error).into());
        }
        let staging_directory = self.settings.staging_directory.as_ref();
        let staging_path = staging_directory.map(|directory| staging_path(directory, &path));
        Ok((path, staging_path))
    }

    /// The path for an entry's file.
    fn assign_path(&mut self, entry: &ListEntry, id: u64) -> Result<PathBuf, SkippedEntry> {
        let options = &self.settings.options;
        let is_explicit = entry.path.is_some();
        let path = entry.path.clone().unwrap_or_else(|| {
            options.layout.path(PathLayoutInput {
                url: &entry.url,
                index: id,
                line: entry.line,
            })
        });
        // Equal names in different directories do not conflict.
        let path = entry.directory.clone().unwrap_or_default().join(path);
        let is_archive = self.settings.staging_directory.is_some();
        let mut owners = FileOwnerLookup {
            directory_cache: &mut self.directory_cache,
            previous_runs: self.settings.previous_runs.as_ref(),
            directory: (!is_archive).then_some(&options.directory),
            overwrites: self.settings.existing_files == ExistingFilePolicy::Overwrite,
            url: &entry.url,
        };
        let belongs_to_other =
            |candidate: PathCandidate<'_>| owners.belongs_to_other_url(&candidate);
        let assignment =
            self.assigned_paths
                .assign(path.clone(), &entry.url, is_explicit, belongs_to_other);
        // Entries of an archive have relative names.
        let in_directory = |path| {
            if is_archive {
                path
            } else {
                options.directory.join(path)
            }
        };
        match assignment {
            PathAssignment::Assigned(path) => Ok(in_directory(path)),
            PathAssignment::AssignedUnlessFolded(path) => {
                let path = in_directory(path);
                if !is_archive && folds_names(&path) {
                    Err(occupied_outcome(id, entry, path, SAME_NAME_IN_FOLDER).into())
                } else {
                    Ok(path)
                }
            }
            PathAssignment::Duplicate(path) => {
                let path = in_directory(path);
                let row = duplicate_row(entry);
                Err(if options.repeats_have_results {
                    JobOutcome::repeat(row, manifest_path(&path)).into()
                } else {
                    JobOutcome::success(row).into()
                })
            }
            PathAssignment::Conflict => {
                let path = options.directory.join(path);
                let error = GetError::local(
                    path.clone(),
                    LocalError::DuplicateName {
                        url: Box::new(haul_net::without_credentials(&entry.url)),
                    },
                );
                Err(failed_outcome(id, entry, path, error).into())
            }
        }
    }
}

/// A job that an earlier run has done.
struct DoneJob<'a> {
    previous_runs: &'a PreviousRuns,
    url: String,
    path: String,
}

impl<'a> DoneJob<'a> {
    fn find(previous_runs: &'a PreviousRuns, job: &BatchJob) -> Option<Self> {
        let (url, path) = (job.manifest_url(), job.manifest_path());
        let is_done = previous_runs.is_done(&url, Some(&path));
        is_done.then_some(Self {
            previous_runs,
            url,
            path,
        })
    }

    fn row(&self) -> Option<ManifestRow> {
        self.previous_runs.done_row(&self.url, Some(&self.path))
    }

    /// Whether what was done then is what the list names now: its version, and the digests that it gives.
    fn is_as_listed(&self, job: &BatchJob) -> bool {
        if job.listed.is_none() && !job.has_digest() {
            return true;
        }
        let Some(row) = self.row() else {
            return false;
        };
        let noted = NotedVersion {
            // The entries of an archive are no files.
            size: match job.staging_path {
                Some(_) => row.bytes,
                None => job.path.metadata().map_or(row.bytes, |found| found.len()),
            },
            entity_tag: row.etag,
            ..NotedVersion::default()
        };
        let is_version = |listed: &ListedVersion| listed.difference(&noted).is_none();
        let has_digest = |listed: &Checksum| {
            let digest = listed.digest.as_deref().map(hex);
            let mut same = row
                .checksums
                .iter()
                .filter(|(algorithm, _)| *algorithm == listed.algorithm);
            digest.is_none_or(|digest| same.all(|(_, noted)| *noted == digest))
        };
        job.listed.as_ref().is_none_or(is_version) && job.download.checksums.iter().all(has_digest)
    }

    /// A row of this run about the job.
    fn skipped_row(&self, job: &BatchJob) -> ManifestRow {
        let row = job.row(JobRowState::Skipped);
        match self.row() {
            Some(done) => ManifestRow {
                bytes: done.bytes,
                checksums: done.checksums,
                etag: done.etag,
                shard: done.shard,
                ..row
            },
            None => row,
        }
    }
}

/// Closes the queue when the reader ends, in whatever way.
struct ListsEndGuard {
    queue: Arc<JobQueue>,
    workers: Weak<WorkerPool>,
    stop: CancellationToken,
}

impl Drop for ListsEndGuard {
    fn drop(&mut self) {
        // The list of a store ends when it is stopped, and is not complete then.
        if !self.stop.is_cancelled() {
            self.queue.close();
        }
        if let Some(workers) = self.workers.upgrade() {
            workers.notify_coordinator();
        }
    }
}

/// An entry that makes no job.
enum SkippedEntry {
    /// Its outcome.
    Outcome(Box<JobOutcome>),
    /// An earlier run has done it and has a row for it. With a row of this run, where all rows are reported.
    DoneEarlier(Option<Box<ManifestRow>>),
}

impl From<JobOutcome> for SkippedEntry {
    fn from(outcome: JobOutcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

/// Where a large file is stored on its way into an archive. The name depends on its path alone, so that a later run can continue it.
fn staging_path(directory: &Path, path: &Path) -> PathBuf {
    let digest = blake3::hash(path.as_os_str().as_encoded_bytes());
    join(directory, &digest.to_hex()[..32])
}

/// The path of a file in a directory, with one allocation.
fn join(directory: &Path, name: &str) -> PathBuf {
    let mut path = PathBuf::with_capacity(directory.as_os_str().len() + 1 + name.len());
    path.push(directory);
    path.push(name);
    path
}

/// Whether the result of an earlier run is still there. An archive may have been moved away, so its rows decide.
fn is_still_there(job: &BatchJob) -> bool {
    job.staging_path.is_some() || job.path.symlink_metadata().is_ok()
}

/// The outcome of a job that cannot have this path.
fn failed_outcome(id: u64, entry: &ListEntry, path: PathBuf, error: GetError) -> JobOutcome {
    JobOutcome::failed(&BatchJob::new(id, entry.clone(), path, None), error)
}

/// The outcome of a job whose name the folder takes for that of another job (row B10).
fn occupied_outcome(id: u64, entry: &ListEntry, path: PathBuf, reason: &'static str) -> JobOutcome {
    let error = GetError::local(
        path.clone(),
        LocalError::Occupied {
            reason,
            is_replaceable: false,
        },
    );
    failed_outcome(id, entry, path, error)
}

/// The outcome of a job that would replace the manifest.
fn manifest_outcome(job: &BatchJob) -> JobOutcome {
    let reason = io::Error::other("it is the manifest of this batch");
    JobOutcome::failed(job, GetError::io("replace", job.path.clone(), reason))
}

/// The row of a repeated entry.
fn duplicate_row(entry: &ListEntry) -> ManifestRow {
    let url = haul_net::redacted_url(&entry.url);
    ManifestRow::new(manifest_line(entry.line), url, JobRowState::Skipped)
}

/// The outcome of an unreadable line.
fn bad_line_outcome(bad: &BadLine) -> JobOutcome {
    JobOutcome::success(ManifestRow {
        error: Some(ManifestRowError {
            cause: "the line cannot be parsed".into(),
            ..ManifestRowError::new(ErrorClass::Usage, bad_line_text(bad))
        }),
        ..ManifestRow::new(
            manifest_line(bad.line),
            bad.url.clone().unwrap_or_default(),
            JobRowState::Failed,
        )
    })
}

fn bad_line_text(bad: &BadLine) -> String {
    format!("{bad}: {}", bad.problem)
}
