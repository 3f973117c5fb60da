//! The workload `transfer`: moves files with haul's own engine in this process, as `haul get` and `haul put` do.
//!
//! Without a target the server is a `haul serve` of ours behind the cell's link. An http(s) URL as the target is downloaded as it is, and
//! so is an `s3://` URL of an object. Below the target `s3://BUCKET/PREFIX/` the files of the cell are stored and read again; all their keys
//! begin with a random prefix below PREFIX, nothing else is touched, and they are deleted: after each upload, those to be downloaded by
//! [`TransferWorkload::finish`].
//!
//! Every measurement has a client of its own, so connections are made in its time. The size of each file is compared afterwards, and of
//! each cell's first measurement the bytes of one file.

mod cell;
mod downloads;
mod target;
mod uploads;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use haul_net::ClientConfig;
use haul_s3::S3Config;
use haul_transfer::TransferEvent;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::WorkloadError;
use crate::cell::FileSet;
use crate::servers::{ServerPool, UsageMeter, bench_folder};
use crate::{Cell, Measurement};
pub(crate) use cell::FACTORS;
pub use cell::TransferCell;
use target::{BucketFolder, STORED, UPLOADS};

/// Events that may wait, as in the binary.
const EVENT_QUEUE: usize = 1024;

/// Settings of a [`TransferWorkload`].
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// The program haul, for servers.
    pub haul: PathBuf,
    /// The server that the user named, in place of ours.
    pub target: Option<Url>,
    /// Connections to it: proxies, trust, logins.
    pub client: ClientConfig,
    /// Where `s3://` is, and its credentials. They are found as `haul put` finds them, and are for `target` alone.
    pub store: S3Config,
    /// Processes of the user's server.
    pub server_pids: Vec<u32>,
}

/// Measures cells of the workload `transfer`.
#[derive(Debug)]
pub struct TransferWorkload {
    options: TransferOptions,
    pool: ServerPool,
    /// Our objects in the user's bucket.
    bucket: Option<BucketFolder>,
    /// Cells whose bytes have been compared.
    compared: HashSet<Cell>,
    /// Whether a measurement has begun, and has not ended as it should.
    is_interrupted: bool,
}

impl TransferWorkload {
    /// A workload whose servers start when a cell needs them.
    ///
    /// # Errors
    /// There is no temporary folder, or there are no threads.
    pub fn new(options: TransferOptions) -> Result<Self, WorkloadError> {
        Ok(Self {
            pool: ServerPool::new(options.haul.clone())?,
            bucket: BucketFolder::below(options.target.as_ref()),
            options,
            compared: HashSet::new(),
            is_interrupted: false,
        })
    }

    /// Measures a cell once. Cancelling `stop` ends it soon; the objects of an upload are deleted in any case. To be called on a runtime with
    /// several threads.
    ///
    /// # Errors
    /// See [`WorkloadError`]. Files that could not be transferred are counted in the measurement.
    pub async fn measure(
        &mut self,
        cell: &Cell,
        stop: &CancellationToken,
    ) -> Result<Measurement, WorkloadError> {
        let transfer = TransferCell::parse(cell)?;
        let compares_bytes = !self.compared.contains(cell);
        self.is_interrupted = true;
        if let Some(bucket) = &mut self.bucket
            && !bucket.begun.contains(&transfer.files)
        {
            // First, so that they are deleted also if this fails.
            bucket.begun.push(transfer.files);
        }
        let measured = if transfer.is_upload {
            self.measure_put(transfer, compares_bytes, stop).await
        } else {
            self.measure_get(transfer, compares_bytes, stop).await
        };
        if stop.is_cancelled() {
            return Err(WorkloadError::Interrupted);
        }
        let measurement = measured?;
        self.is_interrupted = false;
        if measurement.successes > 0 {
            self.compared.insert(cell.clone());
        }
        Ok(measurement)
    }

    /// Deletes our objects in the user's bucket. To be called at the end, also after an interruption.
    ///
    /// # Errors
    /// They cannot be deleted; the error names the place.
    pub async fn finish(&mut self) -> Result<(), WorkloadError> {
        let Some(bucket) = &mut self.bucket else {
            return Ok(());
        };
        if bucket.begun.is_empty() {
            return Ok(());
        }
        let client = self
            .options
            .store
            .connect(self.options.client.clone())
            .await?;
        if self.is_interrupted {
            bucket.abort_uploads(&client).await?;
        }
        bucket.stored.clear();
        while let Some(files) = bucket.begun.last().copied() {
            bucket.delete(&client, STORED, files).await?;
            bucket.delete(&client, UPLOADS, files).await?;
            bucket.begun.pop();
        }
        Ok(())
    }

    async fn measure_get(
        &mut self,
        cell: TransferCell,
        compares_bytes: bool,
        stop: &CancellationToken,
    ) -> Result<Measurement, WorkloadError> {
        let peer = self.source(&cell, stop).await?;
        // A file of the user's may be larger than the memory.
        let directory = bench_folder(self.options.target.is_none())?;
        let (client, urls) = (peer.client.http().clone(), peer.files.clone());
        let (count, folder) = (urls.len(), directory.path().to_owned());
        let (events, receiver) = mpsc::channel(EVENT_QUEUE);
        let run = downloads::download_all(client, cell, urls, folder, events, stop.clone());
        let measured = measure_run(&peer.pids, receiver, &peer.runtime, Box::pin(run)).await;
        check(
            measured,
            directory.path(),
            count,
            peer.expected,
            compares_bytes,
        )
        .await
    }

    async fn measure_put(
        &mut self,
        cell: TransferCell,
        compares_bytes: bool,
        stop: &CancellationToken,
    ) -> Result<Measurement, WorkloadError> {
        self.pool.add_files(cell.files).await?;
        let peer = self.destination(&cell).await?;
        let (client, count) = (peer.client.clone(), peer.files.len());
        let sources = (0..).map(|number| self.source_file(cell.files, number));
        let files = sources.zip(peer.files).collect();
        let (events, receiver) = mpsc::channel(EVENT_QUEUE);
        let run = uploads::upload_all(client, cell, files, events, stop.clone());
        let measured = measure_run(&peer.pids, receiver, &peer.runtime, Box::pin(run)).await;
        if let Some(bucket) = &self.bucket {
            bucket.delete(&peer.client, UPLOADS, cell.files).await?;
            return Ok(measured);
        }
        let folder = self.pool.folder().join(UPLOADS);
        let checked = check(measured, &folder, count, peer.expected, compares_bytes).await;
        std::fs::remove_dir_all(&folder).map_err(|source| WorkloadError::LocalIo {
            action: "remove",
            path: folder,
            source,
        })?;
        checked
    }

    fn source_file(&self, files: FileSet, number: u32) -> PathBuf {
        let folder = self.pool.folder();
        folder.join(ServerPool::file_path(files, number))
    }
}

/// Runs a transfer on a runtime: measures its time and usage, and the most connections that its events name. The type of the run is hidden,
/// since it nests nearly as deep as the compiler looks into types.
async fn measure_run(
    server_pids: &[u32],
    mut events: mpsc::Receiver<TransferEvent>,
    runtime: &Handle,
    run: Pin<Box<dyn Future<Output = Measurement> + Send>>,
) -> Measurement {
    let mut most = 0;
    let read_events = async {
        while let Some(event) = events.recv().await {
            most = most.max(match event {
                TransferEvent::Progress { connections, .. } => connections,
                TransferEvent::BatchProgress(snapshot) => snapshot.running,
                _ => 0,
            });
        }
    };
    let meter = UsageMeter::start(server_pids);
    let started = Instant::now();
    let timed_run = async {
        let mut running = JoinSet::new();
        running.spawn_on(run, runtime);
        let measurement = running.join_all().await.pop().unwrap_or_default();
        (measurement, started.elapsed())
    };
    let ((mut measurement, wall), ()) = tokio::join!(timed_run, read_events);
    measurement.wall_s = wall.as_secs_f64();
    meter.finish(&mut measurement);
    // A transfer may be over before its first event.
    if measurement.connections.is_none() && most > 0 {
        measurement.connections = u64::try_from(most).ok();
    }
    measurement
}

/// Compares so many files of a folder with what they must be, and the bytes of one of them if that is wished. A wrong one is an error, and no
/// success. Of files of a URL of the user's nothing is `expected`.
async fn check(
    mut measurement: Measurement,
    folder: &Path,
    count: usize,
    expected: Option<FileSet>,
    compares_bytes: bool,
) -> Result<Measurement, WorkloadError> {
    let path = folder.to_owned();
    let checking = move || wrong_files(&path, count, expected, compares_bytes);
    let checked = tokio::task::spawn_blocking(checking)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    let (wrong, bytes) = checked.map_err(|source| WorkloadError::LocalIo {
        action: "read",
        path: folder.to_owned(),
        source,
    })?;
    let wrong = wrong.min(measurement.successes);
    measurement.add_errors("wrong size or content", wrong);
    measurement.successes -= wrong;
    measurement.bytes = bytes;
    Ok(measurement)
}

/// How many of the files that exist are wrong, and the bytes of those that are right.
fn wrong_files(
    folder: &Path,
    count: usize,
    expected: Option<FileSet>,
    mut compares_bytes: bool,
) -> io::Result<(u64, u64)> {
    let (mut wrong, mut bytes) = (0, 0);
    for number in (0..).take(count) {
        let path = folder.join(number.to_string());
        let length = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            // It failed, and is counted as a failure.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_right = match expected {
            Some(files) if files.bytes != length => false,
            Some(files) if std::mem::take(&mut compares_bytes) => {
                has_content(&path, files, number)?
            }
            _ => true,
        };
        if is_right {
            bytes += length
        } else {
            wrong += 1
        }
    }
    Ok((wrong, bytes))
}

/// Whether the file holds the bytes of that file of a set.
fn has_content(path: &Path, files: FileSet, number: u32) -> io::Result<bool> {
    let (mut file, mut found) = (File::open(path)?, Vec::new());
    for expected in ServerPool::file_pieces(files, number) {
        found.resize(expected.len(), 0);
        file.read_exact(&mut found)?;
        if found != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use haul_lab::{ObjectStore, Origin, OriginResource, ResourceContent};
    use haul_net::{Login, Secret};

    use super::*;

    #[tokio::test]
    async fn a_wrong_file_is_an_error_and_no_success() {
        let directory = tempfile::tempdir().unwrap();
        let files = FileSet {
            count: 4,
            bytes: (1 << 20) + 1,
        };
        let path = |number: u32| directory.path().join(number.to_string());
        let content = |number| {
            ServerPool::file_pieces(files, number)
                .collect::<Vec<_>>()
                .concat()
        };
        let mut changed = content(0);
        changed[1 << 20] ^= 1;
        std::fs::write(path(0), changed).unwrap();
        std::fs::write(path(1), content(1)).unwrap();
        std::fs::write(path(2), "short").unwrap();
        // The fourth failed.
        for (compares_bytes, wrong) in [(true, 2), (false, 1)] {
            let mut measured = Measurement {
                successes: 3,
                ..Measurement::default()
            };
            measured.add_errors("timeout", 1);
            let checked = check(measured, directory.path(), 4, Some(files), compares_bytes)
                .await
                .unwrap();
            assert_eq!(checked.errors["wrong size or content"], wrong);
            assert_eq!(checked.successes, 3 - wrong);
            assert_eq!(checked.bytes, checked.successes * files.bytes);
            assert_eq!(checked.failures(), wrong + 1);
        }
    }

    fn workload(target: &str, store: S3Config) -> TransferWorkload {
        TransferWorkload::new(TransferOptions {
            haul: "/nowhere/haul".into(),
            target: Some(target.parse().unwrap()),
            client: ClientConfig::default(),
            store,
            server_pids: Vec::new(),
        })
        .unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_url_of_the_users_is_downloaded_as_it_is() {
        let content = ResourceContent::random(1, 3 << 20);
        let resource = OriginResource::new(content);
        let origin = Origin::builder().resource("/x.bin", resource).start().await;
        let mut workload = workload(&origin.url("/x.bin"), S3Config::default());
        let stop = CancellationToken::new();
        let cell = Cell::new([
            ("connections", "2"),
            ("part-size", "1M"),
            ("files", "9 x 1k"),
        ]);
        let measured = workload.measure(&cell, &stop).await.unwrap();
        assert_eq!((measured.successes, measured.bytes), (1, 3 << 20));
        assert!(measured.wall_s > 0.0 && measured.connections.is_some());
        assert_eq!(measured.server_cpu, None);
        let put = cell.with(&Cell::new([("direction", "put")]));
        let refused = workload.measure(&put, &stop).await;
        assert!(
            matches!(refused, Err(WorkloadError::Level(_))),
            "{refused:?}"
        );
        stop.cancel();
        let stopped = workload.measure(&cell, &stop).await;
        assert!(
            matches!(stopped, Err(WorkloadError::Interrupted)),
            "{stopped:?}"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_file_that_is_missing_is_counted_as_an_error() {
        let origin = Origin::builder().start().await;
        let mut workload = workload(&origin.url("/x.bin"), S3Config::default());
        let stop = CancellationToken::new();
        let measured = workload.measure(&Cell::default(), &stop).await.unwrap();
        assert_eq!((measured.successes, measured.bytes), (0, 0));
        assert_eq!(measured.errors["404 Not Found"], 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_left_in_a_bucket_of_the_users_and_nothing_else_is_touched() {
        let store = ObjectStore::start().await;
        store.insert("p/mine", b"kept");
        let config = S3Config {
            endpoint_url: Some(store.url().parse().unwrap()),
            region: Some("us-east-1".to_owned()),
            access_key: Some(Login {
                user: "key".to_owned(),
                password: Secret::new("secret".to_owned()),
            }),
            ..S3Config::default()
        };
        let mut workload = workload("s3://bucket/p/", config);
        let stop = CancellationToken::new();
        for direction in ["put", "get"] {
            for files in ["20 x 1k", "1 x 20M"] {
                let cell = Cell::new([("direction", direction), ("files", files)]);
                let set = FileSet::parse(files).unwrap();
                let measured = workload.measure(&cell, &stop).await.unwrap();
                assert_eq!(measured.errors, Default::default());
                assert_eq!(measured.successes, u64::from(set.count));
                assert_eq!(measured.bytes, set.bytes * u64::from(set.count));
            }
            let objects = if direction == "put" { 1 } else { 22 };
            assert_eq!(store.keys().len(), objects, "{:?}", store.keys());
        }
        workload.finish().await.unwrap();
        assert_eq!(store.keys(), ["p/mine"]);
        workload.finish().await.unwrap();
    }
}
