//! `haul get`.

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

/// Downloads what the arguments name; tells how that ended.
pub(crate) fn run(args: &GetArgs) -> ExitCode {
    prepare_and_run(args).unwrap_or_else(|exit| exit).into()
}

/// What can be known to fail before a byte is asked for.
fn prepare_and_run(args: &GetArgs) -> Result<ExitReason, ExitReason> {
    let form = JsonOutputs::requested_by(args);
    let settings = GetSettings::resolve(args).map_err(|error| {
        form.report_failure(
            error.exit_reason(),
            &message::chain_text(&error),
            error.hint(),
        )
    })?;
    if results_go_to_stdout(args) {
        output::check_stdout().map_err(|error| {
            let (text, hint) = output::explain_write_error(&error);
            form.report_failure(ExitReason::LocalIo, &text, Some(hint))
        })?;
    }
    if let Some(directory) = &args.output.directory {
        create_directory(directory)
            .map_err(|(text, hint)| form.report_failure(ExitReason::LocalIo, &text, Some(hint)))?;
    }
    if !args.batch.input.is_empty() {
        // A document may put its files into directories of theirs.
        for directory in settings.task.directories() {
            create_directory(directory).map_err(|(text, hint)| {
                form.report_failure(ExitReason::LocalIo, &text, Some(hint))
            })?;
        }
    }
    let keeping = BatchOutputs::open(&args.batch)
        .map_err(|cannot| form.report_failure(cannot.exit, &cannot.text, cannot.hint))?;
    let runtime = new_runtime().map_err(|error| {
        form.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    let exit = runtime.block_on(download(args, settings, keeping));
    // A look-up of a name that hangs in the system's resolver is not waited for.
    runtime.shutdown_background();
    Ok(exit)
}

/// Whether something is to be written there.
fn results_go_to_stdout(args: &GetArgs) -> bool {
    args.messages.json
        || args.output.is_stdout()
        || args.batch.is_tar_to_stdout()
        || args.output.checksum.iter().any(|sum| sum.digest.is_none())
}

/// Makes the directory that `-d` names, as those before it did.
fn create_directory(directory: &Path) -> Result<(), (String, &'static str)> {
    let Err(error) = std::fs::create_dir_all(directory) else {
        return Ok(());
    };
    let in_the_way = directory
        .ancestors()
        .find(|above| above.symlink_metadata().is_ok() && !above.is_dir());
    Err(match in_the_way {
        Some(file) => (
            format!("{} is not a directory", file.display()),
            "-o FILE names a file, -d a directory to put it into",
        ),
        None => (
            format!(
                "cannot create the directory {}: {error}",
                directory.display()
            ),
            "choose a place you may write to with -d",
        ),
    })
}

async fn download(args: &GetArgs, settings: GetSettings, keeping: BatchOutputs) -> ExitReason {
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
    let mut screen = new_renderer(ProgressOptions {
        kind: progress,
        quiet,
        verbose,
        scope: match &task {
            GetTask::Single(few) => ProgressScope::Downloads(few.jobs.len()),
            GetTask::Batch(_) => ProgressScope::Batch,
        },
    });
    if args.connection.tls.insecure && !quiet {
        screen.warn(Duration::ZERO, "--insecure: nobody checks who answers");
    }
    let proxies = &client.proxy;
    let has_proxy = proxies.http.is_some() || proxies.https.is_some();
    for warning in no_proxy_warnings(proxies).filter(|_| has_proxy && !quiet) {
        screen.warn(Duration::ZERO, &warning);
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
            run_single_downloads(args, work, &bad, &mut *screen).await
        }
        GetTask::Batch(many) => {
            let work = batch::BatchWork {
                client,
                get: options,
                workload: *many,
                outputs: keeping,
            };
            batch::run(args, work, &mut *screen).await
        }
    };
    let (exit, goes_on) = match done {
        Ok(done) => done,
        Err(error) => return report_start_error(args, &error),
    };
    if exit == ExitReason::Interrupted {
        screen.print(&message::error_text("interrupted", goes_on.as_deref()));
    }
    exit
}

/// Downloads that are watched one by one, and files of documents that cannot be. Says how they ended, and how they go on if they were
/// interrupted.
async fn run_single_downloads(
    args: &GetArgs,
    work: DownloadWork,
    bad: &[BadLine],
    screen: &mut dyn Renderer,
) -> Result<(ExitReason, Option<String>), StartError> {
    let count = work.jobs.len() + bad.len();
    let mut teller = ResultWriter::new(&args.messages);
    for bad in bad {
        teller.add_unusable(JsonOutputs::requested_by(args).report_failure(
            ExitReason::Usage,
            &message::chain_text(bad),
            None,
        ));
    }
    let elapsed = run_downloads(work, screen, |stage, job, result| {
        teller.write_result(stage, job, result)
    })
    .await?;
    if count > 1 && !args.messages.quiet {
        let width = screen.line_width();
        let files = (teller.done, count);
        screen.print(&report::total_line(files, teller.bytes, elapsed, width));
    }
    let exit = teller.exit_reason(screen, count);
    let goes_on = "the same command goes on where this one stopped";
    Ok((exit, teller.resumable.then(|| goes_on.to_owned())))
}

fn report_start_error(args: &GetArgs, error: &StartError) -> ExitReason {
    let exit = match error {
        StartError::Settings(_) => ExitReason::Usage,
        StartError::Signals(_) => ExitReason::LocalIo,
    };
    JsonOutputs::requested_by(args).report_failure(exit, &message::chain_text(error), None)
}
