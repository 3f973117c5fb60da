//! What is going on, put together from events: what all renderers for people look at.

use std::collections::BTreeMap;
use std::time::Duration;

use haul_transfer::TransferEvent;

use super::meter::RateMeter;
use crate::message::harmless;

/// A job that runs.
#[derive(Debug)]
pub(super) struct RunningDownload {
    /// The file's name, or `-`.
    pub(super) name: String,
    /// Bytes in place.
    pub(super) done: u64,
    /// Bytes in the whole, if known.
    pub(super) length: Option<u64>,
    /// At work for it.
    pub(super) connections: usize,
    /// Bytes that are there are read once more.
    pub(super) verifying: bool,
    /// How fast they come.
    pub(super) meter: RateMeter,
    /// Since when it has its name.
    pub(super) since: Duration,
    /// Bytes in place when it began.
    before: u64,
}

/// All jobs of a command.
#[derive(Debug)]
pub(super) struct DownloadBoard {
    /// How many jobs there are in all.
    pub(super) jobs: usize,
    /// How many ended, well or not.
    pub(super) ended: usize,
    /// Those that run and have a name, in the order they were given.
    pub(super) running: BTreeMap<u64, RunningDownload>,
    /// How fast bytes come, all jobs together.
    pub(super) meter: RateMeter,
    /// Bytes that ended jobs brought.
    brought: u64,
}

impl DownloadBoard {
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            jobs,
            ended: 0,
            running: BTreeMap::new(),
            meter: RateMeter::new(Duration::ZERO, 0),
            brought: 0,
        }
    }

    /// Something happened.
    pub(super) fn apply(&mut self, now: Duration, event: &TransferEvent) {
        match event {
            TransferEvent::Named {
                job,
                path,
                length,
                resumed,
            } => {
                let name = path.as_ref().and_then(|path| path.file_name());
                let name =
                    name.map_or_else(|| "-".to_owned(), |name| harmless(&name.to_string_lossy()));
                let running = RunningDownload {
                    name,
                    done: *resumed,
                    length: *length,
                    connections: 0,
                    verifying: false,
                    meter: RateMeter::new(now, *resumed),
                    since: now,
                    before: *resumed,
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
                    running.verifying = false;
                }
            }
            TransferEvent::Verifying { job, bytes } => {
                if let Some(running) = self.running.get_mut(job) {
                    running.verifying = true;
                    running.connections = 0;
                    running.done = *bytes;
                }
            }
            TransferEvent::Finished { job, bytes, .. } => self.end(*job, Some(*bytes)),
            TransferEvent::Failed { job, .. } => self.end(*job, None),
            _ => {}
        }
    }

    /// Time went on: rates are looked at.
    pub(super) fn tick(&mut self, now: Duration) {
        for running in self.running.values_mut() {
            running.meter.look(now, running.done);
        }
        let brought = self.brought();
        self.meter.look(now, brought);
    }

    /// Bytes that came in this run, all jobs together.
    pub(super) fn brought(&self) -> u64 {
        self.brought
            + self
                .running
                .values()
                .map(|running| running.done.saturating_sub(running.before))
                .sum::<u64>()
    }

    /// Connections at work, all jobs together.
    pub(super) fn connections(&self) -> usize {
        self.running
            .values()
            .map(|running| running.connections)
            .sum()
    }

    fn end(&mut self, job: u64, bytes: Option<u64>) {
        self.ended += 1;
        // A small file may end before a first look at it.
        let (done, before) = self
            .running
            .remove(&job)
            .map_or((0, 0), |running| (running.done, running.before));
        self.brought += bytes.unwrap_or(done).saturating_sub(before);
    }
}
