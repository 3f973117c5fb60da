//! Batches against scripted origins.

mod ends;
mod existing;
mod faults;
mod kept;
mod roads;
mod stopped;
mod tars;
mod turns;
mod wanted;
mod whose;

use std::path::PathBuf;
use std::time::Duration;

use haul_lab::{Content, Origin, OriginBuilder, Resource, within};
use haul_net::{Client, ClientConfig};
use haul_plan::RetryOptions;
use haul_plan::dispatch::Limit;
use haul_transfer::archive::{ArchiveOptions, Destination, Shards};
use haul_transfer::batch::{Archive, Batch, BatchOptions, Entries, GroupOptions, Summary};
use haul_transfer::disk::Layer;
use haul_transfer::list::Entry;
use haul_transfer::manifest::{Manifest, Row, State};
use haul_transfer::{Connections, Event, GetOptions};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::harness::LIMIT;

/// A directory, settings, and what a test says about a batch.
pub(crate) struct Lot {
    pub(crate) dir: TempDir,
    pub(crate) get: GetOptions,
    pub(crate) client: ClientConfig,
    pub(crate) options: BatchOptions,
    pub(crate) stop: CancellationToken,
    /// What is told of so many files that are done stops it.
    pub(crate) enough: Option<usize>,
    /// The manifest's name in the directory beside that of the files.
    pub(crate) manifest: Option<&'static str>,
    /// The archive's.
    pub(crate) tar: Option<(&'static str, Option<u64>)>,
    /// Where those lie.
    pub(crate) beside: TempDir,
    /// The longest that a batch may take.
    pub(crate) limit: Duration,
}

/// What came of it.
pub(crate) struct Ran {
    pub(crate) summary: Summary,
    pub(crate) rows: Vec<Row>,
    pub(crate) warnings: Vec<String>,
}

impl Lot {
    /// Settings that make retries quick, and a file of some hundred kilobytes a large one.
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            get: GetOptions {
                connections: Connections::Auto { max: 4 },
                min_segment: Some(64 << 10),
                segment: Some(512 << 10),
                retry: RetryOptions {
                    retries: 6,
                    base: Duration::from_millis(5),
                    cap: Duration::from_millis(20),
                    ..RetryOptions::default()
                },
                ..GetOptions::default()
            },
            client: ClientConfig {
                stall_timeout: Duration::from_millis(300),
                ..ClientConfig::default()
            },
            options: BatchOptions {
                each: true,
                group: GroupOptions {
                    linger: Duration::from_millis(20),
                    ..GroupOptions::default()
                },
                ..BatchOptions::default()
            },
            stop: CancellationToken::new(),
            enough: None,
            manifest: None,
            tar: None,
            beside: tempfile::tempdir().unwrap(),
            limit: LIMIT,
        }
    }

    /// Downloads what entries name.
    pub(crate) async fn run(&self, entries: Entries) -> Ran {
        let (sender, mut events) = mpsc::channel(64);
        let manifest = self
            .manifest
            .map(|name| Manifest::open(&self.beside.path().join(name)).unwrap());
        let archive = self.tar.map(|(name, shard_size)| {
            let options = ArchiveOptions {
                destination: Destination::File(self.beside.path().join(name)),
                shard_size,
                layer: Layer::default(),
            };
            let known = manifest.as_ref().map(|(_, past)| {
                past.shards()
                    .map(|(name, end)| (name.to_owned(), end))
                    .collect::<Vec<_>>()
            });
            let known = known.unwrap_or_default();
            let known = known.iter().map(|(name, end)| (name.as_str(), *end));
            Archive {
                shards: Shards::open(options, known).unwrap(),
                staging: self.dir.path().to_owned(),
            }
        });
        let mut options = BatchOptions {
            directory: self.dir.path().to_owned(),
            ..self.options.clone()
        };
        // As the command line has it: one number for files of all sizes.
        options.dispatch.per_host = match self.get.connections {
            Connections::Auto { max } => Limit::Auto { max },
            Connections::Fixed(number) => Limit::Fixed(number),
        };
        let batch = Batch {
            client: Client::new(self.client.clone()).unwrap(),
            get: self.get.clone(),
            options,
            manifest,
            archive,
            events: sender,
        };
        let work = batch.run(entries, self.stop.clone());
        let listen = self.listen(&mut events);
        let (summary, (mut rows, warnings)) =
            within(self.limit, async { tokio::join!(work, listen) }).await;
        rows.sort_by_key(|row| row.line);
        Ran {
            summary,
            rows,
            warnings,
        }
    }

    /// Hears what a batch tells, to its end.
    async fn listen(&self, events: &mut mpsc::Receiver<Event>) -> (Vec<Row>, Vec<String>) {
        let (mut rows, mut warnings, mut done) = (Vec::new(), Vec::new(), 0);
        while let Some(event) = events.recv().await {
            match event {
                Event::Row(row) => {
                    done += usize::from(row.state == State::Done);
                    rows.push(*row);
                    if self.enough == Some(done) {
                        self.stop.cancel();
                    }
                }
                Event::Warning { text, .. } => warnings.push(text),
                _ => {}
            }
        }
        (rows, warnings)
    }

    /// Downloads URLs, a line each.
    pub(crate) async fn get(&self, urls: impl IntoIterator<Item = String>) -> Ran {
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

    /// That a file is this.
    #[track_caller]
    pub(crate) fn assert_file(&self, name: &str, content: &Content) {
        let found = std::fs::read(self.path(name)).unwrap();
        assert!(found == content.to_vec(), "{name} is not what was served");
    }
}

impl Ran {
    /// The row of a name.
    #[track_caller]
    pub(crate) fn row(&self, name: &str) -> &Row {
        let ends = |row: &&Row| row.url.ends_with(name);
        self.rows.iter().find(ends).expect("it has a row")
    }

    /// Done, skipped, failed.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let Summary {
            done,
            skipped,
            failed,
            ..
        } = self.summary;
        (done, skipped, failed)
    }

    /// What a failed row says.
    #[track_caller]
    pub(crate) fn error(&self, name: &str) -> String {
        let row = self.row(name);
        assert_eq!(row.state, State::Failed, "{row:?}");
        row.error
            .as_ref()
            .expect("failed rows say why")
            .text
            .clone()
    }
}

/// Entries of URLs, a line each.
pub(crate) fn entries(urls: Vec<String>) -> Entries {
    let entry = |(line, url): (u64, String)| Ok(Entry::new(line, url.parse().unwrap()));
    Box::new((1..).zip(urls).map(entry))
}

/// Content for a number: small ones of all lengths about a few kilobytes.
pub(crate) fn small(number: u64) -> Content {
    Content::random(number, number * 37 % 9000)
}

/// An origin with files `/0`, `/1`, ... .
pub(crate) fn shelf(files: u64) -> OriginBuilder {
    (0..files).fold(Origin::builder(), |origin, number| {
        origin.resource(&format!("/{number}"), Resource::new(small(number)))
    })
}
