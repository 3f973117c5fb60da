//! Many small uploads to a store that fails at random: each object is right, or its file is among the failures, and the exit code says so.

use std::collections::BTreeMap;

use haul_lab::{ObjectStore, StoreFault, StoreRequest};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use super::harness::{HaulDirectory, HaulOutput};
use super::s3::directory;

const FILES: usize = 2000;

/// Which faults come is the seed's; which file gets one depends on the order of the requests, too.
const SEED: u64 = 14;

/// The bytes of a file: from none to 1000.
fn file_bytes(number: usize) -> Vec<u8> {
    format!("{number} ")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(number * 7 % 1000)
        .collect()
}

/// What heals when the request is sent again.
const PASSING: [StoreFault; 7] = [
    StoreFault::Error(503, "SlowDown"),
    StoreFault::Error(500, "InternalError"),
    StoreFault::Reset,
    StoreFault::LostResponse,
    StoreFault::CutHead,
    StoreFault::CutDocument,
    StoreFault::ErrorIn200("SlowDown"),
];

/// What ends an upload.
const LASTING: [StoreFault; 2] = [
    StoreFault::Error(403, "AccessDenied"),
    StoreFault::OtherChecksum,
];

fn random_faults() -> impl FnMut(&StoreRequest) -> Option<StoreFault> + Send + 'static {
    let mut random = StdRng::seed_from_u64(SEED);
    move |_| match random.random_range(0..1000) {
        0..100 => Some(PASSING[random.random_range(0..PASSING.len())]),
        100..110 => Some(LASTING[random.random_range(0..LASTING.len())]),
        _ => None,
    }
}

/// The result of each file, by its number.
fn results(output: &HaulOutput) -> BTreeMap<usize, Value> {
    let mut results = BTreeMap::new();
    for line in output.stdout.lines() {
        let result: Value = serde_json::from_str(line).unwrap();
        let (_, number) = result["path"].as_str().unwrap().rsplit_once('/').unwrap();
        let earlier = results.insert(number.parse().unwrap(), result);
        assert_eq!(earlier, None, "one result for each file");
    }
    assert_eq!(results.len(), FILES, "seed {SEED}");
    results
}

async fn put(haul: &HaulDirectory) -> HaulOutput {
    let args = ["put", "-r", "tree", "s3://bucket/p/", "--json", "-q"];
    haul.run(&args).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_f3_small_uploads_through_random_faults_are_right_or_failed() {
    let store = ObjectStore::start_with(random_faults()).await;
    let haul = directory(&store);
    std::fs::create_dir(haul.path("tree")).unwrap();
    for number in 0..FILES {
        haul.write(&format!("tree/{number}"), file_bytes(number));
    }
    let output = put(&haul).await;
    let mut failed = 0;
    for (number, result) in results(&output) {
        let object = store.object(&format!("p/{number}"));
        let is_right = object
            .as_ref()
            .is_none_or(|object| object.bytes == file_bytes(number));
        assert!(is_right, "{result}, seed {SEED}");
        match result.get("error") {
            None => assert_eq!(
                result["etag"].as_str().unwrap(),
                format!("\"{}\"", object.expect("it is stored").etag),
                "seed {SEED}"
            ),
            Some(_) => failed += 1,
        }
    }
    // One of a hundred requests ends an upload.
    assert!(
        (1..FILES / 20).contains(&failed),
        "{failed} failed, seed {SEED}"
    );
    output.assert_code(1);
    // What failed is there after the same command, as soon as the store works.
    store.set_rule(|_| None);
    let output = put(&haul).await;
    output.assert_code(0);
    for (number, result) in results(&output) {
        let object = store.object(&format!("p/{number}")).expect("it is stored");
        assert!(object.bytes == file_bytes(number), "{result}");
        let etag = format!("\"{}\"", object.etag);
        assert_eq!(result["etag"].as_str().unwrap(), etag);
    }
}
