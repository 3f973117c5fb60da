//! What a batch writes beside its files, or in place of them: the manifest and the archive, opened before anything is asked for.

use std::path::{Path, PathBuf};

use haul_transfer::archive::{ArchiveError, ArchiveOptions, ShardWriter};
use haul_transfer::batch::BatchArchive;
use haul_transfer::disk::StorageLayer;
use haul_transfer::manifest::{Manifest, ManifestError, PreviousRuns};
use tempfile::TempDir;

use crate::args::BatchArgs;
use crate::exit::ExitReason;
use crate::message;
use crate::settings::archive_destination;

/// Ends the name of the directory where large files lie on their way into an archive.
const STAGING_SUFFIX: &str = ".haul-staging";

/// What was opened.
#[derive(Debug)]
pub(super) struct BatchOutputs {
    /// Where rows are written, and what earlier runs wrote.
    pub(super) manifest: Option<(Manifest, PreviousRuns)>,
    /// What files are put into.
    pub(super) archive: Option<BatchArchive>,
    /// What is to be told of it.
    pub(super) warnings: Vec<String>,
    /// What is to be tidied up when the batch has ended.
    pub(super) staging: StagingDirectory,
}

/// Where large files lie on their way into an archive.
#[derive(Debug)]
pub(super) enum StagingDirectory {
    /// There is no archive.
    None,
    /// Beside the archive, by a name that the next run finds.
    Persistent(PathBuf),
    /// Nobody finds it again: a stream has no next run.
    Temporary(TempDir),
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        if let Self::Persistent(path) = self {
            // Unless it holds what the next run goes on with.
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Why something cannot be opened.
#[derive(Debug)]
pub(super) struct OutputError {
    /// How the program ends.
    pub(super) exit: ExitReason,
    /// What is wrong.
    pub(super) text: String,
    /// What to do.
    pub(super) hint: Option<&'static str>,
}

impl BatchOutputs {
    /// Opens what the arguments name.
    ///
    /// # Errors
    /// That something cannot be opened, with the message for it.
    pub(super) fn open(args: &BatchArgs) -> Result<Self, OutputError> {
        let manifest = args.manifest.as_deref().map(Manifest::open).transpose();
        let mut manifest = manifest.map_err(|error| output_error(&error, manifest_hint(&error)))?;
        let stream = args
            .tar
            .as_deref()
            .is_some_and(|tar| archive_destination(tar).is_stream());
        if let Some((manifest, past)) = manifest.as_ref().filter(|_| !stream) {
            let fits = manifest.check_destination(past, args.tar.is_some());
            fits.map_err(|error| output_error(&error, manifest_hint(&error)))?;
        }
        let warnings = match (&args.manifest, &mut manifest) {
            (Some(path), Some((_, past))) => manifest_warnings(path, past, stream),
            _ => Vec::new(),
        };
        let (archive, staging) = match &args.tar {
            Some(tar) => {
                let past = manifest.as_ref().map(|(_, past)| past);
                let (archive, staging) = open_archive(args, tar, past)?;
                (Some(archive), staging)
            }
            None => (None, StagingDirectory::None),
        };
        Ok(Self {
            manifest,
            archive,
            warnings,
            staging,
        })
    }
}

fn open_archive(
    args: &BatchArgs,
    tar: &Path,
    past: Option<&PreviousRuns>,
) -> Result<(BatchArchive, StagingDirectory), OutputError> {
    let destination = archive_destination(tar);
    let stream = destination.is_stream();
    let options = ArchiveOptions {
        destination,
        shard_size: args.shard_size.map(|size| size.0),
        layer: StorageLayer::default(),
    };
    let durable = past.into_iter().flat_map(PreviousRuns::shard_ends);
    let shards = ShardWriter::open(options, durable)
        .map_err(|error| output_error(&error, archive_hint(&error)))?;
    let staging = match stream {
        true => tempfile::tempdir().map(StagingDirectory::Temporary),
        false => {
            let mut name = tar.as_os_str().to_owned();
            name.push(STAGING_SUFFIX);
            let path = PathBuf::from(name);
            std::fs::create_dir_all(&path).map(|()| StagingDirectory::Persistent(path))
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

/// What is to be told of a manifest. Whoever reads an archive as it comes gets all of it: to him nothing was done before.
fn manifest_warnings(path: &Path, past: &mut PreviousRuns, stream: bool) -> Vec<String> {
    let mut warnings: Vec<String> = past.warnings().iter().map(ToString::to_string).collect();
    if stream && past.done_count() > 0 {
        past.forget_all();
        warnings
            .push("what it says is done is fetched again, for whoever reads this archive".into());
    }
    let path = path.display();
    let told = |warning: String| message::sanitize(&format!("{path}: {warning}"));
    warnings.into_iter().map(told).collect()
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
            "the ending says how it is written: --manifest done.jsonl"
        }
        ManifestError::NotAManifest { .. } => "choose another name: nobody's file is overwritten",
        ManifestError::DescribesFiles { .. } | ManifestError::DescribesArchive { .. } => {
            OTHER_MANIFEST_HINT
        }
        ManifestError::NotARegularFile { .. } => {
            "the next run reads it again, which takes a regular file"
        }
        ManifestError::Locked { .. } => "wait for it, or give this run a manifest of its own",
        _ => return None,
    })
}

/// What to do where a manifest is another's.
const OTHER_MANIFEST_HINT: &str =
    "give this run a manifest of its own, or what that one was written for";

fn archive_hint(error: &ArchiveError) -> Option<&'static str> {
    Some(match error {
        ArchiveError::Exists { .. } => {
            "an archive takes more only with the --manifest that it had, and as it was left; else choose another name"
        }
        ArchiveError::InTheWay { .. } => {
            "what an earlier run left is gone on with only by the --manifest that it had; without that, remove it"
        }
        ArchiveError::IsDirectory { .. } => "--tar names a file, -d a directory to put files into",
        ArchiveError::Locked { .. } => "wait for it, or write another archive",
        ArchiveError::OtherArchive { .. } => OTHER_MANIFEST_HINT,
        ArchiveError::MissingEntries { .. } => {
            "the manifest is another archive's: put back what it speaks of, or begin both anew"
        }
        _ => return None,
    })
}
