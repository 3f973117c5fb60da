//! What a batch writes beside its files or instead of them: the manifest and the archive, opened before the first request.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use tempfile::TempDir;

use super::output::{BatchArchive, BatchOutput, FetchedBody, MemoryOutput};
use crate::archive::{ArchiveDestination, ArchiveError, ArchiveOptions, ShardWriter};
use crate::disk::refuse_planted_folder;
use crate::manifest::{Manifest, ManifestError, PreviousRuns};

/// The suffix of the directory for large files on their way into an archive.
const STAGING_SUFFIX: &str = ".haul-staging";

/// Where the files of a batch shall go.
pub enum BatchDestination {
    /// Into the [directory](super::BatchOptions::directory) of the batch.
    Files,
    /// Into an archive. Large files wait beside it, where the next run finds them; those of a stream in a temporary directory.
    Archive(ArchiveOptions),
    /// To a [function](MemoryOutput::on_body) of the caller.
    Memory(Box<dyn FnMut(u64, FetchedBody) + Send>),
}

#[derive(Debug)]
pub struct BatchOutputs {
    /// The manifest, and the rows of earlier runs.
    pub manifest: Option<(Manifest, PreviousRuns)>,
    /// Where files go.
    pub output: BatchOutput,
    /// What the user should know about the manifest. Each warning begins with its path.
    pub warnings: Vec<String>,
    /// To be dropped when the batch has ended.
    pub staging: StagingDirectory,
}

/// The directory for large files on their way to another place than a directory. Dropped, it is removed.
#[derive(Debug)]
pub enum StagingDirectory {
    /// Files have no other place.
    None,
    /// Beside the archive, where the next run finds it.
    Persistent(PathBuf),
    /// For this run only: a streamed archive is never continued.
    Temporary(TempDir),
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        if let Self::Persistent(path) = self {
            // A directory with files stays, for the next run.
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Why an output cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BatchOutputError {
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The archive cannot be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// There is no directory for large files.
    #[error("cannot create a directory for large files")]
    Staging(#[source] io::Error),
}

impl BatchOutputs {
    /// Opens the outputs.
    ///
    /// # Errors
    /// The manifest or the archive cannot be used, or is another one's.
    pub fn open(
        manifest: Option<&Path>,
        destination: BatchDestination,
    ) -> Result<Self, BatchOutputError> {
        let path = manifest;
        let mut manifest = manifest.map(Manifest::open).transpose()?;
        let (is_archive, is_stream) = match &destination {
            BatchDestination::Archive(options) => (true, options.destination.is_stream()),
            BatchDestination::Files | BatchDestination::Memory(_) => (false, false),
        };
        if let Some((manifest, previous)) = manifest.as_ref().filter(|_| !is_stream) {
            manifest.check_destination(previous, is_archive)?;
        }
        let warnings = match (path, &mut manifest) {
            (Some(path), Some((_, previous))) => manifest_warnings(path, previous, is_stream),
            _ => Vec::new(),
        };
        let previous = manifest.as_ref().map(|(_, previous)| previous);
        let (output, staging) = open_output(destination, previous)?;
        Ok(Self {
            manifest,
            output,
            warnings,
            staging,
        })
    }
}

fn open_output(
    destination: BatchDestination,
    previous: Option<&PreviousRuns>,
) -> Result<(BatchOutput, StagingDirectory), BatchOutputError> {
    match destination {
        BatchDestination::Files => Ok((BatchOutput::Files, StagingDirectory::None)),
        BatchDestination::Memory(on_body) => {
            let staging = StagingDirectory::temporary()?;
            let output = BatchOutput::Memory(MemoryOutput {
                staging_directory: staging.path(),
                on_body,
            });
            Ok((output, staging))
        }
        BatchDestination::Archive(options) => {
            let beside = match &options.destination {
                ArchiveDestination::File(path) if !options.destination.is_stream() => {
                    Some(path.clone())
                }
                _ => None,
            };
            let durable_shards = previous.into_iter().flat_map(PreviousRuns::shard_ends);
            let writer = ShardWriter::open(options, durable_shards)?;
            let staging = match beside {
                Some(archive) => StagingDirectory::beside(archive)?,
                None => StagingDirectory::temporary()?,
            };
            let archive = BatchArchive {
                writer,
                staging_directory: staging.path(),
            };
            Ok((BatchOutput::Archive(archive), staging))
        }
    }
}

impl StagingDirectory {
    fn temporary() -> Result<Self, BatchOutputError> {
        let directory = tempfile::tempdir().map_err(BatchOutputError::Staging)?;
        Ok(Self::Temporary(directory))
    }

    fn beside(archive: PathBuf) -> Result<Self, BatchOutputError> {
        let mut name = archive.into_os_string();
        name.push(STAGING_SUFFIX);
        let path = PathBuf::from(name);
        std::fs::create_dir_all(&path)
            .and_then(|()| refuse_planted_folder(&path))
            .map_err(BatchOutputError::Staging)?;
        Ok(Self::Persistent(path))
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Persistent(path) => path.clone(),
            Self::Temporary(directory) => directory.path().to_owned(),
            Self::None => PathBuf::new(),
        }
    }
}

/// Warnings about a manifest. For a streamed archive files of earlier runs do not count: its reader gets all of it.
fn manifest_warnings(path: &Path, previous: &mut PreviousRuns, is_stream: bool) -> Vec<String> {
    let mut warnings: Vec<String> = previous
        .warnings()
        .iter()
        .map(ToString::to_string)
        .collect();
    if is_stream && previous.done_count() > 0 {
        previous.forget_all();
        warnings.push(
            "files that it lists as done are downloaded again for this streamed archive".into(),
        );
    }
    let path = path.display();
    let warnings = warnings.into_iter();
    warnings.map(|text| format!("{path}: {text}")).collect()
}

impl fmt::Debug for BatchDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "Files",
            Self::Archive(_) => "Archive",
            Self::Memory(_) => "Memory",
        })
    }
}
