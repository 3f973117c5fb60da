//! Row B1: SIGKILL at any moment, then the same command.
//!
//! Twenty kills, in four lanes that run side by side. A random moment is what is tested, so here, and only here, a test
//! lets time pass. What was fetched again is counted at the origin: a kill may cost what had come since the last
//! checkpoint, a second's worth and the time to write it down. A lane of its own shows that this bound is one: where
//! nothing is kept, it is exceeded.

use std::ops::Range;
use std::time::Duration;

use haul_lab::{Origin, OriginResource, RequestMatcher, ResourceContent, faults};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rustix::process::Signal;

use crate::cli::harness::HaulDirectory;

/// What the origin gives each of two connections, in bytes a second.
const RATE: u64 = 1 << 20;

/// Kills in a lane.
const KILLS: u32 = 5;

/// No run lives longer than this many milliseconds.
const LONGEST: u64 = 4000;

/// Bytes of a lane's file: no lane lives long enough to get them all before its last run.
const LENGTH: u64 = 48 << 20;

/// What a kill may cost on average: a checkpoint's second and half of one more for the disk's syncs, over both connections;
/// and what each of them gathers before it is written.
const COST: u64 = 2 * (RATE * 3 / 2 + (128 << 10));

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b1_a_download_killed_at_any_moment_resumes() {
    let any = || 0..LONGEST;
    let (a, b, c, d, forgetful) = tokio::join!(
        kill_and_resume(1, any(), &[]),
        kill_and_resume(2, any(), &[]),
        kill_and_resume(3, any(), &[]),
        kill_and_resume(4, any(), &[]),
        kill_and_resume(5, 3000..LONGEST, &["--no-resume"]),
    );
    for lane in [a, b, c, d] {
        assert!(lane.resumed > 0, "{lane:?}");
        assert!(lane.again <= COST * u64::from(KILLS), "{lane:?}");
    }
    assert_eq!(forgetful.resumed, 0);
    assert!(forgetful.again > COST * u64::from(KILLS), "{forgetful:?}");
}

/// The result of one repeated kill-and-resume job.
#[derive(Debug)]
struct KillRun {
    /// Bytes that the origin sent beyond those of the file.
    again: u64,
    /// Bytes that the last run kept of those before.
    resumed: u64,
}

/// Runs a command, kills it at random moments of its life, and lets the last run end.
async fn kill_and_resume(seed: u64, moments: Range<u64>, flags: &[&str]) -> KillRun {
    let mut random = StdRng::seed_from_u64(seed);
    let content = ResourceContent::random(seed, LENGTH);
    let slow = OriginResource::new(content.clone())
        .rule(RequestMatcher::always(), faults::body_rate(RATE));
    let origin = Origin::builder().resource("/f.bin", slow).start().await;
    let haul = HaulDirectory::new();
    let url = origin.url("/f.bin");
    let checksum = format!("sha256:{}", content.sha256());
    let args = ["get", &url, "-x", "2", "--segment-size", "1M"];
    let args = [&args[..], &["--checksum", &checksum, "--json", "-q"], flags].concat();
    for _ in 0..KILLS {
        let mut running = haul.start(&args);
        let moment = Duration::from_millis(random.random_range(moments.clone()));
        tokio::select! {
            ended = running.child.wait() => panic!("lane {seed} ended with {ended:?}"),
            () = tokio::time::sleep(moment) => {
                running.signal(Signal::KILL);
                running.child.wait().await.unwrap();
            }
        }
    }
    // The rest comes as fast as it can, from the same version.
    origin.replace("/f.bin", OriginResource::new(content.clone()));
    let last = haul.run(&args).await;
    let result: serde_json::Value = serde_json::from_str(&last.assert_code(0).stdout).unwrap();
    haul.assert_file("f.bin", &content);
    assert_eq!(haul.listing(), ["f.bin"]);
    KillRun {
        again: origin.bytes_sent() - LENGTH,
        resumed: result["resumed"].as_u64().unwrap(),
    }
}
