//! Row F12: `kill -9` of `haul put` at twenty moments of an upload in parts, and then the same command, or the same with `--abort`.
//!
//! The store notices the moment: it is a request, before the store has done its work or behind that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use haul_lab::{ObjectStore, StoreFault, StoreRequest, within};
use tokio::sync::mpsc;

use super::harness::{HaulDirectory, HaulOutput, LIMIT, file_names};
use super::s3::directory;

const MIB: usize = 1 << 20;

/// Parts of the file: four whole ones, and one of a byte.
const PARTS: usize = 5;

/// Parts that are under way at once.
const CONNECTIONS: usize = 2;

/// What happens to a request that comes when the client is killed, and to all behind it.
const FAULTS: [StoreFault; 2] = [StoreFault::Reset, StoreFault::LostResponse];

/// A store, and a client with a file of five parts.
struct KilledUploads {
    store: ObjectStore,
    haul: HaulDirectory,
    bytes: Vec<u8>,
    /// How many parts of an object were sent, but for those that came when the client was to be killed: under load it may send more until
    /// it is dead.
    passed: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl KilledUploads {
    async fn start() -> Self {
        let store = ObjectStore::start().await;
        let haul = directory(&store);
        let bytes: Vec<u8> = (0..(PARTS - 1) * 5 * MIB + 1)
            .map(|at| at.to_le_bytes()[at % 3])
            .collect();
        haul.write("large", &bytes);
        Self {
            store,
            haul,
            bytes,
            passed: Arc::default(),
        }
    }

    /// Sets which requests fail, and counts the parts among the others.
    fn set_rule(&self, mut rule: impl FnMut(&StoreRequest) -> Option<StoreFault> + Send + 'static) {
        let passed = Arc::clone(&self.passed);
        self.store.set_rule(move |request| {
            let fault = rule(request);
            if fault.is_none() && request.is_part() {
                *passed
                    .lock()
                    .unwrap()
                    .entry(request.key.clone())
                    .or_default() += 1;
            }
            fault
        });
    }

    /// The command, with more flags.
    fn command(&self, key: &str, flags: &[&str]) -> tokio::process::Command {
        let line = format!("put large s3://bucket/{key} --part-size 5M -x {CONNECTIONS} -q");
        let args: Vec<&str> = line.split(' ').chain(flags.iter().copied()).collect();
        self.haul.command(&args)
    }

    async fn run(&self, key: &str, flags: &[&str]) {
        self.set_rule(|_| None);
        let output = within(LIMIT, self.command(key, flags).output()).await;
        HaulOutput::from_output(output.unwrap()).assert_code(0);
    }

    /// Runs the upload, and kills the client when the nth request comes.
    async fn kill(&self, key: &str, fault: StoreFault, nth: usize) {
        self.kill_command(key, &[], fault, nth, |_| true).await;
    }

    /// Runs the command, and kills the client when the nth of some requests comes.
    async fn kill_command(
        &self,
        key: &str,
        flags: &[&str],
        fault: StoreFault,
        nth: usize,
        is_counted: fn(&StoreRequest) -> bool,
    ) {
        let (sender, mut arrived) = mpsc::channel(1);
        let mut left = nth;
        self.set_rule(move |request| {
            left = left.saturating_sub(usize::from(is_counted(request)));
            if left == 0 {
                // The test waits for the first only.
                let _ = sender.try_send(());
            }
            (left == 0).then_some(fault)
        });
        let mut haul = self.command(key, flags).spawn().unwrap();
        within(LIMIT, arrived.recv()).await.unwrap();
        haul.start_kill().unwrap();
        within(LIMIT, haul.wait()).await.unwrap();
        self.is_whole(key);
    }

    /// Asserts that the object is not there, or is the file. Returns whether it is there.
    fn is_whole(&self, key: &str) -> bool {
        let object = self.store.object(key);
        assert!(
            object
                .as_ref()
                .is_none_or(|object| object.bytes == self.bytes)
        );
        object.is_some()
    }

    /// How many parts of an object were sent, some of them more than once.
    fn sent(&self, key: &str) -> usize {
        let is_of_key = |request: &StoreRequest| request.is_part() && request.key == key;
        self.store.count(is_of_key)
    }

    /// Runs the command once more, and asserts that it sends what is missing.
    async fn goes_on(&self, key: &str, kills: usize) {
        self.run(key, &[]).await;
        assert!(self.is_whole(key), "{key}");
        let most = PARTS + CONNECTIONS * kills;
        let (sent, passed) = (self.sent(key), self.passed.lock().unwrap()[key]);
        assert!(
            sent >= PARTS && passed <= most,
            "{sent} parts, {passed} before kills, {key}"
        );
    }

    /// Aborts the upload, and asserts that nothing is left but an upload that the client never learned of.
    async fn is_aborted(&self, key: &str, is_unknown: bool) {
        let was_there = self.is_whole(key);
        self.dry_run_removes_nothing(key).await;
        self.run(key, &["--abort"]).await;
        assert_eq!(self.is_whole(key), was_there);
        assert_eq!(self.store.pending_uploads(), usize::from(is_unknown));
    }

    /// Asserts that a dry run names what `--abort` would remove.
    async fn dry_run_removes_nothing(&self, key: &str) {
        self.store.set_rule(|_| None);
        let pending = self.store.pending_uploads();
        let address = format!("s3://bucket/{key}");
        let all = self.haul.run(&["put", "--abort", "-n", &address]).await;
        all.assert_code(0);
        let would = all
            .stdout
            .matches("would remove the unfinished upload of s3://");
        assert_eq!(would.count(), pending, "{all:#?}");
        let one = ["put", "large", &address, "--abort", "-n"];
        let one = self.haul.run(&one).await;
        one.assert_code(0);
        let known = if self.journals().is_empty() {
            "haul knows no unfinished upload of large\n"
        } else {
            "would remove the unfinished upload of large\n"
        };
        assert_eq!(one.stdout, known);
        assert_eq!(self.store.pending_uploads(), pending);
    }

    fn journals(&self) -> Vec<String> {
        file_names(&self.haul.path(".local/state/haul/uploads"))
    }

    /// Aborts uploads that the client never learned of, and asserts that there is nothing else.
    async fn nothing_is_left(&self) {
        let prefix = ["put", "--abort", "s3://bucket/k"];
        self.haul.run(&prefix).await.assert_code(0);
        assert_eq!(self.store.pending_uploads(), 0);
        assert_eq!(self.journals(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_an_upload_killed_at_any_request_goes_on() {
    let uploads = KilledUploads::start().await;
    let mut moments = 0;
    // The upload's begin, its parts, and its end.
    for nth in 1..=PARTS + 2 {
        for fault in FAULTS {
            let key = format!("k{nth}-{fault:?}");
            uploads.kill(&key, fault, nth).await;
            uploads.goes_on(&key, 1).await;
            let is_unknown = nth == 1 && fault == StoreFault::LostResponse;
            assert_eq!(uploads.store.pending_uploads(), usize::from(is_unknown));
            uploads.nothing_is_left().await;
            moments += 1;
        }
    }
    // The second run is killed, too: when it asks for the parts of the first, sends one, and completes the upload.
    let counted: [fn(&StoreRequest) -> bool; 3] =
        [|_| true, StoreRequest::is_part, StoreRequest::is_complete];
    for (at, is_counted) in counted.into_iter().enumerate() {
        for fault in FAULTS {
            let key = format!("k-again-{at}-{fault:?}");
            uploads.kill(&key, FAULTS[at % 2], 4).await;
            uploads.kill_command(&key, &[], fault, 1, is_counted).await;
            uploads.goes_on(&key, 2).await;
            uploads.nothing_is_left().await;
            moments += 1;
        }
    }
    assert_eq!(moments, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_an_upload_killed_at_any_request_is_aborted() {
    let uploads = KilledUploads::start().await;
    for nth in 1..=PARTS + 2 {
        for fault in FAULTS {
            let key = format!("k{nth}-{fault:?}");
            uploads.kill(&key, fault, nth).await;
            let is_unknown = nth == 1 && fault == StoreFault::LostResponse;
            uploads.is_aborted(&key, is_unknown).await;
            uploads.nothing_is_left().await;
        }
    }
    // The abort is killed, and repeated.
    for fault in FAULTS {
        let key = format!("k-abort-{fault:?}");
        uploads.kill(&key, fault, 4).await;
        let aborts = |request: &StoreRequest| request.method == "DELETE";
        let abort = ["--abort"];
        uploads.kill_command(&key, &abort, fault, 1, aborts).await;
        uploads.is_aborted(&key, false).await;
        uploads.nothing_is_left().await;
    }
}
