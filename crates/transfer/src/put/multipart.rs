//! A large file: sent in parts, several at a time, and continued where an earlier run ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_digest::Crc64Nvme;
use haul_net::RequestBody;
use haul_s3::{MultipartUpload, S3Address, StoredObject, UploadedPart};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::context::{UploadContext, UploadState};
use super::error::PutError;
use super::expected_object::{ExpectedObject, multipart_etag};
use super::file_part::{
    FilePart, FileSnapshot, OpenFile, SentBytes, crc64nvme_checksum, crc64nvme_in,
};
use super::journal::{UploadJournal, UploadRecord};
use super::kept_parts::{KnownPart, kept_parts};
use super::multipart_requests::{abort, abort_failed, complete, create};
use super::options::UploadOutcome;
use super::part_plan::PartPlan;
use super::single_request::RangeDigests;
use super::slots::UploadSlot;
use crate::disk::blocking;

struct BegunUpload {
    upload: MultipartUpload,
    plan: PartPlan,
    /// Parts that need not be sent.
    parts: BTreeMap<u32, KnownPart>,
    journal: Option<UploadJournal>,
}

enum UploadStart {
    Begun(BegunUpload),
    /// An earlier run has stored the object, in this number of parts.
    Finished(StoredObject, u32, Option<UploadJournal>),
}

/// Uploads a file in parts.
pub(super) async fn upload(
    context: &UploadContext,
    path: &Path,
    file: Arc<OpenFile>,
) -> Result<UploadOutcome, PutError> {
    let size = file.snapshot.size;
    let mut begun = match begin(context, path, &file).await? {
        UploadStart::Begun(begun) => begun,
        UploadStart::Finished(stored, parts, journal) => {
            if let Some(journal) = journal {
                let _ = blocking(|| journal.remove());
            }
            context.sent.job.fetch_add(size, Ordering::Relaxed);
            return Ok(outcome(context, stored, parts, size, size));
        }
    };
    let resumed: u64 = begun.parts.values().map(|part| part.size).sum();
    context.sent.job.fetch_add(resumed, Ordering::Relaxed);
    let stored = match send_and_complete(context, path, &file, &mut begun).await {
        Ok(stored) => stored,
        Err(error) => return Err(give_up(context, begun, error).await),
    };
    if let Some(journal) = begun.journal {
        // A journal that stays is found to be of no upload by the next run.
        let _ = blocking(|| journal.remove());
    }
    let parts = begun.plan.count();
    Ok(outcome(context, stored, parts, size, resumed))
}

/// `size` is that of the file, `resumed` what an earlier run had sent.
fn outcome(
    context: &UploadContext,
    stored: StoredObject,
    parts: u32,
    size: u64,
    resumed: u64,
) -> UploadOutcome {
    UploadOutcome {
        target: context.job.target.clone(),
        bytes: size,
        resumed,
        elapsed: context.started.elapsed(),
        etag: stored.etag,
        checksums: stored.checksums,
        version_id: stored.version_id,
        parts,
    }
}

/// Continues an earlier run's upload, or begins one.
async fn begin(
    context: &UploadContext,
    path: &Path,
    file: &OpenFile,
) -> Result<UploadStart, PutError> {
    let snapshot = file.snapshot;
    let mut journal = open_journal_or_warn(context, path).await?;
    if let Some(open) = &mut journal
        && let Some(earlier) = blocking(|| open.read()).ok().flatten()
    {
        let upload = MultipartUpload {
            address: context.target.clone(),
            upload_id: earlier.record.upload_id.clone(),
        };
        let plan = PartPlan::new(snapshot.size, Some(earlier.record.part_bytes)).ok();
        let wanted = context.state.options.part_bytes;
        let plan = plan.filter(|plan| {
            earlier.record.is_of(snapshot, &context.settings_digest())
                && wanted.is_none_or(|wanted| wanted == plan.part_bytes())
        });
        let Some(plan) = plan else {
            // Nobody would remove it once the journal is of another upload.
            abort_failed(context, &upload).await;
            return begin_anew(context, path, snapshot, journal).await;
        };
        if let Some(listed) = list_parts(context, &upload).await? {
            let parts = kept_parts(&plan, earlier.parts, &listed);
            // What cannot be written is sent again by the next run.
            if let Err(error) = blocking(|| open.restart(&earlier.record, parts.values())) {
                context
                    .warn_no_resume(cannot_write(open.path(), &error))
                    .await;
            }
            return Ok(UploadStart::Begun(BegunUpload {
                upload,
                plan,
                parts,
                journal,
            }));
        }
        if let Some(stored) = finished_object(context, &plan, earlier.parts).await {
            return Ok(UploadStart::Finished(stored, plan.count(), journal));
        }
    }
    begin_anew(context, path, snapshot, journal).await
}

async fn begin_anew(
    context: &UploadContext,
    path: &Path,
    snapshot: FileSnapshot,
    mut journal: Option<UploadJournal>,
) -> Result<UploadStart, PutError> {
    let wanted = context.state.options.part_bytes;
    let plan = PartPlan::new(snapshot.size, wanted).map_err(|source| PutError::Parts {
        path: path.to_owned(),
        source,
    })?;
    let asked_at = Instant::now();
    let upload = create(context).await?;
    context.state.slots.on_first_response(asked_at.elapsed());
    if let Some(mut open) = journal.take() {
        let target = context.target.to_string();
        let record = UploadRecord::new(
            (path, snapshot),
            &target,
            &upload.upload_id,
            plan.part_bytes(),
            context.settings_digest(),
        );
        match blocking(|| open.restart(&record, std::iter::empty())) {
            Ok(()) => journal = Some(open),
            Err(error) => {
                context
                    .warn_no_resume(cannot_write(open.path(), &error))
                    .await;
                let _ = blocking(|| open.remove());
            }
        }
    }
    Ok(UploadStart::Begun(BegunUpload {
        upload,
        plan,
        parts: BTreeMap::new(),
        journal,
    }))
}

/// The object, if an earlier run had sent all parts and was killed before it read that the upload is complete.
async fn finished_object(
    context: &UploadContext,
    plan: &PartPlan,
    parts: Vec<KnownPart>,
) -> Option<StoredObject> {
    let parts: BTreeMap<u32, KnownPart> =
        parts.into_iter().map(|part| (part.number, part)).collect();
    let size: u64 = parts.values().map(|part| part.size).sum();
    if !(1..=plan.count()).eq(parts.keys().copied()) || size != plan.file_bytes() {
        return None;
    }
    let listed: Vec<UploadedPart> = parts
        .values()
        .map(|part| completed_part(context, part))
        .collect();
    let expected = ExpectedObject {
        size,
        checksums: vec![crc64nvme_checksum(whole_crc(parts.values()))],
        etag: multipart_etag(&listed),
    };
    let found = context.send_with_slot(|| expected.find(context)).await;
    found.ok().flatten()
}

/// The journal of an upload that begins. An upload works without one, but no later run can continue it (row B12).
async fn open_journal_or_warn(
    context: &UploadContext,
    path: &Path,
) -> Result<Option<UploadJournal>, PutError> {
    let options = &context.state.options;
    let reason = match open_journal(&context.state, path, &context.target) {
        Err(PutError::LocalIo { path, source, .. }) => cannot_write(&path, &source),
        Ok(None) if options.resume && options.state_directory.is_none() => {
            "the user has no home directory".to_owned()
        }
        other => return other,
    };
    context.warn_no_resume(reason).await;
    Ok(None)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// The journal of a file and an object, if uploads are remembered.
fn open_journal(
    state: &UploadState,
    path: &Path,
    target: &S3Address,
) -> Result<Option<UploadJournal>, PutError> {
    let Some(directory) = state
        .options
        .state_directory
        .as_ref()
        .filter(|_| state.options.resume)
    else {
        return Ok(None);
    };
    let object = state.client.object_name(target);
    match blocking(|| UploadJournal::open(directory, path, &object)) {
        Ok(Some(journal)) => Ok(Some(journal)),
        Ok(None) => Err(PutError::Locked {
            path: path.to_owned(),
            target: target.clone(),
        }),
        Err(error) => Err(PutError::local("write into", directory.clone(), error)),
    }
}

/// The parts that the store has; `None` if it does not know the upload (row F12).
async fn list_parts(
    context: &UploadContext,
    upload: &MultipartUpload,
) -> Result<Option<Vec<KnownPart>>, PutError> {
    let listed = context
        .send_with_slot(|| context.state.client.list_parts(upload))
        .await;
    match listed {
        Ok(parts) => Ok(Some(parts.iter().map(known_part).collect())),
        Err(PutError::Store(error)) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn known_part(part: &UploadedPart) -> KnownPart {
    KnownPart {
        number: part.number,
        size: part.size,
        etag: part.etag.clone(),
        crc64nvme: crc64nvme_in(&part.checksums),
        wanted: None,
    }
}

async fn send_and_complete(
    context: &UploadContext,
    path: &Path,
    file: &Arc<OpenFile>,
    begun: &mut BegunUpload,
) -> Result<StoredObject, PutError> {
    send_parts(context, path, file, begun).await?;
    let is_unchanged = blocking(|| file.is_unchanged(path));
    if !is_unchanged.map_err(|error| PutError::local("read", path, error))? {
        return Err(context.changed(path));
    }
    let parts: Vec<UploadedPart> = begun
        .parts
        .values()
        .map(|part| completed_part(context, part))
        .collect();
    let whole = (file.snapshot.size, whole_crc(begun.parts.values()));
    complete(context, &begun.upload, &parts, whole).await
}

/// Sends the parts that are missing. When one fails for good, those that are under way are dropped.
async fn send_parts(
    context: &UploadContext,
    path: &Path,
    file: &Arc<OpenFile>,
    begun: &mut BegunUpload,
) -> Result<(), PutError> {
    let missing: Vec<u32> = (1..=begun.plan.count())
        .filter(|number| !begun.parts.contains_key(number))
        .collect();
    let mut waiting = missing.into_iter().peekable();
    let mut running = JoinSet::new();
    let upload = Arc::new(begun.upload.clone());
    loop {
        // A part gets its slot before its task, so that they are sent in their order.
        let done = tokio::select! {
            biased;
            Some(ended) = running.join_next() => joined(ended).map(Some),
            slot = context.slot(), if waiting.peek().is_some() => slot.map(|slot| {
                if let Some(number) = waiting.next() {
                    let sender = PartSender {
                        context: context.clone(),
                        upload: Arc::clone(&upload),
                        part: FilePart {
                            file: Arc::clone(file),
                            range: begun.plan.range(number),
                            sent: SentBytes {
                                attempt: Arc::default(),
                                ..context.sent.clone()
                            },
                            sha256: None,
                        },
                        number,
                    };
                    let path = path.to_owned();
                    running.spawn(async move { Box::pin(sender.send(&path, slot)).await });
                }
                None
            }),
            else => return Ok(()),
        };
        match done {
            Ok(Some(part)) => begun.keep(context, part).await,
            Ok(None) => {}
            Err(error) => {
                // Others may have been done in the same moment. They need not be sent again.
                running.abort_all();
                while let Some(ended) = running.join_next().await {
                    if let Ok(Ok(part)) = ended {
                        begun.keep(context, part).await;
                    }
                }
                return Err(error);
            }
        }
    }
}

/// The result of a task. A panic goes on.
fn joined(ended: Result<Result<KnownPart, PutError>, JoinError>) -> Result<KnownPart, PutError> {
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

impl BegunUpload {
    /// Notes that the store has a part.
    async fn keep(&mut self, context: &UploadContext, part: KnownPart) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = blocking(|| journal.add(&part))
        {
            context
                .warn_no_resume(cannot_write(journal.path(), &error))
                .await;
        }
        self.parts.insert(part.number, part);
    }
}

struct PartSender {
    context: UploadContext,
    upload: Arc<MultipartUpload>,
    part: FilePart,
    number: u32,
}

impl PartSender {
    async fn send(mut self, path: &Path, slot: UploadSlot) -> Result<KnownPart, PutError> {
        self.part.sent.slot = Some(Arc::clone(slot.activity()));
        // Read when it is about to be sent: then it is sent from the page cache.
        let computed = blocking(|| {
            let range = self.part.range.clone();
            RangeDigests::compute(&self.context, &self.part.file, range)
        });
        let digests = computed.map_err(|error| PutError::local("read", path, error))?;
        let (crc, checksums) = (digests.crc64nvme, digests.checksums);
        self.part.sha256 = digests.sha256;
        let (context, part) = (&self.context, &self.part);
        let wanted = checksums
            .iter()
            .find(|checksum| Some(checksum.algorithm) == context.state.options.checksum)
            .cloned();
        let client = &context.state.client;
        let sent = context
            .send_in_slot(slot, || {
                part.sent.restart();
                let body = RequestBody::Source(Arc::new(part.clone()));
                client.upload_part(&self.upload, self.number, body, &checksums)
            })
            .await?;
        match crc64nvme_in(&sent.checksums) {
            Some(theirs) if theirs != crc => Err(PutError::Checksum {
                target: context.target.clone(),
            }),
            _ => Ok(KnownPart {
                number: self.number,
                size: part.range.end - part.range.start,
                etag: sent.etag,
                crc64nvme: Some(crc),
                wanted,
            }),
        }
    }
}

/// A part as the list of a Complete names it.
fn completed_part(context: &UploadContext, part: &KnownPart) -> UploadedPart {
    let checksum = match (
        context.is_without_checksums(),
        context.state.options.checksum,
    ) {
        (true, _) => None,
        (false, None) => part.crc64nvme.map(crc64nvme_checksum),
        (false, Some(_)) => part.wanted.clone(),
    };
    UploadedPart {
        number: part.number,
        size: part.size,
        etag: part.etag.clone(),
        checksums: checksum.into_iter().collect(),
    }
}

/// The checksum of all parts in their order.
fn whole_crc<'a>(parts: impl Iterator<Item = &'a KnownPart>) -> u64 {
    parts.fold(Crc64Nvme::new().finish(), |crc, part| {
        Crc64Nvme::combine(crc, part.crc64nvme.unwrap_or_default(), part.size)
    })
}

/// Ends an upload that failed: it is kept for a later run, or removed.
async fn give_up(context: &UploadContext, begun: BegunUpload, error: PutError) -> PutError {
    let is_of_no_use = matches!(
        error,
        PutError::Changed { .. } | PutError::Checksum { .. } | PutError::Condition { .. }
    );
    if begun.journal.is_some() && !is_of_no_use {
        return match error {
            PutError::Interrupted { .. } => PutError::Interrupted { is_resumable: true },
            error => error,
        };
    }
    if abort_failed(context, &begun.upload).await
        && let Some(journal) = begun.journal
    {
        let _ = blocking(|| journal.remove());
    }
    error
}

/// Removes what earlier runs have sent of a file.
pub(super) async fn abort_earlier(
    state: &UploadState,
    path: &Path,
    target: &S3Address,
    is_dry_run: bool,
) -> Result<bool, PutError> {
    let Some(mut journal) = open_journal(state, path, target)? else {
        return Ok(false);
    };
    let earlier = blocking(|| journal.read())
        .map_err(|error| PutError::local("read the journal of", path, error))?;
    if let Some(earlier) = &earlier {
        if is_dry_run {
            return Ok(true);
        }
        let upload = MultipartUpload {
            address: target.clone(),
            upload_id: earlier.record.upload_id.clone(),
        };
        abort(state, &upload).await?;
    }
    let removed = blocking(|| journal.remove());
    removed.map_err(|error| PutError::local("remove the journal of", path, error))?;
    Ok(earlier.is_some())
}
