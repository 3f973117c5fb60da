//! Runs uploads and prints each result: a line or an object, and a summary.

use std::time::Duration;

use haul_transfer::batch::StopReason;
use haul_transfer::bucket::StoreSession;
use haul_transfer::manifest::Manifest;
use haul_transfer::put::{
    PutError, PutOptions, UploadBatch, UploadJob, UploadJobSource, UploadOutcome, UploadSummary,
};
use haul_transfer::{TransferEvent, TransferEventSender, UploadEnd};
use serde_json::json;

use super::super::run_loop::{EngineEvents, RenderContext, RunLoop};
use super::input_error::{input_exit, input_message};
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

pub(crate) struct UploadRun<'a> {
    pub(crate) messages: &'a MessageArgs,
    pub(crate) session: StoreSession,
    /// `is_batch` is set by the run.
    pub(crate) options: PutOptions,
    pub(crate) source: UploadJobSource,
    /// How many there are, if that is known before.
    pub(crate) known_count: Option<usize>,
    /// Where outcomes are recorded.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) run_loop: RunLoop,
    pub(crate) events: TransferEventSender,
}

#[derive(Debug)]
pub(crate) struct UploadReport {
    tally: ExitTally,
    pub(crate) summary: UploadSummary,
    /// Partial files of haul that were left out.
    pub(crate) partial_files: u64,
    elapsed: Duration,
    /// Whether files had no line each.
    is_batch: bool,
}

impl UploadRun<'_> {
    /// Runs all uploads. Results and errors are printed as they come, the end is not.
    pub(crate) async fn run(self) -> (UploadReport, Box<dyn Renderer>) {
        let messages = self.messages;
        let known = self.known_count.filter(|count| *count <= MAX_LINES);
        let is_batch = known.is_none();
        let mut renderer = new_renderer(ProgressOptions {
            kind: messages.progress,
            quiet: messages.quiet,
            verbose: false,
            scope: known.map_or(ProgressScope::Batch, ProgressScope::Downloads),
        });
        let batch = UploadBatch {
            session: self.session,
            options: PutOptions {
                is_batch,
                ..self.options
            },
            manifest: self.manifest,
            events: self.events,
        };
        let mut printer = UploadPrinter {
            messages,
            is_batch,
            tally: ExitTally::default(),
        };
        let engine = Box::pin(batch.run(self.source));
        let ended = self.run_loop.run(engine, &mut printer, &mut *renderer);
        let (summary, elapsed) = ended.await;
        let report = UploadReport {
            tally: printer.tally,
            summary,
            partial_files: 0,
            elapsed,
            is_batch,
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
        let UploadSummary {
            counts,
            stored_bytes: bytes,
            ..
        } = &self.summary;
        if let Some(stopped) = &counts.stopped
            && !counts.is_interrupted()
        {
            let text = message::sanitize(&stopped.text);
            renderer.print(&message::error_text(&text, None));
        }
        let count = usize::try_from(counts.listed).unwrap_or(usize::MAX);
        let done_earlier = match counts.done_earlier {
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
            let (done, bytes) = (counts.done, *bytes);
            renderer.print(&format!(
                "{done} of {count} files{done_earlier}{partial_files}, {} in {:.2} s, {}",
                bytes_text(bytes),
                self.elapsed.as_secs_f64(),
                rate_text(bytes, self.elapsed)
            ));
        }
        if let Some(files) = self.summary.not_tried {
            let text = not_tried_text(files, counts.list_complete);
            let text = format!("every other file would be refused in the same way: {text}");
            renderer.print(&message::error_text(&text, None));
        } else if self.summary.repeated_refusals > 0 {
            let refused = self.summary.repeated_refusals;
            let text = format!("{refused} more files were refused in the same way");
            renderer.print(&message::error_text(&text, None));
        }
        if counts.is_interrupted() {
            let hint = self.summary.is_resumable.then_some(resume_hint);
            renderer.print(&message::error_text("interrupted", hint));
            return ExitReason::Interrupted;
        }
        if counts.stop_reason() == Some(StopReason::LocalIo) {
            return ExitReason::LocalIo;
        }
        if let Some(error) = renderer.take_write_error() {
            self.tally.lost_result(output::write_error_exit(&error));
        }
        // Others were not tried: it was not the only file.
        let least = 2 * usize::from(self.summary.not_tried.is_some());
        self.tally.exit(count.max(least))
    }
}

/// Prints what comes of each upload, and counts it for the exit code.
struct UploadPrinter<'a> {
    messages: &'a MessageArgs,
    is_batch: bool,
    tally: ExitTally,
}

impl EngineEvents for UploadPrinter<'_> {
    fn on_event(&mut self, context: RenderContext<'_>, event: &TransferEvent) {
        let line = match event {
            TransferEvent::UploadEnded {
                upload,
                is_deferred,
            } => {
                self.count(upload);
                self.line(upload).filter(|_| !is_deferred)
            }
            TransferEvent::UploadRefused(upload) => self.line(upload),
            TransferEvent::NotTransferred(error) => {
                self.tally.add(input_exit(error));
                Some(input_message(error))
            }
            _ => None,
        };
        if let Some(line) = line {
            context.renderer.print(&line);
        }
    }
}

impl UploadPrinter<'_> {
    fn count(&mut self, upload: &UploadEnd) {
        match &upload.result {
            Ok(_) => self.tally.add(ExitReason::Done),
            // A signal, the manifest or a refusal of every file ended the run, and has an exit code.
            Err(PutError::Interrupted { .. }) => {}
            Err(error) => self.tally.add(ExitReason::from_class(error.class())),
        }
        if self.messages.json {
            let object = match &upload.result {
                Ok(outcome) => outcome_object(&upload.job, outcome),
                Err(error) => failure_object(&upload.job, error),
            };
            if let Err(error) = output::write_stdout_lines([object]) {
                self.tally.lost_result(output::write_error_exit(&error));
            }
        }
    }

    /// The line for people, if there is one.
    fn line(&self, upload: &UploadEnd) -> Option<String> {
        match &upload.result {
            Ok(outcome) => {
                let is_shown = !self.messages.quiet && !self.is_batch;
                is_shown.then(|| outcome_line(&upload.job, outcome))
            }
            Err(PutError::Interrupted { .. }) => None,
            Err(error) => {
                let text = format!("{}: {}", upload.job.input, message::chain_text(error));
                let text = message::sanitize(&text);
                Some(message::error_text(
                    &text,
                    message::upload_hint(error).as_deref(),
                ))
            }
        }
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
    let error = json!({"class": exit.name(), "message": message::chain_text(error), "hint": message::upload_hint(error)});
    object.insert("error".into(), error);
    object.into()
}
