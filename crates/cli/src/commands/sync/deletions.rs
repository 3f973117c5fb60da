//! The end of `haul sync`: deletions, or why there are none, and the exit code.

use haul_transfer::sync::{RunningSync, SyncDeletionError, SyncDeletionSummary};

use super::{CopyOutcome, SyncRun};
use crate::commands::objects::DeletionOutput;
use crate::commands::run_loop::with_events;
use crate::exit::ExitReason;
use crate::message;

impl SyncRun<'_> {
    /// Deletes what only the destination has, and returns the exit code.
    pub(super) async fn finish(
        &self,
        sync: RunningSync,
        copied: &CopyOutcome,
    ) -> Result<ExitReason, ExitReason> {
        let messages = &self.args.messages;
        let output = DeletionOutput {
            dry_run: self.args.dry_run,
            json: messages.json,
            quiet: messages.quiet,
        };
        let went_well = matches!(copied.exit, ExitReason::Done | ExitReason::SomeFailed);
        let ended = with_events(
            |events| sync.delete(copied.failed, went_well, output.options(), events),
            |event| output.print(&event),
        );
        let exit = match ended.await? {
            Ok(summary) => {
                let exit = DeletionOutput::finish(Ok(summary.deleted), self.outputs)?;
                if copied.exit == ExitReason::Done && copied.files == 0 && !messages.quiet {
                    self.print_if_idle(&summary);
                }
                exit
            }
            Err(error) => self.report_not_deleted(error)?,
        };
        Ok(match copied.exit {
            ExitReason::Done => exit,
            exit => exit,
        })
    }

    fn print_if_idle(&self, summary: &SyncDeletionSummary) {
        if summary.found > 0 {
            return;
        }
        if summary.has_source_files {
            message::print_line("there is nothing to do")
        } else {
            let text = format!("there are no files at {}", self.args.source);
            message::print_line(&message::warning_text(&message::sanitize(&text)));
        }
    }

    /// Says why the destination keeps what only it has.
    fn report_not_deleted(&self, error: SyncDeletionError) -> Result<ExitReason, ExitReason> {
        let (exit, text, hint) = match error {
            SyncDeletionError::NotWhole { .. } => {
                let text = "haul did not delete files that only the destination has, since the sync is incomplete";
                message::print_line(&message::warning_text(text));
                return Ok(ExitReason::SomeFailed);
            }
            SyncDeletionError::Ended(error) => {
                return DeletionOutput::finish(Err(error), self.outputs);
            }
            SyncDeletionError::List { folder, source } => {
                let text = format!("cannot list {}: {source}", folder.display());
                (ExitReason::LocalIo, text, None)
            }
            SyncDeletionError::TooMany => {
                let most = self.args.max_delete.unwrap_or_default();
                let text = format!(
                    "there are more than {most} files to delete (--max-delete): haul deleted none"
                );
                (ExitReason::Usage, text, None)
            }
            SyncDeletionError::EmptySource { count } => {
                let text = format!(
                    "the source has no files, and haul would delete {count} files of the destination: it deleted none"
                );
                let hint = "is the source correct? --max-delete N allows this";
                (ExitReason::Usage, text, Some(hint))
            }
        };
        Err(self.outputs.report_failure(exit, &text, hint))
    }
}
