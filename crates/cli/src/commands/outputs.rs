//! What a batch writes beside its files or instead of them: the manifest and the archive, opened before the first request.

use std::path::{Path, PathBuf};

use haul_transfer::archive::{ArchiveError, ArchiveOptions, ShardWriter};
use haul_transfer::batch::{BatchArchive, BatchOutput};
use haul_transfer::disk::{StorageWrapping, refuse_planted_folder};
use haul_transfer::manifest::{Manifest, ManifestError, PreviousRuns};
use tempfile::TempDir;

use crate::args::BatchArgs;
use crate::exit::ExitReason;
use crate::message;
use crate::settings::archive_destination;

/// The suffix of the directory for large files on their way into an archive.
const STAGING_SUFFIX: &str = ".haul-staging";

/// The open outputs.
#[derive(Debug)]
pub(super) struct BatchOutputs {
    /// The manifest, and the rows of earlier runs.
    pub(super) manifest: Option<(Manifest, PreviousRuns)>,
    /// Where files go.
    pub(super) output: BatchOutput,
    pub(super) warnings: Vec<String>,
    /// Removed when the batch has ended.
    pub(super) staging: StagingDirectory,
}

/// The directory for large files on their way into an archive.
#[derive(Debug)]
pub(super) enum StagingDirectory {
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
#[derive(Debug)]
pub(super) struct OutputError {
    pub(super) exit: ExitReason,
    pub(super) text: String,
    pub(super) hint: Option<&'static str>,
}

impl BatchOutputs {
    /// Opens the outputs that the arguments name.
    pub(super) fn open(args: &BatchArgs) -> Result<Self, OutputError> {
        let manifest = args.manifest.as_deref().map(Manifest::open).transpose();
        let mut manifest = manifest.map_err(|error| output_error(&error, manifest_hint(&error)))?;
        let is_stream = args
            .tar
            .as_deref()
            .is_some_and(|tar| archive_destination(tar).is_stream());
        if let Some((manifest, previous)) = manifest.as_ref().filter(|_| !is_stream) {
            let fits = manifest.check_destination(previous, args.tar.is_some());
            fits.map_err(|error| output_error(&error, manifest_hint(&error)))?;
        }
        let warnings = match (&args.manifest, &mut manifest) {
            (Some(path), Some((_, previous))) => manifest_warnings(path, previous, is_stream),
            _ => Vec::new(),
        };
        let (output, staging) = match &args.tar {
            Some(tar) => {
                let previous = manifest.as_ref().map(|(_, previous)| previous);
                let (archive, staging) = open_archive(args, tar, previous)?;
                (BatchOutput::Archive(archive), staging)
            }
            None => (BatchOutput::Files, StagingDirectory::None),
        };
        Ok(Self {
            manifest,
            output,
            warnings,
            staging,
        })
    }
}

fn open_archive(
    args: &BatchArgs,
    tar: &Path,
    previous: Option<&PreviousRuns>,
) -> Result<(BatchArchive, StagingDirectory), OutputError> {
    let destination = archive_destination(tar);
    let is_stream = destination.is_stream();
    let options = ArchiveOptions {
        destination,
        shard_size: args.shard_size.map(|size| size.0),
        wrapping: StorageWrapping::default(),
    };
    let durable_shards = previous.into_iter().flat_map(PreviousRuns::shard_ends);
    let shards = ShardWriter::open(options, durable_shards)
        .map_err(|error| output_error(&error, archive_hint(&error)))?;
    let staging = match is_stream {
        true => tempfile::tempdir().map(StagingDirectory::Temporary),
        false => {
            let mut name = tar.as_os_str().to_owned();
            name.push(STAGING_SUFFIX);
            let path = PathBuf::from(name);
            std::fs::create_dir_all(&path)
                .and_then(|()| refuse_planted_folder(&path))
                .map(|()| StagingDirectory::Persistent(path))
        }
    };
    let staging = staging.map_err(|error| OutputError {
        exit: ExitReason::LocalIo,
        text: format!("cannot create a directory for large files: {error}"),
        hint: None,
    })?;
    let path = match &staging {
        StagingDirectory::Persistent(path) => path.clone(),
        StagingDirectory::Temporary(directory) => directory.path().to_owned(),
        StagingDirectory::None => PathBuf::new(),
    };
    Ok((
        BatchArchive {
            writer: shards,
            staging_directory: path,
        },
        staging,
    ))
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
    let message = |warning: String| message::sanitize(&format!("{path}: {warning}"));
    warnings.into_iter().map(message).collect()
}

fn output_error(
    error: &(dyn std::error::Error + 'static),
    hint: Option<&'static str>,
) -> OutputError {
    let ending = matches!(
        error.downcast_ref(),
        Some(ManifestError::UnknownExtension { .. })
    );
    OutputError {
        exit: if ending {
            ExitReason::Usage
        } else {
            ExitReason::LocalIo
        },
        text: message::chain_text(error),
        hint,
    }
}

fn manifest_hint(error: &ManifestError) -> Option<&'static str> {
    Some(match error {
        ManifestError::UnknownExtension { .. } => {
            "the file extension selects the format: --manifest done.jsonl"
        }
        ManifestError::NotAManifest { .. } => {
            "choose another name: haul does not overwrite other files"
        }
        ManifestError::DescribesFiles { .. } | ManifestError::DescribesArchive { .. } => {
            OTHER_MANIFEST_HINT
        }
        ManifestError::NotARegularFile { .. } => {
            "the next run reads it again, so it must be a regular file"
        }
        ManifestError::Locked { .. } => "wait for the other run, or use another manifest",
        _ => return None,
    })
}

const OTHER_MANIFEST_HINT: &str = "use a new manifest, or the output that this one was written for";

fn archive_hint(error: &ArchiveError) -> Option<&'static str> {
    Some(match error {
        ArchiveError::Exists { .. } => {
            "haul continues an archive only with its --manifest, and if nobody has changed it; otherwise choose another name"
        }
        ArchiveError::InTheWay { .. } => {
            "haul continues the archive of an earlier run only with its --manifest; otherwise remove the file"
        }
        ArchiveError::IsDirectory { .. } => "--tar names a file, -d a directory",
        ArchiveError::Locked { .. } => "wait for the other run, or write another archive",
        ArchiveError::OtherArchive { .. } => OTHER_MANIFEST_HINT,
        ArchiveError::MissingEntries { .. } => {
            "the manifest belongs to another archive: restore that archive, or remove both"
        }
        _ => return None,
    })
}
