//! Downloads: one file by the engine, as `haul get URL`; several as a batch, as `haul get -i LIST`.

use std::error::Error as _;
use std::path::PathBuf;

use haul_net::Client;
use haul_transfer::batch::{
    Batch, BatchOptions, BatchOutput, HostRequestLimit, JobDispatcherOptions,
};
use haul_transfer::list::ListEntry;
use haul_transfer::{
    ConnectionCount, DownloadJob, GetError, GetOptions, JobOutput, TransferEngine,
    TransferEventSender,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::TransferCell;
use crate::Measurement;

/// The options of `haul get`, and the cell's own.
fn get_options(cell: &TransferCell) -> GetOptions {
    let defaults = GetOptions::default();
    GetOptions {
        connections: cell
            .connections
            .map_or(defaults.connections, ConnectionCount::Fixed),
        segment_size: cell.part_bytes,
        ..defaults
    }
}

/// Downloads one file to `directory/0`.
async fn download_one(
    client: Client,
    cell: TransferCell,
    url: Url,
    directory: PathBuf,
    events: TransferEventSender,
    stop: CancellationToken,
) -> Measurement {
    let engine = TransferEngine::new(client, get_options(&cell), events);
    let job = DownloadJob::new(0, url, JobOutput::File(directory.join("0")));
    let mut measurement = Measurement::default();
    match engine.get(job, stop).await {
        Ok(outcome) => {
            measurement.successes = 1;
            measurement.bytes = outcome.bytes;
            measurement.connections = u64::try_from(outcome.connections).ok();
        }
        Err(error) => measurement.add_errors(failure_kind(&error), 1),
    }
    measurement
}

/// The cause of a failure, and the system's error where there is one: `cannot connect: connection refused`.
fn failure_kind(error: &GetError) -> String {
    let mut cause = error.source();
    let mut system = None;
    while let (Some(found), None) = (cause, system) {
        system = found.downcast_ref::<std::io::Error>();
        cause = found.source();
    }
    match system.map(std::io::Error::kind) {
        None | Some(std::io::ErrorKind::Other) => error.cause(),
        Some(kind) => format!("{}: {kind}", error.cause()),
    }
}

/// Downloads file N to `directory/N`. Returns successes, bytes and errors.
pub(super) async fn download_all(
    client: Client,
    cell: TransferCell,
    urls: Vec<Url>,
    directory: PathBuf,
    events: TransferEventSender,
    stop: CancellationToken,
) -> Measurement {
    if let [url] = &*urls {
        return download_one(client, cell, url.clone(), directory, events, stop).await;
    }
    let dispatch = JobDispatcherOptions::default();
    let per_host = cell
        .connections
        .map_or(dispatch.per_host, HostRequestLimit::Fixed);
    let batch = Batch {
        client,
        get_options: get_options(&cell),
        options: BatchOptions {
            directory,
            dispatch: JobDispatcherOptions {
                per_host,
                ..dispatch
            },
            ..BatchOptions::default()
        },
        manifest: None,
        output: BatchOutput::Files,
        host_memory: None,
        events,
    };
    let entries = (0_u64..).zip(urls).map(|(number, url)| {
        Ok(ListEntry {
            path: Some(number.to_string().into()),
            ..ListEntry::new(number + 1, url)
        })
    });
    let summary = batch.run(Box::new(entries), stop).await;
    let mut measurement = Measurement {
        successes: summary.done,
        bytes: summary.bytes,
        ..Measurement::default()
    };
    for group in summary.failure_groups {
        measurement.add_errors(group.cause, group.count);
    }
    if let Some(stopped) = summary.stopped {
        measurement.add_errors(stopped.text, 1);
    }
    measurement
}
