//! Where a job's bytes go, resolved step by step: some names are known only when the first answer came.

use std::io;
use std::path::{Path, PathBuf};

use haul_plan::ResourceId;
use http::HeaderMap;
use http::header::CONTENT_DISPOSITION;
use url::Url;

use crate::disk::{
    DownloadPaths, StoredValidators, StreamSink, blocking, is_stdout, is_stream, load_validators,
};
use crate::error::GetError;
use crate::options::{ExistingFilePolicy, JobOutput};

/// Where a job's bytes go.
#[derive(Debug)]
pub(super) enum DownloadDestination {
    /// In order, with no way back.
    Stream(StreamSink),
    /// A file with a known name.
    File(DownloadPaths),
    /// A file in a directory, whose name the origin may say.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What may become of a file that is there.
        existing: ExistingFilePolicy,
    },
}

impl DownloadDestination {
    /// Resolves an output as far as is possible without an answer.
    ///
    /// # Errors
    /// [`GetError::IsDirectory`], [`GetError::ReservedName`], [`GetError::Local`] for a FIFO or device that cannot be opened.
    pub(super) fn resolve(
        output: &JobOutput,
        existing: ExistingFilePolicy,
    ) -> Result<Self, GetError> {
        match output {
            JobOutput::Stdout => Ok(Self::Stream(StreamSink::Stdout)),
            JobOutput::Directory(dir) => Ok(Self::Directory {
                dir: dir.clone(),
                existing,
            }),
            JobOutput::File(path) if is_stdout(path) => Ok(Self::Stream(StreamSink::Stdout)),
            JobOutput::File(path) if path.is_dir() => {
                Err(GetError::IsDirectory { path: path.clone() })
            }
            JobOutput::File(path) if is_stream(path) => {
                let local = |source| GetError::local("open", path.clone(), source);
                StreamSink::open(path).map(Self::Stream).map_err(local)
            }
            JobOutput::File(path) => {
                let target = download_paths(path.clone(), existing);
                // As the final name of one download it could be the temporary one of another, which would then be replaced.
                if is_reserved_name(target.path()) {
                    let path = target.path().to_owned();
                    return Err(GetError::ReservedName { path });
                }
                Ok(Self::File(target))
            }
        }
    }

    /// The names to look for an earlier run's state under, before the origin has said anything.
    pub(super) fn guessed_paths(&self, url: &Url) -> Option<DownloadPaths> {
        match self {
            Self::Stream(_) => None,
            Self::File(target) => Some(target.clone()),
            Self::Directory { dir, existing } => {
                let name = haul_plan::filename::from_url(url);
                Some(download_paths(dir.join(name), *existing))
            }
        }
    }

    /// The names, once the origin has answered. The URL is the one the user gave: a redirect must not choose a name.
    pub(super) fn paths(&self, url: &Url, headers: &HeaderMap) -> Option<DownloadPaths> {
        let Self::Directory { dir, existing } = self else {
            return self.guessed_paths(url);
        };
        let said = headers
            .get(CONTENT_DISPOSITION)
            .and_then(haul_plan::filename::from_content_disposition);
        said.map_or_else(
            || self.guessed_paths(url),
            |name| Some(download_paths(dir.join(name), *existing)),
        )
    }

    /// For messages.
    pub(super) fn display_path(&self) -> &Path {
        match self {
            Self::Stream(sink) => sink.path().unwrap_or_else(|| Path::new("standard output")),
            Self::File(target) => target.path(),
            Self::Directory { dir, .. } => dir,
        }
    }
}

/// The names for a path. What is to be replaced may be behind a link; what must not be there at all is looked for as it is.
fn download_paths(path: PathBuf, existing: ExistingFilePolicy) -> DownloadPaths {
    match existing {
        ExistingFilePolicy::Keep => DownloadPaths::new(path),
        ExistingFilePolicy::Overwrite | ExistingFilePolicy::Update => {
            blocking(|| DownloadPaths::following_links(path))
        }
    }
}

/// Whether a path ends as the companions of a download do.
fn is_reserved_name(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| haul_plan::filename::has_reserved_suffix(&name.to_string_lossy()))
}

/// What there is under the final name, when `existing` lets the job go on.
///
/// # Errors
/// [`GetError::AlreadyExists`] when it must be kept; [`GetError::IsDirectory`]; [`GetError::NameTooLong`].
pub(super) fn check_existing(
    target: &DownloadPaths,
    existing: ExistingFilePolicy,
    url: &Url,
) -> Result<Option<StoredValidators>, GetError> {
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
        (Ok(_), ExistingFilePolicy::Keep) => Err(GetError::AlreadyExists {
            path: path.to_owned(),
        }),
        (Ok(_), ExistingFilePolicy::Overwrite) => Ok(None),
        (Ok(_), ExistingFilePolicy::Update) => Ok(blocking(|| {
            load_validators(path, ResourceId::from_url(url))
        })),
    }
}
