//! `put_many` and `copy`: uploads of files and folders, and copies inside a store.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use haul_transfer::ErrorClass;
use haul_transfer::batch::StopReason;
use haul_transfer::bucket::StoreSession;
use haul_transfer::manifest::{Manifest, PreviousRuns};
use haul_transfer::put::{
    CopyJobs, CopySettings, CopyTargetError, FileJobSettings, FileJobs, ObjectHeaders, PutOptions,
    UploadBatch, UploadInput, UploadJobSource, UploadSummary, UploadTarget,
};
use http::header::{HeaderMap, HeaderValue, IF_NONE_MATCH};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::HaulError;
use crate::file_rows::{FileRowKind, FileTask, TransferHandle};
use crate::log::{WARNING, log};
use crate::object_names::{FilterArguments, ObjectArguments, object_address};
use crate::settings::AuthArgument;
use crate::upload_arguments::UploadArguments;

/// The arguments of uploads.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PutManyArguments {
    paths: Vec<PathBuf>,
    url: String,
    filter: FilterArguments,
    follow_links: bool,
    auth: Option<AuthArgument>,
    if_none_match: bool,
    preserve: bool,
    manifest: Option<PathBuf>,
    dry_run: bool,
    upload: UploadArguments,
}

/// The arguments of copies.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CopyArguments {
    objects: ObjectArguments,
    target: String,
    dry_run: bool,
    upload: UploadArguments,
}

impl PutManyArguments {
    /// What is uploaded, and to where.
    fn settings(&self) -> Result<FileJobSettings, HaulError> {
        let mut headers = self.upload.headers()?;
        let mut target = self
            .upload
            .target(&self.url, self.auth.as_ref(), &mut headers)?;
        // Folders are walked, so a target is always what files go below.
        match &mut target {
            target if target.is_prefix() => {}
            UploadTarget::Object(address) => address.key.push('/'),
            UploadTarget::Url(url) => url.set_path(&format!("{}/", url.path())),
        }
        let mut conditions = HeaderMap::new();
        if self.if_none_match {
            conditions.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let inputs = self.paths.iter().cloned().map(UploadInput::File);
        Ok(FileJobSettings {
            inputs: inputs.collect(),
            list: None,
            is_recursive: true,
            follows_links: self.follow_links,
            filter: self.filter.filter(),
            headers: ObjectHeaders {
                common: headers,
                keeps_attributes: self.preserve && matches!(target, UploadTarget::Object(_)),
            },
            target,
            conditions,
        })
    }

    fn open_manifest(&self) -> Result<Option<(Manifest, PreviousRuns)>, HaulError> {
        let Some(path) = &self.manifest else {
            return Ok(None);
        };
        let (manifest, previous) = Manifest::open(path)
            .map_err(|error| HaulError::local("manifest: it cannot be used", &error))?;
        for warning in previous.warnings() {
            log(WARNING, format!("{}: {warning}", path.display()));
        }
        Ok(Some((manifest, previous)))
    }
}

#[pymethods]
impl Engine {
    /// Starts uploads of files and folders.
    fn put_many(&self, py: Python<'_>, arguments: PutManyArguments) -> PyResult<TransferHandle> {
        let settings = arguments.settings()?;
        // A manifest of earlier runs is read for as long as it is large.
        let opened = py.detach(|| arguments.open_manifest())?;
        let options = arguments.upload.put_options(&self.state)?;
        let (kind, is_dry_run) = (FileRowKind::Upload, arguments.dry_run);
        let run = move |task: FileTask| async move {
            let is_store = matches!(settings.target, UploadTarget::Object(_));
            let session = task.context.session(is_store).await?;
            let (manifest, previous) = opened.unzip();
            let jobs = FileJobs::new(settings, previous, task.context.stop.clone());
            let counts = jobs.counts();
            let source = UploadJobSource::from_iterator(jobs);
            let ended = Box::pin(task.transfer(session, options, manifest, source)).await;
            let skipped = counts.done_earlier.load(Ordering::Relaxed);
            task.update_rowless_counts(|counts| counts.skipped = skipped);
            ended
        };
        Ok(TransferHandle::start(self, kind, is_dry_run, run)?)
    }

    /// Starts copies inside a store.
    fn copy(&self, arguments: CopyArguments) -> PyResult<TransferHandle> {
        let named = arguments.objects.named("source")?;
        let target = object_address("target", &arguments.target)?;
        let settings =
            CopySettings::new(named, target, arguments.upload.headers()?).map_err(|error| {
                HaulError::usage(error.to_string()).with_hint(match error {
                    CopyTargetError::IsFolder(_) => "recursive=True copies everything below it",
                    CopyTargetError::Inside { .. } => "choose a target outside of it",
                })
            })?;
        let options = arguments.upload.put_options(&self.state)?;
        let (kind, is_dry_run) = (FileRowKind::Copy, arguments.dry_run);
        let run = move |task: FileTask| async move {
            let session = task.context.session(true).await?;
            let jobs = CopyJobs::new(settings, session.clone());
            let source = UploadJobSource::from_iterator(jobs);
            Box::pin(task.transfer(session, options, None, source)).await
        };
        Ok(TransferHandle::start(self, kind, is_dry_run, run)?)
    }
}

impl FileTask {
    /// Uploads or copies what is found, or says what that would be.
    async fn transfer(
        &self,
        session: StoreSession,
        options: PutOptions,
        manifest: Option<Manifest>,
        mut source: UploadJobSource,
    ) -> Result<(), HaulError> {
        if self.is_dry_run {
            while let Some(job) = source.next().await {
                match job {
                    Ok(job) => self.send_planned(&job).await,
                    Err(error) => self.send_not_transferred(&error).await,
                }
            }
            return self.context.check_stop();
        }
        let summary = self.upload(session, options, manifest, source).await;
        check_uploads(&summary)?;
        self.context.check_stop()
    }

    /// Uploads or copies what is found.
    pub(crate) async fn upload(
        &self,
        session: StoreSession,
        options: PutOptions,
        manifest: Option<Manifest>,
        source: UploadJobSource,
    ) -> UploadSummary {
        let batch = |events| {
            UploadBatch {
                session,
                options,
                manifest,
                events,
            }
            .run(source)
        };
        self.with_rows(batch).await
    }
}

/// Why uploads ended before all were tried.
pub(crate) fn check_uploads(summary: &UploadSummary) -> Result<(), HaulError> {
    if let Some(stopped) = &summary.counts.stopped {
        let class = match stopped.reason {
            StopReason::Interrupted => ErrorClass::Interrupted,
            _ => ErrorClass::LocalIo,
        };
        let text = format!("uploads stopped early: {}", stopped.text);
        return Err(HaulError::of_class(class, text));
    }
    match summary.not_tried {
        None => Ok(()),
        Some(_) => {
            let text = "every other file would be refused in the same way, and was not tried";
            Err(HaulError::of_class(ErrorClass::Network, text))
        }
    }
}
