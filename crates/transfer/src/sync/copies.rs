//! The files that a sync copies, as uploads, copies inside the store, or downloads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_net::Client;
use haul_s3::S3Address;
use http::HeaderMap;
use tokio::sync::mpsc;

use super::comparison::{PlannedCopy, SyncEntry};
use super::merge::FoundCopy;
use super::place::{SyncPlace, SyncSettings, SyncSides};
use crate::batch::{Batch, BatchOptions, BatchOutput, BatchSummary, dispatcher_options};
use crate::event::{TransferEvent, TransferEventSender};
use crate::input_error::InputError;
use crate::job_sources::object_entry;
use crate::list::{BadLine, ListEntry};
use crate::listed_version::ListedVersion;
use crate::options::{ExistingFilePolicy, GetOptions};
use crate::put::{FoundUpload, SourceObject, UploadInput, UploadJob, UploadJobSource};

/// The files to copy, as they are found.
#[derive(Debug)]
pub struct SyncCopies {
    pub(super) sides: SyncSides,
    pub(super) found: mpsc::Receiver<FoundCopy>,
    pub(super) settings: SyncSettings,
}

/// How copies ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncCopySummary {
    /// What was transferred; nothing if the copies were only planned.
    pub transfers: BatchSummary,
    /// How many files there were to copy, those that failed or were left out among them.
    pub files: u64,
    /// How many of them were not copied.
    pub failed: u64,
}

impl SyncCopies {
    /// Sends an event for each file that would be copied.
    pub async fn plan(self, events: TransferEventSender) -> SyncCopySummary {
        let (sides, mut found) = (self.sides, self.found);
        let mut summary = SyncCopySummary::default();
        while let Some(copy) = found.recv().await {
            summary.files += 1;
            let event = match copy {
                Ok(entry) => TransferEvent::CopyPlanned(Box::new(PlannedCopy {
                    source: sides.source.name_of(&entry.key),
                    target: sides.destination.name_of(&entry.key),
                    bytes: entry.size,
                })),
                Err(error) => {
                    summary.failed += 1;
                    TransferEvent::NotTransferred(Arc::new(error))
                }
            };
            // A closed channel is no reason to stop.
            let _ = events.send(event).await;
        }
        summary
    }

    /// Whether files come down from the store. Otherwise they go up, or are copied inside it.
    #[must_use]
    pub fn are_downloads(&self) -> bool {
        self.sides.destination.bucket().is_none()
    }

    /// The files as uploads, or as copies inside the store.
    #[must_use]
    pub fn into_uploads(self) -> UploadJobSource {
        let mut copies = self;
        let mut next_id = 0;
        UploadJobSource::from_iterator(std::iter::from_fn(move || {
            let found = copies.found.blocking_recv()?;
            next_id += 1;
            Some(found.and_then(|entry| copies.upload(entry, next_id)))
        }))
    }

    fn upload(&self, entry: SyncEntry, id: u64) -> FoundUpload {
        let (input, headers) = match &self.sides.source {
            SyncPlace::Folder(root) => {
                let path = root.join(&entry.key);
                let metadata = std::fs::metadata(&path).map_err(|source| {
                    let name = path.display().to_string();
                    InputError::Unreadable { name, source }
                })?;
                let headers = self
                    .settings
                    .headers
                    .for_file(Path::new(&entry.key), Some(&metadata));
                (UploadInput::File(path), headers)
            }
            SyncPlace::Bucket(prefix) => {
                let object = SourceObject {
                    address: below(prefix, &entry.key),
                    size: entry.size,
                    etag: entry.entity_tag.unwrap_or_default(),
                };
                (
                    UploadInput::Object(object),
                    self.settings.headers.common.clone(),
                )
            }
        };
        let prefix = self
            .sides
            .destination
            .bucket()
            .ok_or_else(|| InputError::IsFolder(entry.key.clone().into()))?;
        Ok(UploadJob {
            id,
            input,
            target: below(prefix, &entry.key).into(),
            headers,
            conditions: HeaderMap::new(),
        })
    }

    /// Downloads the files: a batch whose list is what the merge found. `report_every_row` is that of [`BatchOptions`].
    pub async fn download(
        self,
        client: Client,
        get_options: GetOptions,
        report_every_row: bool,
        events: TransferEventSender,
    ) -> SyncCopySummary {
        let (SyncPlace::Bucket(prefix), SyncPlace::Folder(root)) =
            (self.sides.source, self.sides.destination)
        else {
            return SyncCopySummary::default();
        };
        let not_transferred = Arc::<AtomicU64>::default();
        let entries = DownloadEntries {
            prefix,
            found: self.found,
            events: events.clone(),
            not_transferred: Arc::clone(&not_transferred),
            number: 0,
        };
        let batch = Batch {
            client,
            options: BatchOptions {
                directory: root,
                dispatch: dispatcher_options(None, None, get_options.connections),
                report_every_row,
                follows_links: self.settings.follows_links,
                has_one_bucket: true,
                ..BatchOptions::default()
            },
            get_options: GetOptions {
                existing_file: ExistingFilePolicy::Overwrite,
                ..get_options
            },
            manifest: None,
            output: BatchOutput::Files,
            host_memory: None,
            events,
        };
        let stop = self.sides.session.stop;
        let transfers = batch.run(Box::new(entries), stop).await;
        let not_transferred = not_transferred.load(Ordering::Relaxed);
        SyncCopySummary {
            files: transfers.listed + not_transferred,
            failed: transfers.failed + not_transferred,
            transfers,
        }
    }
}

fn below(prefix: &S3Address, key: &str) -> S3Address {
    prefix.with_key(format!("{}{key}", prefix.key))
}

/// The files to download, for the thread of the batch.
struct DownloadEntries {
    prefix: S3Address,
    found: mpsc::Receiver<FoundCopy>,
    events: TransferEventSender,
    /// How many files were not even tried.
    not_transferred: Arc<AtomicU64>,
    number: u64,
}

impl Iterator for DownloadEntries {
    type Item = Result<ListEntry, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.found.blocking_recv()? {
                Ok(entry) => entry,
                Err(error) => {
                    self.not_transferred.fetch_add(1, Ordering::Relaxed);
                    let event = TransferEvent::NotTransferred(Arc::new(error));
                    // A closed channel is not a reason to stop.
                    let _ = self.events.blocking_send(event);
                    continue;
                }
            };
            self.number += 1;
            let object = below(&self.prefix, &entry.key);
            let listed = ListedVersion {
                size: entry.size,
                entity_tag: entry.entity_tag,
                modified: entry.modified,
            };
            let (list, number) = (&self.prefix, self.number);
            return Some(object_entry(list, number, &object, &entry.key, listed));
        }
    }
}
