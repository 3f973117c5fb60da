//! `haul get`: prepares a run, and runs single downloads or a batch.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use haul_transfer::list::BadLine;

use super::batch;
use super::jobs::{DownloadWork, run_downloads};
use super::outputs::BatchOutputs;
use super::result_writer::ResultWriter;
use super::run_loop::{StartError, new_runtime};
use crate::args::{GetArgs, GetMessageArgs};
use crate::exit::ExitReason;
use crate::message::JsonOutputs;
use crate::progress::{ProgressOptions, ProgressScope, Renderer, new_renderer};
use crate::settings::{GetSettings, GetTask, SingleDownloads, no_proxy_warnings};
use crate::{message, output, report};

/// Downloads what the arguments name, and reports results.
pub(crate) fn run(args: &GetArgs) -> ExitCode {
    prepare_and_run(args).unwrap_or_else(|exit| exit).into()
}

/// Checks everything that can fail before the first request, then downloads.
fn prepare_and_run(args: &GetArgs) -> Result<ExitReason, ExitReason> {
    let outputs = JsonOutputs::requested_by(args);
    let settings = GetSettings::resolve(args).map_err(|error| {
        outputs.report_failure(
            error.exit_reason(),
            &message::chain_text(&error),
            error.hint(),
        )
    })?;
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
    if !args.batch.input.is_empty() {
        // A Metalink document may name directories.
        for directory in settings.task.directories() {
            create_directory(directory).map_err(|(text, hint)| {
                outputs.report_failure(ExitReason::LocalIo, &text, Some(hint))
            })?;
        }
    }
    let batch_outputs = BatchOutputs::open(&args.batch)
        .map_err(|cannot| outputs.report_failure(cannot.exit, &cannot.text, cannot.hint))?;
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    let exit = runtime.block_on(download(args, settings, batch_outputs));
    // A name lookup that hangs in the system's resolver is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

fn results_go_to_stdout(args: &GetArgs) -> bool {
    args.messages.json
        || args.output.is_stdout()
        || args.batch.is_tar_to_stdout()
        || args.output.checksum.iter().any(|sum| sum.digest.is_none())
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

async fn download(
    args: &GetArgs,
    settings: GetSettings,
    batch_outputs: BatchOutputs,
) -> ExitReason {
    let GetSettings {
        client,
        options,
        task,
    } = settings;
    let GetMessageArgs {
        progress,
        quiet,
        verbose,
        ..
    } = args.messages;
    let mut renderer = new_renderer(ProgressOptions {
        kind: progress,
        quiet,
        verbose,
        scope: match &task {
            GetTask::Single(few) => ProgressScope::Downloads(few.jobs.len()),
            GetTask::Batch(_) => ProgressScope::Batch,
        },
    });
    if args.connection.tls.insecure && !quiet {
        renderer.warn(Duration::ZERO, "--insecure: certificates are not verified");
    }
    let proxies = &client.proxy;
    let has_proxy = proxies.http.is_some() || proxies.https.is_some();
    for warning in no_proxy_warnings(proxies).filter(|_| has_proxy && !quiet) {
        renderer.warn(Duration::ZERO, &warning);
    }
    let done = match task {
        GetTask::Single(SingleDownloads {
            jobs,
            unusable: bad,
        }) => {
            let work = DownloadWork {
                client,
                options,
                jobs,
            };
            run_single_downloads(args, work, &bad, &mut *renderer).await
        }
        GetTask::Batch(many) => {
            let work = batch::BatchWork {
                client,
                get: options,
                workload: *many,
                outputs: batch_outputs,
            };
            batch::run(args, work, &mut *renderer).await
        }
    };
    let (exit, continue_hint) = match done {
        Ok(done) => done,
        Err(error) => return report_start_error(args, &error),
    };
    if exit == ExitReason::Interrupted {
        renderer.print(&message::error_text(
            "interrupted",
            continue_hint.as_deref(),
        ));
    }
    exit
}

/// Runs single downloads, and reports files of documents that cannot be downloaded. Returns how they ended, and a hint how to continue
/// after an interruption.
async fn run_single_downloads(
    args: &GetArgs,
    work: DownloadWork,
    bad: &[BadLine],
    renderer: &mut dyn Renderer,
) -> Result<(ExitReason, Option<String>), StartError> {
    let count = work.jobs.len() + bad.len();
    let mut writer = ResultWriter::new(&args.messages);
    for bad in bad {
        writer.add_unusable(JsonOutputs::requested_by(args).report_failure(
            ExitReason::Usage,
            &message::chain_text(bad),
            None,
        ));
    }
    let elapsed = run_downloads(work, renderer, |context, job, result| {
        writer.write_result(context, job, result)
    })
    .await?;
    if count > 1 && !args.messages.quiet {
        let width = renderer.line_width();
        let files = (writer.done, count);
        renderer.print(&report::total_line(files, writer.bytes, elapsed, width));
    }
    let exit = writer.exit_reason(renderer, count);
    let continue_hint = "the same command resumes the download";
    Ok((exit, writer.resumable.then(|| continue_hint.to_owned())))
}

fn report_start_error(args: &GetArgs, error: &StartError) -> ExitReason {
    let exit = match error {
        StartError::Settings(_) => ExitReason::Usage,
        StartError::Signals(_) => ExitReason::LocalIo,
    };
    JsonOutputs::requested_by(args).report_failure(exit, &message::chain_text(error), None)
}
