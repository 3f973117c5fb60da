//! `sync`: makes a folder or a prefix like another one.

use haul_transfer::batch::StopReason;
use haul_transfer::bucket::StoreSession;
use haul_transfer::put::{ObjectHeaders, PutOptions};
use haul_transfer::sync::{
    RunningSync, SyncComparison, SyncCopies, SyncDeletionError, SyncOptions, SyncPlace,
    SyncPlaceError, SyncSettings, SyncSides, check_sync_places,
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
        let upload = &arguments.upload;
        let get_options = GetOptions {
            resume: upload.resume,
            ..self.state.get_options(upload.connections, true)
        };
        let put_options = upload.put_options(&self.state)?;
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
                SyncPlaceError::Pattern(_) => Some("include chooses files of a folder"),
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
        let for_objects = [
            ("headers", !common.is_empty()),
            ("part_size", self.upload.part_size.is_some()),
            (
                "checksum_algorithm",
                self.upload.checksum_algorithm.is_some(),
            ),
        ];
        if matches!(destination, SyncPlace::Folder(_))
            && let Some((name, _)) = for_objects.iter().find(|(_, is_given)| *is_given)
        {
            let text = format!("{name}: it is for objects, and this sync writes files");
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
        let (options, is_whole) = (self.task.deletion_options(), copied.result.is_ok());
        let engine = |events| sync.delete(copied.failed, is_whole, options, events);
        match (self.task.with_rows(engine).await, copied.result) {
            (Err(error @ SyncDeletionError::List { .. }), _) => self.report_not_deleted(error),
            (_, Err(error)) => Err(error),
            (Err(error), Ok(())) => self.report_not_deleted(error),
            (Ok(_), Ok(())) => Ok(()),
        }
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
        let result = match &summary.transfers.stopped {
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
            failed: summary.failed,
            result,
        }
    }

    /// Says what would be copied.
    async fn show(&self, copies: SyncCopies) -> SyncCopyOutcome {
        let summary = self.task.with_rows(|events| copies.plan(events)).await;
        SyncCopyOutcome {
            failed: summary.failed,
            result: self.task.context.check_stop(),
        }
    }

    /// Says why the target keeps what only it has.
    fn report_not_deleted(&self, error: SyncDeletionError) -> Result<(), HaulError> {
        match error {
            SyncDeletionError::List { source, .. } => {
                Err(HaulError::local("cannot list the folder", &source))
            }
            SyncDeletionError::Ended(error) => Err(HaulError::of_ended_deletion(&error)),
            SyncDeletionError::TooMany => {
                let text = "there are more files to delete than max_delete: haul deleted none";
                Err(HaulError::usage(text))
            }
            SyncDeletionError::EmptySource { count } => {
                let text = format!(
                    "the source has no files, and haul would delete {count} files of the target: it deleted none"
                );
                let hint = "is the source correct? max_delete=N allows this";
                Err(HaulError::usage(text).with_hint(hint))
            }
            SyncDeletionError::NotWhole { count } => {
                let text =
                    "files that only the target has were not deleted, since not all went well";
                log(WARNING, text.to_owned());
                self.task
                    .update_rowless_counts(|counts| counts.not_deleted = count);
                Ok(())
            }
        }
    }
}
