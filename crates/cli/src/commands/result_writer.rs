//! Tells how jobs ended: data on standard output, the rest through the renderer.

use std::io;
use std::time::Duration;

use haul_transfer::{DownloadJob, DownloadOutcome, GetError, JobOutput};

use crate::args::GetMessageArgs;
use crate::exit::{ExitReason, ExitTally};
use crate::progress::Renderer;
use crate::{message, output, report};

/// Tells ends as they come, and what they come to.
#[derive(Debug)]
pub(super) struct ResultWriter<'a> {
    /// What to tell.
    args: &'a GetMessageArgs,
    /// How jobs ended.
    tally: ExitTally,
    /// Jobs that ended well.
    pub(super) done: usize,
    /// What those brought in this run.
    pub(super) bytes: u64,
    /// Whether what a signal stopped can go on.
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

    /// A job ended.
    pub(super) fn write_result(
        &mut self,
        (screen, now): (&mut dyn Renderer, Duration),
        job: &DownloadJob,
        result: &Result<DownloadOutcome, GetError>,
    ) {
        let mut exit = result
            .as_ref()
            .map_or_else(ExitReason::from_error, |_| ExitReason::Done);
        if let Err(error) = self.write_to_stdout(job, result) {
            self.report_lost_result(screen, &error);
        }
        match result {
            Ok(outcome) => self.write_done((screen, now), job, outcome),
            Err(error @ GetError::Interrupted { resumable }) => {
                self.resumable |= resumable;
                screen.job_interrupted(now, job.id, error);
            }
            // `haul get -o - URL | head` ends quietly, as every tool in a pipe does.
            Err(error) if job.output == JobOutput::Stdout && is_broken_pipe(error) => {
                exit = ExitReason::ReaderGone
            }
            Err(error) => screen.job_failed(now, job.id, error),
        }
        self.tally.add(exit);
    }

    /// What was named cannot be a job; that was told.
    pub(super) fn add_unusable(&mut self, exit: ExitReason) {
        self.tally.add(exit);
    }

    /// The code of `jobs` jobs, and of telling about them.
    pub(super) fn exit_reason(&mut self, screen: &mut dyn Renderer, jobs: usize) -> ExitReason {
        if let Some(error) = screen.take_write_error() {
            // What could not be written to standard error cannot be told there either.
            self.tally.undelivered(output::write_error_exit(&error));
        }
        self.tally.exit(jobs)
    }

    fn write_done(
        &mut self,
        (screen, now): (&mut dyn Renderer, Duration),
        job: &DownloadJob,
        outcome: &DownloadOutcome,
    ) {
        self.done += 1;
        self.bytes += report::received_bytes(outcome);
        let digests = report::checksum_lines(outcome, &job.checksums);
        // Standard output holds the file itself.
        if job.output == JobOutput::Stdout
            && !digests.is_empty()
            && let Err(error) = screen.print_digests(now, (job.id, outcome), &digests)
        {
            self.tally.undelivered(output::write_error_exit(&error));
        }
        if !self.args.quiet {
            let width = screen.line_width();
            screen.print(&report::download_line(outcome, width));
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

    /// A result could not be written: told once, and not where nobody reads it any more.
    fn report_lost_result(&mut self, screen: &mut dyn Renderer, error: &io::Error) {
        let exit = output::write_error_exit(error);
        if self.tally.undelivered(exit) && exit != ExitReason::ReaderGone {
            let (text, hint) = output::explain_write_error(error);
            screen.print(&message::error_text(&text, Some(hint)));
        }
    }
}

fn is_broken_pipe(error: &GetError) -> bool {
    matches!(error, GetError::OutputStream { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}
