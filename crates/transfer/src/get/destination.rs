//! Where a job's bytes go, resolved step by step: some names are known only after the first response.

use std::io;
use std::path::{Path, PathBuf};

use http::HeaderMap;
use http::header::CONTENT_DISPOSITION;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::decode_pipe::PipeOutput;
use crate::body_channel::ChannelSink;
use crate::disk::{
    DownloadPaths, StoredValidators, StreamSink, blocking, is_stdout, is_stream, load_validators,
};
use crate::error::{GetError, LocalError};
use crate::filename;
use crate::layout::ResourceId;
use crate::options::{ExistingFilePolicy, JobOutput};

/// Where a job's bytes go.
#[derive(Debug)]
pub(super) enum ResolvedOutput {
    /// In order, into an output that cannot take bytes back.
    Stream(PipeOutput),
    /// Into a file.
    File(DownloadDestination),
}

/// The file that a job ends in.
#[derive(Debug)]
pub(super) enum DownloadDestination {
    /// Its name is known.
    Named(DownloadPaths),
    /// The origin may name it.
    Directory {
        /// The directory that it goes into.
        directory: PathBuf,
        /// What may happen to a file that is there.
        existing: ExistingFilePolicy,
    },
}

impl ResolvedOutput {
    /// Resolves an output as far as is possible without a response. `stop` ends waits for the reader of a channel.
    ///
    /// # Errors
    /// [`LocalError::IsDirectory`], [`LocalError::ReservedName`], [`LocalError::Io`] for a FIFO or device that cannot be opened.
    pub(super) fn resolve(
        output: &JobOutput,
        existing: ExistingFilePolicy,
        stop: &CancellationToken,
    ) -> Result<Self, GetError> {
        let path = match output {
            JobOutput::Stdout => return Ok(Self::stdout()),
            JobOutput::Channel(sender) => {
                let sink = ChannelSink::new(sender.clone(), stop.clone());
                return Ok(Self::Stream(PipeOutput::Channel(sink)));
            }
            JobOutput::Directory(directory) => {
                return Ok(Self::File(DownloadDestination::Directory {
                    directory: directory.clone(),
                    existing,
                }));
            }
            JobOutput::File(path) => path,
        };
        if is_stdout(path) {
            return Ok(Self::stdout());
        }
        if path.is_dir() || names_directory(path) {
            return Err(GetError::local(path.clone(), LocalError::IsDirectory));
        }
        if is_stream(path) {
            let local = |source| GetError::io("open", path.clone(), source);
            let sink = StreamSink::open(path).map_err(local)?;
            return Ok(Self::Stream(PipeOutput::Stream(sink)));
        }
        let paths = download_paths(path.clone(), existing);
        // As the final name of one download it could be the temporary one of another, which would then be replaced.
        if is_reserved_name(paths.path()) {
            let path = paths.path().to_owned();
            return Err(GetError::local(path, LocalError::ReservedName));
        }
        Ok(Self::File(DownloadDestination::Named(paths)))
    }

    fn stdout() -> Self {
        Self::Stream(PipeOutput::Stream(StreamSink::stdout()))
    }
}

impl DownloadDestination {
    /// The paths that a job's output and URL suggest, if the output is a file.
    pub(super) fn guess(
        output: &JobOutput,
        existing: ExistingFilePolicy,
        url: &Url,
    ) -> Option<DownloadPaths> {
        match output {
            JobOutput::File(path) => Some(download_paths(path.clone(), existing)),
            JobOutput::Directory(directory) => {
                let path = directory.join(filename::from_url(url));
                Some(download_paths(path, existing))
            }
            JobOutput::Stdout | JobOutput::Channel(_) => None,
        }
    }

    /// The paths to look for an earlier run's bytes under, before the origin has named the file.
    pub(super) fn guessed_paths(&self, url: &Url) -> DownloadPaths {
        match self {
            Self::Named(paths) => paths.clone(),
            Self::Directory {
                directory,
                existing,
            } => download_paths(directory.join(filename::from_url(url)), *existing),
        }
    }

    /// The paths, once the origin has answered. The URL is the one that the user gave: a redirect must not choose a name.
    pub(super) fn paths(&self, url: &Url, headers: &HeaderMap) -> DownloadPaths {
        let Self::Directory {
            directory,
            existing,
        } = self
        else {
            return self.guessed_paths(url);
        };
        let named = headers
            .get(CONTENT_DISPOSITION)
            .and_then(filename::from_content_disposition);
        named.map_or_else(
            || self.guessed_paths(url),
            |name| download_paths(directory.join(name), *existing),
        )
    }
}

/// The names for a path. The file to be replaced may be behind a link; a file that must not be there is looked for under the path itself.
fn download_paths(path: PathBuf, existing: ExistingFilePolicy) -> DownloadPaths {
    match existing {
        ExistingFilePolicy::Keep => DownloadPaths::new(path),
        ExistingFilePolicy::Overwrite | ExistingFilePolicy::Update => {
            blocking(|| DownloadPaths::following_links(path))
        }
    }
}

/// Whether a path can only be a directory's, whether there is one or not.
fn names_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    [&b"/"[..], b"/.", b"/.."]
        .iter()
        .any(|end| bytes.ends_with(end))
}

/// Whether a path ends as the temporary files of a download do.
fn is_reserved_name(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| filename::has_reserved_suffix(&name.to_string_lossy()))
}

/// Looks at the file under the final name: its validators, where `--update` needs them.
///
/// # Errors
/// [`LocalError::AlreadyExists`] when it must be kept; [`LocalError::IsDirectory`]; [`LocalError::NameTooLong`].
pub(super) fn check_existing(
    paths: &DownloadPaths,
    existing: ExistingFilePolicy,
    url: &Url,
    notes: Option<&Path>,
) -> Result<Option<StoredValidators>, GetError> {
    let path = paths.path();
    let found = blocking(|| path.symlink_metadata());
    match (found, existing) {
        // Found out now, and not by the rename at the end: the temporary names are made to fit, this one cannot be.
        (Err(e), _) if e.kind() == io::ErrorKind::InvalidFilename => {
            Err(GetError::local(path.to_owned(), LocalError::NameTooLong))
        }
        (Err(_), _) => Ok(None),
        (Ok(_), _) if path.is_dir() => {
            Err(GetError::local(path.to_owned(), LocalError::IsDirectory))
        }
        (Ok(_), ExistingFilePolicy::Keep) => {
            Err(GetError::local(path.to_owned(), LocalError::AlreadyExists))
        }
        (Ok(_), ExistingFilePolicy::Overwrite) => Ok(None),
        (Ok(_), ExistingFilePolicy::Update) => Ok(blocking(|| {
            load_validators(path, ResourceId::from_url(url), notes)
        })),
    }
}
