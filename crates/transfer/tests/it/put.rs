//! Uploads against a store that fails as a test wants (rows F).

mod addresses;
mod drawn;
mod faults;
mod lists;
mod resume;

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_lab::{ObjectStore, within};
use haul_net::ClientConfig;
use haul_s3::{S3Address, S3Client, S3Config};
use haul_transfer::put::{
    PutError, PutOptions, UploadEngine, UploadInput, UploadJob, UploadOutcome,
};
use haul_transfer::{ConnectionCount, RetryOptions, TransferEvent};
use http::HeaderMap;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The time limit of one upload.
const LIMIT: Duration = Duration::from_secs(30);

const MIB: usize = 1 << 20;

/// A store, and a directory with a file and the state of uploads.
pub(super) struct PutTest {
    pub(super) store: ObjectStore,
    directory: TempDir,
    pub(super) options: PutOptions,
    pub(super) stop: CancellationToken,
    pub(super) headers: HeaderMap,
    pub(super) conditions: HeaderMap,
}

impl PutTest {
    pub(super) fn new(store: ObjectStore) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = PutOptions {
            part_bytes: Some(5 * MIB as u64),
            connections: ConnectionCount::Fixed(3),
            state_directory: Some(directory.path().join("state")),
            retry: RetryOptions {
                base_delay: Duration::from_millis(1),
                ..RetryOptions::default()
            },
            ..PutOptions::default()
        };
        Self {
            store,
            directory,
            options,
            stop: CancellationToken::new(),
            headers: HeaderMap::new(),
            conditions: HeaderMap::new(),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    pub(super) fn state_files(&self) -> usize {
        std::fs::read_dir(self.directory.path().join("state")).map_or(0, Iterator::count)
    }

    /// Makes it impossible to write journals in place of those that are there: a directory has the name of each new one.
    pub(super) fn block_new_journals(&self) {
        for entry in std::fs::read_dir(self.directory.path().join("state")).unwrap() {
            std::fs::create_dir(entry.unwrap().path().with_extension("new")).unwrap();
        }
    }

    /// Writes the file: bytes that differ everywhere.
    pub(super) fn write(&self, length: usize) -> Vec<u8> {
        let bytes: Vec<u8> = (0..length)
            .map(|at| ((at / 7 + at % 251) & 0xff).try_into().unwrap())
            .collect();
        std::fs::write(self.path(), &bytes).unwrap();
        bytes
    }

    pub(super) async fn client(&self) -> S3Client {
        client(&self.store).await
    }

    pub(super) async fn engine(&self) -> (UploadEngine, mpsc::Receiver<TransferEvent>) {
        let (sender, events) = mpsc::channel(10_000);
        (
            UploadEngine::new(self.client().await, self.options.clone(), sender),
            events,
        )
    }

    pub(super) async fn put(&self) -> Result<UploadOutcome, PutError> {
        let (engine, _events) = self.engine().await;
        within(LIMIT, Box::pin(engine.put(self.job(), self.stop.clone()))).await
    }

    pub(super) fn job(&self) -> UploadJob {
        UploadJob {
            id: 0,
            input: UploadInput::File(self.path()),
            target: target().into(),
            headers: self.headers.clone(),
            conditions: self.conditions.clone(),
        }
    }

    pub(super) async fn abort(&self) -> bool {
        let (engine, _events) = self.engine().await;
        within(
            LIMIT,
            Box::pin(engine.abort(&self.path(), &target(), false)),
        )
        .await
        .unwrap()
    }

    pub(super) fn object(&self) -> Option<Vec<u8>> {
        self.store.object(&target().key).map(|object| object.bytes)
    }

    /// How often a part was sent.
    pub(super) fn sent(&self, number: u32) -> usize {
        let number = number.to_string();
        let is_of_part = |found: &String| *found == number;
        self.store
            .count(|request| request.query.get("partNumber").is_some_and(is_of_part))
    }
}

pub(super) fn target() -> S3Address {
    S3Address::new("bucket", "a folder/key+1")
}

/// A client without a signature.
pub(super) async fn client(store: &ObjectStore) -> S3Client {
    client_of(&store.url(), ClientConfig::default()).await
}

/// The same of a URL.
pub(super) async fn client_of(url: &str, net: ClientConfig) -> S3Client {
    let config = S3Config {
        endpoint_url: Some(url.parse().unwrap()),
        region: Some("us-east-1".to_owned()),
        no_sign_request: true,
        ..S3Config::default()
    };
    Box::pin(config.connect(net)).await.unwrap()
}

/// Sets a file's time back, so that only its content tells that it changed.
pub(super) fn touch(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    let later = std::time::SystemTime::now() + Duration::from_secs(10);
    file.set_modified(later).unwrap();
}
