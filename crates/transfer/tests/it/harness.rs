//! A job against an origin, in one call.

use std::path::PathBuf;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, ResourceContent, within};
use haul_net::{Client, ClientConfig};
use haul_plan::{CheckpointOptions, Checksum, PieceDigests, RetryOptions};
use haul_transfer::{
    ConnectionCount, DownloadJob, DownloadOutcome, GetError, GetOptions, JobOutput, TransferEngine,
    TransferEvent,
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// No test takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A directory, settings, and what a test says about a job.
pub(crate) struct JobCase {
    pub(crate) dir: TempDir,
    pub(crate) options: GetOptions,
    pub(crate) client: ClientConfig,
    pub(crate) output: Option<JobOutput>,
    pub(crate) checksums: Vec<Checksum>,
    /// URLs of mirrors.
    pub(crate) mirrors: Vec<String>,
    pub(crate) named: Option<Vec<String>>,
    pub(crate) pieces: Option<PieceDigests>,
    pub(crate) size: Option<u64>,
    pub(crate) stop: CancellationToken,
}

/// The result.
#[derive(Debug)]
pub(crate) struct JobRun {
    pub(crate) result: Result<DownloadOutcome, GetError>,
    pub(crate) events: Vec<TransferEvent>,
}

impl JobCase {
    /// Settings that make a small file many segments, and retries quick.
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
                ..ClientConfig::default()
            },
            output: None,
            checksums: Vec::new(),
            mirrors: Vec::new(),
            named: None,
            pieces: None,
            size: None,
            stop: CancellationToken::new(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("f.bin")
    }

    /// Downloads a URL.
    pub(crate) async fn get(&self, url: &str) -> JobRun {
        let (sender, mut receiver) = mpsc::channel(64);
        let engine = TransferEngine::new(
            Client::new(self.client.clone()).unwrap(),
            self.options.clone(),
            sender,
        );
        let job = DownloadJob {
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
            credential_urls: self
                .named
                .as_ref()
                .map(|named| named.iter().map(|url| url.parse().unwrap()).collect()),
            piece_digests: self.pieces.clone(),
            expected_size: self.size,
            headers: Default::default(),
        };
        let stop = self.stop.clone();
        let work = async move { engine.get(job, stop).await };
        let listen = async move {
            let mut events = Vec::new();
            while let Some(event) = receiver.recv().await {
                events.push(event);
            }
            events
        };
        let (result, events) = within(LIMIT, async { tokio::join!(work, listen) }).await;
        JobRun { result, events }
    }

    /// Downloads from an origin that serves one resource, and returns the origin for questions.
    pub(crate) async fn run(&self, resource: OriginResource) -> (JobRun, Origin) {
        let origin = serve(resource).await;
        let ran = self.get(&origin.url("/f.bin")).await;
        (ran, origin)
    }

    /// Asserts that the file has this content and is alone in its directory.
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

    /// Lays something under a name beside the file, as a user or an earlier run may have.
    pub(crate) fn lay(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Another place that holds what a kill at this moment would leave here. The journal comes first: its claims hold for
    /// whatever is written later, too.
    pub(crate) fn as_if_killed(&self) -> Self {
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
        self.result.as_ref().expect_err("it should have failed")
    }

    /// Whether the hint says that the same command resumes the download.
    pub(crate) fn hints_at_resuming(&self) -> bool {
        let hint = self.error().hint().unwrap_or_default();
        hint.contains("resumes the download")
    }

    /// How many times something was tried again.
    pub(crate) fn retries(&self) -> usize {
        let retry = |event: &&TransferEvent| matches!(event, TransferEvent::Retry { .. });
        self.events.iter().filter(retry).count()
    }

    pub(crate) fn warned(&self, words: &str) -> bool {
        self.events.iter().any(
            |event| matches!(event, TransferEvent::Warning { text, .. } if text.contains(words)),
        )
    }
}

/// An origin with one resource at `/f.bin`.
pub(crate) async fn serve(resource: OriginResource) -> Origin {
    Origin::builder().resource("/f.bin", resource).start().await
}

/// Two and a bit MiB: nine segments of the harness's size.
pub(crate) fn content() -> ResourceContent {
    ResourceContent::random(1, (2 << 20) + 77_777)
}

/// A file system of one MiB, made for the test; `None` where the system does not let us (then the row rests on `/dev/full`
/// and on the error table).
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
