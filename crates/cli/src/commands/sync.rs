//! `haul sync`: makes an S3 prefix match a folder, or the reverse.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use haul_transfer::batch::BatchSummary;
use haul_transfer::sync::{
    DeletionRefusal, RunningSync, SyncCopies, SyncDeletions, SyncPlace, SyncSides,
};
use haul_transfer::{GetOptions, TransferEvent, TransferEventSender};
use serde_json::{Map, Value};

use super::objects::{DeletionOutput, report};
use super::run_loop::{
    EngineEvents, RenderContext, RunLoop, StartError, block_on, stop_on_signals, with_events,
};
use super::uploads::{UploadRun, UploadSettings, connect, input_exit, input_message, report_input};
use crate::args::{ProgressKind, SyncArgs};
use crate::exit::{ExitReason, ExitTally};
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::progress::{ProgressOptions, ProgressScope, Renderer, new_renderer};
use crate::report::{FileAction, failures_text, row_object, stop_text, summary_line};
use crate::settings::{SettingError, download_limits, sync_places, sync_settings};

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
    /// Deletes what only the destination has, and returns the exit code.
    async fn finish(
        &self,
        sync: RunningSync,
        copied: &CopyOutcome,
    ) -> Result<ExitReason, ExitReason> {
        let went_well = matches!(copied.exit, ExitReason::Done | ExitReason::SomeFailed);
        let deletions = sync
            .deletions(copied.failed, went_well)
            .await
            .map_err(|error| {
                let folder = self.sides.folder().unwrap_or_else(|| Path::new(""));
                let text = format!("cannot list {}: {error}", folder.display());
                self.fail(ExitReason::LocalIo, &text, None)
            })?;
        let (count, has_source_files) = (deletions.count(), deletions.has_source_files);
        let deleted = self.delete(deletions).await?;
        let is_idle = copied.exit == ExitReason::Done && copied.files == 0 && count == 0;
        if is_idle && !self.args.messages.quiet {
            if has_source_files {
                message::print_line("there is nothing to do")
            } else {
                let text = format!("there are no files at {}", self.args.source);
                message::print_line(&message::warning_text(&message::sanitize(&text)));
            }
        }
        Ok(match copied.exit {
            ExitReason::Done => deleted,
            exit => exit,
        })
    }

    /// Copies what is found.
    async fn copy(
        &self,
        copies: SyncCopies,
        run_loop: RunLoop,
        events: TransferEventSender,
    ) -> CopyOutcome {
        if copies.are_downloads() {
            return self.download(copies, run_loop, events).await;
        }
        let session = self.sides.session.clone();
        let run = UploadRun {
            messages: &self.args.messages,
            options: settings(self.args).put_options(&session),
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

    async fn download(
        &self,
        copies: SyncCopies,
        run_loop: RunLoop,
        events: TransferEventSender,
    ) -> CopyOutcome {
        let (args, session) = (self.args, &self.sides.session);
        let mut renderer = new_renderer(ProgressOptions {
            kind: args.messages.progress,
            quiet: args.messages.quiet,
            verbose: false,
            scope: ProgressScope::Batch,
        });
        let get_options = GetOptions {
            connections: settings(args).connections(),
            resume: !args.resume.no_resume,
            retry: session.retry.clone(),
            limits: download_limits(&args.limits),
            ..GetOptions::default()
        };
        let mut printer = DownloadPrinter {
            json: args.messages.json,
            quiet: args.messages.quiet,
            tally: ExitTally::default(),
            not_transferred: 0,
        };
        let client = session.client.http().clone();
        let engine = copies.download(client, get_options, args.messages.json, events);
        let ended = run_loop.run(Box::pin(engine), &mut printer, &mut *renderer);
        let (summary, elapsed) = ended.await;
        let not_transferred = printer.not_transferred;
        printer.print_end(&summary, elapsed, &mut *renderer);
        CopyOutcome {
            exit: printer.exit(&summary),
            files: summary.listed + not_transferred,
            failed: summary.failed + not_transferred,
        }
    }

    /// Shows what would be copied.
    async fn show(&self, mut copies: SyncCopies) -> Result<CopyOutcome, ExitReason> {
        let (mut exit, mut files, mut failed) = (ExitReason::Done, 0, 0);
        while let Some(copy) = copies.next().await {
            files += 1;
            let entry = match copy {
                Ok(entry) => entry,
                Err(error) => {
                    failed += 1;
                    exit = report_input(&error, self.outputs);
                    continue;
                }
            };
            let source = self.sides.source.name_of(&entry.key);
            let target = self.sides.destination.name_of(&entry.key);
            let line = if self.args.messages.json {
                let mut object = self.copy_object(&source, &target);
                object.insert("bytes".into(), entry.size.into());
                object.insert("dry_run".into(), true.into());
                Value::from(object).to_string()
            } else {
                message::sanitize(&format!("would copy {source} to {target}"))
            };
            output::write_stdout_lines([line])
                .map_err(|error| output::report_write_error(&error))?;
        }
        // A list that ended for it has said so already.
        if exit != ExitReason::Interrupted
            && let Err(error) = self.sides.session.check_stop()
        {
            exit = report(&error, self.outputs);
        }
        Ok(CopyOutcome {
            exit,
            files,
            failed,
        })
    }

    /// The object of a file that is copied between the sides.
    fn copy_object(&self, source: &str, target: &str) -> Map<String, Value> {
        match (&self.sides.source, &self.sides.destination) {
            (SyncPlace::Folder(_), _) => {
                FileAction::Upload.object(&[("path", source), ("url", target)])
            }
            (SyncPlace::Bucket(_), SyncPlace::Folder(_)) => {
                FileAction::Download.object(&[("url", source), ("path", target)])
            }
            (SyncPlace::Bucket(_), SyncPlace::Bucket(_)) => {
                FileAction::Copy.object(&[("source", source), ("url", target)])
            }
        }
    }

    /// Deletes what only the destination has, if all went well.
    async fn delete(&self, deletions: SyncDeletions) -> Result<ExitReason, ExitReason> {
        match deletions.refusal {
            None => {}
            Some(DeletionRefusal::TooMany) => {
                let most = self.args.max_delete.unwrap_or_default();
                let text = format!(
                    "there are more than {most} files to delete (--max-delete): haul deleted none"
                );
                return Err(self.fail(ExitReason::Usage, &text, None));
            }
            Some(DeletionRefusal::NotWhole) => {
                let text = "haul did not delete files that only the destination has, since the sync is incomplete";
                message::print_line(&message::warning_text(text));
                return Ok(ExitReason::SomeFailed);
            }
            Some(DeletionRefusal::EmptySource) => {
                let count = deletions.count();
                let text = format!(
                    "the source has no files, and haul would delete {count} files of the destination: it deleted none"
                );
                let hint = "is the source correct? --max-delete N allows this";
                return Err(self.fail(ExitReason::Usage, &text, Some(hint)));
            }
        }
        let output = DeletionOutput {
            dry_run: self.args.dry_run,
            json: self.args.messages.json,
            quiet: self.args.messages.quiet,
        };
        let result = with_events(
            |events| deletions.delete(output.options(), events),
            |event| output.print(&event),
        );
        DeletionOutput::finish(result.await?, self.outputs)
    }

    fn fail(&self, exit: ExitReason, text: &str, hint: Option<&str>) -> ExitReason {
        self.outputs.report_failure(exit, text, hint)
    }
}

/// Prints what comes of each download, and counts for the exit code what was not even tried.
struct DownloadPrinter {
    json: bool,
    quiet: bool,
    tally: ExitTally,
    not_transferred: u64,
}

impl EngineEvents for DownloadPrinter {
    fn on_event(&mut self, context: RenderContext<'_>, event: &TransferEvent) {
        match event {
            TransferEvent::BatchRow(row) if self.json => {
                if let Err(error) = output::write_stdout_lines([row_object(row)]) {
                    self.tally.lost_result(output::write_error_exit(&error));
                }
            }
            TransferEvent::NotTransferred(error) => {
                self.not_transferred += 1;
                self.tally.add(input_exit(error));
                context.renderer.print(&input_message(error));
            }
            _ => {}
        }
    }
}

impl DownloadPrinter {
    fn print_end(&self, summary: &BatchSummary, elapsed: Duration, renderer: &mut dyn Renderer) {
        let mut lines = Vec::new();
        if summary.listed > 0 && !self.quiet {
            lines.push(summary_line(summary, elapsed, renderer.line_width()));
        }
        if let Some(stopped) = &summary.stopped
            && !summary.is_interrupted()
        {
            let reason = message::sanitize(&stop_text(summary, stopped));
            let text = format!("stopped early: {reason}");
            lines.push(message::error_text(&text, None));
        }
        lines.extend(failures_text(summary, "the same command retries them"));
        renderer.batch_ended(elapsed, summary, &lines);
    }

    fn exit(mut self, summary: &BatchSummary) -> ExitReason {
        let mut count = usize::try_from(self.not_transferred).unwrap_or(usize::MAX);
        if summary.listed > 0 {
            // Some of several failed.
            self.tally.add(ExitReason::Done);
            count += 1;
        }
        match ExitReason::from_batch(summary) {
            ExitReason::Done => self.tally.exit(count),
            exit => exit,
        }
    }
}
