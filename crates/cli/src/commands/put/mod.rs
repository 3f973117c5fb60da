//! `haul put`: uploads files, and says what came of each.

mod jobs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use haul_s3::{MultipartUpload, S3Address};
use haul_transfer::batch::{BatchSnapshot, BatchSummary};
use haul_transfer::bucket::retrying;
use haul_transfer::put::{
    PutError, PutOptions, UploadEngine, UploadInput, UploadJob, UploadOutcome,
};
use haul_transfer::{ConnectionCount, TransferEvent};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::jobs::{BadInput, PutJobs};
use super::objects::{StoreSession, hint, report};
use super::run_loop::{RenderContext, RunLoop, TaskSet, new_runtime};
use crate::args::{ProgressKind, PutArgs};
use crate::exit::{ExitReason, ExitTally};
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::progress::{
    ProgressOptions, ProgressScope, Renderer, bytes_text, new_renderer, rate_text,
};
use crate::settings::{connection_config, retry_options, s3_config};

/// More files than this have a line of progress together.
const MAX_LINES: usize = 16;

/// Files under way. Each request has a slot of its own; this bounds open files and tasks.
const MAX_FILES: usize = 64;

/// Uploads what the arguments name.
pub(crate) fn run(args: &PutArgs) -> ExitCode {
    let outputs = JsonOutputs {
        result: args.messages.json,
        progress: args.messages.progress == ProgressKind::Json,
    };
    upload(args, outputs).unwrap_or_else(|exit| exit).into()
}

fn upload(args: &PutArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let bad = |error: BadInput| outputs.report_failure(ExitReason::Usage, &error.text, error.hint);
    if args.abort && args.words.len() == 1 {
        return abort_all(args, outputs);
    }
    let jobs = PutJobs::new(args).map_err(bad)?;
    if args.dry_run {
        return dry_run(args, jobs, outputs);
    }
    if args.messages.json {
        output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    }
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    let exit = runtime.block_on(async {
        let session = connect(args, outputs).await?;
        match args.abort {
            true => abort_jobs(args, session, jobs, outputs).await,
            false => Box::pin(run_jobs(args, session, jobs, outputs)).await,
        }
    });
    runtime.shutdown_background();
    exit
}

async fn connect(args: &PutArgs, outputs: JsonOutputs) -> Result<StoreSession, ExitReason> {
    let mut config = connection_config(&args.connection, None).map_err(|error| {
        outputs.report_failure(
            error.exit_reason(),
            &message::chain_text(&error),
            error.hint(),
        )
    })?;
    config.connector.rate_limit = args.speed.limit_rate.map(|size| size.0);
    config.max_idle_per_host = config.max_idle_per_host.max(connections(args).max());
    let client = s3_config(&args.s3).connect(config).await.map_err(|error| {
        outputs.report_failure(ExitReason::Usage, &message::chain_text(&error), None)
    })?;
    Ok(StoreSession {
        client,
        retry: retry_options(args.connection.retries),
        stop: CancellationToken::new(),
    })
}

fn connections(args: &PutArgs) -> ConnectionCount {
    let given = args.speed.max_connections;
    given.map_or_else(
        || PutOptions::default().connections,
        |n| ConnectionCount::Fixed(n.into()),
    )
}

fn put_options(args: &PutArgs, session: &StoreSession, is_batch: bool) -> PutOptions {
    PutOptions {
        connections: connections(args),
        part_bytes: args.speed.part_size.map(|size| size.0),
        resume: !args.no_resume,
        state_directory: args
            .messages
            .state_dir
            .clone()
            .or_else(default_state_directory),
        retry: session.retry.clone(),
        checksum: args.object.checksum,
        is_batch,
    }
}

/// Where programs keep state (XDG Base Directory Specification).
fn default_state_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(variable("HOME")?.join(".local/state")));
    Some(state?.join("haul/uploads"))
}

/// Shows what would be uploaded.
fn dry_run(
    args: &PutArgs,
    jobs: PutJobs<'_>,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let mut tally = ExitTally::default();
    let mut count = 0;
    for job in jobs {
        count += 1;
        let line = match job {
            Ok(job) if args.messages.json => {
                json!({"file": input_name(&job), "target": job.target.to_string(), "dry_run": true})
                    .to_string()
            }
            Ok(job) => message::sanitize(&format!(
                "would upload {} to {}",
                input_name(&job),
                job.target
            )),
            Err(error) => {
                tally.add(outputs.report_failure(ExitReason::LocalIo, &error.text, error.hint));
                continue;
            }
        };
        output::write_stdout_lines([line]).map_err(|error| output::report_write_error(&error))?;
        tally.add(ExitReason::Done);
    }
    Ok(tally.exit(count))
}

/// Runs all uploads.
async fn run_jobs(
    args: &PutArgs,
    session: StoreSession,
    jobs: PutJobs<'_>,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    let known = jobs.known_count().filter(|count| *count <= MAX_LINES);
    let mut renderer = new_renderer(ProgressOptions {
        kind: args.messages.progress,
        quiet: args.messages.quiet,
        verbose: false,
        scope: known.map_or(ProgressScope::Batch, ProgressScope::Downloads),
    });
    let (run_loop, events) = RunLoop::start().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &message::chain_text(&error), None)
    })?;
    let options = put_options(args, &session, known.is_none());
    let mut uploads = RunningUploads {
        args,
        engine: Some(UploadEngine::new(session.client, options, events)),
        jobs,
        stop: run_loop.stop(),
        running: JoinSet::new(),
        tally: ExitTally::default(),
        summary: BatchSummary::default(),
        stored_bytes: 0,
        is_resumable: false,
    };
    uploads.start(&mut *renderer);
    let elapsed = run_loop.run(&mut uploads, &mut *renderer).await;
    uploads.finish(&mut *renderer, elapsed)
}

/// How an upload ended.
type FinishedUpload = Box<(UploadJob, Result<UploadOutcome, PutError>)>;

struct RunningUploads<'a> {
    args: &'a PutArgs,
    /// `None` once there are no more files: the channel of events closes with its last clone.
    engine: Option<UploadEngine>,
    jobs: PutJobs<'a>,
    stop: CancellationToken,
    running: JoinSet<FinishedUpload>,
    tally: ExitTally,
    summary: BatchSummary,
    /// Bytes of the objects that were stored, but for those that an earlier run had sent.
    stored_bytes: u64,
    /// Whether an upload that was interrupted can be continued.
    is_resumable: bool,
}

impl RunningUploads<'_> {
    /// Starts as many uploads as may run.
    fn start(&mut self, renderer: &mut dyn Renderer) {
        while self.running.len() < MAX_FILES
            && !self.stop.is_cancelled()
            && let Some(engine) = &self.engine
        {
            match self.jobs.next() {
                Some(Ok(job)) => {
                    self.summary.listed += 1;
                    let (engine, stop) = (engine.clone(), self.stop.clone());
                    self.running.spawn(async move {
                        let result = Box::pin(engine.put(job.clone(), stop)).await;
                        Box::new((job, result))
                    });
                }
                Some(Err(error)) => {
                    self.summary.listed += 1;
                    self.summary.failed += 1;
                    self.tally.add(ExitReason::LocalIo);
                    renderer.print(&message::error_text(
                        &message::sanitize(&error.text),
                        error.hint,
                    ));
                }
                None => self.end_list(),
            }
        }
        if self.stop.is_cancelled() {
            self.end_list();
        }
    }

    fn end_list(&mut self) {
        self.engine = None;
        self.summary.list_complete = true;
    }

    fn write_result(
        &mut self,
        renderer: &mut dyn Renderer,
        job: &UploadJob,
        result: &Result<UploadOutcome, PutError>,
    ) {
        if self.args.messages.json {
            let object = match result {
                Ok(outcome) => outcome_object(job, outcome),
                Err(error) => failure_object(job, error),
            };
            if let Err(error) = output::write_stdout_lines([object]) {
                self.tally.lost_result(output::write_error_exit(&error));
            }
        }
        match result {
            Ok(outcome) => {
                self.summary.done += 1;
                self.stored_bytes += outcome.bytes.saturating_sub(outcome.resumed);
                let is_shown = !self.args.messages.quiet && !self.is_batch();
                if is_shown {
                    renderer.print(&outcome_line(job, outcome));
                }
            }
            Err(PutError::Interrupted { is_resumable }) => self.is_resumable |= is_resumable,
            Err(error) => {
                self.summary.failed += 1;
                let hint = error_hint(error);
                let text = message::sanitize(&format!(
                    "{}: {}",
                    input_name(job),
                    message::chain_text(error)
                ));
                renderer.print(&message::error_text(&text, hint));
            }
        }
    }

    fn is_batch(&self) -> bool {
        self.jobs.known_count().is_none() || self.summary.listed > MAX_LINES as u64
    }

    fn finish(
        mut self,
        renderer: &mut dyn Renderer,
        elapsed: Duration,
    ) -> Result<ExitReason, ExitReason> {
        let count = usize::try_from(self.summary.listed).unwrap_or(usize::MAX);
        if count == 0 && self.args.recursive {
            renderer.print(&message::warning_text("the folder has no files"));
        }
        if count > 1 && !self.args.messages.quiet {
            let (done, bytes) = (self.summary.done, self.stored_bytes);
            renderer.print(&format!(
                "{done} of {count} files, {} in {:.2} s, {}",
                bytes_text(bytes),
                elapsed.as_secs_f64(),
                rate_text(bytes, elapsed)
            ));
        }
        if self.stop.is_cancelled() {
            let hint =
                "the same command sends what is missing; with --abort it removes what was sent";
            let hint = self.is_resumable.then_some(hint);
            renderer.print(&message::error_text("interrupted", hint));
            return Ok(ExitReason::Interrupted);
        }
        if let Some(error) = renderer.take_write_error() {
            self.tally.lost_result(output::write_error_exit(&error));
        }
        Ok(self.tally.exit(count))
    }
}

impl TaskSet for RunningUploads<'_> {
    type End = FinishedUpload;

    fn tasks(&mut self) -> &mut JoinSet<FinishedUpload> {
        &mut self.running
    }

    fn on_end(&mut self, context: RenderContext<'_>, end: FinishedUpload) {
        let (job, result) = &*end;
        let exit = result.as_ref().map_or_else(
            |error| ExitReason::from_class(error.class()),
            |_| ExitReason::Done,
        );
        self.tally.add(exit);
        self.write_result(context.renderer, job, result);
        self.start(context.renderer);
    }

    fn on_tick(&mut self, context: RenderContext<'_>) {
        if let Some(engine) = &self.engine {
            self.summary.bytes = engine.sent_bytes();
        }
        if self.is_batch() {
            let snapshot = BatchSnapshot {
                summary: self.summary.clone(),
                running: self.running.len(),
                slowest: None,
            };
            let event = TransferEvent::BatchProgress(Box::new(snapshot));
            context.renderer.on_event(context.now, &event);
        }
    }
}

fn error_hint(error: &PutError) -> Option<&'static str> {
    match error {
        PutError::Store(error) => hint(error),
        error => error.hint(),
    }
}

fn input_name(job: &UploadJob) -> String {
    match &job.input {
        UploadInput::File(path) => path.display().to_string(),
        UploadInput::Stdin => "standard input".to_owned(),
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
        input_name(job),
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
    json!({
        "file": input_name(job), "target": outcome.target.to_string(), "bytes": outcome.bytes,
        "resumed": outcome.resumed, "parts": outcome.parts, "etag": outcome.etag,
        "version_id": outcome.version_id, "checksums": checksums,
        "ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}

fn failure_object(job: &UploadJob, error: &PutError) -> serde_json::Value {
    let exit = ExitReason::from_class(error.class());
    json!({
        "file": input_name(job), "target": job.target.to_string(),
        "error": {"class": exit.name(), "message": message::chain_text(error), "hint": error_hint(error)},
    })
}

/// Removes what earlier runs of the same command have sent.
async fn abort_jobs(
    args: &PutArgs,
    session: StoreSession,
    jobs: PutJobs<'_>,
    outputs: JsonOutputs,
) -> Result<ExitReason, ExitReason> {
    // Nobody listens to events.
    let (events, _) = tokio::sync::mpsc::channel(1);
    let engine = UploadEngine::new(
        session.client.clone(),
        put_options(args, &session, true),
        events,
    );
    let mut tally = ExitTally::default();
    let mut count = 0;
    for job in jobs {
        count += 1;
        let exit = match job {
            Ok(job) => match &job.input {
                UploadInput::Stdin => ExitReason::Done,
                UploadInput::File(path) => match engine.abort(path, &job.target).await {
                    Ok(was_there) => {
                        print_aborted(args, &input_name(&job), was_there)?;
                        ExitReason::Done
                    }
                    Err(error) => {
                        let exit = ExitReason::from_class(error.class());
                        outputs.report_failure(
                            exit,
                            &message::chain_text(&error),
                            error_hint(&error),
                        )
                    }
                },
            },
            Err(error) => outputs.report_failure(ExitReason::LocalIo, &error.text, error.hint),
        };
        tally.add(exit);
    }
    Ok(tally.exit(count))
}

fn print_aborted(args: &PutArgs, name: &str, was_there: bool) -> Result<(), ExitReason> {
    let text = match was_there {
        true => format!("removed what was sent of {name}"),
        false => format!("nothing was sent of {name}"),
    };
    match args.messages.quiet {
        true => Ok(()),
        false => output::write_stdout_lines([message::sanitize(&text)])
            .map_err(|error| output::report_write_error(&error)),
    }
}

/// Removes all unfinished uploads below a prefix.
fn abort_all(args: &PutArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let address: Result<S3Address, _> = args.words.concat().parse();
    let address = address.map_err(|error: haul_s3::S3AddressError| {
        outputs.report_failure(ExitReason::Usage, &error.to_string(), None)
    })?;
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    runtime.block_on(async {
        let session = connect(args, outputs).await?;
        let client = &session.client;
        let uploads = retrying(&session.retry, &session.stop, || {
            client.list_multipart_uploads(&address)
        });
        let uploads = uploads.await.map_err(|error| report(&error, outputs))?;
        let (events, _) = tokio::sync::mpsc::channel(1);
        let engine = UploadEngine::new(client.clone(), put_options(args, &session, true), events);
        for upload in uploads {
            let upload = MultipartUpload {
                address: address.with_key(upload.key),
                upload_id: upload.upload_id,
            };
            engine.abort_upload(&upload).await.map_err(|error| {
                outputs.report_failure(
                    ExitReason::Network,
                    &message::chain_text(&error),
                    error_hint(&error),
                )
            })?;
            print_aborted(args, &upload.address.to_string(), true)?;
        }
        Ok(ExitReason::Done)
    })
}
