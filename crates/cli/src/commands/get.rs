//! `haul get`: prepares a run, and runs single downloads or a batch.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use haul_net::ClientConfig;
use haul_transfer::archive::{ArchiveError, ArchiveOptions};
use haul_transfer::batch::{BatchDestination, BatchOutputError, BatchOutputs};
use haul_transfer::disk::StorageWrapping;
use haul_transfer::manifest::ManifestError;

use super::run_loop::block_on;
use super::{batch, single_downloads};
use crate::args::{BatchArgs, ChecksumArg, GetArgs};
use crate::exit::ExitReason;
use crate::message::JsonOutputs;
use crate::progress::{ProgressOptions, ProgressScope, new_renderer};
use crate::settings::{
    GetSettings, GetTask, archive_destination, no_proxy_warnings, s3_config, world_readable_warning,
};
use crate::{message, output};

/// Downloads what the arguments name, and reports results.
pub(crate) fn run(args: &GetArgs) -> ExitCode {
    prepare_and_run(args).unwrap_or_else(|exit| exit).into()
}

/// Checks everything that can fail before the first request, then downloads.
fn prepare_and_run(args: &GetArgs) -> Result<ExitReason, ExitReason> {
    let outputs = JsonOutputs::requested_by(args);
    let settings = GetSettings::resolve(args).map_err(|error| error.report(outputs))?;
    if results_go_to_stdout(args) {
        output::check_stdout().map_err(|error| {
            let (text, hint) = output::explain_write_error(&error);
            outputs.report_failure(ExitReason::LocalIo, &text, Some(hint))
        })?;
    }
    if let Some(directory) = &args.output.directory {
        create_directory(directory).map_err(|(text, hint)| {
            outputs.report_failure(ExitReason::LocalIo, &text, Some(hint))
        })?;
    }
    // The directory of -o, and those that a Metalink document names.
    for directory in settings.task.directories() {
        create_directory(directory).map_err(|(text, hint)| {
            outputs.report_failure(ExitReason::LocalIo, &text, Some(hint))
        })?;
    }
    let batch_outputs = open_outputs(&args.batch).map_err(|error| {
        let exit = match error {
            BatchOutputError::Manifest(ManifestError::UnknownExtension { .. }) => ExitReason::Usage,
            _ => ExitReason::LocalIo,
        };
        outputs.report_failure(exit, &message::chain_text(&error), output_hint(&error))
    })?;
    block_on(outputs, async {
        Ok(download(args, settings, batch_outputs).await)
    })
}

/// Opens the manifest and the archive that the arguments name.
fn open_outputs(args: &BatchArgs) -> Result<BatchOutputs, BatchOutputError> {
    let destination = args.tar.as_deref().map_or(BatchDestination::Files, |tar| {
        BatchDestination::Archive(ArchiveOptions {
            destination: archive_destination(tar),
            shard_size: args.shard_size.map(|size| size.0),
            wrapping: StorageWrapping::default(),
        })
    });
    BatchOutputs::open(args.manifest.as_deref(), destination)
}

/// What the user can do about an output that cannot be opened.
fn output_hint(error: &BatchOutputError) -> Option<&'static str> {
    const OTHER_MANIFEST: &str = "use a new manifest, or the output that this one was written for";
    Some(match error {
        BatchOutputError::Manifest(error) => match error {
            ManifestError::UnknownExtension { .. } => {
                "the file extension selects the format: --manifest done.jsonl"
            }
            ManifestError::NotAManifest { .. } => {
                "choose another name: haul does not overwrite other files"
            }
            ManifestError::DescribesFiles { .. } | ManifestError::DescribesArchive { .. } => {
                OTHER_MANIFEST
            }
            ManifestError::NotARegularFile { .. } => {
                "the next run reads it again, so it must be a regular file"
            }
            ManifestError::Locked { .. } => "wait for the other run, or use another manifest",
            _ => return None,
        },
        BatchOutputError::Archive(error) => match error {
            ArchiveError::Exists { .. } => {
                "haul continues an archive only with its --manifest, and if nobody has changed it; otherwise choose another name"
            }
            ArchiveError::InTheWay { .. } => {
                "haul continues the archive of an earlier run only with its --manifest; otherwise remove the file"
            }
            ArchiveError::IsDirectory { .. } => "--tar names a file, -d a directory",
            ArchiveError::Locked { .. } => "wait for the other run, or write another archive",
            ArchiveError::OtherArchive { .. } => OTHER_MANIFEST,
            ArchiveError::MissingEntries { .. } => {
                "the manifest belongs to another archive: restore that archive, or remove both"
            }
            _ => return None,
        },
        BatchOutputError::Staging(_) => return None,
    })
}

fn results_go_to_stdout(args: &GetArgs) -> bool {
    args.messages.json
        || args.output.is_stdout()
        || args.batch.is_tar_to_stdout()
        || args.output.checksum.iter().any(ChecksumArg::is_report)
}

/// Creates a directory and its parents.
fn create_directory(directory: &Path) -> Result<(), (String, &'static str)> {
    let Err(error) = std::fs::create_dir_all(directory) else {
        return Ok(());
    };
    let blocking_file = directory
        .ancestors()
        .find(|parent| parent.symlink_metadata().is_ok() && !parent.is_dir());
    Err(match blocking_file {
        Some(file) => (
            format!("{} is not a directory", file.display()),
            "-o names a file, -d a directory",
        ),
        None => (
            format!(
                "cannot create the directory {}: {error}",
                directory.display()
            ),
            "choose a writable directory with -d",
        ),
    })
}

async fn download(args: &GetArgs, settings: GetSettings, outputs: BatchOutputs) -> ExitReason {
    let GetSettings {
        mut client,
        options,
        task,
    } = settings;
    client.signer = Some(s3_config(&args.s3).lazy_signer(client.clone()));
    let scope = match &task {
        GetTask::Single(downloads) => ProgressScope::Downloads(downloads.jobs.len()),
        GetTask::Batch(_) => ProgressScope::Batch,
    };
    let mut renderer = new_renderer(ProgressOptions {
        kind: args.messages.progress,
        quiet: args.messages.quiet,
        verbose: args.messages.verbose,
        scope,
    });
    if !args.messages.quiet {
        for warning in warnings(args, &client) {
            renderer.warn(Duration::ZERO, &warning);
        }
    }
    let end = match task {
        GetTask::Single(downloads) => {
            single_downloads::run(args, client, options, downloads, &mut *renderer).await
        }
        GetTask::Batch(workload) => {
            let batch = batch::run(args, client, options, *workload, outputs, &mut *renderer);
            Box::pin(batch).await
        }
    };
    match end {
        Ok(end) => {
            if end.exit == ExitReason::Interrupted {
                let text = message::error_text("interrupted", end.continue_hint.as_deref());
                renderer.print(&text);
            }
            end.exit
        }
        Err(error) => error.report(JsonOutputs::requested_by(args)),
    }
}

/// Warnings about flags and the environment.
fn warnings(args: &GetArgs, client: &ClientConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    if args.connection.tls.insecure {
        warnings.push("--insecure: certificates are not verified".to_owned());
    }
    if args.output.is_stdout()
        && let Some(connections @ 2..) = args.speed.max_connections
    {
        warnings.push(format!(
            "-x {connections} has no effect: standard output takes bytes in order, from one connection"
        ));
    }
    let proxies = &client.proxy;
    if proxies.http.is_some() || proxies.https.is_some() {
        warnings.extend(no_proxy_warnings(proxies));
    }
    let password_file = args.connection.proxy_password_file.as_deref();
    warnings.extend(password_file.and_then(world_readable_warning));
    warnings
}
