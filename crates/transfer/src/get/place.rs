//! Where a job's bytes go, resolved step by step: some names are known only when the first answer came.

use std::io;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use http::header::CONTENT_DISPOSITION;
use url::Url;

use crate::disk::{Remembered, StreamSink, Target, blocking, is_stream, remembered};
use crate::error::GetError;
use crate::options::{Existing, Output};

/// Where a job's bytes go.
#[derive(Debug)]
pub(super) enum Place {
    /// In order, with no way back.
    Stream(StreamSink),
    /// A file with a known name.
    Named(Target),
    /// A file in this directory, whose name the origin may say.
    Directory(PathBuf),
}

impl Place {
    /// Resolves an output as far as is possible without an answer.
    ///
    /// # Errors
    /// [`GetError::IsDirectory`], [`GetError::CompanionName`], [`GetError::Local`] for a FIFO or device that cannot be opened.
    pub(super) fn resolve(output: &Output) -> Result<Self, GetError> {
        match output {
            Output::Stdout => Ok(Self::Stream(StreamSink::Stdout)),
            Output::Directory(dir) => Ok(Self::Directory(dir.clone())),
            Output::File(path) if path.is_dir() => {
                Err(GetError::IsDirectory { path: path.clone() })
            }
            Output::File(path) if is_stream(path) => {
                let local = |source| GetError::local("open", path.clone(), source);
                StreamSink::open(path).map(Self::Stream).map_err(local)
            }
            // As the final name of one download it could be the temporary one of another, which would then be replaced.
            Output::File(path) if is_companion(path) => {
                Err(GetError::CompanionName { path: path.clone() })
            }
            Output::File(path) => Ok(Self::Named(Target::new(path.clone()))),
        }
    }

    /// The names to look for an earlier run's state under, before the origin has said anything.
    pub(super) fn guess(&self, url: &Url) -> Option<Target> {
        match self {
            Self::Stream(_) => None,
            Self::Named(target) => Some(target.clone()),
            Self::Directory(dir) => Some(Target::new(dir.join(haul_plan::filename::from_url(url)))),
        }
    }

    /// The names, once the origin has answered. The URL is the one the user gave: a redirect must not choose a name.
    pub(super) fn named(&self, url: &Url, headers: &HeaderMap) -> Option<Target> {
        let Self::Directory(dir) = self else {
            return self.guess(url);
        };
        let said = headers
            .get(CONTENT_DISPOSITION)
            .and_then(haul_plan::filename::from_disposition);
        said.map_or_else(|| self.guess(url), |name| Some(Target::new(dir.join(name))))
    }

    /// For messages.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Stream(sink) => sink.path().unwrap_or_else(|| Path::new("standard output")),
            Self::Named(target) => target.path(),
            Self::Directory(dir) => dir,
        }
    }
}

/// Whether a path ends as the companions of a download do.
fn is_companion(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| haul_plan::filename::is_companion(&name.to_string_lossy()))
}

/// What there is under the final name, when `existing` lets the job go on.
///
/// # Errors
/// [`GetError::Exists`] when it must be kept; [`GetError::IsDirectory`]; [`GetError::NameTooLong`].
pub(super) fn look(target: &Target, existing: Existing) -> Result<Option<Remembered>, GetError> {
    let path = target.path();
    let found = blocking(|| path.symlink_metadata());
    match (found, existing) {
        // Found out now, and not by the rename at the end: the names beside it are made to fit, this one cannot be.
        (Err(e), _) if e.kind() == io::ErrorKind::InvalidFilename => Err(GetError::NameTooLong {
            path: path.to_owned(),
        }),
        (Err(_), _) => Ok(None),
        (Ok(_), _) if path.is_dir() => Err(GetError::IsDirectory {
            path: path.to_owned(),
        }),
        (Ok(_), Existing::Keep) => Err(GetError::Exists {
            path: path.to_owned(),
        }),
        (Ok(_), Existing::Overwrite) => Ok(None),
        (Ok(_), Existing::Update) => Ok(blocking(|| remembered(path))),
    }
}
