//! What `haul sync` prints about files that come down from a store, and their exit code.

use std::time::Duration;

use haul_transfer::TransferEvent;
use haul_transfer::batch::BatchSummary;
use haul_transfer::sync::SyncCopySummary;

use crate::args::MessageArgs;
use crate::commands::run_loop::{EngineEvents, RenderContext, RunLoop};
use crate::commands::uploads::{input_exit, input_message};
use crate::exit::{ExitReason, ExitTally};
use crate::message;
use crate::output;
use crate::progress::{ProgressOptions, ProgressScope, Renderer, new_renderer};
use crate::report::{failures_text, row_object, stop_text, summary_line};

/// Runs the downloads of a sync, and prints their results and how they ended.
pub(super) async fn download(
    engine: impl Future<Output = SyncCopySummary> + Send + 'static,
    messages: &MessageArgs,
    run_loop: RunLoop,
) -> (ExitReason, SyncCopySummary) {
    let mut renderer = new_renderer(ProgressOptions {
        kind: messages.progress,
        quiet: messages.quiet,
        verbose: false,
        scope: ProgressScope::Batch,
    });
    let mut printer = DownloadPrinter {
        json: messages.json,
        tally: ExitTally::default(),
    };
    let ended = run_loop.run(engine, &mut printer, &mut *renderer);
    let (summary, elapsed) = ended.await;
    print_end(&summary.transfers, elapsed, messages.quiet, &mut *renderer);
    (printer.exit(&summary), summary)
}

fn print_end(summary: &BatchSummary, elapsed: Duration, quiet: bool, renderer: &mut dyn Renderer) {
    let mut lines = Vec::new();
    if summary.listed > 0 && !quiet {
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

/// Prints what comes of each download.
struct DownloadPrinter {
    json: bool,
    /// Of what was not even tried, and of results that could not be written.
    tally: ExitTally,
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
                self.tally.add(input_exit(error));
                context.renderer.print(&input_message(error));
            }
            _ => {}
        }
    }
}

impl DownloadPrinter {
    fn exit(self, summary: &SyncCopySummary) -> ExitReason {
        let files = usize::try_from(summary.files).unwrap_or(usize::MAX);
        match ExitReason::from_batch(&summary.transfers) {
            ExitReason::Done => self.tally.exit(files),
            exit => exit,
        }
    }
}
