//! Batches against scripted origins.

mod archives;
mod existing_files;
mod fairness;
mod faults;
mod file_owners;
mod host_memory;
mod interruptions;
mod manifests;
mod memory;
mod outcomes;
mod pages;
mod refusals;
mod settings;
mod strategies;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haul_lab::{Origin, OriginBuilder, OriginResource, ResourceContent, within};
use haul_net::{Client, ClientConfig};
use haul_transfer::archive::{ArchiveDestination, ArchiveOptions, ShardWriter};
use haul_transfer::batch::{
    Batch, BatchArchive, BatchOptions, BatchOutput, BatchSummary, CommitGroupOptions, HostMemory,
    HostRequestLimit, ListEntries, MemoryOutput,
};
use haul_transfer::disk::StorageWrapping;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::{JobRowState, Manifest, ManifestRow};
use haul_transfer::{ConnectionCount, GetOptions, RetryOptions, TransferEvent};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::harness::LIMIT;
use memory::TakenBodies;

/// The settings of a test's batch and its directories.
pub(crate) struct BatchCase {
    pub(crate) dir: TempDir,
    pub(crate) get: GetOptions,
    pub(crate) client: ClientConfig,
    pub(crate) options: BatchOptions,
    pub(crate) stop: CancellationToken,
    /// Stops the batch after this many done jobs.
    pub(crate) stop_after_files: Option<usize>,
    /// Stops the batch at its first warning.
    pub(crate) stops_at_warning: bool,
    /// The name of a manifest in `outer_dir`.
    pub(crate) manifest: Option<&'static str>,
    /// The name of an archive in `outer_dir`, and the size limit of its shards.
    pub(crate) tar: Option<(&'static str, Option<u64>)>,
    /// Takes the bodies, in place of a directory or an archive. Large ones are staged in `dir`.
    pub(crate) bodies: Option<Arc<TakenBodies>>,
    /// What earlier batches know about hosts.
    pub(crate) host_memory: Option<HostMemory>,
    /// The directory for manifests and archives.
    pub(crate) outer_dir: TempDir,
    /// How long the batch may take.
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct BatchRun {
    pub(crate) summary: BatchSummary,
    pub(crate) rows: Vec<ManifestRow>,
    pub(crate) warnings: Vec<String>,
}

impl BatchCase {
    /// Settings with quick retries, under which a file of a few hundred kilobytes counts as large.
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            get: GetOptions {
                connections: ConnectionCount::Auto { max: 4 },
                min_segment_size: Some(64 << 10),
                segment_size: Some(512 << 10),
                retry: RetryOptions {
                    retries: 6,
                    base_delay: Duration::from_millis(5),
                    max_delay: Duration::from_millis(20),
                    ..RetryOptions::default()
                },
                ..GetOptions::default()
            },
            client: ClientConfig {
                stall_timeout: Duration::from_millis(300),
                response_timeout: Duration::from_millis(300),
                ..ClientConfig::default()
            },
            options: BatchOptions {
                report_every_row: true,
                commit_group: CommitGroupOptions {
                    linger: Duration::from_millis(20),
                    ..CommitGroupOptions::default()
                },
                ..BatchOptions::default()
            },
            stop: CancellationToken::new(),
            stop_after_files: None,
            stops_at_warning: false,
            manifest: None,
            tar: None,
            bodies: None,
            host_memory: None,
            outer_dir: tempfile::tempdir().unwrap(),
            timeout: LIMIT,
        }
    }

    pub(crate) async fn run(&self, entries: ListEntries) -> BatchRun {
        let (sender, mut events) = mpsc::channel(64);
        let manifest = self
            .manifest
            .map(|name| Manifest::open(&self.outer_dir.path().join(name)).unwrap());
        let archive = self.tar.map(|(name, shard_size)| {
            let options = ArchiveOptions {
                destination: ArchiveDestination::File(self.outer_dir.path().join(name)),
                shard_size,
                wrapping: StorageWrapping::default(),
            };
            let past_ends = manifest
                .as_ref()
                .map(|(_, past)| {
                    past.shard_ends()
                        .map(|(name, end)| (name.to_owned(), end))
                        .collect::<Vec<_>>()
                })
                .unwrap_or_default();
            let ends = past_ends.iter().map(|(name, end)| (name.as_str(), *end));
            BatchArchive {
                writer: ShardWriter::open(options, ends).unwrap(),
                staging_directory: self.dir.path().to_owned(),
            }
        });
        let mut options = BatchOptions {
            directory: self.dir.path().to_owned(),
            ..self.options.clone()
        };
        // As in the command line: a number of connections is one for files of all sizes.
        if let ConnectionCount::Fixed(number) = self.get.connections {
            options.dispatch.per_host = HostRequestLimit::Fixed(number);
        }
        let batch = Batch {
            client: Client::new(self.client.clone()).unwrap(),
            get_options: self.get.clone(),
            options,
            manifest,
            output: match (archive, self.bodies.clone()) {
                (Some(archive), _) => BatchOutput::Archive(archive),
                (None, None) => BatchOutput::Files,
                (None, Some(bodies)) => BatchOutput::Memory(MemoryOutput {
                    staging_directory: self.dir.path().to_owned(),
                    on_body: Box::new(move |line, body| bodies.take(line, &body)),
                }),
            },
            host_memory: self.host_memory.clone(),
            events: sender,
        };
        let work = batch.run(entries, self.stop.clone());
        let listen = self.listen(&mut events);
        let (summary, (mut rows, warnings)) =
            within(self.timeout, async { tokio::join!(work, listen) }).await;
        rows.sort_by_key(|row| row.line);
        BatchRun {
            summary,
            rows,
            warnings,
        }
    }

    /// Collects rows and warnings until the batch ends.
    async fn listen(
        &self,
        events: &mut mpsc::Receiver<TransferEvent>,
    ) -> (Vec<ManifestRow>, Vec<String>) {
        let (mut rows, mut warnings, mut done) = (Vec::new(), Vec::new(), 0);
        while let Some(event) = events.recv().await {
            match event {
                TransferEvent::BatchRow(row) => {
                    done += usize::from(row.state == JobRowState::Done);
                    if let Some(bodies) = &self.bodies {
                        bodies.check_row(&row);
                    }
                    rows.push(*row);
                    if self.stop_after_files == Some(done) {
                        self.stop.cancel();
                    }
                }
                TransferEvent::Warning { warning, url, .. } => {
                    let url = url.map_or_else(String::new, |url| format!("{url}: "));
                    warnings.push(format!("{url}{warning}"));
                    if self.stops_at_warning {
                        self.stop.cancel();
                    }
                }
                _ => {}
            }
        }
        (rows, warnings)
    }

    /// Downloads these URLs, one a line.
    pub(crate) async fn download(&self, urls: impl IntoIterator<Item = String>) -> BatchRun {
        let urls: Vec<_> = urls.into_iter().collect();
        self.run(entries(urls)).await
    }

    /// The names in the directory.
    pub(crate) fn listing(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    #[track_caller]
    pub(crate) fn assert_file(&self, name: &str, content: &ResourceContent) {
        let found = std::fs::read(self.path(name)).unwrap();
        assert!(found == content.to_vec(), "{name} is not what was served");
    }
}

impl BatchRun {
    /// The row of a URL with this end.
    #[track_caller]
    pub(crate) fn row(&self, name: &str) -> &ManifestRow {
        let ends = |row: &&ManifestRow| row.url.ends_with(name);
        self.rows.iter().find(ends).expect("it has a row")
    }

    /// Done, skipped, failed.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let BatchSummary {
            done,
            skipped,
            failed,
            ..
        } = self.summary;
        (done, skipped, failed)
    }

    /// The error of a failed row.
    #[track_caller]
    pub(crate) fn error(&self, name: &str) -> String {
        let row = self.row(name);
        assert_eq!(row.state, JobRowState::Failed, "{row:?}");
        row.error
            .as_ref()
            .expect("failed rows say why")
            .text
            .clone()
    }
}

/// Entries of these URLs, one a line.
pub(crate) fn entries(urls: Vec<String>) -> ListEntries {
    let entry = |(line, url): (u64, String)| Ok(ListEntry::new(line, url.parse().unwrap()));
    Box::new((1..).zip(urls).map(entry))
}

/// Content for a number: a few kilobytes at most, of different lengths.
pub(crate) fn small_content(number: u64) -> ResourceContent {
    ResourceContent::random(number, number * 37 % 9000)
}

/// An origin with files `/0`, `/1`, ... .
pub(crate) fn origin_with_files(files: u64) -> OriginBuilder {
    (0..files).fold(Origin::builder(), |origin, number| {
        origin.resource(
            &format!("/{number}"),
            OriginResource::new(small_content(number)),
        )
    })
}
