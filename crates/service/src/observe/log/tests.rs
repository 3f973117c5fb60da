//! Lines are written, the buffers are bounded, and nothing waits for the disk.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};

use haul_lab::within;

use super::*;

/// The time limit for tests that would hang.
const LIMIT: Duration = Duration::from_secs(20);

const NAME: &str = "access log";

/// Logs a line of usual length that begins with `path`.
fn log_line(log: &LineLog, path: &str) {
    log.write(|line| {
        line.extend_from_slice(format!("{path} {:-<60}\n", "").as_bytes());
    });
}

/// Sends each call to the test, and returns when the test permits it.
struct GatedSink {
    calls: Sender<SinkCall>,
    permits: Receiver<io::Result<()>>,
}

#[derive(Debug, PartialEq)]
enum SinkCall {
    Write(String),
    Reopen,
}

impl GatedSink {
    fn new() -> (Box<Self>, Receiver<SinkCall>, Sender<io::Result<()>>) {
        let (calls, received) = channel();
        let (permit, permits) = channel();
        (Box::new(Self { calls, permits }), received, permit)
    }

    fn pass(&self, call: SinkCall) -> io::Result<()> {
        let _ = self.calls.send(call);
        // A test that has ended permits everything.
        self.permits.recv().unwrap_or(Ok(()))
    }
}

impl LogSink for GatedSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.pass(SinkCall::Write(String::from_utf8(lines.to_vec()).unwrap()))
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.pass(SinkCall::Reopen)
    }
}

/// The paths of the lines of a write.
fn paths(call: &SinkCall) -> Vec<&str> {
    let SinkCall::Write(lines) = call else {
        panic!("{call:?} is not a write");
    };
    let lines = lines.lines();
    lines.map(|line| line.split(' ').next().unwrap()).collect()
}

/// The bytes of a write.
fn length(call: &SinkCall) -> usize {
    match call {
        SinkCall::Write(lines) => lines.len(),
        SinkCall::Reopen => 0,
    }
}

#[tokio::test]
async fn lines_of_all_threads_are_in_the_file_when_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let options = LogOptions {
        target: LogTarget::File(path.clone()),
        ..LogOptions::default()
    };
    let log = LineLog::open(NAME, &options, |_| {}).unwrap();
    // More threads than buffers: some find all locked.
    let threads = 2 * shard_count() + 1;
    let all = 200 * threads as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let log = &log;
            scope.spawn(move || {
                for n in 0..200 {
                    log_line(log, &format!("/{thread}/{n}"));
                }
            });
        }
    });
    assert!(log.close(LIMIT).await);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count() as u64 + log.dropped(), all);
    assert_eq!(log.dropped(), 0);
    for thread in 0..threads {
        let own = format!("/{thread}/");
        let own_count = text.lines().filter(|line| line.starts_with(&own)).count();
        assert_eq!(own_count, 200);
    }
    let text = crate::observe::render(&[Arc::new(log)]);
    let expected = format!(
        "# HELP haul_access_log_lines_written_total Lines of the access log written.\n\
         # TYPE haul_access_log_lines_written_total counter\n\
         haul_access_log_lines_written_total {all}\n\
         # HELP haul_access_log_lines_dropped_total Lines of the access log dropped, for the disk was slow or failed.\n\
         # TYPE haul_access_log_lines_dropped_total counter\n\
         haul_access_log_lines_dropped_total 0\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn rendering_a_line_may_log_another_or_nothing() {
    let (gate, calls, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    log.write(|_| {});
    log.write(|line| {
        line.extend_from_slice(b"/outer");
        log_line(&log, "/inner");
        line.extend_from_slice(b" \n");
    });
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let lines = calls.recv_timeout(LIMIT).unwrap();
        seen.extend(paths(&lines).into_iter().map(str::to_owned));
        permit.send(Ok(())).unwrap();
    }
    assert_eq!(seen, ["/inner", "/outer"]);
}

#[test]
fn the_first_line_wakes_the_writer() {
    let (gate, calls, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    for target in ["/a", "/b"] {
        log_line(&log, target);
        // Neither closing nor another line makes it write.
        assert_eq!(paths(&calls.recv_timeout(LIMIT).unwrap()), [target]);
        permit.send(Ok(())).unwrap();
    }
}

#[tokio::test]
async fn a_disk_that_hangs_costs_lines_and_no_time() {
    let (gate, calls, permit) = GatedSink::new();
    let capacity = 64 << 10;
    let log = LineLog::start(NAME, gate, capacity).unwrap();
    log_line(&log, "/first");
    let first = calls.recv_timeout(LIMIT).unwrap();
    assert_eq!(paths(&first), ["/first"]);
    // The disk hangs in that write. This would never end if it waited.
    let most = 10 * capacity;
    let lines: Vec<_> = (0..most / 64).map(|n| format!("/{n}")).collect();
    for target in &lines {
        log_line(&log, target);
    }
    let dropped = log.dropped();
    assert!(dropped > 0);
    assert!(
        !log.close(Duration::ZERO).await,
        "closed while the disk hangs"
    );
    drop(permit);
    assert!(within(LIMIT, log.close(LIMIT)).await);
    let rest: Vec<_> = calls.try_iter().collect();
    let bytes: usize = rest.iter().map(length).sum();
    assert!(bytes <= capacity, "{bytes} bytes were kept");
    // Except the rest of each buffer, into which a line did not fit.
    assert!(
        bytes + 100 * shard_count() > capacity,
        "only {bytes} bytes were kept"
    );
    let kept: Vec<_> = rest.iter().flat_map(paths).collect();
    assert_eq!(kept.len() as u64 + dropped, lines.len() as u64);
    // The first lines were kept, in one buffer or another.
    let first: HashSet<_> = lines.iter().take(kept.len()).map(String::as_str).collect();
    assert_eq!(kept.into_iter().collect::<HashSet<_>>(), first);
}

#[tokio::test]
async fn lines_that_the_disk_refused_are_counted_and_later_ones_written() {
    let (gate, calls, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    log_line(&log, "/lost");
    calls.recv_timeout(LIMIT).unwrap();
    permit.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
    log_line(&log, "/kept");
    assert_eq!(paths(&calls.recv_timeout(LIMIT).unwrap()), ["/kept"]);
    drop(permit);
    assert!(log.close(LIMIT).await);
    assert_eq!(log.dropped(), 1);
    assert_eq!(log.state.line_counts.sum(WRITTEN), 1);
}

#[tokio::test]
async fn a_failing_disk_is_reported_once_and_so_is_its_recovery() {
    let (gate, calls, permit) = GatedSink::new();
    let (notify, notices) = channel();
    let notify = Box::new(move |notice| drop(notify.send(notice)));
    let log = LineLog::start_with_notices(NAME, gate, 1 << 20, notify).unwrap();
    let full = || Err(io::ErrorKind::StorageFull.into());
    for outcome in [full(), full(), Ok(())] {
        log_and_await_write(&log, &calls);
        permit.send(outcome).unwrap();
    }
    log.reopen();
    assert_eq!(calls.recv_timeout(LIMIT).unwrap(), SinkCall::Reopen);
    permit.send(Err(io::ErrorKind::NotFound.into())).unwrap();
    drop(permit);
    assert!(log.close(LIMIT).await);
    drop(log);
    let notices: Vec<LogNotice> = notices.iter().collect();
    assert!(
        matches!(
            notices[..],
            [
                LogNotice::Failing(_),
                LogNotice::Mended { dropped: 2 },
                LogNotice::NotReopened(_)
            ]
        ),
        "{notices:?}"
    );
}

/// Logs a line, and waits until the writer writes it.
fn log_and_await_write(log: &LineLog, calls: &Receiver<SinkCall>) {
    log_line(log, "/a");
    assert_eq!(paths(&calls.recv_timeout(LIMIT).unwrap()), ["/a"]);
}

#[test]
fn after_reopen_nothing_is_written_to_the_old_file() {
    let (gate, calls, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    log_line(&log, "/a");
    assert_eq!(paths(&calls.recv_timeout(LIMIT).unwrap()), ["/a"]);
    // Both while the writer is in a write, and the line first.
    log_line(&log, "/b");
    log.reopen();
    permit.send(Ok(())).unwrap();
    assert_eq!(calls.recv_timeout(LIMIT).unwrap(), SinkCall::Reopen);
    permit.send(Err(io::ErrorKind::NotFound.into())).unwrap();
    assert_eq!(paths(&calls.recv_timeout(LIMIT).unwrap()), ["/b"]);
    permit.send(Ok(())).unwrap();
    // It sleeps or is about to; this wakes it in either case.
    log.reopen();
    assert_eq!(calls.recv_timeout(LIMIT).unwrap(), SinkCall::Reopen);
}

#[test]
fn a_dropped_log_writes_what_it_has() {
    let (gate, calls, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    log_line(&log, "/a");
    calls.recv_timeout(LIMIT).unwrap();
    log_line(&log, "/b");
    drop((log, permit));
    assert_eq!(paths(&calls.recv_timeout(LIMIT).unwrap()), ["/b"]);
    // The writer has ended, and its sink with it.
    calls.recv_timeout(LIMIT).unwrap_err();
}

#[tokio::test]
async fn a_sink_that_panics_ends_the_log_and_not_the_server() {
    struct BrokenSink;
    impl LogSink for BrokenSink {
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            panic!("a sink that panics, as this test wants it");
        }
        fn reopen(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = LineLog::start(NAME, Box::new(BrokenSink), 4096).unwrap();
    log_line(&log, "/a");
    within(LIMIT, log.state.ended.cancelled()).await;
    for _ in 0..1000 {
        log_line(&log, "/b");
    }
    assert!(log.dropped() > 0);
    assert!(log.close(LIMIT).await);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let options = LogOptions {
        target: LogTarget::File("/nowhere/log".into()),
        ..LogOptions::default()
    };
    let error = LineLog::open(NAME, &options, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "cannot open the access log /nowhere/log");
}
