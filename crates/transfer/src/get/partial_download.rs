//! A partial file and what an earlier run left in it.
//!
//! Which files under a download's temporary names are ours? Those with a journal beside them, and empty ones, which hold nothing
//! that could be lost. A journal is begun before the first byte is written, and removed after the last; so a partial file with
//! bytes but no journal is somebody else's, whatever its name, and is neither used nor touched. Neither is anything else
//! that lies under one of the names: a directory, a link, a file that never was a journal.

use std::io;
use std::path::Path;
use std::sync::Arc;

use haul_plan::RangeSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::disk::{DownloadPaths, FilePermissions, PartialFile, PartialStorage, blocking};
use crate::error::GetError;
use crate::journal::{
    Journal, JournalHeader, ResumableDownload, SavedRangesCheck, UnusableJournal, is_journal,
    load_journal,
};
use crate::options::{ExistingFilePolicy, GetOptions};

/// A partial file that this process holds.
///
/// Dropped before it was published or set aside, it removes all traces, unless its journal claims bytes that a later run can go
/// on with. So whatever ends a job, nothing useless is left.
#[derive(Debug)]
pub(super) struct PartialDownload {
    /// The names.
    pub(super) paths: DownloadPaths,
    /// The open, locked file.
    pub(super) file: Arc<PartialFile>,
    /// The file as bytes go in and out.
    storage: Arc<dyn PartialStorage>,
    /// Whom the file is for that this one replaces.
    pub(super) replaced_permissions: Option<FilePermissions>,
    /// What an earlier run left as its journal has it, until [`PartialDownload::verify`] has looked.
    unverified: Option<ResumableDownload>,
    /// What an earlier run left, verified.
    pub(super) resumed: Option<ResumedDownload>,
    /// Why what lay there could not be used, to be told.
    pub(super) unusable_journal: Option<UnusableJournal>,
    /// What is fetched, as the journal knows it.
    url: Url,
    /// Whether the file has another name by now, and the temporary ones are free.
    published: bool,
}

/// What an earlier run left and this one keeps.
#[derive(Debug)]
pub(super) struct ResumedDownload {
    /// Which version it is of.
    pub(super) header: JournalHeader,
    /// What is on disk.
    pub(super) done: RangeSet,
    /// The journal, open at its end.
    journal: Option<Journal>,
}

impl PartialDownload {
    /// Whether an earlier run left something under these names.
    pub(super) fn exists(target: &DownloadPaths) -> bool {
        is_regular_file(&target.journal()) && is_regular_file(&target.partial())
    }

    /// Whether the same job, run again, would find bytes under these names to go on with.
    pub(super) fn is_resumable(target: &DownloadPaths, url: &Url) -> bool {
        Self::exists(target)
            && matches!(load_journal(&target.journal(), url), Ok(Some(kept)) if !kept.saved_ranges.is_empty())
    }

    /// Whether it is certain that nothing under these names is of use: not when the journal cannot be read just now, for want of
    /// a descriptor or because a disk or a server is ill.
    fn is_useless(&self) -> bool {
        match load_journal(&self.paths.journal(), &self.url) {
            Ok(kept) => kept.is_none_or(|kept| kept.saved_ranges.is_empty()),
            Err(UnusableJournal::Unreadable(_)) => false,
            Err(_) => true,
        }
    }

    /// Takes hold of the names. What an earlier run left there is not used before [`PartialDownload::verify`] has looked at it.
    ///
    /// # Errors
    /// [`GetError::Locked`] when another process holds them; [`GetError::PathOccupied`] when something lies there that no haul
    /// left; [`GetError::Local`].
    pub(super) fn open(
        target: DownloadPaths,
        url: &Url,
        options: &GetOptions,
    ) -> Result<Self, GetError> {
        blocking(|| check_paths(&target))?;
        let part = target.partial();
        let file = blocking(|| PartialFile::open(&part)).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => GetError::Locked {
                path: target.path().to_owned(),
            },
            _ => GetError::local("create", part.clone(), e),
        })?;
        // Under the lock: whoever held it before us has either removed both files or left both.
        if file.had_content() && !is_regular_file(&target.journal()) {
            return Err(GetError::PathOccupied {
                path: part,
                reason: "it holds bytes, and no journal beside it says that they are haul's",
            });
        }
        let file = Arc::new(file);
        let mut partial = Self {
            paths: target,
            storage: options
                .storage_layer
                .wrap_file(Arc::<PartialFile>::clone(&file)),
            file,
            replaced_permissions: None,
            unverified: None,
            resumed: None,
            unusable_journal: None,
            url: url.clone(),
            published: false,
        };
        if options.existing_file != ExistingFilePolicy::Keep {
            partial.replaced_permissions =
                blocking(|| FilePermissions::of_file(partial.paths.path()));
        }
        if partial.replaced_permissions.is_some() {
            blocking(|| FilePermissions::restrict_to_owner(partial.file.file()));
        }
        if options.resume && partial.file.had_content() {
            match blocking(|| load_journal(&partial.paths.journal(), url)) {
                Ok(claimed) => partial.unverified = claimed,
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

    /// Bytes that an earlier run left and the length of their file, as long as nobody has looked at them.
    pub(super) fn unverified_bytes(&self) -> Option<(u64, u64)> {
        let claimed = self.unverified.as_ref()?;
        Some((claimed.ranges().total_bytes(), claimed.header.length))
    }

    /// Reads back what an earlier run left, which may take minutes, and keeps it if it can be trusted.
    ///
    /// # Errors
    /// [`GetError::Interrupted`] soon after `stop`, with everything left as it was; [`GetError::Local`].
    pub(super) async fn verify(&mut self, stop: &CancellationToken) -> Result<(), GetError> {
        let Some(claimed) = self.unverified.take() else {
            return Ok(());
        };
        let mut check = SavedRangesCheck::new(&*self.storage, &claimed);
        let looked = loop {
            if stop.is_cancelled() {
                return Err(GetError::INTERRUPTED);
            }
            match blocking(|| check.step()) {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break Ok(()),
                Err(unusable) => break Err(unusable),
            }
        };
        let fits = || match blocking(|| self.storage.length())? <= claimed.header.length {
            true => Ok(()),
            // Whoever made it longer may have done more.
            false => Err(UnusableJournal::Bytes),
        };
        match looked
            .and_then(|()| fits())
            .and_then(|()| self.reopen_journal(claimed))
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
        GetError::local("read back", self.paths.partial(), error)
    }

    /// Goes on with the journal of what was found right.
    fn reopen_journal(&self, kept: ResumableDownload) -> Result<ResumedDownload, UnusableJournal> {
        let path = self.paths.journal();
        let journal = blocking(|| Journal::reopen(&path, kept.journal_length))?;
        let done = kept.ranges();
        Ok(ResumedDownload {
            header: kept.header,
            done,
            journal: Some(journal),
        })
    }

    /// The journal to write to: that of the earlier run if its bytes are kept, which is told if more holds of them now, else a
    /// new one. To be called before the first
    /// byte is written; with no `header` the file is only marked as ours, and nothing of it will be resumed.
    ///
    /// # Errors
    /// [`GetError::Local`].
    pub(super) fn open_journal(
        &mut self,
        header: Option<&JournalHeader>,
    ) -> Result<Option<Journal>, GetError> {
        let path = self.paths.journal();
        if let Some(resumed) = &mut self.resumed {
            let mut journal = resumed.journal.take();
            let restated = header.filter(|header| **header != resumed.header);
            if let Some((journal, header)) = journal.as_mut().zip(restated) {
                blocking(|| journal.rewrite_header(header))
                    .map_err(|source| GetError::local("write", path, source))?;
                resumed.header = header.clone();
            }
            return Ok(journal);
        }
        let begun = blocking(|| match header {
            Some(header) => Journal::create(&path, header).map(Some),
            None => Journal::mark_unresumable(&path).map(|()| None),
        });
        begun.map_err(|source| GetError::local("create", path, source))
    }

    /// Forgets everything that came: an empty file and no journal, in this order, so that a kill between the two leaves
    /// no bytes without a journal.
    ///
    /// # Errors
    /// [`GetError::Local`].
    pub(super) fn clear(&mut self) -> Result<(), GetError> {
        self.resumed = None;
        self.unverified = None;
        let (part, journal) = (self.paths.partial(), self.paths.journal());
        blocking(|| self.storage.set_len(0)).map_err(|e| GetError::local("empty", part, e))?;
        blocking(|| remove_if_exists(&journal)).map_err(|e| GetError::local("remove", journal, e))
    }

    /// That the temporary name still leads to this file; else a rename would publish somebody else's bytes.
    ///
    /// # Errors
    /// When it does not; what the system says.
    pub(super) fn is_in_place(&self) -> io::Result<()> {
        if self.file.is_in_place()? {
            return Ok(());
        }
        let gone = "it was removed or replaced while it was written";
        Err(io::Error::other(gone))
    }

    /// The file has another name now: its journal speaks of nothing any more.
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
        let ours = self.is_in_place().is_ok();
        if self.published || !ours || !self.is_useless() {
            return;
        }
        // The bytes first, as in `clear`. The lock is still held; what cannot be removed harms nobody.
        let _ = remove_if_exists(&self.paths.partial());
        let _ = remove_if_exists(&self.paths.journal());
    }
}

/// That nothing but files of ours lies under the temporary names; nothing is opened for that but what may be a journal.
fn check_paths(target: &DownloadPaths) -> Result<(), GetError> {
    let (part, journal) = (target.partial(), target.journal());
    for path in [&part, &journal] {
        let what = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => "it is a directory",
            Ok(found) if found.is_symlink() => "it is a symbolic link",
            Ok(found) if !found.is_file() => "it is not a regular file",
            _ => continue,
        };
        let path = path.clone();
        return Err(GetError::PathOccupied { path, reason: what });
    }
    match is_journal(&journal) {
        Ok(true) => Ok(()),
        Ok(false) => Err(GetError::PathOccupied {
            path: journal,
            reason: "it is not the journal of a download",
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(GetError::local("read", journal, e)),
    }
}

/// Whether a regular file lies there, not a link to one.
fn is_regular_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Removes a file if it is there.
fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
#[path = "partial_download_tests.rs"]
mod tests;
