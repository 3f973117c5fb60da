//! `haul get_options` of a batch: one task that does all of it, rows that come from it, and what they come to.
//!
//! Results go to standard output as they come, some at a time. When they cannot be written any more the batch is asked to stop:
//! hours of downloads whose results nobody gets are of no use to anyone, and what is done stays done.

use std::io::{self, BufWriter, Stdout, Write as _};
use std::time::Duration;

use haul_net::ClientConfig;
use haul_plan::Checksum;
use haul_transfer::batch::{Batch, BatchHaltKind, BatchOptions, BatchSummary};
use haul_transfer::manifest::ManifestRow;
use haul_transfer::{ErrorClass, GetOptions, TransferEvent};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::outputs::BatchOutputs;
use super::run_loop::{RenderContext, RunLoop, StartError, TaskSet};
use crate::args::GetArgs;
use crate::exit::ExitReason;
use crate::progress::Renderer;
use crate::settings::{BatchWorkload, archive_destination};
use crate::{message, output, report};

/// Bytes of results that are written at once.
const RESULT_BUFFER: usize = 64 << 10;

/// What is to be done.
pub(super) struct BatchWork {
    /// For `net`.
    pub(super) client: ClientConfig,
    /// For each job.
    pub(super) get: GetOptions,
    /// All jobs.
    pub(super) workload: BatchWorkload,
    /// What is written beside files.
    pub(super) outputs: BatchOutputs,
}

/// Does a batch. Says how it ended, and how it goes on if it was interrupted.
///
/// # Errors
/// See [`StartError`]. A job that fails is no error.
pub(super) async fn run(
    args: &GetArgs,
    work: BatchWork,
    screen: &mut dyn Renderer,
) -> Result<(ExitReason, Option<String>), StartError> {
    let (watch, events) = RunLoop::start()?;
    let client = haul_net::Client::new(work.client)?;
    let BatchWorkload { options, sources } = work.workload;
    let BatchOutputs {
        manifest,
        archive,
        warnings,
        staging,
    } = work.outputs;
    print_warnings(args, screen, Duration::ZERO, &warnings);
    let ignored = sources.ignored();
    let mut crew = BatchTask::new(args, &options, watch.stop());
    let batch = Batch {
        client,
        get_options: work.get,
        options,
        manifest,
        archive,
        events,
    };
    let stop = crew.stop.clone();
    crew.tasks.spawn(batch.run(Box::new(sources), stop));
    let elapsed = watch.run(&mut crew, screen).await;
    drop(staging);
    print_warnings(args, screen, elapsed, &ignored.warnings());
    let lines = match crew.undelivered {
        _ if has_archive_reader_left(&crew.summary) => {
            crew.undelivered = Some(ExitReason::ReaderGone);
            cut_off_lines(args, &crew.summary)
        }
        // `haul get_options ... --json | head` ends quietly, as every tool in a pipe does.
        Some(ExitReason::ReaderGone) => Vec::new(),
        _ => end_lines(args, &crew.summary, elapsed, screen.line_width()),
    };
    screen.batch_ended(elapsed, &crew.summary, &lines);
    let exit = match (crew.exit_reason(), screen.take_write_error()) {
        // What could not be written to standard error cannot be told there either.
        (exit, Some(error)) if exit != ExitReason::Interrupted => output::write_error_exit(&error),
        (exit, _) => exit,
    };
    Ok((exit, Some(continue_hint(args, "goes on"))))
}

/// Whether a batch ended since whoever read its archive is gone.
fn has_archive_reader_left(summary: &BatchSummary) -> bool {
    let halted = summary.halted.as_ref();
    halted.is_some_and(|halted| halted.kind == BatchHaltKind::ReaderGone)
}

/// What is told when whoever read the archive is gone: how far it came, and no more.
fn cut_off_lines(args: &GetArgs, summary: &BatchSummary) -> Vec<String> {
    let tar = match &args.batch.tar {
        Some(tar) if !args.batch.is_tar_to_stdout() => tar.display().to_string(),
        _ => "standard output".to_owned(),
    };
    let files = summary.done;
    let text = format!("nobody reads {tar} any more: the archive was cut off after {files} files");
    let told = message::error_text(&message::sanitize(&text), None);
    (!args.messages.quiet).then_some(told).into_iter().collect()
}

fn print_warnings(args: &GetArgs, screen: &mut dyn Renderer, now: Duration, warnings: &[String]) {
    if !args.messages.quiet {
        warnings.iter().for_each(|text| screen.warn(now, text));
    }
}

/// What to do about a batch that was interrupted, or of which some failed.
fn continue_hint(args: &GetArgs, does: &str) -> String {
    let (batch, output) = (&args.batch, &args.output);
    if batch
        .tar
        .as_deref()
        .is_some_and(|tar| archive_destination(tar).is_stream())
    {
        return "the same command begins anew: whoever reads its archive gets all of it".to_owned();
    }
    let kept = match () {
        () if output.update => "of what is there it only asks whether it changed",
        () if batch.manifest.is_some() => "what its manifest says is done is not asked for again",
        () if batch.tar.is_some() => {
            return "with --manifest FILE the same command would go on with its archive".to_owned();
        }
        () if output.overwrite => {
            return format!("the same command without --overwrite {does}: what is there is kept");
        }
        () => "what is there is not fetched again",
    };
    format!("the same command {does}: {kept}")
}

/// What people are told in the end.
fn end_lines(
    args: &GetArgs,
    summary: &BatchSummary,
    elapsed: Duration,
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if !args.messages.quiet {
        if summary.list_complete && summary.listed == 0 && summary.halted.is_none() {
            lines.push(message::warning_text("the lists name nothing to download"));
        }
        lines.push(report::summary_line(summary, elapsed, width));
    }
    if let Some(why) = &summary.halted {
        let why = message::sanitize(&why.reason);
        let text = match have_all_ended(summary) {
            true => why,
            false => format!("stopped before all was done: {why}"),
        };
        lines.push(message::error_text(&text, None));
    }
    let hint = match summary.done {
        _ if are_failures_permanent(summary) => {
            "they would fail again: look at the list, and at what it or the flags say that files must be".to_owned()
        }
        // There is no archive to go on with.
        0 if args.batch.tar.is_some() => "the same command tries those again".to_owned(),
        _ => continue_hint(args, "tries those again"),
    };
    lines.extend(report::failures_text(summary, &hint));
    lines
}

/// Whether every job has ended.
fn have_all_ended(summary: &BatchSummary) -> bool {
    summary.list_complete && summary.done + summary.skipped + summary.failed == summary.listed
}

/// Whether all that failed did so for what it is, and not for what was the matter just then.
fn are_failures_permanent(summary: &BatchSummary) -> bool {
    let lasting = |class| matches!(class, ErrorClass::Usage | ErrorClass::Verification);
    summary
        .failure_groups
        .iter()
        .all(|cause| lasting(cause.class))
}

/// The one task of a batch, and what is told of it.
struct BatchTask {
    /// The task.
    tasks: JoinSet<BatchSummary>,
    /// Asks it to stop; so does a signal.
    stop: CancellationToken,
    /// Whether a signal did.
    stop_signal: CancellationToken,
    /// Where results go.
    results: ResultBuffer,
    /// How a result ended that could not be delivered.
    undelivered: Option<ExitReason>,
    /// How the batch ended.
    summary: BatchSummary,
}

impl BatchTask {
    fn new(args: &GetArgs, options: &BatchOptions, stop_signal: CancellationToken) -> Self {
        Self {
            tasks: JoinSet::new(),
            // A signal stops it, but what stops it is not always a signal.
            stop: stop_signal.child_token(),
            stop_signal,
            results: ResultBuffer::new(args, &options.checksums),
            undelivered: None,
            summary: BatchSummary::default(),
        }
    }

    /// A result could not be written: told once, and not where nobody reads it any more.
    fn result_lost(&mut self, screen: &mut dyn Renderer, error: &io::Error) {
        self.stop.cancel();
        let exit = output::write_error_exit(error);
        if self.undelivered.replace(exit).is_none() && exit != ExitReason::ReaderGone {
            let (text, hint) = output::explain_write_error(error);
            screen.print(&message::error_text(&text, Some(hint)));
        }
    }

    fn exit_reason(&self) -> ExitReason {
        let summary = &self.summary;
        let asked = self.stop_signal.is_cancelled() && !have_all_ended(summary);
        match self.undelivered {
            Some(exit) if !asked => exit,
            _ => ExitReason::from_batch(summary, asked),
        }
    }
}

impl TaskSet for BatchTask {
    type End = BatchSummary;

    fn tasks(&mut self) -> &mut JoinSet<BatchSummary> {
        &mut self.tasks
    }

    fn on_event(&mut self, (screen, _): RenderContext<'_>, event: &TransferEvent) {
        if let TransferEvent::BatchRow(row) = event
            && self.undelivered.is_none()
            && let Err(error) = self.results.write_row(row)
        {
            self.result_lost(screen, &error);
        }
    }

    fn on_end(&mut self, stage: RenderContext<'_>, summary: BatchSummary) {
        self.summary = summary;
        // Here, where signals are heard while nobody reads.
        self.on_tick(stage);
    }

    fn on_tick(&mut self, (screen, _): RenderContext<'_>) {
        if self.undelivered.is_none()
            && let Err(error) = self.results.flush()
        {
            self.result_lost(screen, &error);
        }
    }
}

/// What goes to standard output, an armful at a time: a call for each of a hundred thousand results would cost more than some of
/// the downloads.
struct ResultBuffer {
    /// Where it goes.
    out: BufWriter<Stdout>,
    /// Whether results are objects.
    json: bool,
    /// Digests that are results in themselves.
    digests: Vec<Checksum>,
}

impl ResultBuffer {
    fn new(args: &GetArgs, digests: &[Checksum]) -> Self {
        Self {
            out: BufWriter::with_capacity(RESULT_BUFFER, io::stdout()),
            json: args.messages.json,
            // Where the archive itself goes they would be in the way; the manifest has them.
            digests: match args.batch.is_tar_to_stdout() {
                true => Vec::new(),
                false => digests.to_vec(),
            },
        }
    }

    /// The result of a job.
    fn write_row(&mut self, row: &ManifestRow) -> io::Result<()> {
        if self.json {
            return writeln!(self.out, "{}", report::row_object(row));
        }
        let digests = report::row_checksum_lines(row, &self.digests);
        digests
            .iter()
            .try_for_each(|line| writeln!(self.out, "{line}"))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
