//! Runs a batch of `haul get`: one task, its rows, and the summary.
//!
//! Results go to standard output in blocks. When they cannot be written any more the batch stops: hours of downloads without their results
//! are of no use, and files that are done stay.

mod end;

use std::io::{self, BufWriter, Stdout, Write as _};
use std::time::Duration;

use haul_net::ClientConfig;
use haul_plan::Checksum;
use haul_transfer::batch::{Batch, BatchOptions, BatchOutputs, BatchSummary, StopReason};
use haul_transfer::bucket::{BucketError, StoreSession};
use haul_transfer::manifest::ManifestRow;
use haul_transfer::{GetOptions, TransferEvent};
use tokio_util::sync::CancellationToken;

use super::objects::report as report_bucket_error;
use super::run_loop::{EngineEvents, RenderContext, RunEnd, RunLoop, StartError};
use crate::args::GetArgs;
use crate::exit::ExitReason;
use crate::message::JsonOutputs;
use crate::progress::Renderer;
use crate::settings::{BatchWorkload, s3_config};
use crate::{message, output, report};
use end::{continue_hint, cut_off_lines, end_lines};

/// Bytes of results that are written at once.
const RESULT_BUFFER: usize = 64 << 10;

/// Runs a batch.
///
/// # Errors
/// See [`StartError`]. A failed job is no error.
pub(super) async fn run(
    args: &GetArgs,
    client: ClientConfig,
    get_options: GetOptions,
    workload: BatchWorkload,
    outputs: BatchOutputs,
    renderer: &mut dyn Renderer,
) -> Result<RunEnd, StartError> {
    let (run_loop, events) = RunLoop::start()?;
    let (mut options, mut sources) = (workload.options, workload.sources);
    options.has_one_bucket = sources.has_one_bucket();
    let finds_objects = args.batch.input.is_empty() && sources.has_objects();
    let client = if sources.has_objects() {
        let store = s3_config(&args.s3).connect(client).await?;
        sources.start_lists(&StoreSession {
            client: store.clone(),
            retry: get_options.retry.clone(),
            stop: run_loop.stop(),
        });
        store.http().clone()
    } else {
        haul_net::Client::new(client)?
    };
    let BatchOutputs {
        manifest,
        output,
        warnings,
        staging,
    } = outputs;
    print_warnings(args, renderer, Duration::ZERO, &warnings);
    let (ignored, list_failures) = (sources.ignored(), sources.failures());
    let mut printer = BatchPrinter::new(args, &options, run_loop.stop());
    let batch = Batch {
        client,
        get_options,
        options,
        manifest,
        output,
        host_memory: None,
        events,
    };
    let engine = batch.run(Box::new(sources), printer.stop.clone());
    let (summary, elapsed) = run_loop.run(engine, &mut printer, renderer).await;
    printer.summary = summary;
    drop(staging);
    print_warnings(args, renderer, elapsed, &ignored.warnings());
    let exit = printer.finish(
        args,
        finds_objects,
        &list_failures.take(),
        elapsed,
        renderer,
    );
    Ok(RunEnd {
        exit,
        continue_hint: Some(continue_hint(args, "continues")),
    })
}

/// Reports why lists of buckets ended early. Returns the exit code: that of the error, if there was nothing to download.
fn report_list_failures(
    args: &GetArgs,
    failures: &[BucketError],
    summary: &BatchSummary,
) -> Option<ExitReason> {
    let outputs = JsonOutputs::requested_by(args);
    let exits: Vec<ExitReason> = failures
        .iter()
        .map(|error| report_bucket_error(error, outputs))
        .collect();
    match summary.listed + summary.done_earlier {
        0 => exits.first().copied(),
        _ => exits.first().map(|_| ExitReason::SomeFailed),
    }
}

fn print_warnings(args: &GetArgs, renderer: &mut dyn Renderer, now: Duration, warnings: &[String]) {
    if !args.messages.quiet {
        let warnings = warnings.iter().map(|text| message::sanitize(text));
        warnings.for_each(|text| renderer.warn(now, &text));
    }
}

/// The results of a batch.
struct BatchPrinter {
    /// Stops the batch. A signal cancels it, too.
    stop: CancellationToken,
    results: ResultBuffer,
    /// Why a result could not be written.
    undelivered: Option<ExitReason>,
    summary: BatchSummary,
}

impl BatchPrinter {
    fn new(args: &GetArgs, options: &BatchOptions, stop: CancellationToken) -> Self {
        Self {
            stop,
            results: ResultBuffer::new(args, &options.checksums),
            undelivered: None,
            summary: BatchSummary::default(),
        }
    }

    /// Stops the batch since a result could not be written. Reported once, and not if the reader has left.
    fn result_lost(&mut self, renderer: &mut dyn Renderer, error: &io::Error) {
        self.stop.cancel();
        let exit = output::write_error_exit(error);
        if self.undelivered.replace(exit).is_none() && exit != ExitReason::ReaderGone {
            let (text, hint) = output::explain_write_error(error);
            renderer.print(&message::error_text(&text, Some(hint)));
        }
    }

    /// Says how the batch ended, and returns the exit code. `finds_objects` is whether nothing but addresses of buckets named files,
    /// `list_failures` why lists of these ended early.
    fn finish(
        &mut self,
        args: &GetArgs,
        finds_objects: bool,
        list_failures: &[BucketError],
        elapsed: Duration,
        renderer: &mut dyn Renderer,
    ) -> ExitReason {
        let summary = &self.summary;
        let lines = match self.undelivered {
            _ if summary.stop_reason() == Some(StopReason::ReaderGone) => {
                self.undelivered = Some(ExitReason::ReaderGone);
                cut_off_lines(args, summary)
            }
            // `haul get ... --json | head` ends quietly, as every tool in a pipe does.
            Some(ExitReason::ReaderGone) => Vec::new(),
            // What was not listed is reported below.
            _ if !list_failures.is_empty() && summary.listed == 0 => Vec::new(),
            _ => end_lines(args, summary, elapsed, renderer.line_width()),
        };
        // A list may be empty. An address that names nothing is a mistake, as for `ls`, `rm` and `cp`.
        let has_found_nothing = finds_objects && summary.has_found_nothing();
        renderer.batch_ended(elapsed, summary, &lines);
        let list_exit = report_list_failures(args, list_failures, summary);
        // A result that could not be written has stopped the batch, if it was still running.
        let exit = self
            .undelivered
            .unwrap_or_else(|| ExitReason::from_batch(summary));
        match (exit, renderer.take_write_error()) {
            // An error of standard error cannot be reported there.
            (exit, Some(error)) if exit != ExitReason::Interrupted => {
                output::write_error_exit(&error)
            }
            (ExitReason::Done | ExitReason::SomeFailed, _) if let Some(exit) = list_exit => exit,
            (ExitReason::Done, _) if has_found_nothing => ExitReason::SomeFailed,
            (exit, _) => exit,
        }
    }
}

impl EngineEvents for BatchPrinter {
    fn on_event(&mut self, context: RenderContext<'_>, event: &TransferEvent) {
        if let TransferEvent::BatchRow(row) = event
            && self.undelivered.is_none()
            && let Err(error) = self.results.write_row(row)
        {
            self.result_lost(context.renderer, &error);
        }
    }

    fn on_tick(&mut self, context: RenderContext<'_>) {
        if self.undelivered.is_none()
            && let Err(error) = self.results.flush()
        {
            self.result_lost(context.renderer, &error);
        }
    }
}

/// Buffers results for standard output: a write for each of a hundred thousand results would cost more than some of the downloads.
struct ResultBuffer {
    out: BufWriter<Stdout>,
    json: bool,
    /// The requested digests without a value to compare with.
    digests: Vec<Checksum>,
}

impl ResultBuffer {
    fn new(args: &GetArgs, digests: &[Checksum]) -> Self {
        Self {
            out: BufWriter::with_capacity(RESULT_BUFFER, io::stdout()),
            json: args.messages.json,
            // Standard output may be the archive; a manifest has the digests.
            digests: if args.batch.is_tar_to_stdout() || args.batch.manifest.is_some() {
                Vec::new()
            } else {
                digests.to_vec()
            },
        }
    }

    fn write_row(&mut self, row: &ManifestRow) -> io::Result<()> {
        if self.json {
            let object = report::row_object(row).to_string();
            return writeln!(self.out, "{}", output::result_text(&object));
        }
        let digests = report::row_checksum_lines(row, &self.digests);
        digests
            .iter()
            .try_for_each(|line| writeln!(self.out, "{}", output::result_text(line)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
