//! Row B1: SIGKILL at any moment, then the same command.
//!
//! Twenty kills, in four lanes that run side by side. A random moment is what is tested, so here, and only here, a test
//! lets time pass. What was fetched again is counted at the origin: a kill may cost what had come since the last
//! checkpoint, a second's worth and the time to write it down.

use std::time::Duration;

use haul_lab::{Content, Origin, Resource};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rustix::process::Signal;

use crate::cli::harness::Haul;

/// Bytes of a lane's file.
const LENGTH: u64 = 12 << 20;

/// What the origin gives each connection, in bytes a second: two of them take three seconds for the file.
const RATE: u64 = 2 << 20;

/// Kills in a lane.
const KILLS: usize = 5;

/// What a kill may cost: two seconds' worth over both connections, and what fits into socket buffers.
const COST: u64 = 2 * (2 * RATE) + (4 << 20);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b1_killed_at_any_moment_it_goes_on() {
    tokio::join!(lane(1), lane(2), lane(3), lane(4));
}

async fn lane(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let content = Content::random(seed, LENGTH);
    let resource = Resource::new(content.clone());
    let origin = Origin::builder()
        .rate_per_connection(RATE)
        .resource("/f.bin", resource)
        .start()
        .await;
    let haul = Haul::new();
    let url = origin.url("/f.bin");
    let checksum = format!("sha256:{}", content.sha256());
    let args = [
        "get",
        &url,
        "-x",
        "2",
        "--segment-size",
        "1M",
        "--checksum",
        &checksum,
        "--overwrite",
    ];
    let (mut kills, mut files) = (0, 1);
    while kills < KILLS {
        let mut running = haul.start(&args);
        let moment = Duration::from_millis(random.random_range(0..2500));
        tokio::select! {
            ended = running.child.wait() => {
                assert!(ended.unwrap().success(), "lane {seed}");
                haul.assert_file("f.bin", &content);
                files += 1;
            }
            () = tokio::time::sleep(moment) => {
                running.signal(Signal::KILL);
                running.child.wait().await.unwrap();
                kills += 1;
            }
        }
    }
    haul.run(&args).await.assert_code(0);
    haul.assert_file("f.bin", &content);
    assert_eq!(haul.listing(), ["f.bin"]);
    let again = origin.sent().saturating_sub(files * LENGTH);
    assert!(
        again <= COST * KILLS as u64,
        "lane {seed}: {again} bytes were fetched again after {KILLS} kills"
    );
}
