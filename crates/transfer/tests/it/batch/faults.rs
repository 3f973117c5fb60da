//! A batch against an origin that does everything wrong in small shares: every file right or a failed row, never a wrong file, and
//! the same files in every run.

use std::collections::BTreeSet;
use std::time::Duration;

use haul_lab::{FileFault, GeneratedFiles, Origin, RecordedRequest};
use haul_plan::Checksum;
use haul_transfer::batch::CommitGroupOptions;
use haul_transfer::list::ListEntry;
use haul_transfer::manifest::RowState;
use haul_transfer::{ConnectionCount, ErrorClass};

use super::{BatchCase, BatchRun};
use crate::harness::LIMIT;

/// Enough for twenty of each fault; [`twenty_thousand`] has more of the same.
const FILES: usize = 1_000;

/// What the shelf's paths are.
fn paths(files: usize) -> impl Iterator<Item = String> + Clone {
    (0..files).map(|number| format!("/{number}"))
}

/// Faults that pass in two of a hundred requests each, and some that do not pass.
fn troubled(seed: u64) -> GeneratedFiles {
    let passing = [
        FileFault::Reset,
        FileFault::ResetMidBody,
        FileFault::Stall,
        FileFault::Status500,
        FileFault::Status503,
        FileFault::Status429,
        FileFault::TruncatedBody,
        FileFault::TruncatedChunks,
        FileFault::ShortChunks,
        FileFault::WrongLength,
    ];
    let lasting = [
        FileFault::Reset,
        FileFault::ResetMidBody,
        FileFault::Status500,
        FileFault::TruncatedBody,
        FileFault::TruncatedChunks,
        FileFault::ShortChunks,
        FileFault::WrongLength,
    ];
    let shelf = GeneratedFiles::new(seed, 2..16 << 10)
        .with_permanent_fault(FileFault::Status404, 0.01)
        .with_permanent_fault(FileFault::ErrorPage, 0.02)
        .with_changing_files(0.2);
    let shelf = passing.iter().fold(shelf, |shelf, fault| {
        shelf.with_transient_fault(*fault, 0.02)
    });
    lasting.iter().fold(shelf, |shelf, fault| {
        shelf.with_permanent_fault(*fault, 0.002)
    })
}

/// What a list says of a file: the digest of the version that whoever wrote it saw. Of those that are about to change it says
/// nothing, unless an error page stands in their place, which nothing else could tell.
fn listed(shelf: &GeneratedFiles, path: &str) -> Vec<Checksum> {
    let changes = shelf.version(path, 1) > 0;
    let digest = !changes || shelf.permanent_fault(path) == Some(FileFault::ErrorPage);
    let checksum = || format!("sha256:{}", shelf.content(path, 0).sha256()).parse();
    digest.then(|| checksum().unwrap()).into_iter().collect()
}

impl BatchCase {
    /// Downloads a shelf's files, with what their list says of them.
    async fn get_shelf(
        &self,
        shelf: &GeneratedFiles,
        files: usize,
    ) -> (BatchRun, Vec<RecordedRequest>) {
        let origin = Origin::builder()
            .generated_files(shelf.clone())
            .start()
            .await;
        let ran = self.get_shelf_of(&origin, shelf, files).await;
        (ran, origin.stop().await)
    }

    /// The same of an origin that goes on.
    async fn get_shelf_of(
        &self,
        origin: &Origin,
        shelf: &GeneratedFiles,
        files: usize,
    ) -> BatchRun {
        let entry = |(line, path): (u64, String)| {
            Ok(ListEntry {
                checksums: listed(shelf, &path),
                ..ListEntry::new(line, origin.url(&path).parse().unwrap())
            })
        };
        let entries: Vec<_> = (1..).zip(paths(files)).map(entry).collect();
        self.run(Box::new(entries.into_iter())).await
    }

    /// That each file in the directory is one version of what was served, as its row says, and that there is no other.
    fn assert_shelf(&self, shelf: &GeneratedFiles, ran: &BatchRun) {
        let mut expected = BTreeSet::new();
        for row in &ran.rows {
            let name = row.url.rsplit('/').next().unwrap();
            let path = format!("/{name}");
            if row.state == RowState::Done {
                let found = std::fs::read(self.path(name)).unwrap();
                let versions = (0..=shelf.version(&path, 1)).map(|v| shelf.content(&path, v));
                let right = versions
                    .into_iter()
                    .any(|content| content.to_vec() == found);
                assert!(right, "a wrong file: {row:?}");
                assert_eq!(row.bytes, found.len() as u64);
                expected.insert(name.to_owned());
            } else if shelf.permanent_fault(&path) == Some(FileFault::ErrorPage) {
                expected.insert(format!("{name}.haul-bad-checksum"));
            }
        }
        assert!(self.listing().into_iter().eq(expected));
    }
}

impl BatchRun {
    /// The files that ended so.
    fn names(&self, state: RowState) -> BTreeSet<String> {
        let rows = self.rows.iter().filter(|row| row.state == state);
        rows.map(|row| format!("/{}", row.url.rsplit('/').next().unwrap()))
            .collect()
    }

    /// The files that failed, and how.
    fn failed(&self) -> Vec<(String, ErrorClass)> {
        let rows = self.rows.iter().filter(|row| row.state != RowState::Done);
        rows.map(|row| {
            let name = row.url.rsplit('/').next().unwrap();
            (format!("/{name}"), row.error.as_ref().unwrap().class)
        })
        .collect()
    }
}

/// The files that nobody can get, and why.
fn doomed(shelf: &GeneratedFiles, files: usize) -> Vec<(String, ErrorClass)> {
    let class = |fault| match fault {
        FileFault::ErrorPage => ErrorClass::Verification,
        _ => ErrorClass::Network,
    };
    paths(files)
        .filter_map(|path| Some((path.clone(), class(shelf.permanent_fault(&path)?))))
        .collect()
}

/// Downloads everything from a troubled origin, twice: the second time over other connections, in another order.
async fn twice(files: usize, limit: Duration) {
    let shelf = troubled(11);
    let doomed = doomed(&shelf, files);
    assert!(doomed.len() > files / 50);
    for connections in [4, 16] {
        let mut lot = BatchCase::new();
        lot.limit = limit;
        lot.get.connections = ConnectionCount::Auto { max: connections };
        // Two in a hundred wait for this to pass. What is given up too soon is asked for again.
        lot.client.stall_timeout = Duration::from_millis(150);
        // A busy disk takes longer for each sync than a group of the tests' size for its downloads.
        lot.options.commit_group = CommitGroupOptions::default();
        let (ran, asked) = lot.get_shelf(&shelf, files).await;
        assert_eq!(ran.summary.halted, None);
        assert_eq!(ran.rows.len(), files, "a row each");
        assert_eq!(ran.failed(), doomed, "over {connections} connections");
        lot.assert_shelf(&shelf, &ran);
        let lines: BTreeSet<_> = ran.rows.iter().map(|row| row.line).collect();
        assert_eq!(lines.len(), files, "a line each");
        // Many have failed at first: otherwise nothing was shown.
        assert!(asked.len() > files + files / 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_is_right_or_a_failed_row_and_twice_the_same() {
    twice(FILES, LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: for whoever changes what happens after a failure"]
async fn twenty_thousand() {
    twice(20_000, LIMIT * 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_500s_on_one_percent_are_retried_and_nothing_is_asked_for_twice() {
    let files = 2 * FILES;
    let shelf = GeneratedFiles::new(3, 1..8 << 10)
        .with_transient_fault(FileFault::Status500, 0.01)
        .with_permanent_fault(FileFault::Status404, 0.01);
    let missing = doomed(&shelf, files);
    let mut lot = BatchCase::new();
    // However busy the machine is, no silence is taken for a stall: requests are counted here.
    lot.client.stall_timeout = LIMIT;
    let (ran, asked) = lot.get_shelf(&shelf, files).await;
    lot.assert_shelf(&shelf, &ran);
    assert_eq!(ran.failed(), missing);
    assert_eq!(
        ran.counts(),
        ((files - missing.len()) as u64, 0, missing.len() as u64)
    );
    let causes = ran
        .summary
        .failure_groups
        .iter()
        .map(|c| (c.cause.as_str(), c.count));
    assert!(causes.eq([("404 Not Found", missing.len() as u64)]));
    let internal = |path: &String| {
        (0..)
            .take_while(|n| shelf.fault_for(path, *n) == Some(FileFault::Status500))
            .count()
    };
    let retries: usize = paths(files).map(|path| internal(&path)).sum();
    assert!(retries > files / 200);
    assert_eq!(
        (ran.summary.retries, asked.len()),
        (retries as u64, files + retries)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_that_lasts_fails_its_file_and_each_that_passes_does_not() {
    for fault in FileFault::ALL {
        // Some at once: whether one connection is new or rests from the last request makes a difference to some faults. A host that
        // answers nothing at all is left alone for longer and longer, so that of those one must do.
        let files = match fault {
            FileFault::Reset => 1,
            // Each takes as long as it takes to give up.
            FileFault::Stall => 4,
            _ => 12,
        };
        let lot = BatchCase::new();
        let (ran, asked) = lot
            .get_shelf(
                &GeneratedFiles::new(1, 100..5000).with_permanent_fault(fault, 1.0),
                files,
            )
            .await;
        assert_eq!(
            ran.summary.failed, files as u64,
            "{fault:?}: {:?}",
            ran.rows
        );
        let wrong = if fault == FileFault::ErrorPage {
            files
        } else {
            0
        };
        assert_eq!(lot.listing().len(), wrong, "{fault:?} leaves something");
        let once = asked.len() == files;
        assert_eq!(
            once,
            !fault.is_transient(),
            "{fault:?} was asked for {} times",
            asked.len()
        );
        if !fault.is_transient() {
            continue;
        }
        let shelf = GeneratedFiles::new(1, 100..5000)
            .with_transient_fault(fault, 1.0)
            .max_transient_faults(2);
        let lot = BatchCase::new();
        let (ran, _) = lot.get_shelf(&shelf, files).await;
        assert_eq!(ran.summary.done, files as u64, "{fault:?}: {:?}", ran.rows);
        lot.assert_shelf(&shelf, &ran);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_a_file_that_changes_between_its_segments_is_one_version() {
    // Eight segments each, and every one after the first is of another version.
    let shelf = GeneratedFiles::new(1, 2 << 20..4 << 20).with_changing_files(0.5);
    let mut lot = BatchCase::new();
    lot.get.segment_size = Some(256 << 10);
    let (ran, asked) = lot.get_shelf(&shelf, 16).await;
    assert_eq!(ran.summary.done, 16, "{:?}", ran.rows);
    lot.assert_shelf(&shelf, &ran);
    assert!(asked.len() > 16 * 8, "they came in segments");
    for row in &ran.rows {
        let path = format!("/{}", row.url.rsplit('/').next().unwrap());
        let last = shelf.content(&path, shelf.version(&path, 1));
        assert_eq!(row.bytes, last.length(), "the version that lasts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c6_a_batch_in_trouble_that_was_stopped_comes_to_the_same() {
    let shelf = troubled(12);
    let origin = Origin::builder()
        .generated_files(shelf.clone())
        .start()
        .await;
    let mut lot = BatchCase {
        manifest: Some("m.jsonl"),
        ..BatchCase::new()
    };
    lot.client.stall_timeout = Duration::from_millis(150);
    lot.enough = Some(FILES / 3);
    let first = lot.get_shelf_of(&origin, &shelf, FILES).await;
    let done = first.names(RowState::Done);
    assert!((FILES / 3..FILES - FILES / 10).contains(&done.len()));
    let before = origin.requests().len();
    let lot = BatchCase {
        stop: Default::default(),
        enough: None,
        ..lot
    };
    let second = lot.get_shelf_of(&origin, &shelf, FILES).await;
    let again: Vec<_> = origin.requests()[before..]
        .iter()
        .filter(|asked| done.contains(asked.path()))
        .map(|asked| asked.target.clone())
        .collect();
    assert!(again.is_empty(), "asked for again: {again:?}");
    assert_eq!(second.summary.done_earlier, done.len() as u64);
    assert_eq!(second.failed(), doomed(&shelf, FILES));
    let both = BatchRun {
        rows: [first.rows, second.rows].concat(),
        ..second
    };
    lot.assert_shelf(&shelf, &both);
}
