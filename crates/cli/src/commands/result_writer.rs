//! Writes the result of each job: data to standard output, messages through the renderer.

use std::io;
use std::time::Duration;

use haul_transfer::{DownloadJob, DownloadOutcome, GetError, JobOutput};

use crate::args::GetMessageArgs;
use crate::exit::{ExitReason, ExitTally};
use crate::progress::Renderer;
use crate::{message, output, report};

/// Writes results and counts them.
#[derive(Debug)]
pub(super) struct ResultWriter<'a> {
    args: &'a GetMessageArgs,
    tally: ExitTally,
    /// Jobs that are done.
    pub(super) done: usize,
    /// Bytes received in this run.
    pub(super) bytes: u64,
    /// Whether an interrupted job can be resumed.
    pub(super) resumable: bool,
}

impl<'a> ResultWriter<'a> {
    pub(super) fn new(args: &'a GetMessageArgs) -> Self {
        Self {
            args,
            tally: ExitTally::default(),
            done: 0,
            bytes: 0,
            resumable: false,
        }
    }

    /// Writes the result of a job.
    pub(super) fn write_result(
        &mut self,
        (renderer, now): (&mut dyn Renderer, Duration),
        job: &DownloadJob,
        result: &Result<DownloadOutcome, GetError>,
    ) {
        let mut exit = result
            .as_ref()
            .map_or_else(ExitReason::from_error, |_| ExitReason::Done);
        if let Err(error) = self.write_to_stdout(job, result) {
            self.report_lost_result(renderer, &error);
        }
        match result {
            Ok(outcome) => self.write_done((renderer, now), job, outcome),
            Err(error @ GetError::Interrupted { resumable }) => {
                self.resumable |= resumable;
                renderer.job_interrupted(now, job.id, error);
            }
            // `haul get -o - URL | head` ends quietly, as every tool in a pipe does.
            Err(error) if job.output == JobOutput::Stdout && is_broken_pipe(error) => {
                exit = ExitReason::ReaderGone
            }
            Err(error) => renderer.job_failed(now, job.id, error),
        }
        self.tally.add(exit);
    }

    /// Counts a file of a document that cannot be downloaded, which was reported already.
    pub(super) fn add_unusable(&mut self, exit: ExitReason) {
        self.tally.add(exit);
    }

    /// The exit code of `jobs` jobs and of writing their results.
    pub(super) fn exit_reason(&mut self, renderer: &mut dyn Renderer, jobs: usize) -> ExitReason {
        if let Some(error) = renderer.take_write_error() {
            // An error of standard error cannot be reported there.
            self.tally.lost_result(output::write_error_exit(&error));
        }
        self.tally.exit(jobs)
    }

    fn write_done(
        &mut self,
        (renderer, now): (&mut dyn Renderer, Duration),
        job: &DownloadJob,
        outcome: &DownloadOutcome,
    ) {
        self.done += 1;
        self.bytes += report::received_bytes(outcome);
        let digests = report::checksum_lines(outcome, &job.checksums);
        // Standard output has the file itself.
        if job.output == JobOutput::Stdout
            && !digests.is_empty()
            && let Err(error) = renderer.print_digests(now, (job.id, outcome), &digests)
        {
            self.tally.lost_result(output::write_error_exit(&error));
        }
        if !self.args.quiet {
            let width = renderer.line_width();
            renderer.print(&report::download_line(outcome, width));
        }
    }

    fn write_to_stdout(
        &self,
        job: &DownloadJob,
        result: &Result<DownloadOutcome, GetError>,
    ) -> io::Result<()> {
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

fn is_broken_pipe(error: &GetError) -> bool {
    matches!(error, GetError::OutputStream { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}
