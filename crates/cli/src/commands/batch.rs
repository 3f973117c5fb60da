//! Runs a batch of `haul get`: one task, its rows, and the summary.
//!
//! Results go to standard output in blocks. When they cannot be written any more the batch stops: hours of downloads without their results
//! are of no use, and files that are done stay.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::time::Duration;

use haul_net::ClientConfig;
use haul_plan::Checksum;
use haul_s3::S3Address;
use haul_transfer::batch::{Batch, BatchOptions, BatchOutputs, BatchSummary, StopReason};
use haul_transfer::bucket::{BucketError, KeyFilter, StoreSession};
use haul_transfer::manifest::ManifestRow;
use haul_transfer::{ErrorClass, GetOptions, TransferEvent};
use tokio_util::sync::CancellationToken;

use super::objects::report as report_bucket_error;
use super::run_loop::{EngineEvents, RenderContext, RunEnd, RunLoop, StartError};
use crate::args::{GetArgs, UrlArg};
use crate::exit::ExitReason;
use crate::message::JsonOutputs;
use crate::progress::Renderer;
use crate::settings::{BatchWorkload, archive_destination, s3_config};
use crate::{message, output, report};

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

/// Whether the batch ended because the reader of its archive has left.
fn has_archive_reader_left(summary: &BatchSummary) -> bool {
    summary.stop_reason() == Some(StopReason::ReaderGone)
}

/// The message when the reader of the archive has left: how far it got, and no more.
fn cut_off_lines(args: &GetArgs, summary: &BatchSummary) -> Vec<String> {
    let tar = match &args.batch.tar {
        Some(tar) if !args.batch.is_tar_to_stdout() => tar.display().to_string(),
        _ => "standard output".to_owned(),
    };
    let files = summary.done;
    let text = format!("{tar} was closed by its reader: the archive ends after {files} files");
    let message = message::error_text(&message::sanitize(&text), None);
    (!args.messages.quiet)
        .then_some(message)
        .into_iter()
        .collect()
}

fn print_warnings(args: &GetArgs, renderer: &mut dyn Renderer, now: Duration, warnings: &[String]) {
    if !args.messages.quiet {
        let warnings = warnings.iter().map(|text| message::sanitize(text));
        warnings.for_each(|text| renderer.warn(now, &text));
    }
}

/// The hint how to continue a batch that was interrupted, or to retry what failed. `does` is the verb of that.
fn continue_hint(args: &GetArgs, does: &str) -> String {
    let (batch, output) = (&args.batch, &args.output);
    if batch
        .tar
        .as_deref()
        .is_some_and(|tar| archive_destination(tar).is_stream())
    {
        return "the same command starts again: a streamed archive is always complete".to_owned();
    }
    let existing = match () {
        () if output.update => "for existing files it only asks whether they changed",
        () if batch.manifest.is_some() => "files that the manifest lists as done are skipped",
        () if batch.tar.is_some() => {
            return "with --manifest FILE the same command could continue its archive".to_owned();
        }
        () if output.overwrite => {
            return format!("the same command without --overwrite {does}: existing files are kept");
        }
        () => "existing files are not downloaded again",
    };
    format!("the same command {does}: {existing}")
}

/// The hint for a file that is no list.
const LIST_FORMATS: &str = "a list has a URL a line, or is in aria2's format, CSV or TSV with a column 'url', JSON lines or Metalink";

/// The messages at the end, for people.
fn end_lines(
    args: &GetArgs,
    summary: &BatchSummary,
    elapsed: Duration,
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if is_without_files(summary) && args.batch.input.is_empty() {
        return vec![message::error_text(
            &message::sanitize(&nothing_found(args)),
            None,
        )];
    }
    if !args.messages.quiet {
        if is_without_files(summary) {
            lines.push(message::warning_text(
                "the lists contain nothing to download",
            ));
        }
        lines.push(report::summary_line(summary, elapsed, width));
    }
    if summary.pages > 0 {
        let text = format!(
            "{} of these files are pages or error documents, which is not what their names promise: --expect-type refuses such responses",
            summary.pages
        );
        lines.push(message::warning_text(&text));
    }
    if let Some(stopped) = &summary.stopped
        && !summary.is_interrupted()
    {
        let reason = message::sanitize(&report::stop_text(summary, stopped));
        let text = if summary.all_ended() || summary.listed == 0 {
            reason
        } else {
            format!("stopped early: {reason}")
        };
        let hint = (stopped.reason == StopReason::UnusableList).then_some(LIST_FORMATS);
        lines.push(message::error_text(&text, hint));
    }
    let hint = match summary.done {
        _ if are_failures_permanent(summary) => {
            "they would fail again: check the list, and the sizes, types and digests that it or the flags require".to_owned()
        }
        // There is no archive to continue.
        0 if args.batch.tar.is_some() => "the same command retries them".to_owned(),
        _ => continue_hint(args, "retries them"),
    };
    lines.extend(report::failures_text(summary, &hint));
    lines
}

/// Whether all lists were read, and named nothing.
fn is_without_files(summary: &BatchSummary) -> bool {
    summary.list_complete && summary.listed == 0 && summary.stopped.is_none()
}

/// The message for addresses without an object.
fn nothing_found(args: &GetArgs) -> String {
    let address = |url: &UrlArg| match url {
        UrlArg::Url(url) => S3Address::from_url(&url.0).ok(),
        UrlArg::Glob(_) => None,
    };
    let addresses = args.urls.iter().filter_map(address);
    let names: Vec<String> = addresses
        .map(|address| {
            if args.recursive {
                format!("below {}", address.into_folder())
            } else {
                format!("at {address}")
            }
        })
        .collect();
    let filtered = if args.filter.filter == KeyFilter::default() {
        ""
    } else {
        " that --include and --exclude leave"
    };
    format!("there is no object {}{filtered}", names.join(" or "))
}

/// Whether all failures are about the files themselves, so that a retry would fail, too.
fn are_failures_permanent(summary: &BatchSummary) -> bool {
    let lasting = |class| matches!(class, ErrorClass::Usage | ErrorClass::Verification);
    summary
        .failure_groups
        .iter()
        .all(|cause| lasting(cause.class))
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
            _ if has_archive_reader_left(summary) => {
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
        let has_found_nothing = finds_objects && is_without_files(summary);
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
