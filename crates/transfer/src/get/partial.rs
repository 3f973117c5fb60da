//! A partial file and what an earlier run left in it.

use std::io;
use std::sync::Arc;

use haul_plan::RangeSet;
use url::Url;

use crate::disk::{PartFile, Storage, Target, blocking};
use crate::error::GetError;
use crate::journal::{Header, Journal, Unusable, load, verify};

/// A partial file that this process holds.
#[derive(Debug)]
pub(super) struct Partial {
    /// The names.
    pub(super) target: Target,
    /// The open, locked file.
    pub(super) file: Arc<PartFile>,
    /// What an earlier run left, verified.
    pub(super) resumed: Option<Resumed>,
    /// Why what lay there could not be used, to be told.
    pub(super) discarded: Option<Unusable>,
}

/// What an earlier run left and this one keeps.
#[derive(Debug)]
pub(super) struct Resumed {
    /// Which version it is of.
    pub(super) header: Header,
    /// What is on disk.
    pub(super) done: RangeSet,
    /// The journal, open at its end.
    journal: Option<Journal>,
}

impl Resumed {
    /// The journal to go on with; given away once.
    pub(super) fn journal(&mut self) -> Option<Journal> {
        self.journal.take()
    }
}

impl Partial {
    /// Whether an earlier run left something under these names.
    pub(super) fn exists(target: &Target) -> bool {
        target.journal().is_file() && target.part().is_file()
    }

    /// Takes hold of the names. With `resume`, what lies there is verified and kept if it can be trusted.
    ///
    /// # Errors
    /// [`GetError::Locked`] when another process holds them; [`GetError::Local`].
    pub(super) fn open(target: Target, url: &Url, resume: bool) -> Result<Self, GetError> {
        let part = target.part();
        let file = blocking(|| PartFile::open(&part)).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => GetError::Locked {
                path: target.path().to_owned(),
            },
            _ => GetError::Local {
                action: "create",
                path: part.clone(),
                source: e,
            },
        })?;
        let mut partial = Self {
            target,
            file: Arc::new(file),
            resumed: None,
            discarded: None,
        };
        if resume && partial.file.found() {
            match blocking(|| partial.recover(url)) {
                Ok(resumed) => partial.resumed = resumed,
                Err(unusable) => partial.discarded = Some(unusable),
            }
        }
        if partial.resumed.is_none() {
            partial.clear()?;
        }
        Ok(partial)
    }

    /// Reads the journal and checks that the bytes are those it speaks of.
    fn recover(&self, url: &Url) -> Result<Option<Resumed>, Unusable> {
        let path = self.target.journal();
        let Some(kept) = load(&path, url)? else {
            return Ok(None);
        };
        verify(&*self.file, &kept)?;
        let journal = Journal::reopen(&path, kept.length)?;
        let done = kept.ranges();
        Ok(Some(Resumed {
            header: kept.header,
            done,
            journal: Some(journal),
        }))
    }

    /// Forgets everything that came: an empty file and no journal.
    ///
    /// # Errors
    /// [`GetError::Local`].
    pub(super) fn clear(&mut self) -> Result<(), GetError> {
        self.resumed = None;
        let local = |action, path| {
            move |source| GetError::Local {
                action,
                path,
                source,
            }
        };
        remove(&self.target.journal()).map_err(local("remove", self.target.journal()))?;
        blocking(|| self.file.set_len(0)).map_err(local("empty", self.target.part()))
    }

    /// Removes all traces: the job failed and left nothing that could be resumed.
    pub(super) fn abandon(self) {
        // Left over, they would be discarded by the next run; failing to remove them harms nobody.
        let _ = remove(&self.target.journal());
        let _ = remove(&self.target.part());
    }

    /// Removes all traces, unless a journal says that there is something to resume.
    pub(super) fn abandon_unless_resumable(self) {
        if !self.target.journal().exists() {
            self.abandon();
        }
    }

    /// The file as the engine writes to it.
    pub(super) fn storage(&self) -> Arc<dyn Storage> {
        Arc::<PartFile>::clone(&self.file)
    }
}

/// Removes a file if it is there.
pub(super) fn remove(path: &std::path::Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
