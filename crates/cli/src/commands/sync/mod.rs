//! `haul sync`: makes a folder or a prefix like another one.
//!
//! A thread reads both lists and merges them. What is to copy goes through the engine of `haul put` or the batch of `haul get -r` while the
//! lists are still being read. What is to delete waits until both lists were read to their ends and nothing has failed.

mod comparison;
mod download;
mod place;
mod transfer;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use haul_plan::sync::{SyncComparison, SyncOptions};
use haul_s3::S3Address;
use haul_transfer::bucket::{BucketError, ObjectDeletion};
use haul_transfer::sync::{DeletionList, delete_file};
use haul_transfer::{GetOptions, TransferEventSender};
use tokio::sync::mpsc;

use self::comparison::{FoundCopy, MergeOutcome, OpenLists, RunningMerge, SyncSides, start_merge};
use self::download::SyncDownload;
use self::place::{SyncLists, SyncPlace};
use self::transfer::{SyncTransfer, UploadMaker};
use super::objects::{DeletionOutput, report};
use super::run_loop::{RunLoop, new_runtime, stop_on_signals, with_events};
use super::uploads::{BadInput, UploadJobSource, UploadRun, UploadSettings, connect};
use crate::args::{ProgressKind, SyncArgs};
use crate::exit::ExitReason;
use crate::message::{self, JsonOutputs};
use crate::output;
use crate::report::FileAction;
use crate::settings::download_limits;

/// Runs a sync.
pub(crate) fn run(args: &SyncArgs) -> ExitCode {
    let outputs = JsonOutputs {
        result: args.messages.json,
        progress: args.messages.progress == ProgressKind::Json,
    };
    sync(args, outputs).unwrap_or_else(|exit| exit).into()
}

fn sync(args: &SyncArgs, outputs: JsonOutputs) -> Result<ExitReason, ExitReason> {
    let usage =
        |error: BadInput| outputs.report_failure(ExitReason::Usage, &error.text, error.hint);
    let (source, destination) = places(args).map_err(usage)?;
    let transfer = SyncTransfer::new(args, &source, &destination).map_err(usage)?;
    if args.messages.json || args.dry_run {
        output::check_stdout().map_err(|error| output::report_write_error(&error))?;
    }
    let runtime = new_runtime().map_err(|error| {
        outputs.report_failure(ExitReason::LocalIo, &format!("cannot start: {error}"), None)
    })?;
    let exit = runtime.block_on(Box::pin(async {
        let mut session = connect(settings(args), outputs).await?;
        let (run_loop, events) = RunLoop::start().map_err(|error| {
            outputs.report_failure(ExitReason::LocalIo, &message::chain_text(&error), None)
        })?;
        session.stop = run_loop.stop();
        // Deletions begin when the loop has ended.
        let _signals = stop_on_signals(session.stop.clone()).map_err(|error| {
            outputs.report_failure(ExitReason::LocalIo, &message::chain_text(&error), None)
        })?;
        let run = SyncRun {
            args,
            outputs,
            sides: SyncSides {
                source,
                destination,
                session,
            },
            transfer,
        };
        run.run(run_loop, events).await
    }));
    runtime.shutdown_background();
    exit
}

/// Both sides, of which one is a bucket and none is part of the other.
fn places(args: &SyncArgs) -> Result<(SyncPlace, SyncPlace), BadInput> {
    let source = SyncPlace::parse(&args.source)?;
    let destination = SyncPlace::parse(&args.destination)?;
    match (&source, &destination) {
        (SyncPlace::Folder(_), SyncPlace::Folder(_)) => {
            return Err(BadInput::new(
                "one side of haul sync is s3://BUCKET/PREFIX/, and neither is",
            )
            .with_hint("for two folders there is rsync"));
        }
        (SyncPlace::Folder(root), _) if !root.is_dir() => {
            let text = format!("{} is not a folder that can be read", root.display());
            return Err(BadInput::new(text).with_hint("haul put uploads single files"));
        }
        (SyncPlace::Bucket(one), SyncPlace::Bucket(other))
            if one.bucket == other.bucket
                && (one.key.starts_with(&other.key) || other.key.starts_with(&one.key)) =>
        {
            let text = format!("{one} and {other} are the same, or one is inside the other");
            return Err(BadInput::new(text));
        }
        _ => {}
    }
    Ok((source, destination))
}

fn settings(args: &SyncArgs) -> UploadSettings<'_> {
    UploadSettings {
        s3: &args.s3,
        connection: &args.connection,
        max_connections: args.speed.max_connections,
        part_size: args.speed.part_size.map(|size| size.0),
        expected_size: None,
        limit_rate: args.speed.limit_rate.map(|size| size.0),
        resume: Some(&args.resume),
        checksum: None,
        login: None,
    }
}

fn sync_options(args: &SyncArgs) -> SyncOptions {
    SyncOptions {
        comparison: match args.checksum {
            true => SyncComparison::Content,
            false => SyncComparison::SizeAndTime,
        },
        max_deletes: args.delete.then_some(args.max_delete.unwrap_or(u64::MAX)),
        existing_only: args.existing,
        ignore_existing: args.ignore_existing,
        keep_newer: args.update,
    }
}

/// How the copies of a sync ended.
struct CopyOutcome {
    exit: ExitReason,
    /// How many files there were to copy, those that failed or were left out among them.
    files: u64,
    failed: u64,
}

/// A sync under way.
struct SyncRun<'a> {
    args: &'a SyncArgs,
    outputs: JsonOutputs,
    sides: SyncSides,
    transfer: SyncTransfer,
}

impl SyncRun<'_> {
    async fn run(
        mut self,
        run_loop: RunLoop,
        events: TransferEventSender,
    ) -> Result<ExitReason, ExitReason> {
        let merge = self.start_merge();
        let (outcome, problems) = (merge.outcome, merge.problems);
        let _comparisons = merge.comparisons;
        let copied = match self.args.dry_run {
            true => self.show(merge.copies).await?,
            false => Box::pin(self.copy(merge.copies, run_loop, events)).await,
        };
        let exit = copied.exit;
        let outcome = outcome
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let outcome = outcome.map_err(|error| {
            let text = format!("cannot list {}: {error}", self.folder_name());
            self.outputs
                .report_failure(ExitReason::LocalIo, &text, None)
        })?;
        // What was left out failed, and its names are not in the way of deletions: they are known.
        let is_whole = matches!(exit, ExitReason::Done | ExitReason::SomeFailed)
            && outcome.is_complete
            && problems.missing() == 0
            && copied.failed == problems.left_out();
        let deletable = outcome.deletions.len();
        let has_source_files = outcome.has_source_files;
        let deleted = self.delete(outcome, is_whole).await?;
        if exit == ExitReason::Done
            && copied.files == 0
            && deletable == 0
            && !self.args.messages.quiet
        {
            match has_source_files {
                true => message::print_line("there is nothing to do"),
                false => {
                    let text = format!("there are no files at {}", self.args.source);
                    message::print_line(&message::warning_text(&message::sanitize(&text)));
                }
            }
        }
        Ok(match exit {
            ExitReason::Done => deleted,
            exit => exit,
        })
    }

    fn start_merge(&self) -> RunningMerge {
        let filter = self.args.filter.filter.clone();
        let compares_content = self.args.checksum;
        let follows_links = self.args.follow_links;
        let runtime = tokio::runtime::Handle::current();
        start_merge(
            self.sides.clone(),
            sync_options(self.args),
            move |sides, problems| {
                // Lists of objects are tasks.
                let _entered = runtime.enter();
                let lists = SyncLists {
                    session: &sides.session,
                    filter: &filter,
                    follows_links,
                    compares_content,
                };
                let (of_source, of_destination) = (problems.clone(), problems.clone());
                let (source, destination) = (&sides.source, &sides.destination);
                Ok(OpenLists {
                    source: lists.source(source, destination, move |problem| {
                        of_source.report(&problem);
                    })?,
                    destination: lists.destination(destination, source, move |problem| {
                        of_destination.report_of_destination(&problem);
                    })?,
                })
            },
        )
    }

    /// The folder among both sides.
    fn folder_name(&self) -> String {
        let folder = self.sides.source.folder();
        let folder = folder.or_else(|| self.sides.destination.folder());
        folder.map_or_else(String::new, |folder| folder.display().to_string())
    }

    /// Copies what is found.
    async fn copy(
        &mut self,
        copies: mpsc::Receiver<FoundCopy>,
        run_loop: RunLoop,
        events: TransferEventSender,
    ) -> CopyOutcome {
        let (args, session) = (self.args, self.sides.session.clone());
        let transfer = std::mem::replace(&mut self.transfer, SyncTransfer::Download);
        match (transfer, &self.sides.source, &self.sides.destination) {
            (SyncTransfer::Upload(maker), ..) => {
                let run = UploadRun {
                    messages: &args.messages,
                    options: settings(args).put_options(&session),
                    session,
                    source: upload_source(copies, *maker),
                    manifest: None,
                    run_loop,
                    events,
                };
                let (report, mut renderer) = Box::pin(run.run()).await;
                let (files, failed) = (report.summary.listed, report.summary.failed);
                let hint = "the same command sends what is missing";
                let exit = report.finish(args.messages.quiet, hint, &mut *renderer);
                CopyOutcome {
                    exit,
                    files,
                    failed,
                }
            }
            (SyncTransfer::Download, SyncPlace::Bucket(prefix), SyncPlace::Folder(root)) => {
                let run = SyncDownload {
                    messages: &args.messages,
                    settings: settings(args),
                    client: session.client.http().clone(),
                    get_options: GetOptions {
                        connections: settings(args).connections(),
                        resume: !args.resume.no_resume,
                        retry: session.retry,
                        limits: download_limits(&args.limits),
                        ..GetOptions::default()
                    },
                    prefix: prefix.clone(),
                    root: root.clone(),
                    follows_links: args.follow_links,
                    run_loop,
                    events,
                };
                Box::pin(run.run(copies)).await
            }
            (SyncTransfer::Download, ..) => CopyOutcome {
                exit: ExitReason::Usage,
                files: 0,
                failed: 0,
            },
        }
    }

    /// Shows what would be copied.
    async fn show(&self, mut copies: mpsc::Receiver<FoundCopy>) -> Result<CopyOutcome, ExitReason> {
        let (mut exit, mut files, mut failed) = (ExitReason::Done, 0, 0);
        while let Some(copy) = copies.recv().await {
            files += 1;
            let entry = match copy {
                Ok(entry) => entry,
                Err(error) => {
                    failed += 1;
                    exit = self
                        .outputs
                        .report_failure(error.exit, &error.text, error.hint);
                    continue;
                }
            };
            let source = self.sides.source.name_of(&entry.key);
            let target = self.sides.destination.name_of(&entry.key);
            let mut object = self.sides.action_object(&source, &target);
            object.insert("bytes".into(), entry.size.into());
            object.insert("dry_run".into(), true.into());
            self.print(object.into(), &format!("would copy {source} to {target}"))?;
        }
        if self.sides.session.stop.is_cancelled() && exit != ExitReason::Interrupted {
            exit = report(&BucketError::Interrupted, self.outputs);
        }
        Ok(CopyOutcome {
            exit,
            files,
            failed,
        })
    }

    /// A line on standard output.
    fn print(&self, object: serde_json::Value, text: &str) -> Result<(), ExitReason> {
        let written = match self.args.messages.json {
            true => output::write_stdout_lines([object]),
            false => output::write_stdout_lines([message::sanitize(text)]),
        };
        written.map_err(|error| output::report_write_error(&error))
    }

    /// Deletes what only the destination has, if all went well.
    async fn delete(
        &self,
        outcome: MergeOutcome,
        is_whole: bool,
    ) -> Result<ExitReason, ExitReason> {
        let count = outcome.deletions.len();
        if count == 0 && !outcome.is_refused {
            return Ok(ExitReason::Done);
        }
        let fail = |exit, text: &str, hint| Err(self.outputs.report_failure(exit, text, hint));
        if outcome.is_refused {
            let most = self.args.max_delete.unwrap_or_default();
            let text = format!(
                "there are more than {most} files to delete (--max-delete): none was deleted"
            );
            return fail(ExitReason::Usage, &text, None);
        }
        if !is_whole {
            let text =
                "files that only the destination has were not deleted, since not all went well";
            message::print_line(&message::warning_text(text));
            return Ok(ExitReason::SomeFailed);
        }
        if !outcome.has_source_files && self.args.max_delete.is_none() {
            let text = format!(
                "the source has no files, and {count} of the destination would be deleted: none was"
            );
            let hint = "is it the right one? --max-delete N allows it";
            return fail(ExitReason::Usage, &text, Some(hint));
        }
        match &self.sides.destination {
            SyncPlace::Bucket(prefix) => self.delete_objects(prefix, outcome.deletions).await,
            SyncPlace::Folder(root) => self.delete_files(root, outcome.deletions),
        }
    }

    async fn delete_objects(
        &self,
        prefix: &S3Address,
        deletions: DeletionList,
    ) -> Result<ExitReason, ExitReason> {
        let messages = &self.args.messages;
        let output = DeletionOutput {
            dry_run: self.args.dry_run,
            json: messages.json,
            quiet: messages.quiet,
        };
        let keys = self.keys(deletions)?;
        let deleted = with_events(
            |events| async {
                let session = self.sides.session.clone();
                let mut deletion = ObjectDeletion::new(session, output.options(), events);
                for key in keys {
                    let key = key.map_err(|error| self.list_lost(&error))?;
                    let key = format!("{}{key}", prefix.key);
                    if let Err(error) = deletion.add(&prefix.bucket, key).await {
                        return Ok(Err(error));
                    }
                }
                Ok(deletion.finish().await)
            },
            |event| output.print(&event),
        );
        Ok(output.finish(deleted.await??))
    }

    fn delete_files(&self, root: &Path, deletions: DeletionList) -> Result<ExitReason, ExitReason> {
        let mut exit = ExitReason::Done;
        for key in self.keys(deletions)? {
            if self.sides.session.stop.is_cancelled() {
                return Err(report(&BucketError::Interrupted, self.outputs));
            }
            let key = key.map_err(|error| self.list_lost(&error))?;
            let path = root.join(&key).display().to_string();
            let is_dry = self.args.dry_run;
            if !is_dry && let Err(error) = delete_file(root, &key) {
                let text = format!("cannot delete {path}: {error}");
                message::print_error(&message::sanitize(&text), None);
                exit = ExitReason::SomeFailed;
                continue;
            }
            if !self.args.messages.quiet || self.args.messages.json {
                let verb = if is_dry { "would delete" } else { "deleted" };
                let mut object = FileAction::Delete.object(&[("path", &path)]);
                object.insert("dry_run".into(), is_dry.into());
                self.print(object.into(), &format!("{verb} {path}"))?;
            }
        }
        Ok(exit)
    }

    fn keys(
        &self,
        deletions: DeletionList,
    ) -> Result<impl Iterator<Item = io::Result<String>> + Send, ExitReason> {
        deletions
            .into_keys()
            .map_err(|error| self.list_lost(&error))
    }

    fn list_lost(&self, error: &io::Error) -> ExitReason {
        let text = format!("cannot read the temporary list of files to delete: {error}");
        self.outputs
            .report_failure(ExitReason::LocalIo, &text, None)
    }
}

/// Makes uploads of found files.
fn upload_source(mut copies: mpsc::Receiver<FoundCopy>, maker: UploadMaker) -> UploadJobSource {
    let mut next_id = 0;
    let jobs = std::iter::from_fn(move || {
        let copy = copies.blocking_recv()?;
        next_id += 1;
        Some(copy.and_then(|entry| maker.make(entry, next_id)))
    });
    UploadJobSource::from_iterator(jobs, None)
}
