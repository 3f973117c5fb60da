//! Recorded batches, and the lines and objects they lead to.

use std::time::Duration;

use console::measure_text_width;
use haul_transfer::batch::{BatchSnapshot, BatchSummary, SlowJob};
use haul_transfer::manifest::{JobRowState, ManifestRow, ManifestRowError, RowTimings};
use haul_transfer::{ErrorClass, TransferEvent, TransferWarning};

use super::super::json::JsonRenderer;
use super::super::plain::PlainRenderer;
use super::super::tally::BatchView;
use super::super::view::ProgressView;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A snapshot of a batch of 400 000 files with `done` files done and some failed.
fn snapshot(done: u64, failed: u64, complete: bool) -> TransferEvent {
    let summary = BatchSummary {
        listed: 400_000,
        list_complete: complete,
        done,
        failed,
        bytes: done << 13,
        fetched: done << 13,
        ..BatchSummary::default()
    };
    TransferEvent::BatchProgress(Box::new(BatchSnapshot {
        summary,
        running: 64,
        slowest: None,
    }))
}

fn slow_job(elapsed: Duration, bytes: Option<u64>) -> TransferEvent {
    let TransferEvent::BatchProgress(mut board) = snapshot(1200, 3, true) else {
        unreachable!()
    };
    let url = url::Url::parse("http://h.test/a/rather/long/path/of/a/file.bin?sig=s3cret").unwrap();
    board.slowest = Some(SlowJob {
        url,
        elapsed,
        bytes,
    });
    TransferEvent::BatchProgress(board)
}

#[test]
fn a_batch_whose_sizes_are_known_shows_its_bytes() {
    // Nearly all files have ended, and nearly all bytes are missing.
    let summary = |ended_bytes| BatchSummary {
        listed: 557,
        list_complete: true,
        done: 555,
        fetched: ended_bytes,
        planned_bytes: Some(305 << 20),
        ended_bytes,
        ..BatchSummary::default()
    };
    let events = [(0, 5 << 20), (1000, 15 << 20), (2000, 25 << 20)].map(|(at, ended_bytes)| {
        let snapshot = BatchSnapshot {
            summary: summary(ended_bytes),
            running: 2,
            slowest: None,
        };
        (at, TransferEvent::BatchProgress(Box::new(snapshot)))
    });
    let view = view(&events);
    let lines = view.terminal_lines((24, 120));
    insta::assert_snapshot!(lines[0], @"━━━───────────────────────────────────  555/557  210 files/s   11.9 MiB/s     0:28   2 running  25.0 MiB of 305.0 MiB");
    insta::assert_snapshot!(view.log_line().unwrap(), @"555 of 557 files, 210 files/s, 25.0 MiB of 305.0 MiB, 11.9 MiB/s, 0:28 left, 2 running");
}

fn view(events: &[(u64, TransferEvent)]) -> BatchView {
    let mut view = BatchView::new(false, false);
    for (at, event) in events {
        view.on_event(ms(*at), event);
        view.on_tick(ms(*at));
    }
    view
}

fn failed(n: u64) -> TransferEvent {
    row(JobRowState::Failed, &format!("http://h.test/{n}\u{1b}[2J"))
}

fn row(state: JobRowState, url: &str) -> TransferEvent {
    let error = (state == JobRowState::Failed)
        .then(|| ManifestRowError::new(ErrorClass::Network, "closed".into()));
    TransferEvent::BatchRow(Box::new(ManifestRow {
        path: Some("d/f".into()),
        bytes: 12_595,
        attempts: 1,
        timings: RowTimings {
            total: 34,
            ..RowTimings::default()
        },
        error,
        ..ManifestRow::new(Some(1), url.into(), state)
    }))
}

#[test]
fn a_batch_drops_fields_as_the_terminal_gets_narrower() {
    let run = |complete, failed| {
        view(&[
            (100, snapshot(120, failed, complete)),
            (1000, snapshot(1200, failed, complete)),
        ])
    };
    let mut frames = Vec::new();
    for (name, view) in [
        ("reading", run(false, 0)),
        ("all known", run(true, 0)),
        ("failures", run(true, 7)),
    ] {
        frames.push(name.to_owned());
        for width in [120, 80, 60, 40, 20, 10, 1, 0] {
            let lines = view.terminal_lines((24, width)).join("\n");
            frames.push(format!("{width:>3} |{lines}"));
        }
    }
    insta::assert_snapshot!(frames.join("\n"));
}

#[test]
fn a_slow_job_has_a_line_where_there_is_space() {
    let view = |elapsed, bytes| view(&[(1000, slow_job(ms(elapsed), bytes))]);
    assert_eq!(
        view(1900, None).terminal_lines((24, 80)).len(),
        1,
        "not for long"
    );
    assert_eq!(view(9000, None).terminal_lines((2, 80)).len(), 1, "no room");
    let mut frames = Vec::new();
    for (elapsed, bytes) in [(9000, None), (3_723_000, Some(5 << 30))] {
        for width in [120, 80, 40, 20, 10, 0] {
            let lines = view(elapsed, bytes).terminal_lines((24, width));
            frames.push(format!("{width:>3} |{}", lines[1]));
        }
    }
    insta::assert_snapshot!(frames.join("\n"));
}

#[test]
fn no_line_of_a_batch_is_wider_than_the_terminal() {
    for (ended, failed) in [(0, 0), (1, u64::MAX / 4), (u64::MAX / 8, 1)] {
        for complete in [false, true] {
            let looks = [
                (100, snapshot(0, 0, complete)),
                (1000, snapshot(ended, failed, complete)),
            ];
            let mut view = view(&looks);
            view.on_event(ms(1100), &slow_job(ms(9000), Some(u64::MAX)));
            for width in 0..200u16 {
                for line in view.terminal_lines((24, width)) {
                    let wide = measure_text_width(&line);
                    assert!(
                        wide <= usize::from(width.saturating_sub(1)),
                        "{width}: {line}"
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_is_shown_before_the_first_snapshot() {
    let view = BatchView::new(false, false);
    assert!(view.terminal_lines((24, 80)).is_empty() && view.log_line().is_none());
}

#[test]
fn plain_has_a_line_a_second_of_a_batch() {
    let mut plain = PlainRenderer::new(Box::new(BatchView::new(false, false)));
    let mut lines = Vec::new();
    for tenth in 0..=30 {
        let now = ms(tenth * 100);
        plain.event_line(now, &snapshot(tenth * 100, tenth / 10, tenth > 15));
        lines.extend(plain.tick_lines(now));
    }
    plain.event_line(ms(3500), &slow_job(ms(12_000), Some(3 << 20)));
    lines.extend(plain.tick_lines(ms(4000)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn failures_are_printed_as_they_occur_up_to_a_limit() {
    let mut view = BatchView::new(false, false);
    let lines: Vec<String> = (0..100)
        .filter_map(|n| view.on_event(ms(n), &failed(n)))
        .collect();
    assert_eq!(lines.len(), 20);
    let first = anstream::adapter::strip_str(&lines[0]).to_string();
    assert_eq!(first, "haul: error: http://h.test/0\u{fffd}[2J: closed");
    assert_eq!(view.on_tick(ms(500)), None);
    let hidden = view.on_tick(ms(1100)).unwrap();
    assert_eq!(hidden, "haul: 80 more failures are not shown");
}

#[test]
fn each_file_has_a_line_if_verbose() {
    let (done, bad) = (row(JobRowState::Done, "http://h.test/f"), failed(1));
    let lines = |quiet, verbose| {
        let mut view = BatchView::new(quiet, verbose);
        [&done, &bad].map(|event| view.on_event(ms(0), event).is_some())
    };
    assert_eq!(lines(false, false), [false, true]);
    assert_eq!(lines(true, false), [false, false]);
    assert_eq!(lines(false, true), [true, true]);
    let mut all = BatchView::new(false, true);
    let lines = (0..100).filter_map(|n| all.on_event(ms(n), &bad)).count();
    assert_eq!(lines, 100, "who asks for all of them gets them");
    assert_eq!(
        all.on_event(ms(0), &done).unwrap(),
        "d/f  12.3 KiB in 34 ms"
    );
}

#[test]
fn objects_are_printed_once_a_second_with_the_rates_of_that_second() {
    let mut json = JsonRenderer::default();
    let mut objects = Vec::new();
    let mut look_at = |at: u64, event: TransferEvent| {
        let TransferEvent::BatchProgress(board) = event else {
            unreachable!()
        };
        objects.extend(json.batch_object(ms(at), &board));
    };
    for tenth in 1..=20 {
        look_at(tenth * 100, snapshot(tenth * 100, 0, tenth > 10));
    }
    look_at(2900, snapshot(1, 0, true));
    look_at(3000, slow_job(ms(12_345), Some(7)));
    let lines: Vec<String> = objects.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn rows_that_failed_are_objects_and_others_are_not() {
    let object = super::super::json::event_object(ms(5), &failed(1)).unwrap();
    assert_eq!(object["event"], "row");
    assert_eq!(
        (&object["state"], &object["error_class"]),
        (&"failed".into(), &"network".into())
    );
    let done = row(JobRowState::Done, "http://h.test/f");
    assert!(super::super::json::event_object(ms(5), &done).is_none());
}

#[test]
fn warnings_are_printed_up_to_a_limit() {
    let warning = TransferEvent::Warning {
        job: 1,
        warning: TransferWarning::StartsAgain {
            reason: "http://h.test/a: the origin sent it as gzip\u{1b}[2J",
        },
        url: None,
    };
    let mut view = BatchView::new(false, false);
    let lines: Vec<String> = (0..100)
        .filter_map(|at| view.on_event(ms(at), &warning))
        .collect();
    assert_eq!(lines.len(), 20);
    let first = anstream::adapter::strip_str(&lines[0]).to_string();
    assert_eq!(
        first,
        "haul: warning: http://h.test/a: the origin sent it as gzip\u{fffd}[2J: starting again"
    );
    let hidden = view.on_tick(ms(1100)).unwrap();
    assert_eq!(hidden, "haul: 80 more warnings are not shown");
    assert_eq!(view.on_tick(ms(1200)), None);
    assert_eq!(BatchView::new(true, false).on_event(ms(0), &warning), None);
}
