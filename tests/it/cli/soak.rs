//! The soak: clients read, write and delete, break connections and set conditions, while the server is killed again and again.
//!
//! Each client records its requests and the responses ([`client`]). At the end [`check_linearizability`] checks the record of each key: it
//! must be that of a store that does one operation at a time and forgets nothing that it acknowledged. Bodies are
//! [`StampedBody`](haul_lab::history::StampedBody), so each read is checked byte by byte. An operation that was running when its server was
//! killed may have happened or not; one that its client cut off must not have happened. Also: a server that was not killed responds to
//! every request, no tag identifies two bodies, nothing is left in the store's own folder, and every descriptor is closed.
//!
//! The kill must come at many different moments, so this test takes real time. `HAUL_SOAK_SECONDS` makes it longer; `HAUL_SOAK_SEED` repeats a run, as far
//! as threads can be repeated.

mod client;
mod wire;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_lab::history::{Operation, OperationOutcome, StampedBody, check_linearizability};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::time::Instant;

use self::client::{KEYS, RecordedOperation, SoakClient, SoakState, path};
use super::soak_server::{SoakServer, poll_until_ok};

/// Clients at once.
const CLIENTS: u64 = 8;

/// How long the test runs by default.
const SECONDS: u64 = 8;

/// The milliseconds until a server is killed.
const LIFE: std::ops::Range<u64> = 100..3000;

/// How servers are started: in turn, on the same folder.
const WAYS: [&[&str]; 4] = [
    &["--writable", "--durability", "none"],
    &[
        "--writable",
        "--durability",
        "file",
        "--accept",
        "reuseport",
    ],
    &[
        "--writable",
        "--durability",
        "none",
        "--accept",
        "round-robin",
    ],
    &["--writable", "--durability", "full", "--accept", "single"],
];

/// When a server was killed, in ticks: just before the kill, and after the process had ended.
struct ServerKill {
    killed: u64,
    dead: u64,
}

/// Prints how to repeat the run if it fails.
struct ReproductionHint(u64);

impl Drop for ReproductionHint {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "HAUL_SOAK_SEED={}", self.0);
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_key_holds_one_whole_version_that_was_acknowledged_or_in_flight() {
    let seed = ReproductionHint(variable("HAUL_SOAK_SEED").unwrap_or_else(rand::random));
    let length = Duration::from_secs(variable("HAUL_SOAK_SECONDS").unwrap_or(SECONDS));
    let folder = tempfile::tempdir().unwrap();
    let shared = SoakState::default();
    let (mut notes, mut deaths) = std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|number| {
                scope.spawn({
                    let client = SoakClient::new(&shared, seed.0, number);
                    || client.run()
                })
            })
            .collect();
        let deaths = process_life(&shared, folder.path(), seed.0, length);
        let notes = clients
            .into_iter()
            .flat_map(|client| client.join().unwrap());
        (notes.collect::<Vec<_>>(), deaths)
    });
    // The last one: no request is running when it is killed, so its responses show the final state.
    let before = read_all_at_the_end(&shared, folder.path(), &mut deaths, &mut notes);
    let served = SoakServer::start(folder.path(), WAYS[0]);
    served.assert_no_temporaries();
    let life = deaths.len();
    let reads = SoakClient::new(&shared, seed.0, CLIENTS + 1).read_all(life, served.address);
    let founds = |reads: &[RecordedOperation]| {
        reads
            .iter()
            .map(|read| read.operation.outcome)
            .collect::<Vec<_>>()
    };
    assert_eq!(founds(&before), founds(&reads));
    assert_files(folder.path(), &reads);
    notes.extend(reads);
    notes.extend(assert_no_descriptor_leaks(&served, &shared, seed.0, life));
    let after = SoakClient::new(&shared, seed.0, CLIENTS + 2).read_all(life, served.address);
    notes.extend(after);
    served.kill();
    assert_consistent(&notes, &deaths);
}

/// Starts and kills servers until the time is over.
#[expect(
    clippy::disallowed_methods,
    reason = "a random moment is what is tested"
)]
fn process_life(shared: &SoakState, folder: &Path, seed: u64, length: Duration) -> Vec<ServerKill> {
    // Clients must not wait for a server that never starts.
    let _over = StopOnDrop(shared);
    let mut random = StdRng::seed_from_u64(seed);
    let end = Instant::now() + length;
    let mut deaths = Vec::new();
    while Instant::now() < end {
        let served = SoakServer::start(folder, WAYS[deaths.len() % WAYS.len()]);
        *shared.life.lock().unwrap() = Some((deaths.len(), served.address));
        shared.news.notify_all();
        std::thread::sleep(Duration::from_millis(random.random_range(LIFE)));
        let killed = shared.ticks.tick();
        served.kill();
        deaths.push(ServerKill {
            killed,
            dead: shared.ticks.tick(),
        });
    }
    assert!(deaths.len() > 2, "only {} lives", deaths.len());
    deaths
}

/// Stops the clients when dropped, also after a panic.
struct StopOnDrop<'a>(&'a SoakState);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.news.notify_all();
    }
}

/// Starts a server and reads every key.
fn read_all_at_the_end(
    shared: &SoakState,
    folder: &Path,
    deaths: &mut Vec<ServerKill>,
    notes: &mut Vec<RecordedOperation>,
) -> Vec<RecordedOperation> {
    let served = SoakServer::start(folder, WAYS[1]);
    let reads = SoakClient::new(shared, 0, CLIENTS + 3).read_all(deaths.len(), served.address);
    notes.extend(&reads);
    let killed = shared.ticks.tick();
    served.kill();
    deaths.push(ServerKill {
        killed,
        dead: shared.ticks.tick(),
    });
    reads
}

/// Asserts that the files are those of the last responses, and that there are no others.
fn assert_files(folder: &Path, reads: &[RecordedOperation]) {
    let mut files = 0;
    for read in reads {
        let bytes = std::fs::read(folder.join(path(read.key))).ok();
        let on_disk = bytes.map(|bytes| StampedBody::verify(&bytes).unwrap().version);
        assert_eq!(
            read.operation.outcome,
            OperationOutcome::Found(on_disk),
            "{read:?}"
        );
        files += usize::from(on_disk.is_some());
    }
    assert_eq!(
        count(folder),
        files + 1,
        "files other than those of the keys and the lock"
    );
}

fn count(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                count(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

/// Sends requests of all kinds. Then asserts that the server has as many descriptors as before, except for its cache of open files.
fn assert_no_descriptor_leaks(
    served: &SoakServer,
    shared: &SoakState,
    seed: u64,
    life: usize,
) -> Vec<RecordedOperation> {
    let folder = std::fs::canonicalize(served.folder()).unwrap();
    let is_key = |lead: &String| Path::new(lead).starts_with(&folder) && !lead.contains("/.haul");
    let others = || {
        served
            .descriptors()
            .into_iter()
            .filter(|lead| !is_key(lead))
    };
    // Names of sockets and pipes are numbers that differ.
    let kinds = || {
        others()
            .map(|lead| lead.split('[').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    // The last client's may not be closed yet: then one more is idle than should be, of the hundreds that a burst has.
    let idle = kinds();
    let notes = std::thread::scope(|scope| {
        let clients: Vec<_> = (20..20 + CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    SoakClient::new(shared, seed, number).burst(60, life, served.address)
                })
            })
            .collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect::<Vec<_>>()
    });
    served.assert_no_temporaries();
    poll_until_ok("descriptors are left", || {
        let now = kinds();
        (now.len() > idle.len()).then(|| format!("{now:?}, and {idle:?} before"))
    });
    poll_until_ok("files that are gone are open", || {
        let open: Vec<_> = served.descriptors().into_iter().filter(is_key).collect();
        let leaked =
            open.len() as u64 > KEYS || open.iter().any(|lead| lead.ends_with("(deleted)"));
        leaked.then(|| format!("{open:?}"))
    });
    notes
}

/// Checks the history of each key.
fn assert_consistent(notes: &[RecordedOperation], deaths: &[ServerKill]) {
    for note in notes {
        let killed = deaths.get(note.life).map_or(u64::MAX, |death| death.killed);
        assert!(
            note.lost.is_none_or(|lost| lost > killed),
            "a server that lived left it without an answer: {note:?}"
        );
    }
    let of_key = |key| {
        let notes = notes.iter().filter(move |note| note.key == key);
        notes.map(
            |note| match (note.operation.outcome, deaths.get(note.life)) {
                (OperationOutcome::Unknown, Some(death)) => Operation {
                    finished_at: death.dead.max(note.operation.started_at),
                    ..note.operation
                },
                _ => note.operation,
            },
        )
    };
    let mut report = String::new();
    for key in 0..KEYS {
        let history: Vec<_> = of_key(key).collect();
        let count = |is: fn(&OperationOutcome) -> bool| {
            history.iter().filter(|one| is(&one.outcome)).count()
        };
        let (done, unknown) = (
            count(|one| matches!(one, OperationOutcome::Succeeded { .. })),
            count(|one| *one == OperationOutcome::Unknown),
        );
        writeln!(
            report,
            "{}: {} operations, {done} changes, {unknown} unknown",
            path(key),
            history.len()
        )
        .unwrap();
        assert!(done > 0, "nothing was done to {key}");
        if let Err(violation) = check_linearizability(&history) {
            panic!("{}: {violation}", path(key));
        }
    }
    if std::env::var_os("HAUL_SOAK_SECONDS").is_some() {
        let _ = write!(std::io::stderr(), "{} lives\n{report}", deaths.len() + 1);
    }
}
