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
    Journal, JournalHeader, ResumableDownload, SavedRangesCheck, UnusableJournal, is_journal, load,
};
use crate::options::{ExistingFilePolicy, GetOptions};

/// A partial file that this process holds.
///
/// Dropped before it was published or set aside, it removes all traces, unless its journal claims bytes that a later run can go
/// on with. So whatever ends a job, nothing useless is left.
#[derive(Debug)]
pub(super) struct PartialDownload {
    /// The names.
    pub(super) target: DownloadPaths,
    /// The open, locked file.
    pub(super) file: Arc<PartialFile>,
    /// The file as bytes go in and out.
    storage: Arc<dyn PartialStorage>,
    /// Whom the file is for that this one replaces.
    pub(super) rights: Option<FilePermissions>,
    /// What an earlier run left as its journal has it, until [`PartialDownload::verify`] has looked.
    claimed: Option<ResumableDownload>,
    /// What an earlier run left, verified.
    pub(super) resumed: Option<ResumedDownload>,
    /// Why what lay there could not be used, to be told.
    pub(super) discarded: Option<UnusableJournal>,
    /// What is fetched, as the journal knows it.
    url: Url,
    /// Whether the file has another name by now, and the temporary ones are free.
    settled: bool,
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
        is_plain(&target.journal()) && is_plain(&target.part())
    }

    /// Whether the same job, run again, would find bytes under these names to go on with.
    pub(super) fn is_kept(target: &DownloadPaths, url: &Url) -> bool {
        Self::exists(target)
            && matches!(load(&target.journal(), url), Ok(Some(kept)) if !kept.spans.is_empty())
    }

    /// Whether it is certain that nothing under these names is of use: not when the journal cannot be read just now, for want of
    /// a descriptor or because a disk or a server is ill.
    fn is_useless(&self) -> bool {
        match load(&self.target.journal(), &self.url) {
            Ok(kept) => kept.is_none_or(|kept| kept.spans.is_empty()),
            Err(UnusableJournal::Unreadable(_)) => false,
            Err(_) => true,
        }
    }

    /// Takes hold of the names. What an earlier run left there is not used before [`PartialDownload::verify`] has looked at it.
    ///
    /// # Errors
    /// [`GetError::Locked`] when another process holds them; [`GetError::InTheWay`] when something lies there that no haul
    /// left; [`GetError::Local`].
    pub(super) fn open(
        target: DownloadPaths,
        url: &Url,
        options: &GetOptions,
    ) -> Result<Self, GetError> {
        blocking(|| unobstructed(&target))?;
        let part = target.part();
        let file = blocking(|| PartialFile::open(&part)).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => GetError::Locked {
                path: target.path().to_owned(),
            },
            _ => GetError::local("create", part.clone(), e),
        })?;
        // Under the lock: whoever held it before us has either removed both files or left both.
        if file.found() && !is_plain(&target.journal()) {
            return Err(GetError::InTheWay {
                path: part,
                what: "it holds bytes, and no journal beside it says that they are haul's",
            });
        }
        let file = Arc::new(file);
        let mut partial = Self {
            target,
            storage: options.layer.over(Arc::<PartialFile>::clone(&file)),
            file,
            rights: None,
            claimed: None,
            resumed: None,
            discarded: None,
            url: url.clone(),
            settled: false,
        };
        if options.existing != ExistingFilePolicy::Keep {
            partial.rights = blocking(|| FilePermissions::of(partial.target.path()));
        }
        if partial.rights.is_some() {
            blocking(|| FilePermissions::hide(partial.file.file()));
        }
        if options.resume && partial.file.found() {
            match blocking(|| load(&partial.target.journal(), url)) {
                Ok(claimed) => partial.claimed = claimed,
                // Only what was read and found bad is thrown away.
                Err(UnusableJournal::Unreadable(error)) => return Err(partial.unreadable(error)),
                Err(unusable) => partial.discarded = Some(unusable),
            }
        }
        if partial.claimed.is_none() {
            partial.clear()?;
        }
        Ok(partial)
    }

    /// Bytes that an earlier run left and the length of their file, as long as nobody has looked at them.
    pub(super) fn unverified(&self) -> Option<(u64, u64)> {
        let claimed = self.claimed.as_ref()?;
        Some((claimed.ranges().total_bytes(), claimed.header.length))
    }

    /// Reads back what an earlier run left, which may take minutes, and keeps it if it can be trusted.
    ///
    /// # Errors
    /// [`GetError::Interrupted`] soon after `stop`, with everything left as it was; [`GetError::Local`].
    pub(super) async fn verify(&mut self, stop: &CancellationToken) -> Result<(), GetError> {
        let Some(claimed) = self.claimed.take() else {
            return Ok(());
        };
        let mut check = SavedRangesCheck::new(&*self.storage, &claimed);
        let looked = loop {
            if stop.is_cancelled() {
                return Err(GetError::STOPPED);
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
            .and_then(|()| self.recover(claimed))
        {
            Ok(resumed) => self.resumed = Some(resumed),
            Err(UnusableJournal::Unreadable(error)) => return Err(self.unreadable(error)),
            Err(unusable) => {
                self.discarded = Some(unusable);
                self.clear()?;
            }
        }
        Ok(())
    }

    fn unreadable(&self, error: io::Error) -> GetError {
        GetError::local("read back", self.target.part(), error)
    }

    /// Goes on with the journal of what was found right.
    fn recover(&self, kept: ResumableDownload) -> Result<ResumedDownload, UnusableJournal> {
        let path = self.target.journal();
        let journal = blocking(|| Journal::reopen(&path, kept.length))?;
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
    pub(super) fn journal(
        &mut self,
        header: Option<&JournalHeader>,
    ) -> Result<Option<Journal>, GetError> {
        let path = self.target.journal();
        if let Some(resumed) = &mut self.resumed {
            let mut journal = resumed.journal.take();
            let restated = header.filter(|header| **header != resumed.header);
            if let Some((journal, header)) = journal.as_mut().zip(restated) {
                blocking(|| journal.restate(header))
                    .map_err(|source| GetError::local("write", path, source))?;
                resumed.header = header.clone();
            }
            return Ok(journal);
        }
        let begun = blocking(|| match header {
            Some(header) => Journal::create(&path, header).map(Some),
            None => Journal::mark(&path).map(|()| None),
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
        self.claimed = None;
        let (part, journal) = (self.target.part(), self.target.journal());
        blocking(|| self.storage.set_len(0)).map_err(|e| GetError::local("empty", part, e))?;
        blocking(|| remove(&journal)).map_err(|e| GetError::local("remove", journal, e))
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
    pub(super) fn settle(&mut self) {
        self.settled = true;
        // Left over, it would be discarded by the next run.
        let _ = remove(&self.target.journal());
    }

    /// The file as the engine writes to it.
    pub(super) fn storage(&self) -> Arc<dyn PartialStorage> {
        Arc::clone(&self.storage)
    }
}

impl Drop for PartialDownload {
    fn drop(&mut self) {
        let ours = self.is_in_place().is_ok();
        if self.settled || !ours || !self.is_useless() {
            return;
        }
        // The bytes first, as in `clear`. The lock is still held; what cannot be removed harms nobody.
        let _ = remove(&self.target.part());
        let _ = remove(&self.target.journal());
    }
}

/// That nothing but files of ours lies under the temporary names; nothing is opened for that but what may be a journal.
fn unobstructed(target: &DownloadPaths) -> Result<(), GetError> {
    let (part, journal) = (target.part(), target.journal());
    for path in [&part, &journal] {
        let what = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => "it is a directory",
            Ok(found) if found.is_symlink() => "it is a symbolic link",
            Ok(found) if !found.is_file() => "it is not a regular file",
            _ => continue,
        };
        let path = path.clone();
        return Err(GetError::InTheWay { path, what });
    }
    match is_journal(&journal) {
        Ok(true) => Ok(()),
        Ok(false) => Err(GetError::InTheWay {
            path: journal,
            what: "it is not the journal of a download",
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(GetError::local("read", journal, e)),
    }
}

/// Whether a regular file lies there, not a link to one.
fn is_plain(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Removes a file if it is there.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
#[path = "partial_tests.rs"]
mod tests;
