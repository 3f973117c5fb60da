//! The row of an upload in a manifest, in the format of a batch of downloads.

use crate::batch::error_chain;
use crate::job_end::UploadEnd;
use crate::manifest::{JobRowState, ManifestRow, ManifestRowError, RowTimings};

pub(super) fn upload_row(end: &UploadEnd) -> ManifestRow {
    let (outcome, error) = (end.result.as_ref().ok(), end.result.as_ref().err());
    let checksums = outcome.into_iter().flat_map(|outcome| &outcome.checksums);
    let total = outcome.map_or(0, |outcome| outcome.elapsed.as_millis());
    let state = match error {
        None => JobRowState::Done,
        Some(_) => JobRowState::Failed,
    };
    ManifestRow {
        path: Some(end.job.input.to_string()),
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
        ..ManifestRow::new(None, end.job.target.to_string(), state)
    }
}
