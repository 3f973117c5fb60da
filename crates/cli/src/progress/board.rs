//! The state of single downloads, built from events.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_transfer::TransferEvent;

use super::meter::RateMeter;
use crate::message::sanitize;

#[derive(Debug)]
pub(super) struct RunningDownload {
    /// The file's name, or `-`.
    pub(super) name: String,
    /// Bytes received and resumed.
    pub(super) done: u64,
    /// Length of the file, if known.
    pub(super) length: Option<u64>,
    /// Active connections.
    pub(super) connections: usize,
    /// The file is read again to verify it.
    pub(super) is_verifying: bool,
    /// Bytes a second.
    pub(super) rate: RateMeter,
    /// When its name became known.
    pub(super) since: Duration,
    /// Bytes from an earlier run.
    resumed: u64,
}

/// The state of all downloads of a command.
#[derive(Debug)]
pub(super) struct DownloadsProgress {
    pub(super) jobs: usize,
    /// Failed ones included.
    pub(super) ended: usize,
    /// Running downloads with a known name, in their order.
    pub(super) running: BTreeMap<u64, RunningDownload>,
    /// Bytes a second of all downloads.
    pub(super) rate: RateMeter,
    /// Bytes received by downloads that have ended.
    received_by_ended: u64,
}

impl DownloadsProgress {
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            jobs,
            ended: 0,
            running: BTreeMap::new(),
            rate: RateMeter::new(Duration::ZERO, 0),
            received_by_ended: 0,
        }
    }

    pub(super) fn on_event(&mut self, now: Duration, event: &TransferEvent) {
        match event {
            TransferEvent::DestinationKnown {
                job,
                path,
                length,
                resumed,
            } => {
                let name = path.as_ref().and_then(|path| path.file_name());
                let name =
                    name.map_or_else(|| "-".to_owned(), |name| sanitize(&name.to_string_lossy()));
                let running = RunningDownload {
                    name,
                    done: *resumed,
                    length: *length,
                    connections: 0,
                    is_verifying: false,
                    rate: RateMeter::new(now, *resumed),
                    since: now,
                    resumed: *resumed,
                };
                self.running.insert(*job, running);
            }
            TransferEvent::Progress {
                job,
                done,
                length,
                connections,
            } => {
                if let Some(running) = self.running.get_mut(job) {
                    running.done = *done;
                    running.length = length.or(running.length);
                    running.connections = *connections;
                    running.is_verifying = false;
                }
            }
            TransferEvent::Verifying { job, bytes } => {
                if let Some(running) = self.running.get_mut(job) {
                    running.is_verifying = true;
                    running.connections = 0;
                    running.done = *bytes;
                }
            }
            TransferEvent::Finished { job, bytes, .. } => self.remove_job(*job, Some(*bytes)),
            TransferEvent::Failed { job, .. } => self.remove_job(*job, None),
            _ => {}
        }
    }

    /// Time has passed: updates the rates.
    pub(super) fn on_tick(&mut self, now: Duration) {
        for running in self.running.values_mut() {
            running.rate.observe(now, running.done);
        }
        let brought = self.received_bytes();
        self.rate.observe(now, brought);
    }

    /// Bytes received in this run by all downloads.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_by_ended
            + self
                .running
                .values()
                .map(|running| running.done.saturating_sub(running.resumed))
                .sum::<u64>()
    }

    /// Active connections of all downloads.
    pub(super) fn connections(&self) -> usize {
        self.running
            .values()
            .map(|running| running.connections)
            .sum()
    }

    fn remove_job(&mut self, job: u64, bytes: Option<u64>) {
        self.ended += 1;
        // A small file may end before its name event.
        let (done, before) = self
            .running
            .remove(&job)
            .map_or((0, 0), |running| (running.done, running.resumed));
        self.received_by_ended += bytes.unwrap_or(done).saturating_sub(before);
    }
}
