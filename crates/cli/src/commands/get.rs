//! `haul get`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use haul_transfer::list::BadLine;

use super::batch;
use super::jobs::{DownloadWork, transfer};
use super::keeping::BatchOutputs;
use super::run::{StartError, runtime};
use super::teller::ResultWriter;
use crate::args::{GetArgs, MessageArgs};
use crate::exit::ExitReason;
use crate::message::JsonOutputs;
use crate::progress::{ProgressOptions, ProgressScope, Renderer, renderer};
use crate::settings::{GetSettings, GetTask, SingleDownloads, left_out};
use crate::{message, output, report};

/// Downloads what the arguments name; tells how that ended.
pub(crate) fn run(args: &GetArgs) -> ExitCode {
    begin(args).unwrap_or_else(|exit| exit).into()
}

/// What can be known to fail before a byte is asked for.
fn begin(args: &GetArgs) -> Result<ExitReason, ExitReason> {
    let form = JsonOutputs::of(args);
    let settings = GetSettings::resolve(args)
        .map_err(|error| form.fail(error.exit(), &message::chain(&error), error.advice()))?;
    if results_go_to_stdout(args) {
        output::stdout_is_open().map_err(|error| {
            let (text, hint) = output::explain(&error);
            form.fail(ExitReason::LocalIo, &text, Some(hint))
        })?;
    }
    if let Some(directory) = &args.output.directory {
        make(directory)
            .map_err(|(text, hint)| form.fail(ExitReason::LocalIo, &text, Some(hint)))?;
    }
    if !args.batch.input.is_empty() {
        // A document may put its files into directories of theirs.
        for directory in settings.task.directories() {
            make(directory)
                .map_err(|(text, hint)| form.fail(ExitReason::LocalIo, &text, Some(hint)))?;
        }
    }
    let keeping = BatchOutputs::open(&args.batch)
        .map_err(|cannot| form.fail(cannot.exit, &cannot.text, cannot.hint))?;
    let runtime = runtime()
        .map_err(|error| form.fail(ExitReason::LocalIo, &format!("cannot start: {error}"), None))?;
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
fn make(directory: &Path) -> Result<(), (String, &'static str)> {
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
    let MessageArgs {
        progress,
        quiet,
        verbose,
        ..
    } = args.messages;
    let mut screen = renderer(ProgressOptions {
        kind: progress,
        quiet,
        verbose,
        scene: match &task {
            GetTask::Few(few) => ProgressScope::Downloads(few.jobs.len()),
            GetTask::Many(_) => ProgressScope::Batch,
        },
    });
    if args.connection.tls.insecure && !quiet {
        screen.warn(Duration::ZERO, "--insecure: nobody checks who answers");
    }
    let proxies = &client.proxy;
    let has_proxy = proxies.http.is_some() || proxies.https.is_some();
    for warning in left_out(proxies).filter(|_| has_proxy && !quiet) {
        screen.warn(Duration::ZERO, &warning);
    }
    let done = match task {
        GetTask::Few(SingleDownloads { jobs, bad }) => {
            let work = DownloadWork {
                client,
                options,
                jobs,
            };
            few(args, work, &bad, &mut *screen).await
        }
        GetTask::Many(many) => {
            let work = batch::BatchWork {
                client,
                get: options,
                many: *many,
                keeping,
            };
            batch::run(args, work, &mut *screen).await
        }
    };
    let (exit, goes_on) = match done {
        Ok(done) => done,
        Err(error) => return cannot_begin(args, &error),
    };
    if exit == ExitReason::Interrupted {
        screen.say(&message::error_text("interrupted", goes_on.as_deref()));
    }
    exit
}

/// Downloads that are watched one by one, and files of documents that cannot be. Says how they ended, and how they go on if they were
/// interrupted.
async fn few(
    args: &GetArgs,
    work: DownloadWork,
    bad: &[BadLine],
    screen: &mut dyn Renderer,
) -> Result<(ExitReason, Option<String>), StartError> {
    let count = work.jobs.len() + bad.len();
    let mut teller = ResultWriter::new(&args.messages);
    for bad in bad {
        teller.unusable(JsonOutputs::of(args).fail(ExitReason::Usage, &message::chain(bad), None));
    }
    let elapsed = transfer(work, screen, |stage, job, result| {
        teller.ended(stage, job, result)
    })
    .await?;
    if count > 1 && !args.messages.quiet {
        let width = screen.width();
        let files = (teller.done, count);
        screen.say(&report::total(files, teller.bytes, elapsed, width));
    }
    let exit = teller.exit(screen, count);
    let goes_on = "the same command goes on where this one stopped";
    Ok((exit, teller.resumable.then(|| goes_on.to_owned())))
}

fn cannot_begin(args: &GetArgs, error: &StartError) -> ExitReason {
    let exit = match error {
        StartError::Settings(_) => ExitReason::Usage,
        StartError::Signals(_) => ExitReason::LocalIo,
    };
    JsonOutputs::of(args).fail(exit, &message::chain(error), None)
}
