//! Runs one download job against an origin.

use std::path::PathBuf;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, ResourceContent, within};
use haul_net::{Client, ClientConfig};
use haul_plan::{Checksum, Remedy};
use haul_transfer::{
    CheckpointOptions, ConnectionCount, DownloadJob, DownloadOutcome, GetError, GetOptions,
    JobOutput, PieceDigests, RetryOptions, TransferEngine, TransferEvent,
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The time limit of a job that needs no more.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A download job of a test: its directory, its settings and its options.
pub(crate) struct JobCase {
    pub(crate) dir: TempDir,
    pub(crate) options: GetOptions,
    pub(crate) client: ClientConfig,
    pub(crate) output: Option<JobOutput>,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) mirrors: Vec<String>,
    pub(crate) credential_urls: Option<Vec<String>>,
    pub(crate) piece_digests: Option<PieceDigests>,
    pub(crate) expected_size: Option<u64>,
    pub(crate) stop: CancellationToken,
    /// The test fails when the job takes longer.
    pub(crate) limit: Duration,
}

/// The result of a job and its events.
#[derive(Debug)]
pub(crate) struct JobRun {
    pub(crate) result: Result<DownloadOutcome, GetError>,
    pub(crate) events: Vec<TransferEvent>,
}

impl JobCase {
    /// Settings under which a small file has many segments and retries are quick.
    pub(crate) fn new() -> Self {
        let retry = RetryOptions {
            retries: 6,
            base_delay: Duration::from_millis(5),
            max_delay: Duration::from_millis(20),
            ..RetryOptions::default()
        };
        Self {
            dir: tempfile::tempdir().unwrap(),
            options: GetOptions {
                connections: ConnectionCount::Fixed(4),
                min_segment_size: Some(64 << 10),
                segment_size: Some(256 << 10),
                retry,
                checkpoint: CheckpointOptions {
                    first_after: Duration::from_millis(20),
                    interval: Duration::from_millis(20),
                    min_interval: Duration::from_millis(20),
                    ..CheckpointOptions::default()
                },
                ..GetOptions::default()
            },
            client: ClientConfig {
                stall_timeout: Duration::from_millis(300),
                response_timeout: Duration::from_millis(300),
                ..ClientConfig::default()
            },
            output: None,
            checksums: Vec::new(),
            mirrors: Vec::new(),
            credential_urls: None,
            piece_digests: None,
            expected_size: None,
            stop: CancellationToken::new(),
            limit: LIMIT,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("f.bin")
    }

    /// Downloads a URL to [`JobCase::path`], or to `output` if it is set.
    pub(crate) async fn get(&self, url: &str) -> JobRun {
        let (sender, mut receiver) = mpsc::channel(64);
        let engine = TransferEngine::new(
            Client::new(self.client.clone()).unwrap(),
            self.options.clone(),
            sender,
        );
        let job = self.job(url);
        let stop = self.stop.clone();
        let download = async move { engine.get(job, stop).await };
        let collect_events = async move {
            let mut events = Vec::new();
            while let Some(event) = receiver.recv().await {
                events.push(event);
            }
            events
        };
        let (result, events) =
            within(self.limit, async { tokio::join!(download, collect_events) }).await;
        JobRun { result, events }
    }

    pub(crate) fn job(&self, url: &str) -> DownloadJob {
        DownloadJob {
            id: 7,
            url: url.parse().unwrap(),
            output: self
                .output
                .clone()
                .unwrap_or_else(|| JobOutput::File(self.path())),
            checksums: self.checksums.clone(),
            mirrors: self
                .mirrors
                .iter()
                .map(|url| url.parse().unwrap())
                .collect(),
            credential_urls: self.credential_urls.as_ref().map(|credential_urls| {
                credential_urls
                    .iter()
                    .map(|url| url.parse().unwrap())
                    .collect()
            }),
            piece_digests: self.piece_digests.clone(),
            expected_size: self.expected_size,
            replaces_file: false,
            headers: Default::default(),
        }
    }

    /// Downloads from a new origin with one resource. Also returns the origin.
    pub(crate) async fn run(&self, resource: OriginResource) -> (JobRun, Origin) {
        let origin = serve(resource).await;
        let run = self.get(&origin.url("/f.bin")).await;
        (run, origin)
    }

    /// Asserts that the file has this content and that the directory has no other file.
    pub(crate) fn assert_file(&self, content: &ResourceContent) {
        assert_eq!(
            self.listing(),
            ["f.bin"],
            "there are other files in the directory"
        );
        assert!(
            std::fs::read(self.path()).unwrap() == content.to_vec(),
            "the file is not what was served"
        );
    }

    /// Creates a file in the directory of the download.
    pub(crate) fn write_file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A new case whose directory has the files that a kill at this moment would leave. The journal is copied before the partial
    /// file: what it records is in the file by then.
    pub(crate) fn copy_as_if_killed(&self) -> Self {
        let killed = Self::new();
        for name in ["f.bin.haul-journal", "f.bin.haul-part"] {
            std::fs::copy(self.dir.path().join(name), killed.dir.path().join(name)).unwrap();
        }
        killed
    }

    /// The names in the directory.
    pub(crate) fn listing(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl JobRun {
    #[track_caller]
    pub(crate) fn outcome(&self) -> &DownloadOutcome {
        self.result
            .as_ref()
            .unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }

    #[track_caller]
    pub(crate) fn error(&self) -> &GetError {
        self.result
            .as_ref()
            .expect_err("the job should have failed")
    }

    /// Whether the error says that the next run resumes the download.
    pub(crate) fn hints_at_resuming(&self) -> bool {
        self.error().remedies().contains(&Remedy::Resume)
    }

    pub(crate) fn retries(&self) -> usize {
        let retry = |event: &&TransferEvent| matches!(event, TransferEvent::Retry { .. });
        self.events.iter().filter(retry).count()
    }

    pub(crate) fn has_warning(&self, part: &str) -> bool {
        self.events.iter().any(
            |event| matches!(event, TransferEvent::Warning { warning, .. } if warning.to_string().contains(part)),
        )
    }
}

/// An origin with one resource at `/f.bin`.
pub(crate) async fn serve(resource: OriginResource) -> Origin {
    Origin::builder().resource("/f.bin", resource).start().await
}

/// Slightly more than 2 MiB: nine segments of the size set in [`JobCase::new`].
pub(crate) fn content() -> ResourceContent {
    ResourceContent::random(1, (2 << 20) + 77_777)
}

/// Mounts a file system of 1 MiB. `None` if the test may not mount one; then only `/dev/full` and the error table test full disks.
pub(crate) fn small_disk(dir: &std::path::Path) -> Option<MountedFilesystem> {
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "haul-test"])
        .arg(dir)
        .output();
    mount
        .is_ok_and(|output| output.status.success())
        .then(|| MountedFilesystem(dir.to_owned()))
}

/// Unmounts when dropped.
pub(crate) struct MountedFilesystem(PathBuf);

impl Drop for MountedFilesystem {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).output();
    }
}
