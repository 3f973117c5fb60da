//! Downloads over a long path, with the kernel's own TCP at both ends. `early_connections` has what TLS changes at the beginning,
//! `link_faults` what can happen to the link, `origin_faults` what an origin can do where all connections open at once. Without TUN
//! devices or namespaces each test says that it was skipped.

mod early_connections;
mod link_faults;
mod origin_faults;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haul_lab::kernel_link::{
    KernelLink, KernelLinkOptions, LinkDirectionOptions, NamespaceRuntime,
};
use haul_lab::{Origin, OriginResource, ResourceContent};
use haul_net::ClientConfig;
use haul_transfer::{DownloadOutcome, GetOptions};
use tokio::time::Instant;

use crate::harness::{JobCase, JobRun, LIMIT};

/// A round trip of 50 ms.
fn far(megabits: u64) -> LinkDirectionOptions {
    LinkDirectionOptions {
        delay: Duration::from_millis(25),
        bits_per_second: Some(megabits * 1_000_000),
        ..LinkDirectionOptions::default()
    }
}

/// Links up to this rate leave room for others, in bits a second.
const SLOW_LINK: u64 = 50_000_000;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The job of a user who sets no options.
fn case_with_defaults() -> JobCase {
    JobCase {
        options: GetOptions::default(),
        client: ClientConfig::default(),
        ..JobCase::new()
    }
}

/// An origin with `/f.bin` at the far end of a link. The fields are dropped in this order.
struct FarOrigin {
    origin: Origin,
    client: NamespaceRuntime,
    _server: NamespaceRuntime,
    link: KernelLink,
    content: ResourceContent,
    /// Held by downloads that are measured: a machine of two cores carries the packets of one fast link.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl FarOrigin {
    /// An origin that conforms. `None`: the test should return.
    fn start(direction: LinkDirectionOptions, megabytes: u64) -> Option<Self> {
        Self::start_with(direction, megabytes, |resource| resource)
    }

    /// An origin under a script.
    fn start_with(
        direction: LinkDirectionOptions,
        megabytes: u64,
        script: impl FnOnce(OriginResource) -> OriginResource,
    ) -> Option<Self> {
        let link = KernelLink::start_or_skip(&KernelLinkOptions::symmetric(direction))?;
        let (client, server) = (link.client().runtime(), link.server().runtime());
        let (client, server) = (client.unwrap(), server.unwrap());
        let content = ResourceContent::random(1, megabytes << 20);
        let origin = Origin::builder()
            .listen_on(KernelLink::SERVER_IP.into())
            .resource("/f.bin", script(OriginResource::new(content.clone())));
        Some(Self {
            origin: server.block_on(origin.start()),
            client,
            _server: server,
            link,
            content,
            _alone: (direction.bits_per_second > Some(SLOW_LINK)).then(alone),
        })
    }

    fn get(&self, case: &JobCase) -> JobRun {
        let url = self.origin.url("/f.bin");
        self.client.block_on(case.get(&url))
    }

    /// Downloads the file, whose bytes are then as served.
    #[track_caller]
    fn download(&self, case: &JobCase) -> DownloadOutcome {
        let run = self.get(case);
        let outcome = run.outcome().clone();
        case.assert_file(&self.content);
        outcome
    }

    /// Downloads the file while the link changes.
    #[track_caller]
    fn download_while(&self, case: &JobCase, change: impl FnOnce() + Send) -> DownloadOutcome {
        std::thread::scope(|scope| {
            let changes = scope.spawn(change);
            let outcome = self.download(case);
            changes.join().unwrap();
            outcome
        })
    }

    /// Waits until so many MiB have crossed the link.
    fn wait_for(&self, megabytes: u64) {
        const PAYLOAD: u64 = 1448;
        let begun = Instant::now();
        while self.link.to_client().counts().delivered * PAYLOAD < megabytes << 20 {
            assert!(begun.elapsed() < LIMIT, "the download does not get so far");
            pause(Duration::from_millis(5));
        }
    }

    fn change_link(&self, change: impl Fn(&mut LinkDirectionOptions)) {
        self.link.to_server().change(&change);
        self.link.to_client().change(&change);
    }

    fn request_count(&self) -> usize {
        self.origin.requests().len()
    }
}

/// Waits in a thread that changes the link.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread is outside of the runtimes, whose work goes on meanwhile"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Asserts that hardly anything was fetched twice: the first response is longer than its share of the file, and what was on its way is
/// lost when it is cut.
#[track_caller]
fn assert_fetched_once(outcome: &DownloadOutcome) {
    let twice = outcome.fetched.saturating_sub(outcome.bytes);
    assert!(twice <= outcome.bytes / 8, "{twice} bytes twice");
}
