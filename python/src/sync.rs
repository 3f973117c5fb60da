//! `sync`: makes a folder or a prefix like another one.

use haul_transfer::batch::StopReason;
use haul_transfer::bucket::StoreSession;
use haul_transfer::put::{ObjectHeaders, PutOptions};
use haul_transfer::sync::{
    DeletionRefusal, RunningSync, SyncComparison, SyncCopies, SyncDeletions, SyncOptions,
    SyncPlace, SyncPlaceError, SyncSettings, SyncSides, check_sync_places,
};
use haul_transfer::{ErrorClass, GetOptions};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::HaulError;
use crate::file_rows::{FileRowKind, FileTask, TransferHandle};
use crate::log::{WARNING, log};
use crate::object_names::{FilterArguments, object_address};
use crate::upload_arguments::UploadArguments;
use crate::uploads::check_uploads;

/// The arguments of a sync.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SyncArguments {
    source: String,
    target: String,
    delete: bool,
    max_delete: Option<u64>,
    checksum: bool,
    existing: bool,
    ignore_existing: bool,
    update: bool,
    filter: FilterArguments,
    follow_links: bool,
    dry_run: bool,
    upload: UploadArguments,
}

/// How the copies of a sync ended: how many failed, and why it ended early.
struct SyncCopyOutcome {
    failed: u64,
    result: Result<(), HaulError>,
}

/// A sync that is about to run.
struct PythonSync {
    task: FileTask,
    sides: SyncSides,
    get_options: GetOptions,
    put_options: PutOptions,
}

#[pymethods]
impl Engine {
    /// Starts a sync.
    fn sync(&self, arguments: SyncArguments) -> PyResult<TransferHandle> {
        let (source, destination) = arguments.places()?;
        let settings = arguments.settings(&destination)?;
        let get_options = self.state.get_options(arguments.upload.connections, true);
        let put_options = arguments.upload.put_options(&self.state)?;
        let kind = match (&source, &destination) {
            (SyncPlace::Folder(_), _) => FileRowKind::Upload,
            (SyncPlace::Bucket(_), SyncPlace::Folder(_)) => FileRowKind::Download,
            (SyncPlace::Bucket(_), SyncPlace::Bucket(_)) => FileRowKind::Copy,
        };
        let run = move |task: FileTask| async move {
            let session = task.context.session(true).await?;
            let sides = SyncSides {
                source,
                destination,
                session,
            };
            let run = PythonSync {
                task,
                sides,
                get_options,
                put_options,
            };
            Box::pin(run.run(settings)).await
        };
        Ok(TransferHandle::start(self, kind, arguments.dry_run, run)?)
    }
}

impl SyncArguments {
    /// Both sides, of which one is a bucket and none is part of the other.
    fn places(&self) -> Result<(SyncPlace, SyncPlace), HaulError> {
        let source = sync_place("source", &self.source)?;
        let target = sync_place("target", &self.target)?;
        check_sync_places(&source, &target).map_err(|error| {
            let hint = match error {
                SyncPlaceError::TwoFolders => Some("one of them is s3://BUCKET/PREFIX/"),
                SyncPlaceError::NotAFolder(_) => Some("haul.put uploads single files"),
                SyncPlaceError::Overlap(..) => None,
            };
            HaulError {
                hint: hint.map(str::to_owned),
                ..HaulError::usage(error.to_string())
            }
        })?;
        Ok((source, target))
    }

    fn settings(&self, destination: &SyncPlace) -> Result<SyncSettings, HaulError> {
        let common = self.upload.headers()?;
        if matches!(destination, SyncPlace::Folder(_)) && !common.is_empty() {
            let text = "headers: files of a folder have none; they are for objects";
            return Err(HaulError::usage(text));
        }
        Ok(SyncSettings {
            options: SyncOptions {
                comparison: if self.checksum {
                    SyncComparison::Content
                } else {
                    SyncComparison::SizeAndTime
                },
                max_deletes: self.delete.then_some(self.max_delete.unwrap_or(u64::MAX)),
                existing_only: self.existing,
                ignore_existing: self.ignore_existing,
                keep_newer: self.update,
            },
            filter: self.filter.filter(),
            follows_links: self.follow_links,
            headers: ObjectHeaders {
                common,
                keeps_attributes: true,
            },
            allows_empty_source: self.max_delete.is_some(),
        })
    }
}

/// A path, or what begins as an address and then must be one.
fn sync_place(name: &str, text: &str) -> Result<SyncPlace, HaulError> {
    if text.contains("://") {
        Ok(SyncPlace::Bucket(object_address(name, text)?.into_folder()))
    } else {
        Ok(SyncPlace::Folder(text.into()))
    }
}

impl PythonSync {
    async fn run(self, settings: SyncSettings) -> Result<(), HaulError> {
        let (sync, copies) = RunningSync::start(settings, self.sides.clone());
        let copied = match (self.task.is_dry_run, copies.are_downloads()) {
            (true, _) => self.show(copies).await,
            (false, true) => self.download(copies).await,
            (false, false) => self.upload(copies).await,
        };
        let is_whole = copied.result.is_ok();
        let deletions = sync.deletions(copied.failed, is_whole).await;
        let deletions =
            deletions.map_err(|error| HaulError::local("cannot list the folder", &error))?;
        copied.result?;
        self.delete(deletions).await
    }

    async fn upload(&self, copies: SyncCopies) -> SyncCopyOutcome {
        let (session, options) = (self.sides.session.clone(), self.put_options.clone());
        let source = copies.into_uploads();
        let summary = self.task.upload(session, options, None, source).await;
        SyncCopyOutcome {
            failed: summary.counts.failed,
            result: check_uploads(&summary).and_then(|()| self.task.context.check_stop()),
        }
    }

    async fn download(&self, copies: SyncCopies) -> SyncCopyOutcome {
        let StoreSession { client, .. } = &self.sides.session;
        let (client, options) = (client.http().clone(), self.get_options.clone());
        let engine = |events| copies.download(client, options, true, events);
        let summary = self.task.with_rows(engine).await;
        let result = match &summary.stopped {
            None => self.task.context.check_stop(),
            Some(stopped) => {
                let text = format!("downloads stopped early: {}", stopped.text);
                let class = match stopped.reason {
                    StopReason::Interrupted => ErrorClass::Interrupted,
                    StopReason::Refused => ErrorClass::Network,
                    _ => ErrorClass::LocalIo,
                };
                Err(HaulError::of_class(class, text))
            }
        };
        SyncCopyOutcome {
            failed: summary.failed + self.task.not_transferred(),
            result,
        }
    }

    /// Says what would be copied.
    async fn show(&self, mut copies: SyncCopies) -> SyncCopyOutcome {
        while let Some(copy) = copies.next().await {
            match copy {
                Ok(entry) => {
                    let source = self.sides.source.name_of(&entry.key);
                    let target = self.sides.destination.name_of(&entry.key);
                    let planned = self.task.send_planned_copy(source, target, entry.size);
                    planned.await;
                }
                Err(error) => self.task.send_not_transferred(&error).await,
            }
        }
        SyncCopyOutcome {
            failed: self.task.not_transferred(),
            result: self.task.context.check_stop(),
        }
    }

    /// Deletes what only the target has, if all went well.
    async fn delete(&self, deletions: SyncDeletions) -> Result<(), HaulError> {
        let count = deletions.count();
        match deletions.refusal {
            None => {}
            Some(DeletionRefusal::TooMany) => {
                let text = "there are more files to delete than max_delete: none was deleted";
                return Err(HaulError::usage(text));
            }
            Some(DeletionRefusal::EmptySource) => {
                let text = format!(
                    "the source has no files, and {count} of the target would be deleted: none was"
                );
                let hint = "is it the right one? max_delete=N allows it";
                return Err(HaulError::usage(text).with_hint(hint));
            }
            Some(DeletionRefusal::NotWhole) => {
                let text =
                    "files that only the target has were not deleted, since not all went well";
                log(WARNING, text.to_owned());
                self.task
                    .update_rowless_counts(|counts| counts.not_deleted = count);
                return Ok(());
            }
        }
        let options = self.task.deletion_options();
        let engine = |events| deletions.delete(options, events);
        match self.task.with_rows(engine).await {
            Ok(_) => Ok(()),
            Err(error) => Err(HaulError::of_ended_deletion(&error)),
        }
    }
}
