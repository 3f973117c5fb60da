//! Uploads, as `haul put` makes them.

use std::path::PathBuf;

use haul_s3::{S3Client, S3ErrorKind};
use haul_transfer::put::{
    PutError, PutOptions, UploadEngine, UploadInput, UploadJob, UploadOutcome, UploadTarget,
};
use haul_transfer::{ConnectionCount, TransferEventSender};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::TransferCell;
use crate::Measurement;

/// Files under way, as `haul put` has them. Requests under way are fewer.
const MAX_FILES: usize = 64;

/// The options of `haul put`, and the cell's own. An upload that fails is not left for a later run.
fn put_options(cell: &TransferCell) -> PutOptions {
    let defaults = PutOptions::default();
    PutOptions {
        connections: cell
            .connections
            .map_or(defaults.connections, ConnectionCount::Fixed),
        part_bytes: cell.part_bytes,
        resume: false,
        ..defaults
    }
}

/// Uploads files. Returns successes, bytes and errors.
pub(super) async fn upload_all(
    client: S3Client,
    cell: TransferCell,
    files: Vec<(PathBuf, UploadTarget)>,
    events: TransferEventSender,
    stop: CancellationToken,
) -> Measurement {
    let engine = UploadEngine::new(client, put_options(&cell), events);
    let mut measurement = Measurement::default();
    let mut running = JoinSet::new();
    for (id, (path, target)) in (0..).zip(files) {
        if running.len() >= MAX_FILES
            && let Some(Ok(result)) = running.join_next().await
        {
            add_result(&mut measurement, &result);
        }
        let job = UploadJob {
            id,
            input: UploadInput::File(path),
            target,
            headers: Default::default(),
            conditions: Default::default(),
        };
        let (engine, stop) = (engine.clone(), stop.clone());
        running.spawn(async move { engine.put(job, stop).await });
    }
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(result) => add_result(&mut measurement, &result),
            Err(_) => measurement.add_errors("the upload panicked", 1),
        }
    }
    measurement
}

fn add_result(measurement: &mut Measurement, result: &Result<UploadOutcome, PutError>) {
    match result {
        Ok(outcome) => {
            measurement.successes += 1;
            measurement.bytes += outcome.bytes;
        }
        Err(error) => measurement.add_errors(error_kind(error), 1),
    }
}

/// The cause in a few words, without the name of the file.
fn error_kind(error: &PutError) -> String {
    match error {
        PutError::Store(error) => match &error.kind {
            S3ErrorKind::Service(error) if !error.code.is_empty() => {
                format!("{} ({})", error.code, error.status.as_u16())
            }
            S3ErrorKind::Service(error) => error.status.to_string(),
            kind => kind.to_string(),
        },
        PutError::Status { status, .. } => status.to_string(),
        PutError::Transport { source, .. } => source.to_string(),
        PutError::LocalIo { source, .. } => source.to_string(),
        PutError::Checksum { .. } => "another checksum at the store".to_owned(),
        PutError::Interrupted { .. } => "interrupted".to_owned(),
        error => error.to_string(),
    }
}
