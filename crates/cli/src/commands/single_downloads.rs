//! Runs single downloads of `haul get`: a task each, all at once. Writes the result of each job: data to standard output, messages through the
//! renderer.

use std::io;
use std::time::Duration;

use haul_net::ClientConfig;
use haul_transfer::{
    DownloadJob, DownloadOutcome, GetError, GetOptions, JobOutput, LocalError, TransferEngine,
    TransferEvent,
};

use super::run_loop::{EngineEvents, RenderContext, RunEnd, RunLoop, StartError};
use crate::args::{GetArgs, GetMessageArgs};
use crate::exit::{ExitReason, ExitTally};
use crate::message::JsonOutputs;
use crate::progress::Renderer;
use crate::settings::SingleDownloads;
use crate::{message, output, report};

/// Runs the downloads, and reports files of documents that cannot be downloaded.
///
/// # Errors
/// See [`StartError`]. A failed job is not an error.
pub(super) async fn run(
    args: &GetArgs,
    client: ClientConfig,
    options: GetOptions,
    downloads: SingleDownloads,
    renderer: &mut dyn Renderer,
) -> Result<RunEnd, StartError> {
    let SingleDownloads { jobs, unusable } = downloads;
    let count = jobs.len() + unusable.len();
    let mut writer = ResultWriter::new(&args.messages);
    for bad_line in &unusable {
        let text = message::chain_text(bad_line);
        let outputs = JsonOutputs::requested_by(args);
        writer
            .tally
            .add(outputs.report_failure(ExitReason::Usage, &text, None));
    }
    let elapsed = run_downloads(client, options, jobs, renderer, &mut writer).await?;
    if count > 1 && !args.messages.quiet {
        let width = renderer.line_width();
        let line = report::total_line(writer.done, count, writer.bytes, elapsed, width);
        renderer.print(&line);
    }
    let hint = "the same command resumes the download";
    Ok(RunEnd {
        exit: writer.exit_reason(renderer, count),
        continue_hint: writer.resumable.then(|| hint.to_owned()),
    })
}

/// Runs all jobs at once and returns how long that took. `writer` prints results through the renderer.
///
/// The first signal stops the jobs, the second ends the process.
///
/// # Errors
/// See [`StartError`]. A failed job is not an error.
pub(super) async fn run_downloads(
    client: ClientConfig,
    options: GetOptions,
    jobs: Vec<DownloadJob>,
    renderer: &mut dyn Renderer,
    writer: &mut dyn EngineEvents,
) -> Result<Duration, StartError> {
    let (run_loop, sender) = RunLoop::start()?;
    let engine = TransferEngine::new(haul_net::Client::new(client)?, options, sender);
    let downloads = engine.get_all(jobs, run_loop.stop());
    let ((), elapsed) = run_loop.run(downloads, writer, renderer).await;
    Ok(elapsed)
}

/// How a job ended.
type DownloadResult = Result<DownloadOutcome, GetError>;

/// Writes results and counts them.
#[derive(Debug)]
struct ResultWriter<'a> {
    args: &'a GetMessageArgs,
    tally: ExitTally,
    /// Jobs that are done.
    done: usize,
    /// Bytes received in this run.
    bytes: u64,
    /// Whether an interrupted job can be resumed.
    resumable: bool,
}

impl<'a> ResultWriter<'a> {
    fn new(args: &'a GetMessageArgs) -> Self {
        Self {
            args,
            tally: ExitTally::default(),
            done: 0,
            bytes: 0,
            resumable: false,
        }
    }

    fn write_result(
        &mut self,
        context: RenderContext<'_>,
        job: &DownloadJob,
        result: &DownloadResult,
    ) {
        let RenderContext { renderer, now } = context;
        let mut exit = result
            .as_ref()
            .map_or_else(ExitReason::from_error, |_| ExitReason::Done);
        if let Err(error) = self.write_to_stdout(job, result) {
            self.report_lost_result(renderer, &error);
        }
        match result {
            Ok(outcome) => self.write_done(RenderContext { renderer, now }, job, outcome),
            Err(error @ GetError::Interrupted { resumable }) => {
                self.resumable |= resumable;
                renderer.job_interrupted(now, job.id, error);
            }
            // `haul get -o - URL | head` ends quietly, as every tool in a pipe does.
            Err(error) if job.output == JobOutput::Stdout && is_broken_pipe(error) => {
                exit = ExitReason::ReaderGone
            }
            Err(error) => {
                renderer.job_failed(now, job.id, error);
                // S3's codes say more than its statuses.
                if (self.args.verbose || job.url.scheme() == "s3")
                    && let Some(text) = error.response_text()
                {
                    renderer.print(&format!("the response says: {}", message::sanitize(text)));
                }
            }
        }
        self.tally.add(exit);
    }

    /// The exit code of `jobs` jobs and of writing their results.
    fn exit_reason(&mut self, renderer: &mut dyn Renderer, jobs: usize) -> ExitReason {
        if let Some(error) = renderer.take_write_error() {
            // An error of standard error cannot be reported there.
            self.tally.lost_result(output::write_error_exit(&error));
        }
        self.tally.exit(jobs)
    }

    fn write_done(
        &mut self,
        context: RenderContext<'_>,
        job: &DownloadJob,
        outcome: &DownloadOutcome,
    ) {
        let RenderContext { renderer, now } = context;
        self.done += 1;
        self.bytes += report::received_bytes(outcome);
        let digests = report::checksum_lines(outcome, &job.checksums);
        // Standard output has the file itself.
        if job.output == JobOutput::Stdout
            && !digests.is_empty()
            && let Err(error) = renderer.print_digests(now, job.id, outcome, &digests)
        {
            self.tally.lost_result(output::write_error_exit(&error));
        }
        if !self.args.quiet {
            let width = renderer.line_width();
            renderer.print(&report::download_line(outcome, width));
        }
    }

    fn write_to_stdout(&self, job: &DownloadJob, result: &DownloadResult) -> io::Result<()> {
        match result {
            _ if job.output == JobOutput::Stdout => Ok(()),
            Ok(outcome) if self.args.json => {
                output::write_stdout_lines([report::download_object(job.id, outcome)])
            }
            Ok(outcome) => match report::checksum_lines(outcome, &job.checksums) {
                none if none.is_empty() => Ok(()),
                digests => output::write_stdout_lines(digests),
            },
            Err(error) if self.args.json => {
                output::write_stdout_lines([report::failure_object(job, error)])
            }
            Err(_) => Ok(()),
        }
    }

    /// A result could not be written. Reported once, and not if the reader has left.
    fn report_lost_result(&mut self, renderer: &mut dyn Renderer, error: &io::Error) {
        let exit = output::write_error_exit(error);
        if self.tally.lost_result(exit) && exit != ExitReason::ReaderGone {
            let (text, hint) = output::explain_write_error(error);
            renderer.print(&message::error_text(&text, Some(hint)));
        }
    }
}

impl EngineEvents for ResultWriter<'_> {
    fn on_event(&mut self, context: RenderContext<'_>, event: &TransferEvent) {
        if let TransferEvent::DownloadEnded(ended) = event {
            self.write_result(context, &ended.job, &ended.result);
        }
    }
}

fn is_broken_pipe(error: &GetError) -> bool {
    matches!(error, GetError::Local { error: LocalError::Output { source, .. }, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}
