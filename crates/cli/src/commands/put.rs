//! `haul put`: uploads files, and reports each result.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use haul_transfer::TransferEvent;
use haul_transfer::bucket::StoreSession;
use haul_transfer::manifest::{Manifest, PreviousRuns};
use haul_transfer::put::{
    FileJobSettings, FileJobs, PutError, UnfinishedUploads, UploadJobSource, UploadTarget,
};
use tokio_util::sync::CancellationToken;

use super::run_loop::{RunLoop, block_on, with_events};
use super::uploads::{UploadRun, UploadSettings, connect, dry_run, report_input};
use crate::args::{ProgressKind, PutArgs, S3Args};
use crate::exit::{ExitReason, ExitTally};
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::settings::put_settings;

/// Uploads what the arguments name.
pub(crate) fn run(args: &PutArgs) -> ExitCode {
    let outputs = JsonOutputs {
        result: args.messages.json,
        progress: args.messages.progress == ProgressKind::Json,
    };
    upload(args, outputs).unwrap_or_else(|exit| exit).into()
}

fn upload(args: &PutArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let is_abort_of_all = args.abort && args.words.len() == 1;
    let files = if is_abort_of_all {
        None
    } else {
        Some(put_settings(args).map_err(|error| error.report(outputs))?)
    };
    if args.messages.json {
        output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    }
    block_on(outputs, async {
        match files {
            Some(files) if !args.abort && args.dry_run => show(args, files, outputs).await,
            Some(files) if !args.abort => Box::pin(upload_files(args, files, outputs)).await,
            files => Box::pin(abort(args, files, outputs)).await,
        }
    })
}

/// Shows what would be uploaded.
async fn show(
    args: &PutArgs,
    files: FileJobSettings,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let jobs = FileJobs::new(files, None, CancellationToken::new());
    let (counts, mut jobs) = (jobs.counts(), jobs.peekable());
    let is_empty = jobs.peek().is_none();
    match counts.unmatched.load(Relaxed) {
        count if is_empty && count > 0 => Err(report_unmatched(args, count, outputs)),
        _ => {
            let source = UploadJobSource::from_iterator(jobs);
            dry_run(&args.messages, source, "upload", outputs).await
        }
    }
}

fn settings(args: &PutArgs) -> UploadSettings<'_> {
    UploadSettings {
        expected_size: args.expected_size.map(|size| size.0),
        checksum: args.conditions.checksum,
        login: Some(&args.login),
        ..UploadSettings::new(&args.s3, &args.connection).with_speed(&args.speed, &args.resume)
    }
}

/// Connects to where the files go. A URL needs neither a profile nor credentials.
async fn connect_for(
    args: &PutArgs,
    target: &UploadTarget,
    outputs: JsonOutputs,
) -> Result<StoreSession, ExitReason> {
    let is_url = matches!(target, UploadTarget::Url(_));
    let s3 = S3Args {
        no_sign_request: args.s3.no_sign_request || is_url,
        ..args.s3.clone()
    };
    let settings = UploadSettings {
        s3: &s3,
        ..settings(args)
    };
    connect(settings, outputs).await
}

async fn upload_files(
    args: &PutArgs,
    files: FileJobSettings,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let mut session = connect_for(args, &files.target, outputs).await?;
    let (run_loop, events) = RunLoop::start().map_err(|error| error.report(outputs))?;
    session.stop = run_loop.stop();
    let (manifest, previous) = open_manifest(args, outputs)?.unzip();
    let jobs = FileJobs::new(files, previous, session.stop.clone());
    let counts = jobs.counts();
    let run = UploadRun {
        messages: &args.messages,
        options: settings(args).put_options(&session),
        session,
        known_count: jobs.known_count(),
        source: UploadJobSource::from_iterator(jobs),
        manifest,
        run_loop,
        events,
    };
    let (mut report, mut renderer) = Box::pin(run.run()).await;
    report.summary.counts.done_earlier = counts.done_earlier.load(Relaxed);
    report.partial_files = counts.partial_files.load(Relaxed);
    let has_found_nothing =
        report.summary.counts.listed == 0 && report.summary.counts.done_earlier == 0;
    if has_found_nothing && args.recursive && !report.summary.counts.is_interrupted() {
        match counts.unmatched.load(Relaxed) {
            0 => renderer.print(&message::warning_text("the folder has no files")),
            count => return Ok(report_unmatched(args, count, outputs)),
        }
    }
    let hint = "the same command sends the rest; with --abort it removes the parts that were sent";
    Ok(report.finish(args.messages.quiet, hint, &mut *renderer))
}

/// Reports that the filter leaves out every file.
fn report_unmatched(args: &PutArgs, count: u64, outputs: JsonOutputs) -> ExitReason {
    let folders = args
        .words
        .split_last()
        .map_or(&[][..], |(_, inputs)| inputs);
    let text = format!(
        "none of the {count} files in {} is left by --include and --exclude",
        folders.join(", ")
    );
    outputs.report_failure(ExitReason::SomeFailed, &message::sanitize(&text), None)
}

fn open_manifest(
    args: &PutArgs,
    outputs: JsonOutputs,
) -> Result<Option<(Manifest, PreviousRuns)>, ExitReason> {
    let Some(path) = &args.manifest else {
        return Ok(None);
    };
    match Manifest::open(path) {
        Ok((manifest, previous)) => {
            for warning in previous.warnings() {
                let text = format!("{}: {warning}", path.display());
                message::print_line(&message::warning_text(&message::sanitize(&text)));
            }
            Ok(Some((manifest, previous)))
        }
        Err(error) => {
            Err(outputs.report_failure(ExitReason::LocalIo, &message::chain_text(&error), None))
        }
    }
}

/// Removes what earlier runs of the same command have sent, or without files all unfinished uploads below a prefix.
async fn abort(
    args: &PutArgs,
    files: Option<FileJobSettings>,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let (session, uploads) = match files {
        Some(files) => {
            let session = connect_for(args, &files.target, outputs).await?;
            let source =
                UploadJobSource::from_iterator(FileJobs::new(files, None, session.stop.clone()));
            (session, UnfinishedUploads::OfFiles(source))
        }
        None => {
            let parsed = args.words.concat().parse();
            let prefix = parsed.map_err(|error: haul_s3::S3AddressError| {
                outputs.report_failure(ExitReason::Usage, &error.to_string(), None)
            })?;
            let session = connect(settings(args), outputs).await?;
            (session, UnfinishedUploads::Below(prefix))
        }
    };
    let options = settings(args).put_options(&session);
    let (mut tally, mut count) = (ExitTally::default(), 0);
    let ended = with_events(
        |events| uploads.abort(session.client, options, args.dry_run, events),
        |event| {
            let exit = match event {
                TransferEvent::UploadAborted(upload) => match &upload.result {
                    Ok(was_there) => print_aborted(args, &upload.name, *was_there)?,
                    Err(error) => report_put_error(error, outputs),
                },
                TransferEvent::NotTransferred(error) => report_input(&error, outputs),
                _ => return Ok(()),
            };
            count += 1;
            tally.add(exit);
            Ok(())
        },
    );
    ended
        .await?
        .map_err(|error| report_put_error(&error, outputs))?;
    Ok(tally.exit(count))
}

fn report_put_error(error: &PutError, outputs: JsonOutputs) -> ExitReason {
    let exit = ExitReason::from_class(error.class());
    outputs.report_failure(
        exit,
        &message::chain_text(error),
        message::upload_hint(error).as_deref(),
    )
}

fn print_aborted(args: &PutArgs, name: &str, was_there: bool) -> Result<ExitReason, ExitReason> {
    let text = match (was_there, args.dry_run) {
        (true, true) => format!("would remove the unfinished upload of {name}"),
        (true, false) => format!("removed the unfinished upload of {name}"),
        (false, _) => format!("haul knows no unfinished upload of {name}"),
    };
    if !args.messages.quiet || args.dry_run {
        output::write_stdout_lines([message::sanitize(&text)])
            .map_err(|error| output::report_write_error(&error))?;
    }
    Ok(ExitReason::Done)
}
