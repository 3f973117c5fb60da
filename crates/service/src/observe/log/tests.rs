//! What is logged is written, in a bound, and never waited for.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};

use haul_lab::within;

use super::*;

/// For tests that would hang otherwise.
const LIMIT: Duration = Duration::from_secs(20);

/// What it is called in messages.
const NAME: &str = "access log";

/// Logs a line about something. It is as long as lines are: room is for a number of them.
fn tell(log: &LineLog, what: &str) {
    log.write(|line| {
        line.extend_from_slice(format!("{what} {:-<60}\n", "").as_bytes());
    });
}

/// Tells what it is asked to do, and does each thing when it is let.
struct GatedSink {
    told: Sender<SinkCall>,
    let_go: Receiver<io::Result<()>>,
}

#[derive(Debug, PartialEq)]
enum SinkCall {
    Write(String),
    Reopen,
}

impl GatedSink {
    fn new() -> (Box<Self>, Receiver<SinkCall>, Sender<io::Result<()>>) {
        let (told, asked) = channel();
        let (permit, let_go) = channel();
        (Box::new(Self { told, let_go }), asked, permit)
    }

    fn pass(&self, asked: SinkCall) -> io::Result<()> {
        let _ = self.told.send(asked);
        // A test that has ended lets everything go.
        self.let_go.recv().unwrap_or(Ok(()))
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

/// What the lines of a write are about.
fn told(asked: &SinkCall) -> Vec<&str> {
    let SinkCall::Write(lines) = asked else {
        panic!("{asked:?} is no write");
    };
    let lines = lines.lines();
    lines.map(|line| line.split(' ').next().unwrap()).collect()
}

/// The bytes of a write.
fn length(asked: &SinkCall) -> usize {
    match asked {
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
    // More threads than buffers: some find all in use.
    let threads = 2 * shard_count() + 1;
    let all = 200 * threads as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let log = &log;
            scope.spawn(move || {
                for n in 0..200 {
                    tell(log, &format!("/{thread}/{n}"));
                }
            });
        }
    });
    assert!(log.close(LIMIT).await);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count() as u64 + log.dropped(), all);
    assert_eq!(log.dropped(), 0);
    for thread in 0..threads {
        let mine = format!("/{thread}/");
        let of_mine = text.lines().filter(|line| line.starts_with(&mine)).count();
        assert_eq!(of_mine, 200);
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
fn what_renders_a_line_may_log_another_and_may_log_none() {
    let (gate, asked, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    log.write(|_| {});
    log.write(|line| {
        line.extend_from_slice(b"/outer");
        tell(&log, "/inner");
        line.extend_from_slice(b" \n");
    });
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let lines = asked.recv_timeout(LIMIT).unwrap();
        seen.extend(told(&lines).into_iter().map(str::to_owned));
        permit.send(Ok(())).unwrap();
    }
    assert_eq!(seen, ["/inner", "/outer"]);
}

#[test]
fn the_first_line_wakes_the_writer() {
    let (gate, asked, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    for target in ["/a", "/b"] {
        tell(&log, target);
        // Neither closing nor another line makes it write.
        assert_eq!(told(&asked.recv_timeout(LIMIT).unwrap()), [target]);
        permit.send(Ok(())).unwrap();
    }
}

#[tokio::test]
async fn a_disk_that_hangs_costs_lines_and_no_time() {
    let (gate, asked, permit) = GatedSink::new();
    let room = 64 << 10;
    let log = LineLog::start(NAME, gate, room).unwrap();
    tell(&log, "/first");
    let first = asked.recv_timeout(LIMIT).unwrap();
    assert_eq!(told(&first), ["/first"]);
    // The disk hangs in that write. This would never end if it were waited for.
    let most = 10 * room;
    let lines: Vec<_> = (0..most / 64).map(|n| format!("/{n}")).collect();
    for target in &lines {
        tell(&log, target);
    }
    let dropped = log.dropped();
    assert!(dropped > 0);
    assert!(
        !log.close(Duration::ZERO).await,
        "closed while the disk hangs"
    );
    drop(permit);
    assert!(within(LIMIT, log.close(LIMIT)).await);
    let rest: Vec<_> = asked.try_iter().collect();
    let bytes: usize = rest.iter().map(length).sum();
    assert!(bytes <= room, "{bytes} bytes were kept");
    // But for what a line did not fit into.
    assert!(
        bytes + 100 * shard_count() > room,
        "only {bytes} bytes were kept"
    );
    let kept: Vec<_> = rest.iter().flat_map(told).collect();
    assert_eq!(kept.len() as u64 + dropped, lines.len() as u64);
    // What came first was kept, in one buffer or another.
    let first: HashSet<_> = lines.iter().take(kept.len()).map(String::as_str).collect();
    assert_eq!(kept.into_iter().collect::<HashSet<_>>(), first);
}

#[tokio::test]
async fn lines_that_the_disk_refused_are_counted_and_later_ones_written() {
    let (gate, asked, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    tell(&log, "/lost");
    asked.recv_timeout(LIMIT).unwrap();
    permit.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
    tell(&log, "/kept");
    assert_eq!(told(&asked.recv_timeout(LIMIT).unwrap()), ["/kept"]);
    drop(permit);
    assert!(log.close(LIMIT).await);
    assert_eq!(log.dropped(), 1);
    assert_eq!(log.shared.line_counts.sum(WRITTEN), 1);
}

#[tokio::test]
async fn of_a_disk_that_fails_is_told_once_and_when_it_works_again() {
    let (gate, asked, permit) = GatedSink::new();
    let (tell, news) = channel();
    let tell = Box::new(move |what| drop(tell.send(what)));
    let log = LineLog::start_with_notices(NAME, gate, 1 << 20, tell).unwrap();
    let full = || Err(io::ErrorKind::StorageFull.into());
    for outcome in [full(), full(), Ok(())] {
        tell_of(&log, &asked);
        permit.send(outcome).unwrap();
    }
    log.reopen();
    assert_eq!(asked.recv_timeout(LIMIT).unwrap(), SinkCall::Reopen);
    permit.send(Err(io::ErrorKind::NotFound.into())).unwrap();
    drop(permit);
    assert!(log.close(LIMIT).await);
    drop(log);
    let news: Vec<LogNotice> = news.iter().collect();
    assert!(
        matches!(
            news[..],
            [
                LogNotice::Failing(_),
                LogNotice::Mended { dropped: 2 },
                LogNotice::NotReopened(_)
            ]
        ),
        "{news:?}"
    );
}

/// Logs a line, and waits until it is to be written.
fn tell_of(log: &LineLog, asked: &Receiver<SinkCall>) {
    tell(log, "/a");
    assert_eq!(told(&asked.recv_timeout(LIMIT).unwrap()), ["/a"]);
}

#[test]
fn after_reopen_nothing_is_written_to_the_old_file() {
    let (gate, asked, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    tell(&log, "/a");
    assert_eq!(told(&asked.recv_timeout(LIMIT).unwrap()), ["/a"]);
    // These come while the writer is at the disk, and the line first.
    tell(&log, "/b");
    log.reopen();
    permit.send(Ok(())).unwrap();
    assert_eq!(asked.recv_timeout(LIMIT).unwrap(), SinkCall::Reopen);
    permit.send(Err(io::ErrorKind::NotFound.into())).unwrap();
    assert_eq!(told(&asked.recv_timeout(LIMIT).unwrap()), ["/b"]);
    permit.send(Ok(())).unwrap();
    // It sleeps, or is about to: this wakes it all the same.
    log.reopen();
    assert_eq!(asked.recv_timeout(LIMIT).unwrap(), SinkCall::Reopen);
}

#[test]
fn a_dropped_log_writes_what_it_has() {
    let (gate, asked, permit) = GatedSink::new();
    let log = LineLog::start(NAME, gate, 1 << 20).unwrap();
    tell(&log, "/a");
    asked.recv_timeout(LIMIT).unwrap();
    tell(&log, "/b");
    drop((log, permit));
    assert_eq!(told(&asked.recv_timeout(LIMIT).unwrap()), ["/b"]);
    // The writer has ended, and its sink with it.
    asked.recv_timeout(LIMIT).unwrap_err();
}

#[tokio::test]
async fn a_sink_that_panics_ends_the_log_and_not_the_server() {
    struct BrokenSink;
    impl LogSink for BrokenSink {
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            panic!("a sink that breaks, as this test wants it");
        }
        fn reopen(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = LineLog::start(NAME, Box::new(BrokenSink), 4096).unwrap();
    tell(&log, "/a");
    within(LIMIT, log.shared.ended.cancelled()).await;
    for _ in 0..1000 {
        tell(&log, "/b");
    }
    assert!(log.dropped() > 0);
    assert!(log.close(LIMIT).await);
}

#[test]
fn a_file_that_cannot_be_opened_is_told_at_the_start() {
    let options = LogOptions {
        target: LogTarget::File("/nowhere/log".into()),
        ..LogOptions::default()
    };
    let error = LineLog::open(NAME, &options, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "cannot open the access log /nowhere/log");
}
