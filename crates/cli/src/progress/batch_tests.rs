//! A recorded batch in, frames, lines and objects out.

use std::time::Duration;

use console::measure_text_width;
use haul_transfer::batch::{BatchSnapshot, BatchSummary, SlowJob};
use haul_transfer::manifest::{ManifestRow, RowError, RowState, RowTimings};
use haul_transfer::{ErrorClass, TransferEvent};

use super::json::JsonRenderer;
use super::picture::ProgressView;
use super::plain::PlainRenderer;
use super::tally::BatchView;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A look at a batch of which so many of 400 000 files are done and some failed.
fn look(done: u64, failed: u64, complete: bool) -> TransferEvent {
    let summary = BatchSummary {
        listed: 400_000,
        list_complete: complete,
        done,
        failed,
        bytes: done << 13,
        ..BatchSummary::default()
    };
    TransferEvent::BatchProgress(Box::new(BatchSnapshot {
        summary,
        running: 64,
        slowest: None,
    }))
}

fn slow(elapsed: Duration, bytes: Option<u64>) -> TransferEvent {
    let TransferEvent::BatchProgress(mut board) = look(1200, 3, true) else {
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

fn tally(events: &[(u64, TransferEvent)]) -> BatchView {
    let mut tally = BatchView::new(false, false);
    for (at, event) in events {
        tally.on_event(ms(*at), event);
        tally.on_tick(ms(*at));
    }
    tally
}

fn failed(n: u64) -> TransferEvent {
    row(RowState::Failed, &format!("http://h.test/{n}\u{1b}[2J"))
}

fn row(state: RowState, url: &str) -> TransferEvent {
    let error = (state == RowState::Failed).then(|| RowError {
        class: ErrorClass::Network,
        text: "closed".into(),
    });
    TransferEvent::BatchRow(Box::new(ManifestRow {
        line: Some(1),
        url: url.into(),
        path: Some("d/f".into()),
        state,
        status: None,
        bytes: 12_595,
        checksums: Vec::new(),
        etag: None,
        attempts: 1,
        timings: RowTimings {
            total: 34,
            ..RowTimings::default()
        },
        error,
        shard: None,
    }))
}

#[test]
fn a_batch_gives_up_what_matters_least_as_the_terminal_gets_smaller() {
    let run = |complete, failed| {
        tally(&[
            (100, look(120, failed, complete)),
            (1000, look(1200, failed, complete)),
        ])
    };
    let mut frames = Vec::new();
    for (name, tally) in [
        ("reading", run(false, 0)),
        ("all known", run(true, 0)),
        ("failures", run(true, 7)),
    ] {
        frames.push(name.to_owned());
        for width in [120, 80, 60, 40, 20, 10, 1, 0] {
            let lines = tally.terminal_lines((24, width)).join("\n");
            frames.push(format!("{width:>3} |{lines}"));
        }
    }
    insta::assert_snapshot!(frames.join("\n"));
}

#[test]
fn what_takes_long_has_a_line_where_there_is_room() {
    let tally = |elapsed, bytes| tally(&[(1000, slow(ms(elapsed), bytes))]);
    assert_eq!(
        tally(1900, None).terminal_lines((24, 80)).len(),
        1,
        "not for long"
    );
    assert_eq!(
        tally(9000, None).terminal_lines((2, 80)).len(),
        1,
        "no room"
    );
    let mut frames = Vec::new();
    for (elapsed, bytes) in [(9000, None), (3_723_000, Some(5 << 30))] {
        for width in [120, 80, 40, 20, 10, 0] {
            let lines = tally(elapsed, bytes).terminal_lines((24, width));
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
                (100, look(0, 0, complete)),
                (1000, look(ended, failed, complete)),
            ];
            let mut tally = tally(&looks);
            tally.on_event(ms(1100), &slow(ms(9000), Some(u64::MAX)));
            for width in 0..200u16 {
                for line in tally.terminal_lines((24, width)) {
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
fn nothing_is_shown_before_there_is_something() {
    let tally = BatchView::new(false, false);
    assert!(tally.terminal_lines((24, 80)).is_empty() && tally.log_line().is_none());
}

#[test]
fn plain_has_a_line_a_second_of_a_batch() {
    let mut plain = PlainRenderer::new(Box::new(BatchView::new(false, false)));
    let mut lines = Vec::new();
    for tenth in 0..=30 {
        let now = ms(tenth * 100);
        plain.event_line(now, &look(tenth * 100, tenth / 10, tenth > 15));
        lines.extend(plain.tick_lines(now));
    }
    plain.event_line(ms(3500), &slow(ms(12_000), Some(3 << 20)));
    lines.extend(plain.tick_lines(ms(4000)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn failures_are_told_as_they_come_but_not_more_than_an_eye_takes() {
    let mut tally = BatchView::new(false, false);
    let told: Vec<String> = (0..100)
        .filter_map(|n| tally.on_event(ms(n), &failed(n)))
        .collect();
    assert_eq!(told.len(), 20);
    let first = anstream::adapter::strip_str(&told[0]).to_string();
    assert_eq!(first, "haul: error: http://h.test/0\u{fffd}[2J: closed");
    assert_eq!(tally.on_tick(ms(500)), None);
    let hidden = tally.on_tick(ms(1100)).unwrap();
    assert_eq!(hidden, "haul: 80 more failed and are not shown");
}

#[test]
fn each_end_has_a_line_if_wanted_and_none_if_not() {
    let (done, bad) = (row(RowState::Done, "http://h.test/f"), failed(1));
    let lines = |quiet, verbose| {
        let mut tally = BatchView::new(quiet, verbose);
        [&done, &bad].map(|event| tally.on_event(ms(0), event).is_some())
    };
    assert_eq!(lines(false, false), [false, true]);
    assert_eq!(lines(true, false), [false, false]);
    assert_eq!(lines(false, true), [true, true]);
    let mut all = BatchView::new(false, true);
    let told = (0..100).filter_map(|n| all.on_event(ms(n), &bad)).count();
    assert_eq!(told, 100, "who asks for all of them gets them");
    assert_eq!(
        all.on_event(ms(0), &done).unwrap(),
        "d/f  12.3 KiB in 34 ms"
    );
}

#[test]
fn objects_come_once_a_second_with_the_rates_of_that_second() {
    let mut json = JsonRenderer::default();
    let mut objects = Vec::new();
    let mut look_at = |at: u64, event: TransferEvent| {
        let TransferEvent::BatchProgress(board) = event else {
            unreachable!()
        };
        objects.extend(json.batch_object(ms(at), &board));
    };
    for tenth in 1..=20 {
        look_at(tenth * 100, look(tenth * 100, 0, tenth > 10));
    }
    look_at(2900, look(1, 0, true));
    look_at(3000, slow(ms(12_345), Some(7)));
    let lines: Vec<String> = objects.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn rows_that_failed_are_objects_and_others_are_not() {
    let object = super::json::event_object(ms(5), &failed(1)).unwrap();
    assert_eq!(object["event"], "row");
    assert_eq!(
        (&object["state"], &object["error_class"]),
        (&"failed".into(), &"network".into())
    );
    let done = row(RowState::Done, "http://h.test/f");
    assert!(super::json::event_object(ms(5), &done).is_none());
}

#[test]
fn warnings_are_told_and_flood_nothing() {
    let warning = TransferEvent::Warning {
        job: 1,
        text: "http://h.test/a: the origin sent it as gzip\u{1b}[2J".into(),
    };
    let mut tally = BatchView::new(false, false);
    let lines: Vec<String> = (0..100)
        .filter_map(|at| tally.on_event(ms(at), &warning))
        .collect();
    assert_eq!(lines.len(), 20);
    let first = anstream::adapter::strip_str(&lines[0]).to_string();
    assert_eq!(
        first,
        "haul: warning: http://h.test/a: the origin sent it as gzip\u{fffd}[2J"
    );
    let hidden = tally.on_tick(ms(1100)).unwrap();
    assert_eq!(hidden, "haul: 80 more warnings are not shown");
    assert_eq!(tally.on_tick(ms(1200)), None);
    assert_eq!(BatchView::new(true, false).on_event(ms(0), &warning), None);
}
