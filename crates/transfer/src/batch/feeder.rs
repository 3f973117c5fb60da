//! The thread that reads the lists: makes jobs of entries, gives them their names, and looks what is there already.
//!
//! It runs ahead of the workers by as much as the dispatcher takes, and waits when that is full: downloads begin with the first
//! entry, and a list of millions lies nowhere in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use haul_plan::{AssignedPaths, PathAssignment, PathCandidate, PathLayoutInput, RetryOptions};

use super::aside::SpillFile;
use super::clerk::CommitMessage;
use super::errand::{BatchJob, BatchJobStrategy, line};
use super::options::BatchOptions;
use super::present::DirectoryCache;
use super::record;
use super::shared::{BatchState, WindowFull};
use super::sink::unstage;
use super::whose::FileOwners;
use crate::disk::{DownloadPaths, StorageLayer, StoredValidators, or_here, remembered};
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
    pub(super) unnamed: bool,
    /// What earlier runs have done.
    pub(super) past: Option<PreviousRuns>,
    /// Where entries of an archive lie that are too large for memory; `None` where files get names.
    pub(super) staging: Option<PathBuf>,
    /// The paths that were given out.
    pub(super) taken: AssignedPaths,
    /// Jobs of hosts that have enough of the window.
    pub(super) aside: SpillFile,
    /// What lies in the directories.
    pub(super) present: DirectoryCache,
    /// The next job's number.
    pub(super) next: u64,
}

impl JobReader {
    /// Reads to the end, or until the batch is stopped.
    pub(super) fn feed(mut self, entries: ListEntries) {
        let _closing = ListsEndGuard(Weak::clone(&self.shared));
        if let Err(error) = self.may_write() {
            if let Some(shared) = self.shared.upgrade() {
                shared.halt(&error);
            }
            return;
        }
        for item in entries {
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            match item.map(|entry| self.errand(entry)) {
                // At once, for nobody knows when the next line comes.
                Ok(Ok(errand)) => {
                    shared.listed.fetch_add(1, Ordering::Relaxed);
                    self.offer(&shared, errand);
                }
                Ok(Err(told)) => tell(&shared, *told),
                Err(bad) => tell(&shared, SkippedEntry::Delivery(unreadable(&bad))),
            }
        }
        while !self.aside.is_empty() {
            let Some(shared) = self.shared.upgrade() else {
                return;
            };
            if shared.stop.is_cancelled() {
                return;
            }
            shared.wait_for_room();
            self.offer_again(&shared);
        }
    }

    /// Hands a job over, waiting for room, or puts it aside where its host has enough.
    fn offer(&mut self, shared: &Arc<BatchState>, mut errand: Box<BatchJob>) {
        let host = errand.host();
        while !shared.stop.is_cancelled() {
            self.offer_again(shared);
            if self.aside.has(&host) && self.put_aside(&host, &errand) {
                return;
            }
            errand = match shared.add(&host, errand) {
                Ok(()) => return,
                Err(WindowFull::Host(errand)) if self.put_aside(&host, &errand) => return,
                Err(WindowFull::Host(errand) | WindowFull::Window(errand)) => errand,
            };
            shared.wait_for_room();
        }
    }

    fn put_aside(&mut self, host: &str, errand: &BatchJob) -> bool {
        let record = record::write(errand).filter(|_| self.aside.has_room());
        record.is_some_and(|record| self.aside.put(host, &record).is_ok())
    }

    /// Hands over what lies aside, as far as there is room.
    fn offer_again(&mut self, shared: &Arc<BatchState>) {
        while !self.aside.is_empty() {
            let taken = self.aside.take(|host| shared.has_room_for(host));
            // What cannot be read back is a job that nobody would do or tell of.
            let read = taken.and_then(|taken| match taken {
                None => Ok(None),
                Some(record) => match record::read(&record, &self.retry) {
                    Some(errand) => Ok(Some(Box::new(errand))),
                    None => Err(io::ErrorKind::InvalidData.into()),
                },
            });
            let errand = match read {
                Ok(Some(errand)) => errand,
                Ok(None) => return,
                Err(error) => {
                    let path = self.options.directory.clone();
                    let error = GetError::local("read what was put aside in", path, error);
                    return shared.halt(&error);
                }
            };
            let host = errand.host();
            // Nobody else adds, so there still is room.
            if let Err(WindowFull::Window(errand) | WindowFull::Host(errand)) =
                shared.add(&host, errand)
            {
                shared.put_back(errand);
            }
        }
    }

    /// That files can be made where all of them go: better now than after each of them was fetched.
    fn may_write(&mut self) -> Result<(), GetError> {
        let directory = self.staging.as_ref().unwrap_or(&self.options.directory);
        let directory = or_here(directory);
        match self.layer.unnamed_in(directory) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.unnamed = false;
                Ok(())
            }
            Err(error) => Err(GetError::local("write into", directory.to_owned(), error)),
            Ok(_) => Ok(()),
        }
    }

    /// A job, or what there is to tell of an entry that makes none.
    fn errand(&mut self, entry: ListEntry) -> Result<Box<BatchJob>, Box<SkippedEntry>> {
        let index = self.next;
        self.next += 1;
        let path = self.place(&entry, index)?;
        let staged = self
            .staging
            .as_ref()
            .map(|directory| stage(directory, &path));
        let mut errand = BatchJob::new(index, entry, (path, staged), &self.retry);
        let known = &errand.job.checksums;
        let asked = self
            .options
            .checksums
            .iter()
            .filter(|asked| known.iter().all(|known| known.algorithm != asked.algorithm));
        let asked: Vec<_> = asked.cloned().collect();
        errand.job.checksums.extend(asked);
        if let Some(told) = self.look(&mut errand) {
            return Err(told);
        }
        Ok(Box::new(errand))
    }

    /// Looks what is there of a job already, and which road it goes; what there is to tell if it needs none.
    fn look(&mut self, errand: &mut BatchJob) -> Option<Box<SkippedEntry>> {
        let done = self
            .past
            .as_ref()
            .filter(|past| past.is_done(&errand.shown(), Some(&errand.name())));
        if done.is_some() && self.existing != ExistingFilePolicy::Update && is_kept(errand) {
            return Some(Box::new(SkippedEntry::Earlier));
        }
        if errand.staged.is_none() && self.existing != ExistingFilePolicy::Keep {
            // What is to be replaced may be behind a link; what replaces it is made in its file system.
            let real = DownloadPaths::through(errand.path.clone())
                .path()
                .to_owned();
            errand.real = Some(real).filter(|real| *real != errand.path);
        }
        let target = errand.target();
        let directory = target.directory();
        if errand.staged.is_some() && self.present.may_be(directory, target.path()) {
            unstage(target.path());
        }
        let named = DownloadPaths::new(errand.path.clone());
        if errand.staged.is_none() && self.present.may_be(named.directory(), &errand.path) {
            if self
                .past
                .as_ref()
                .is_some_and(|past| past.is_manifest_path(&errand.path))
            {
                return Some(Box::new(SkippedEntry::Delivery(is_manifest(errand))));
            }
            let row = done.and_then(|past| past.done_row(&errand.shown(), Some(&errand.name())));
            if let Some(told) = find(errand, self.existing, row) {
                return Some(Box::new(SkippedEntry::Delivery(told)));
            }
        }
        let journal = target.journal();
        let begun = self.present.may_be(directory, &journal) && journal.symlink_metadata().is_ok();
        if begun || !self.unnamed {
            errand.road = BatchJobStrategy::Engine;
        }
        None
    }

    /// The path that an entry's file gets.
    fn place(&mut self, entry: &ListEntry, index: u64) -> Result<PathBuf, Box<SkippedEntry>> {
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
        let mut owners = FileOwners {
            present: &mut self.present,
            past: self.past.as_ref(),
            directory: match self.staging {
                Some(_) => None,
                None => Some(&self.options.directory),
            },
            replaces: self.existing == ExistingFilePolicy::Overwrite,
            url: &entry.url,
        };
        let is_anothers = |candidate: PathCandidate<'_>| owners.is_anothers(&candidate);
        let placed = self
            .taken
            .assign(wanted.clone(), &entry.url, explicit, is_anothers);
        match placed {
            // The names of entries in an archive are relative.
            PathAssignment::Assigned(path) if self.staging.is_some() => Ok(path),
            PathAssignment::Assigned(path) => Ok(self.options.directory.join(path)),
            PathAssignment::Duplicate => Err(Box::new(SkippedEntry::Delivery(duplicate(entry)))),
            PathAssignment::Conflict => {
                let url = Box::new(haul_net::without_credentials(&entry.url));
                let path = self.options.directory.join(wanted);
                let error = GetError::Twice {
                    url,
                    path: path.clone(),
                };
                let errand = BatchJob::new(index, entry.clone(), (path, None), &self.retry);
                Err(Box::new(SkippedEntry::Delivery(CommitMessage::failed(
                    &errand, error,
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
    Delivery(CommitMessage),
    /// An earlier run has done it, and its row says so.
    Earlier,
}

fn tell(shared: &BatchState, told: SkippedEntry) {
    shared.listed.fetch_add(1, Ordering::Relaxed);
    match told {
        // The clerk ends after us, unless it panicked.
        SkippedEntry::Delivery(delivery) => drop(shared.clerk.blocking_send(vec![delivery])),
        SkippedEntry::Earlier => drop(shared.earlier.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Where an entry of an archive lies until it is in: the same on every run, so that a large one can be gone on with.
fn stage(directory: &Path, path: &Path) -> PathBuf {
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    directory.join(&hash[..32])
}

/// Looks what lies under the final name; what there is to tell if the job ends with that. `done_row` is what the manifest says of it.
fn find(
    errand: &mut BatchJob,
    existing: ExistingFilePolicy,
    row: Option<ManifestRow>,
) -> Option<CommitMessage> {
    let path = errand.path.clone();
    let found = match path.metadata() {
        Ok(found) => found,
        // A link that leads nowhere is a name that is taken.
        Err(_) if path.is_symlink() && existing == ExistingFilePolicy::Keep => {
            return Some(CommitMessage::failed(errand, GetError::Exists { path }));
        }
        Err(_) => return None,
    };
    if found.is_dir() {
        return Some(CommitMessage::failed(
            errand,
            GetError::IsDirectory { path },
        ));
    }
    if !found.is_file() {
        let what = "it is not a regular file";
        return Some(CommitMessage::failed(
            errand,
            GetError::InTheWay { path, what },
        ));
    }
    match existing {
        ExistingFilePolicy::Keep if errand.is_other(found.len()) => {
            let what =
                "its size is not the one that the list says, and only --overwrite replaces it";
            Some(CommitMessage::failed(
                errand,
                GetError::InTheWay { path, what },
            ))
        }
        ExistingFilePolicy::Keep if errand.is_checked() => {
            errand.road = BatchJobStrategy::There;
            None
        }
        // Whoever put it there: it stays, and nothing is said of it but that.
        ExistingFilePolicy::Keep => Some(CommitMessage::ended(ManifestRow {
            bytes: found.len(),
            ..errand.row(RowState::Skipped)
        })),
        ExistingFilePolicy::Overwrite => None,
        ExistingFilePolicy::Update => {
            // A row's word is about the file that it was written for.
            let tag = row
                .filter(|row| row.bytes == found.len())
                .and_then(|row| row.etag);
            errand.have = remembered(&path, errand.resource()).map(|have| StoredValidators {
                etag: have.etag.or(tag),
                ..have
            });
            None
        }
    }
}

/// Whether what an earlier run has done is still there. Of an archive the rows know best: it may have been taken elsewhere.
fn is_kept(errand: &BatchJob) -> bool {
    errand.staged.is_some() || errand.path.symlink_metadata().is_ok()
}

/// A job whose file would take the place of the manifest.
fn is_manifest(errand: &BatchJob) -> CommitMessage {
    let why = io::Error::other("it is the manifest of this batch");
    CommitMessage::failed(errand, GetError::local("replace", errand.path.clone(), why))
}

/// A job that the lists named before.
fn duplicate(entry: &ListEntry) -> CommitMessage {
    CommitMessage::ended(ManifestRow {
        line: line(entry.line),
        url: haul_net::redacted_url(&entry.url).to_string(),
        state: RowState::Skipped,
        ..nothing()
    })
}

/// A line that names no job.
fn unreadable(bad: &BadLine) -> CommitMessage {
    CommitMessage::ended(ManifestRow {
        line: line(bad.line),
        error: Some(RowError {
            class: ErrorClass::Usage,
            text: format!("{bad}: {}", bad.problem),
        }),
        ..nothing()
    })
}

/// A row of a job that was never begun.
fn nothing() -> ManifestRow {
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
