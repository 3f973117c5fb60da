//! The record of a run of uploads: a row for each file, in the format of `haul get -i --manifest`.

use std::time::Duration;

use haul_transfer::manifest::{
    JobRowState, Manifest, ManifestError, ManifestRow, ManifestRowError, RowTimings,
};
use haul_transfer::put::{PutError, UploadJob, UploadOutcome};

use tokio::time::Instant;

use crate::message;

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
    pub(super) fn add(
        &mut self,
        job: &UploadJob,
        result: &Result<UploadOutcome, PutError>,
    ) -> Result<(), ManifestError> {
        if matches!(result, Err(PutError::Interrupted { .. })) {
            return Ok(());
        }
        self.manifest.append([&row(job, result)])
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

fn row(job: &UploadJob, result: &Result<UploadOutcome, PutError>) -> ManifestRow {
    let outcome = result.as_ref().ok();
    let checksums = outcome.into_iter().flat_map(|outcome| &outcome.checksums);
    let total = outcome.map_or(0, |outcome| outcome.elapsed.as_millis());
    let state = match result {
        Ok(_) => JobRowState::Done,
        Err(_) => JobRowState::Failed,
    };
    ManifestRow {
        path: Some(job.input.to_string()),
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
        error: result
            .as_ref()
            .err()
            .map(|error| ManifestRowError::new(error.class(), message::chain_text(error))),
        ..ManifestRow::new(None, job.target.to_string(), state)
    }
}
