//! Downloads of a sync: a batch whose list is what the merge found.

use std::time::Duration;

use haul_plan::path_of_key;
use haul_plan::sync::ListedVersion;
use haul_s3::S3Address;
use haul_transfer::batch::{Batch, BatchOptions, BatchOutput, BatchSummary, dispatcher_options};
use haul_transfer::list::{BadLine, BadLineProblem, ListEntry};
use haul_transfer::{ExistingFilePolicy, GetOptions, TransferEvent};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::run_loop::{RenderContext, RunLoop, TaskSet};
use super::super::uploads::{BadInput, UploadSettings};
use super::CopyOutcome;
use super::comparison::FoundCopy;
use crate::args::MessageArgs;
use crate::exit::{ExitReason, ExitTally};
use crate::progress::{ProgressOptions, ProgressScope, Renderer, new_renderer};
use crate::{message, output, report};

/// A batch to run.
pub(super) struct SyncDownload<'a> {
    pub(super) messages: &'a MessageArgs,
    pub(super) settings: UploadSettings<'a>,
    pub(super) client: haul_net::Client,
    pub(super) get_options: GetOptions,
    /// Where objects come from.
    pub(super) prefix: S3Address,
    /// The folder that files go into.
    pub(super) root: std::path::PathBuf,
    /// Whether links to folders below it are followed.
    pub(super) follows_links: bool,
    pub(super) run_loop: RunLoop,
    pub(super) events: haul_transfer::TransferEventSender,
}

impl SyncDownload<'_> {
    /// Downloads what was found, and reports each result.
    pub(super) async fn run(self, copies: mpsc::Receiver<FoundCopy>) -> CopyOutcome {
        let mut renderer = new_renderer(ProgressOptions {
            kind: self.messages.progress,
            quiet: self.messages.quiet,
            verbose: false,
            scope: ProgressScope::Batch,
        });
        let stop = self.run_loop.stop();
        let (bad_inputs, bad_received) = std::sync::mpsc::channel();
        let entries = DownloadEntries {
            prefix: self.prefix,
            copies,
            bad_inputs,
            number: 0,
        };
        let batch = Batch {
            client: self.client,
            get_options: GetOptions {
                existing_file: ExistingFilePolicy::Overwrite,
                ..self.get_options
            },
            options: BatchOptions {
                directory: self.root,
                dispatch: dispatcher_options(None, None, self.settings.connections()),
                report_every_row: self.messages.json,
                follows_links: self.follows_links,
                has_one_bucket: true,
                ..BatchOptions::default()
            },
            manifest: None,
            output: BatchOutput::Files,
            host_memory: None,
            events: self.events,
        };
        let mut task = DownloadTask {
            tasks: JoinSet::new(),
            json: self.messages.json,
            bad_inputs: bad_received,
            tally: ExitTally::default(),
            bad_count: 0,
            summary: BatchSummary::default(),
        };
        task.tasks.spawn(batch.run(Box::new(entries), stop.clone()));
        let elapsed = self.run_loop.run(&mut task, &mut *renderer).await;
        task.take_bad_inputs(&mut *renderer);
        let exit = task.finish(
            &mut *renderer,
            elapsed,
            stop.is_cancelled(),
            self.messages.quiet,
        );
        CopyOutcome {
            exit,
            files: task.summary.listed + task.bad_count,
            failed: task.summary.failed + task.bad_count,
        }
    }
}

/// The files to download, for the thread of the batch.
struct DownloadEntries {
    prefix: S3Address,
    copies: mpsc::Receiver<FoundCopy>,
    bad_inputs: std::sync::mpsc::Sender<BadInput>,
    number: u64,
}

impl Iterator for DownloadEntries {
    type Item = Result<ListEntry, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.copies.blocking_recv()? {
                Ok(entry) => entry,
                Err(error) => {
                    // Nobody reads when the run has ended.
                    let _ = self.bad_inputs.send(error);
                    continue;
                }
            };
            self.number += 1;
            let object = self
                .prefix
                .with_key(format!("{}{}", self.prefix.key, entry.key));
            let bad = |problem| BadLine {
                list_name: self.prefix.to_string().into(),
                line: self.number,
                excerpt: object.key.clone(),
                url: None,
                problem,
            };
            let path = match path_of_key(&entry.key) {
                Ok(path) => path,
                Err(error) => return Some(Err(bad(BadLineProblem::InvalidKey(error)))),
            };
            return Some(match object.to_url() {
                Ok(url) => Ok(ListEntry {
                    path: Some(path),
                    listed: Some(ListedVersion {
                        size: entry.size,
                        entity_tag: entry.entity_tag,
                        modified: entry.modified,
                    }),
                    ..ListEntry::new(self.number, url)
                }),
                Err(error) => Err(bad(BadLineProblem::InvalidAddress(error))),
            });
        }
    }
}

/// The one task of the batch, and its results.
struct DownloadTask {
    tasks: JoinSet<BatchSummary>,
    json: bool,
    bad_inputs: std::sync::mpsc::Receiver<BadInput>,
    /// Counts what was bad before the batch saw it.
    tally: ExitTally,
    bad_count: u64,
    summary: BatchSummary,
}

impl DownloadTask {
    fn take_bad_inputs(&mut self, renderer: &mut dyn Renderer) {
        while let Ok(error) = self.bad_inputs.try_recv() {
            self.bad_count += 1;
            self.tally.add(error.exit);
            renderer.print(&error.message());
        }
    }

    fn finish(
        &mut self,
        renderer: &mut dyn Renderer,
        elapsed: Duration,
        is_interrupted: bool,
        quiet: bool,
    ) -> ExitReason {
        let summary = &self.summary;
        let mut lines = Vec::new();
        if summary.listed > 0 && !quiet {
            lines.push(report::summary_line(
                summary,
                elapsed,
                renderer.line_width(),
            ));
        }
        if let Some(halt) = &summary.halted {
            let reason = message::sanitize(&report::halt_reason(summary, halt));
            lines.push(message::error_text(
                &format!("stopped early: {reason}"),
                None,
            ));
        }
        lines.extend(report::failures_text(
            summary,
            "the same command retries them",
        ));
        renderer.batch_ended(elapsed, summary, &lines);
        let mut count = usize::try_from(self.bad_count).unwrap_or(usize::MAX);
        if summary.listed > 0 {
            // Some of several failed.
            self.tally.add(ExitReason::Done);
            count += 1;
        }
        match ExitReason::from_batch(&self.summary, is_interrupted) {
            ExitReason::Done => self.tally.exit(count),
            exit => exit,
        }
    }
}

impl TaskSet for DownloadTask {
    type End = BatchSummary;

    fn tasks(&mut self) -> &mut JoinSet<BatchSummary> {
        &mut self.tasks
    }

    fn on_event(&mut self, _: RenderContext<'_>, event: &TransferEvent) {
        if let TransferEvent::BatchRow(row) = event
            && self.json
            && let Err(error) = output::write_stdout_lines([report::row_object(row)])
        {
            self.tally.lost_result(output::write_error_exit(&error));
        }
    }

    fn on_end(&mut self, _: RenderContext<'_>, summary: BatchSummary) {
        self.summary = summary;
    }

    fn on_tick(&mut self, context: RenderContext<'_>) {
        self.take_bad_inputs(context.renderer);
    }
}
