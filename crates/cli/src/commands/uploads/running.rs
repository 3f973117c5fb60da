//! Runs uploads, and says what came of each: a line or an object, and a summary.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_plan::upload::PartPlanError;
use haul_plan::{RefusalStep, SharedRefusal};
use haul_transfer::TransferEvent;
use haul_transfer::TransferEventSender;
use haul_transfer::TransferTimeLimit;
use haul_transfer::batch::{BatchSnapshot, BatchSummary};
use haul_transfer::bucket::StoreSession;
use haul_transfer::manifest::{Manifest, ManifestError};
use haul_transfer::put::{PutError, PutOptions, UploadEngine, UploadJob, UploadOutcome};
use serde_json::json;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::objects::hint;
use super::super::run_loop::{RenderContext, RunLoop, TaskSet};
use super::jobs::{FoundTotals, FoundUpload, UploadJobSource};
use super::manifest::UploadManifest;
use crate::args::MessageArgs;
use crate::exit::{ExitReason, ExitTally};
use crate::message;
use crate::output;
use crate::progress::{
    ProgressOptions, ProgressScope, Renderer, bytes_text, new_renderer, rate_text,
};
use crate::report::{etag_value, not_tried_text, upload_object};

/// More files than this have a line of progress together.
const MAX_LINES: usize = 16;

/// Files under way. Each request has a slot of its own; this bounds open files and tasks.
const MAX_FILES: usize = 64;

/// Uploads to run.
pub(crate) struct UploadRun<'a> {
    pub(crate) messages: &'a MessageArgs,
    pub(crate) session: StoreSession,
    /// `is_batch` is set by the run.
    pub(crate) options: PutOptions,
    pub(crate) source: UploadJobSource,
    /// Where outcomes are recorded.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) run_loop: RunLoop,
    pub(crate) events: TransferEventSender,
}

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct UploadReport {
    pub(crate) tally: ExitTally,
    pub(crate) summary: BatchSummary,
    /// Bytes of the objects that were stored, but for those that an earlier run had sent.
    pub(crate) stored_bytes: u64,
    /// Partial files of haul that were left out.
    partial_files: u64,
    pub(crate) elapsed: Duration,
    /// Why the manifest could not be written, which stopped the run.
    manifest_failure: Option<ExitReason>,
    /// Whether an upload that was interrupted can be continued.
    is_resumable: bool,
    /// Whether files had no line each.
    is_batch: bool,
    /// Failed files whose message the first of them has.
    refused_alike: u64,
    /// Files that were not tried, if one refusal would have hit them all.
    not_tried: Option<u64>,
    /// Whether a signal ended it.
    pub(crate) is_interrupted: bool,
}

impl UploadRun<'_> {
    /// Runs all uploads. Results and errors are printed as they come, the end is not.
    pub(crate) async fn run(self) -> (UploadReport, Box<dyn Renderer>) {
        let messages = self.messages;
        let known = self.source.known_count.filter(|count| *count <= MAX_LINES);
        let mut renderer = new_renderer(ProgressOptions {
            kind: messages.progress,
            quiet: messages.quiet,
            verbose: false,
            scope: known.map_or(ProgressScope::Batch, ProgressScope::Downloads),
        });
        let options = PutOptions {
            is_batch: known.is_none(),
            ..self.options
        };
        let stop = self.run_loop.stop();
        let mut uploads = RunningUploads {
            messages,
            engine: Some(UploadEngine::new(self.session.client, options, self.events)),
            jobs: Some(self.source.jobs),
            totals: self.source.totals,
            // A manifest that cannot be written stops the run as well.
            stop: stop.child_token(),
            tasks: JoinSet::new(),
            running: 0,
            is_batch: known.is_none(),
            manifest: self.manifest.map(UploadManifest::new),
            refusals: SharedRefusal::default(),
            held: Vec::new(),
            report: UploadReport::default(),
        };
        uploads.start(&mut *renderer);
        let elapsed = self.run_loop.run(&mut uploads, &mut *renderer).await;
        uploads.record(&mut *renderer, UploadManifest::sync);
        uploads.report.summary.done_earlier = self.source.done_earlier.load(Ordering::Relaxed);
        uploads.count_not_tried();
        let report = UploadReport {
            elapsed,
            is_interrupted: stop.is_cancelled(),
            partial_files: self.source.partial_files.load(Ordering::Relaxed),
            is_batch: known.is_none(),
            ..uploads.report
        };
        (report, renderer)
    }
}

impl UploadReport {
    /// Prints how a run ended, and returns the exit code.
    ///
    /// `resume_hint` says how a later run goes on.
    pub(crate) fn finish(
        mut self,
        quiet: bool,
        resume_hint: &str,
        renderer: &mut dyn Renderer,
    ) -> ExitReason {
        let count = usize::try_from(self.summary.listed).unwrap_or(usize::MAX);
        let done_earlier = match self.summary.done_earlier {
            0 => String::new(),
            count => format!(", {count} done before"),
        };
        let partial_files = match self.partial_files {
            0 => String::new(),
            count => format!(", {count} partial files of haul left out"),
        };
        let is_shown = self.partial_files > 0
            || count > 1
            || self.is_batch && count > 0
            || !done_earlier.is_empty();
        if is_shown && !quiet {
            let (done, bytes) = (self.summary.done, self.stored_bytes);
            renderer.print(&format!(
                "{done} of {count} files{done_earlier}{partial_files}, {} in {:.2} s, {}",
                bytes_text(bytes),
                self.elapsed.as_secs_f64(),
                rate_text(bytes, self.elapsed)
            ));
        }
        if let Some(files) = self.not_tried {
            let text = not_tried_text(files, self.summary.list_complete);
            let text = format!("every other file would be refused in the same way: {text}");
            renderer.print(&message::error_text(&text, None));
        } else if self.refused_alike > 0 {
            let text = format!(
                "{} more files were refused in the same way",
                self.refused_alike
            );
            renderer.print(&message::error_text(&text, None));
        }
        if self.is_interrupted {
            let hint = self.is_resumable.then_some(resume_hint);
            renderer.print(&message::error_text("interrupted", hint));
            return ExitReason::Interrupted;
        }
        if let Some(exit) = self.manifest_failure {
            return exit;
        }
        if let Some(error) = renderer.take_write_error() {
            self.tally.lost_result(output::write_error_exit(&error));
        }
        let least = if self.not_tried.is_some() { 2 } else { 0 };
        self.tally.exit(count.max(least))
    }
}

/// How an upload ended.
type FinishedUpload = Box<(UploadJob, Result<UploadOutcome, PutError>)>;

/// The result of a task.
enum UploadTaskEnd {
    /// The next upload was found; `None` at the end.
    Found(mpsc::Receiver<FoundUpload>, Option<Box<FoundUpload>>),
    Finished(FinishedUpload),
}

struct RunningUploads<'a> {
    messages: &'a MessageArgs,
    /// `None` once there are no more files: the channel of events closes with its last clone.
    engine: Option<UploadEngine>,
    /// `None` at the end, and while a task waits for the next.
    jobs: Option<mpsc::Receiver<FoundUpload>>,
    totals: Arc<FoundTotals>,
    stop: CancellationToken,
    tasks: JoinSet<UploadTaskEnd>,
    /// Uploads under way.
    running: usize,
    is_batch: bool,
    manifest: Option<UploadManifest>,
    /// Finds out whether one refusal hits every file.
    refusals: SharedRefusal,
    /// Messages that are told if it does not.
    held: Vec<String>,
    report: UploadReport,
}

impl RunningUploads<'_> {
    /// Starts as many uploads as may run.
    fn start(&mut self, renderer: &mut dyn Renderer) {
        while self.running < MAX_FILES
            && !self.stop.is_cancelled()
            && let Some(mut jobs) = self.jobs.take()
        {
            match jobs.try_recv() {
                Ok(job) => {
                    self.jobs = Some(jobs);
                    self.start_job(renderer, job);
                }
                Err(TryRecvError::Empty) => {
                    let stop = self.stop.clone();
                    self.tasks.spawn(async move {
                        let job = tokio::select! {
                            biased;
                            () = stop.cancelled() => None,
                            job = jobs.recv() => job,
                        };
                        UploadTaskEnd::Found(jobs, job.map(Box::new))
                    });
                    return;
                }
                Err(TryRecvError::Disconnected) => self.end_list(),
            }
        }
        if self.stop.is_cancelled() {
            self.end_list();
        }
    }

    fn start_job(&mut self, renderer: &mut dyn Renderer, found: FoundUpload) {
        self.report.summary.listed += 1;
        let job = match found {
            Ok(job) => job,
            Err(error) => {
                self.report.summary.failed += 1;
                self.report.tally.add(error.exit);
                return renderer.print(&error.message());
            }
        };
        if let Some(engine) = self.engine.clone() {
            self.running += 1;
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                let result = Box::pin(engine.put(job.clone(), stop)).await;
                UploadTaskEnd::Finished(Box::new((job, result)))
            });
        }
    }

    fn end_list(&mut self) {
        self.jobs = None;
        self.engine = None;
        self.report.summary.list_complete = !self.stop.is_cancelled();
    }

    /// Writes to the manifest. When that fails the run stops: its outcomes would be lost.
    fn record(
        &mut self,
        renderer: &mut dyn Renderer,
        write: impl FnOnce(&mut UploadManifest) -> Result<(), ManifestError>,
    ) {
        let Some(Err(error)) = self.manifest.as_mut().map(write) else {
            return;
        };
        self.manifest = None;
        self.stop.cancel();
        self.report.manifest_failure = Some(ExitReason::LocalIo);
        let text = message::sanitize(&message::chain_text(&error));
        renderer.print(&message::error_text(&text, None));
    }

    fn write_result(
        &mut self,
        renderer: &mut dyn Renderer,
        job: &UploadJob,
        result: &Result<UploadOutcome, PutError>,
    ) {
        if self.messages.json {
            let object = match result {
                Ok(outcome) => outcome_object(job, outcome),
                Err(error) => failure_object(job, error),
            };
            if let Err(error) = output::write_stdout_lines([object]) {
                self.report
                    .tally
                    .lost_result(output::write_error_exit(&error));
            }
        }
        match result {
            Ok(outcome) => {
                self.refusals.on_accepted();
                self.report.summary.done += 1;
                self.report.stored_bytes += outcome.bytes.saturating_sub(outcome.resumed);
                self.report.summary.bytes += outcome.bytes;
                self.report.summary.ended_bytes += outcome.resumed;
                let is_shown = !self.messages.quiet && !self.is_batch;
                if is_shown {
                    renderer.print(&outcome_line(job, outcome));
                }
            }
            Err(PutError::Interrupted { is_resumable }) => self.report.is_resumable |= is_resumable,
            Err(error) => {
                self.report.summary.failed += 1;
                let hint = error_hint(error);
                let text =
                    message::sanitize(&format!("{}: {}", job.input, message::chain_text(error)));
                self.tell_failure(renderer, error, message::error_text(&text, hint));
            }
        }
        if self.refusals.is_settled() {
            self.held.drain(..).for_each(|text| renderer.print(&text));
        }
    }

    /// Tells why a file failed, unless the first one that was refused has said it. What would hit every file ends the run.
    fn tell_failure(&mut self, renderer: &mut dyn Renderer, error: &PutError, text: String) {
        let refusal = error.refusal();
        let step = refusal.map_or(RefusalStep::Tell, |(reach, cause)| {
            self.refusals.on_refused(reach, &cause)
        });
        match step {
            RefusalStep::Tell | RefusalStep::TellAndEnd => renderer.print(&text),
            RefusalStep::Hold => self.held.push(text),
            RefusalStep::End => {}
        }
        if self.refusals.has_ended() {
            self.stop.cancel();
        }
    }

    /// Counts what is left of the files after a refusal that would hit them all.
    fn count_not_tried(&mut self) {
        let report = &mut self.report;
        report.refused_alike = self.held.len() as u64;
        if self.refusals.has_ended() {
            self.totals.fill(&mut report.summary);
            let tried = report.summary.done + report.summary.failed;
            let left = report.summary.listed.saturating_sub(tried);
            // The walk of a folder may not have come to the second file yet.
            let has_others = left > 0 || self.is_batch && !report.summary.list_complete;
            report.tally.not_tried(left.max(u64::from(has_others)));
            report.not_tried = has_others.then_some(left);
        }
    }
}

impl TaskSet for RunningUploads<'_> {
    type End = UploadTaskEnd;

    fn tasks(&mut self) -> &mut JoinSet<UploadTaskEnd> {
        &mut self.tasks
    }

    fn on_end(&mut self, context: RenderContext<'_>, end: UploadTaskEnd) {
        let end = match end {
            UploadTaskEnd::Finished(end) => end,
            UploadTaskEnd::Found(jobs, Some(job)) => {
                self.jobs = Some(jobs);
                self.start_job(context.renderer, *job);
                return self.start(context.renderer);
            }
            UploadTaskEnd::Found(_, None) => return self.end_list(),
        };
        self.running -= 1;
        let (job, result) = &*end;
        let exit = result.as_ref().map_or_else(
            |error| ExitReason::from_class(error.class()),
            |_| ExitReason::Done,
        );
        // What was under way when a refusal ended the run was not tried.
        if exit != ExitReason::Interrupted || !self.refusals.has_ended() {
            self.report.tally.add(exit);
        }
        self.record(context.renderer, |manifest| manifest.add(job, result));
        self.write_result(context.renderer, job, result);
        self.start(context.renderer);
    }

    fn on_tick(&mut self, context: RenderContext<'_>) {
        if let Some(engine) = &self.engine {
            self.report.summary.fetched = engine.sent_bytes();
        }
        self.record(context.renderer, UploadManifest::sync_if_due);
        if self.is_batch {
            let mut summary = self.report.summary.clone();
            self.totals.fill(&mut summary);
            summary.ended_bytes += summary.fetched;
            let snapshot = BatchSnapshot {
                summary,
                running: self.running,
                slowest: None,
            };
            let event = TransferEvent::BatchProgress(Box::new(snapshot));
            context.renderer.on_event(context.now, &event);
        }
    }
}

/// What the user can do about a failed upload.
pub(crate) fn error_hint(error: &PutError) -> Option<&'static str> {
    match error {
        PutError::Store(error) => hint(error),
        PutError::Parts {
            source: PartPlanError::StreamTooLong { .. },
            ..
        } => Some("--expected-size SIZE makes the parts large enough"),
        error => error
            .hint()
            .or_else(|| TransferTimeLimit::of_upload(error).map(message::time_limit_hint)),
    }
}

fn outcome_line(job: &UploadJob, outcome: &UploadOutcome) -> String {
    let resumed = match outcome.resumed {
        0 => String::new(),
        bytes => format!(", {} of it from an earlier run", bytes_text(bytes)),
    };
    let sent = outcome.bytes - outcome.resumed.min(outcome.bytes);
    message::sanitize(&format!(
        "{} -> {}  {} in {:.2} s, {}{resumed}",
        job.input,
        outcome.target,
        bytes_text(outcome.bytes),
        outcome.elapsed.as_secs_f64(),
        rate_text(sent, outcome.elapsed),
    ))
}

fn outcome_object(job: &UploadJob, outcome: &UploadOutcome) -> serde_json::Value {
    let checksums: serde_json::Map<_, _> = outcome
        .checksums
        .iter()
        .filter_map(|checksum| {
            let digest = checksum.digest.as_deref()?;
            Some((
                checksum.algorithm.to_string(),
                haul_digest::hex(digest).into(),
            ))
        })
        .collect();
    let mut object = upload_object(&job.input, &outcome.target);
    object.insert("bytes".into(), outcome.bytes.into());
    object.insert("resumed".into(), outcome.resumed.into());
    object.insert("parts".into(), outcome.parts.into());
    object.insert("etag".into(), etag_value(&outcome.etag));
    object.insert("version_id".into(), outcome.version_id.clone().into());
    object.insert("checksums".into(), checksums.into());
    let ms = u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX);
    object.insert("ms".into(), ms.into());
    object.into()
}

fn failure_object(job: &UploadJob, error: &PutError) -> serde_json::Value {
    let exit = ExitReason::from_class(error.class());
    let mut object = upload_object(&job.input, &job.target);
    let error = json!({"class": exit.name(), "message": message::chain_text(error), "hint": error_hint(error)});
    object.insert("error".into(), error);
    object.into()
}
