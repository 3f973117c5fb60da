//! `haul sync`: makes an S3 prefix match a folder, or the reverse.

mod deletions;
mod downloads;

use std::process::ExitCode;

use haul_transfer::sync::{PlannedCopy, RunningSync, SyncCopies, SyncPlace, SyncSides};
use haul_transfer::{GetOptions, TransferEvent, TransferEventSender};
use serde_json::Value;

use super::objects::report;
use super::run_loop::{RunLoop, StartError, block_on, stop_on_signals, with_events};
use super::uploads::{UploadRun, UploadSettings, connect, report_input};
use crate::args::{ProgressKind, SyncArgs};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::report::FileAction;
use crate::settings::{SettingError, download_limits, sync_places, sync_settings};
use downloads::download;

pub(crate) fn run(args: &SyncArgs) -> ExitCode {
    let outputs = JsonOutputs {
        result: args.messages.json,
        progress: args.messages.progress == ProgressKind::Json,
    };
    sync(args, outputs).unwrap_or_else(|exit| exit).into()
}

fn sync(args: &SyncArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let usage = |error: SettingError| error.report(outputs);
    let (source, destination) = sync_places(args).map_err(usage)?;
    let sync_settings = sync_settings(args, &destination).map_err(usage)?;
    if args.messages.json || args.dry_run {
        output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    }
    block_on(
        outputs,
        Box::pin(async {
            let mut session = connect(settings(args), outputs).await?;
            let cannot_start = |error: StartError| error.report(outputs);
            let (run_loop, events) = RunLoop::start().map_err(cannot_start)?;
            session.stop = run_loop.stop();
            // Deletions begin when the loop has ended.
            let _signals = stop_on_signals(session.stop.clone()).map_err(cannot_start)?;
            let sides = SyncSides {
                source,
                destination,
                session,
            };
            let (sync, copies) = RunningSync::start(sync_settings, sides.clone());
            let run = SyncRun {
                args,
                outputs,
                sides,
            };
            let copied = if args.dry_run {
                run.show(copies).await?
            } else {
                Box::pin(run.copy(copies, run_loop, events)).await
            };
            run.finish(sync, &copied).await
        }),
    )
}

fn settings(args: &SyncArgs) -> UploadSettings<'_> {
    UploadSettings::new(&args.s3, &args.connection).with_speed(&args.speed, &args.resume)
}

/// How the copies of a sync ended.
struct CopyOutcome {
    exit: ExitReason,
    /// How many files there were to copy, those that failed or were left out among them.
    files: u64,
    failed: u64,
}

/// A sync under way.
struct SyncRun<'a> {
    args: &'a SyncArgs,
    outputs: JsonOutputs,
    sides: SyncSides,
}

impl SyncRun<'_> {
    /// Copies what is found.
    async fn copy(
        &self,
        copies: SyncCopies,
        run_loop: RunLoop,
        events: TransferEventSender,
    ) -> CopyOutcome {
        let (session, settings) = (self.sides.session.clone(), settings(self.args));
        if copies.are_downloads() {
            let get_options = GetOptions {
                connections: settings.connections(),
                resume: !self.args.resume.no_resume,
                retry: session.retry.clone(),
                limits: download_limits(&self.args.limits),
                ..GetOptions::default()
            };
            let (client, messages) = (session.client.http().clone(), &self.args.messages);
            let engine = copies.download(client, get_options, messages.json, events);
            let (exit, summary) = download(Box::pin(engine), messages, run_loop).await;
            return CopyOutcome {
                exit,
                files: summary.files,
                failed: summary.failed,
            };
        }
        let run = UploadRun {
            messages: &self.args.messages,
            options: settings.put_options(&session),
            session,
            source: copies.into_uploads(),
            known_count: None,
            manifest: None,
            run_loop,
            events,
        };
        let (report, mut renderer) = Box::pin(run.run()).await;
        let counts = &report.summary.counts;
        let (files, failed) = (counts.listed, counts.failed);
        let hint = "the same command sends the rest";
        let exit = report.finish(self.args.messages.quiet, hint, &mut *renderer);
        CopyOutcome {
            exit,
            files,
            failed,
        }
    }

    /// Shows what would be copied.
    async fn show(&self, copies: SyncCopies) -> Result<CopyOutcome, ExitReason> {
        let mut exit = ExitReason::Done;
        let plan = with_events(
            |events| copies.plan(events),
            |event| match event {
                TransferEvent::CopyPlanned(copy) => {
                    output::write_stdout_lines([self.planned_line(&copy)])
                        .map_err(|error| output::report_write_error(&error))
                }
                TransferEvent::NotTransferred(error) => {
                    exit = report_input(&error, self.outputs);
                    Ok(())
                }
                _ => Ok(()),
            },
        );
        let summary = plan.await?;
        // A list that ended for it has said so already.
        if exit != ExitReason::Interrupted
            && let Err(error) = self.sides.session.check_stop()
        {
            exit = report(&error, self.outputs);
        }
        Ok(CopyOutcome {
            exit,
            files: summary.files,
            failed: summary.failed,
        })
    }

    fn planned_line(&self, copy: &PlannedCopy) -> String {
        let (source, target) = (copy.source.as_str(), copy.target.as_str());
        if !self.args.messages.json {
            return message::sanitize(&format!("would copy {source} to {target}"));
        }
        let (action, keys) = match (&self.sides.source, &self.sides.destination) {
            (SyncPlace::Folder(_), _) => (FileAction::Upload, ["path", "url"]),
            (SyncPlace::Bucket(_), SyncPlace::Folder(_)) => (FileAction::Download, ["url", "path"]),
            (SyncPlace::Bucket(_), SyncPlace::Bucket(_)) => (FileAction::Copy, ["source", "url"]),
        };
        let mut object = action.object(&[(keys[0], source), (keys[1], target)]);
        object.insert("bytes".into(), copy.bytes.into());
        object.insert("dry_run".into(), true.into());
        Value::from(object).to_string()
    }
}
