//! The record of a batch of uploads: a row for each file, in the format of a batch of downloads.

use std::time::Duration;

use tokio::time::Instant;

use super::batch::UploadEnd;
use super::error::PutError;
use crate::batch::error_chain;
use crate::manifest::{
    JobRowState, Manifest, ManifestError, ManifestRow, ManifestRowError, RowTimings,
};

/// How long rows may wait before they would survive a power cut.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// An open manifest.
#[derive(Debug)]
pub(super) struct UploadManifest {
    manifest: Manifest,
    synced_at: Instant,
}

impl UploadManifest {
    pub(super) fn new(manifest: Manifest) -> Self {
        Self {
            manifest,
            synced_at: Instant::now(),
        }
    }

    /// Adds the row of an upload that has ended. One that was interrupted has none.
    ///
    /// # Errors
    /// The disk takes no more.
    pub(super) fn add(&mut self, end: &UploadEnd) -> Result<(), ManifestError> {
        if matches!(end.result, Err(PutError::Interrupted { .. })) {
            return Ok(());
        }
        self.manifest.append([&row(end)])
    }

    /// Makes rows durable if that was long ago.
    ///
    /// # Errors
    /// The disk takes no more.
    pub(super) fn sync_if_due(&mut self) -> Result<(), ManifestError> {
        match self.synced_at.elapsed() < SYNC_INTERVAL {
            true => Ok(()),
            false => self.sync(),
        }
    }

    /// Makes all rows durable.
    ///
    /// # Errors
    /// The disk takes no more.
    pub(super) fn sync(&mut self) -> Result<(), ManifestError> {
        self.synced_at = Instant::now();
        self.manifest.sync()
    }
}

fn row(end: &UploadEnd) -> ManifestRow {
    let (outcome, error) = (end.result.as_ref().ok(), end.result.as_ref().err());
    let checksums = outcome.into_iter().flat_map(|outcome| &outcome.checksums);
    let total = outcome.map_or(0, |outcome| outcome.elapsed.as_millis());
    ManifestRow {
        line: None,
        url: end.job.target.to_string(),
        path: Some(end.job.input.to_string()),
        state: match error {
            None => JobRowState::Done,
            Some(_) => JobRowState::Failed,
        },
        status: None,
        bytes: outcome.map_or(0, |outcome| outcome.bytes),
        checksums: checksums
            .filter_map(|checksum| {
                let digest = checksum.digest.as_deref()?;
                Some((checksum.algorithm, haul_digest::hex(digest)))
            })
            .collect(),
        etag: outcome.map(|outcome| outcome.etag.clone()),
        attempts: 1,
        timings: RowTimings {
            total: u64::try_from(total).unwrap_or(u64::MAX),
            ..RowTimings::default()
        },
        error: error.map(|error| ManifestRowError::new(error.class(), error_chain(error))),
        shard: None,
        listed_size: None,
    }
}
