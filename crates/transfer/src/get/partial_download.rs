//! A partial file and the bytes that an earlier run left in it.
//!
//! Which files under a download's temporary names are haul's? Those with a journal beside them, and empty ones, which hold nothing
//! that could be lost. A journal is begun before the first byte is written, and removed after the last. So a partial file with bytes
//! but without a journal is somebody else's, whatever its name, and is neither used nor touched. Nor is anything else under one of the
//! names: a directory, a link, a file that never was a journal.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use url::Url;

use crate::disk::{
    DownloadPaths, FilePermissions, PartialFile, PartialStorage, blocking, remove_if_exists,
};
use crate::error::{GetError, LocalError};
use crate::journal::{
    Journal, JournalHeader, ResumableDownload, SavedRangesCheck, UnusableJournal, is_journal,
    load_journal,
};
use crate::options::{ExistingFilePolicy, GetOptions};
use crate::range_set::RangeSet;
use crate::response::ResponseContent;

/// A partial file that this process holds.
///
/// Dropped before it was published or set aside, it removes all traces, unless its journal claims bytes that a later run can resume.
/// So whatever ends a job, nothing useless is left.
#[derive(Debug)]
pub(super) struct PartialDownload {
    pub(super) paths: DownloadPaths,
    /// The open, locked file.
    pub(super) file: Arc<PartialFile>,
    /// The same file, as bytes are written to it and read from it.
    storage: Arc<dyn PartialStorage>,
    pub(super) replaced_permissions: Option<FilePermissions>,
    /// The bytes that an earlier run left by its journal, until [`PartialDownload::verify`] has read them.
    unverified: Option<ResumableDownload>,
    /// The bytes that an earlier run left, verified.
    pub(super) resumed: Option<ResumedDownload>,
    /// Why bytes of an earlier run cannot be used, for a warning.
    pub(super) unusable_journal: Option<UnusableJournal>,
    /// The job's URL, which the journal belongs to.
    url: Url,
    /// Whether the file has another name by now, and the temporary ones are free.
    published: bool,
}

/// The bytes that an earlier run or attempt left, and that stay until the download is complete or others replace them.
#[derive(Debug)]
pub(super) struct ResumedDownload {
    /// The version of the bytes, and the evidence on which they were joined.
    pub(super) header: JournalHeader,
    /// The ranges on disk.
    pub(super) done: RangeSet,
    /// The journal, open at its end.
    journal: Option<Journal>,
}

impl ResumedDownload {
    /// Whether the earlier run fetched everything and was killed before the last steps.
    pub(super) fn is_whole(&self) -> bool {
        self.done.covers(&(0..self.header.length))
    }

    /// Whether a response is of the version of these bytes, so that they stay.
    pub(super) fn joins(&self, content: &ResponseContent) -> bool {
        let version = match content {
            ResponseContent::Part { version, .. }
            | ResponseContent::Whole { version, .. }
            | ResponseContent::Empty { version } => version,
            ResponseContent::NotModified => return true,
        };
        let saved = self.header.version();
        saved.has_validator() && saved.is_same(version)
    }
}

impl PartialDownload {
    /// Whether an earlier run left something under these names.
    pub(super) fn exists(paths: &DownloadPaths) -> bool {
        is_regular_file(&paths.journal()) && is_regular_file(&paths.partial())
    }

    /// Whether the same job, run again, would find bytes under these names to resume.
    pub(super) fn is_resumable(paths: &DownloadPaths, url: &Url) -> bool {
        Self::exists(paths)
            && matches!(load_journal(&paths.journal(), url), Ok(Some(saved)) if !saved.saved_ranges.is_empty())
    }

    /// Removes a journal of this URL whose file has its final name: the process was killed between the rename and the journal's removal.
    pub(super) fn remove_leftover_journal(paths: &DownloadPaths, url: &Url) {
        let journal = paths.journal();
        let is_left =
            !paths.partial().exists() && matches!(load_journal(&journal, url), Ok(Some(_)));
        if is_left {
            let _ = remove_if_exists(&journal);
        }
    }

    /// Removes what an earlier run of this URL left to be resumed. Another URL's bytes stay.
    ///
    /// # Errors
    /// [`LocalError::Locked`] while another process downloads to the same name; [`LocalError::Io`].
    pub(super) fn remove(paths: &DownloadPaths, url: &Url) -> Result<(), GetError> {
        blocking(|| {
            if !Self::is_resumable(paths, url) {
                return Ok(());
            }
            let _lock = lock(paths)?;
            // Another process may have begun in between.
            if !Self::is_resumable(paths, url) {
                return Ok(());
            }
            // The bytes first, as in `clear`.
            for path in [paths.partial(), paths.journal()] {
                remove_if_exists(&path).map_err(|error| GetError::io("remove", path, error))?;
            }
            Ok(())
        })
    }

    /// Whether it is certain that nothing under these names is of use. It is not when the journal cannot be read just now, for want of
    /// a descriptor or because a disk or a file server fails.
    fn is_useless(&self) -> bool {
        match load_journal(&self.paths.journal(), &self.url) {
            Ok(saved) => saved.is_none_or(|saved| saved.saved_ranges.is_empty()),
            Err(UnusableJournal::Unreadable(_)) => false,
            Err(_) => true,
        }
    }

    /// Opens and locks the partial file. Bytes of an earlier run are not used before [`PartialDownload::verify`] has read them.
    ///
    /// # Errors
    /// [`LocalError::Locked`] when another process holds it; [`LocalError::Occupied`] when something is there that haul did not leave;
    /// [`LocalError::Io`].
    pub(super) fn open(
        paths: DownloadPaths,
        url: &Url,
        options: &GetOptions,
        existing: ExistingFilePolicy,
    ) -> Result<Self, GetError> {
        blocking(|| check_paths(&paths))?;
        let path = paths.partial();
        let file = lock(&paths)?;
        // Under the lock: the process that held it before has either removed both files or left both.
        if file.had_content() && !is_regular_file(&paths.journal()) {
            return Err(GetError::local(
                path,
                LocalError::Occupied {
                    reason: "it holds bytes, and no journal beside it says that they are haul's",
                    is_replaceable: false,
                },
            ));
        }
        let file = Arc::new(file);
        let mut partial = Self {
            paths,
            storage: options
                .storage_wrapping
                .wrap_file(Arc::<PartialFile>::clone(&file)),
            file,
            replaced_permissions: None,
            unverified: None,
            resumed: None,
            unusable_journal: None,
            url: url.clone(),
            published: false,
        };
        if existing != ExistingFilePolicy::Keep {
            let replaced = || FilePermissions::of_file(partial.paths.path());
            partial.replaced_permissions = blocking(replaced);
        }
        if partial.replaced_permissions.is_some() {
            blocking(|| FilePermissions::restrict_to_owner(partial.file.file()));
        }
        if options.resume && partial.file.had_content() {
            match blocking(|| load_journal(&partial.paths.journal(), url)) {
                Ok(saved) => partial.unverified = saved,
                // Only what was read and found bad is thrown away.
                Err(UnusableJournal::Unreadable(error)) => {
                    return Err(partial.read_back_error(error));
                }
                Err(unusable) => partial.unusable_journal = Some(unusable),
            }
        }
        if partial.unverified.is_none() {
            partial.clear()?;
        }
        Ok(partial)
    }

    /// Bytes that an earlier run left and the length of their file, as long as they are not verified.
    pub(super) fn unverified_bytes(&self) -> Option<(u64, u64)> {
        let saved = self.unverified.as_ref()?;
        Some((saved.ranges().total_bytes(), saved.header.length))
    }

    /// Reads the bytes of an earlier run back, which may take minutes, and keeps them if they can be trusted.
    ///
    /// # Errors
    /// [`GetError::Interrupted`] soon after `stop`, with everything left as it was; [`LocalError::Io`].
    pub(super) async fn verify(&mut self, stop: &CancellationToken) -> Result<(), GetError> {
        let Some(saved) = self.unverified.take() else {
            return Ok(());
        };
        let mut check = SavedRangesCheck::new(&*self.storage, &saved);
        let checked = loop {
            if stop.is_cancelled() {
                return Err(GetError::INTERRUPTED);
            }
            match blocking(|| check.step()) {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break Ok(()),
                Err(unusable) => break Err(unusable),
            }
        };
        let length_fits = || {
            if blocking(|| self.storage.length())? <= saved.header.length {
                Ok(())
            } else {
                // Whoever made it longer may have done more.
                Err(UnusableJournal::Bytes)
            }
        };
        match checked
            .and_then(|()| length_fits())
            .and_then(|()| self.reopen_journal(saved))
        {
            Ok(resumed) => self.resumed = Some(resumed),
            Err(UnusableJournal::Unreadable(error)) => return Err(self.read_back_error(error)),
            Err(unusable) => {
                self.unusable_journal = Some(unusable);
                self.clear()?;
            }
        }
        Ok(())
    }

    fn read_back_error(&self, error: io::Error) -> GetError {
        GetError::io("read back", self.paths.partial(), error)
    }

    /// Opens the journal of verified bytes, to append to it.
    fn reopen_journal(&self, saved: ResumableDownload) -> Result<ResumedDownload, UnusableJournal> {
        let path = self.paths.journal();
        let journal = blocking(|| Journal::reopen(&path, saved.journal_length))?;
        let done = saved.ranges();
        Ok(ResumedDownload {
            header: saved.header,
            done,
            journal: Some(journal),
        })
    }

    /// Takes a journal back, with which the bytes of this run can be used by the next attempt as those of an earlier run.
    pub(super) fn return_journal(
        &mut self,
        journal: Journal,
        header: JournalHeader,
        done: RangeSet,
    ) {
        self.resumed = Some(ResumedDownload {
            header,
            done,
            journal: Some(journal),
        });
    }

    /// The first bytes of the file, as far as they are on disk.
    pub(super) fn beginning(&self, bytes: usize) -> Option<Vec<u8>> {
        let resumed = self.resumed.as_ref()?;
        let first = resumed.done.range_at(0)?;
        let wanted = usize::try_from(first.end).map_or(bytes, |end| end.min(bytes));
        let mut beginning = vec![0; wanted];
        let read = blocking(|| self.storage.read_at(0, &mut beginning)).ok()?;
        beginning.truncate(read);
        Some(beginning)
    }

    /// The journal to write to: that of the earlier run if its bytes are kept, with its header written anew if more holds of them now;
    /// else a new one. To be called before the first byte is written. Without a `header` the file is only marked as haul's, and nothing
    /// of it will be resumed.
    ///
    /// # Errors
    /// [`LocalError::Io`].
    pub(super) fn open_journal(
        &mut self,
        header: Option<&JournalHeader>,
    ) -> Result<Option<Journal>, GetError> {
        let path = self.paths.journal();
        if let Some(resumed) = &mut self.resumed {
            let mut journal = resumed.journal.take();
            let changed = header.filter(|header| **header != resumed.header);
            if let Some((journal, header)) = journal.as_mut().zip(changed) {
                blocking(|| journal.rewrite_header(header))
                    .map_err(|source| GetError::io("write", path, source))?;
                resumed.header = header.clone();
            }
            return Ok(journal);
        }
        let journal = blocking(|| match header {
            Some(header) => Journal::create(&path, header).map(Some),
            None => Journal::mark_unresumable(&path).map(|()| None),
        });
        journal.map_err(|source| GetError::io("create", path, source))
    }

    /// Discards everything: an empty file and no journal, in this order, so that a kill between the two leaves no bytes without a
    /// journal.
    ///
    /// # Errors
    /// [`LocalError::Io`].
    pub(super) fn clear(&mut self) -> Result<(), GetError> {
        self.resumed = None;
        self.unverified = None;
        let (partial, journal) = (self.paths.partial(), self.paths.journal());
        blocking(|| self.storage.set_len(0)).map_err(|e| GetError::io("empty", partial, e))?;
        blocking(|| remove_if_exists(&journal)).map_err(|e| GetError::io("remove", journal, e))
    }

    /// Checks that the temporary name still leads to this file; else a rename would publish somebody else's bytes.
    ///
    /// # Errors
    /// When it does not; the system's error.
    pub(super) fn check_in_place(&self) -> io::Result<()> {
        if self.file.is_in_place()? {
            return Ok(());
        }
        let gone = "it was removed or replaced while it was written";
        Err(io::Error::other(gone))
    }

    /// The file has another name now, so its journal is of no use.
    pub(super) fn mark_published(&mut self) {
        self.published = true;
        // Left over, it would be discarded by the next run.
        let _ = remove_if_exists(&self.paths.journal());
    }

    /// The file as the engine writes to it.
    pub(super) fn storage(&self) -> Arc<dyn PartialStorage> {
        Arc::clone(&self.storage)
    }
}

impl Drop for PartialDownload {
    fn drop(&mut self) {
        let is_ours = self.check_in_place().is_ok();
        if self.published || !is_ours || !self.is_useless() {
            return;
        }
        // The bytes first, as in `clear`. The lock is still held; a file that cannot be removed does no harm.
        let _ = remove_if_exists(&self.paths.partial());
        let _ = remove_if_exists(&self.paths.journal());
    }
}

/// Opens and locks the file under a temporary name.
fn lock(paths: &DownloadPaths) -> Result<PartialFile, GetError> {
    let path = paths.partial();
    blocking(|| PartialFile::open(&path)).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => GetError::local(paths.path().to_owned(), LocalError::Locked),
        _ => GetError::io("create", path, e),
    })
}

/// Checks that only files of haul's are under the temporary names. Nothing is opened for that but a file that may be a journal.
fn check_paths(paths: &DownloadPaths) -> Result<(), GetError> {
    let (partial, journal) = (paths.partial(), paths.journal());
    for path in [&partial, &journal] {
        let reason = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => "it is a directory",
            Ok(found) if found.is_symlink() => "it is a symbolic link",
            Ok(found) if !found.is_file() => "it is not a regular file",
            _ => continue,
        };
        let path = path.clone();
        return Err(GetError::local(
            path,
            LocalError::Occupied {
                reason,
                is_replaceable: false,
            },
        ));
    }
    match is_journal(&journal) {
        Ok(true) => Ok(()),
        Ok(false) => Err(GetError::local(
            journal,
            LocalError::Occupied {
                reason: "it is not the journal of a download",
                is_replaceable: false,
            },
        )),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(GetError::io("read", journal, e)),
    }
}

/// Whether a path is a regular file, and not a link to one.
fn is_regular_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests;
