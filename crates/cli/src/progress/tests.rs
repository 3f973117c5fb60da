//! Recorded events, and the lines they lead to.

mod batch;

use std::time::Duration;

use console::measure_text_width;
use haul_transfer::{ConnectionCountLimit, TransferEvent, TransferWarning};

use super::board::DownloadsProgress;
use super::downloads::DownloadsView;
use super::frame::progress_lines;
use super::notes::EventMessages;
use super::plain::PlainRenderer;
use super::{json, message};

const MIB: u64 = 1 << 20;

fn named(job: u64, name: &str, length: Option<u64>, resumed: u64) -> TransferEvent {
    TransferEvent::DestinationKnown {
        job,
        path: Some(name.into()),
        length,
        resumed,
    }
}

fn progress(job: u64, done: u64, connections: usize) -> TransferEvent {
    TransferEvent::Progress {
        job,
        done,
        length: None,
        connections,
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A download of 96 MiB at a steady rate, recorded ten times a second until `end`.
fn recorded(end: u64, per_second: u64) -> Vec<(Duration, TransferEvent)> {
    let mut events = vec![(ms(0), named(0, "debian-12.iso", Some(96 * MIB), 0))];
    events.extend((1..=end / 100).map(|n| (ms(n * 100), progress(0, n * per_second / 10, 16))));
    events
}

fn board(jobs: usize, events: &[(Duration, TransferEvent)]) -> DownloadsProgress {
    let mut board = DownloadsProgress::new(jobs);
    for (now, event) in events {
        board.on_event(*now, event);
        board.on_tick(*now);
    }
    board
}

#[test]
fn a_bar_drops_fields_as_the_terminal_gets_narrower() {
    let board = board(1, &recorded(500, 90 * MIB));
    let frames: Vec<String> = [120, 100, 80, 60, 40, 20, 10, 5, 1, 0]
        .into_iter()
        .map(|width| {
            format!(
                "{width:>3} |{}",
                progress_lines(&board, (24, width)).join("\n")
            )
        })
        .collect();
    insta::assert_snapshot!(frames.join("\n"));
}

fn shown(what: &str, events: &[(Duration, TransferEvent)]) -> String {
    format!(
        "{what:10} |{}",
        progress_lines(&board(1, events), (24, 100)).join("\n")
    )
}

#[test]
fn the_stages_of_a_download() {
    let mut events = recorded(200, 100);
    let mut frames = vec![shown("named", &events[..1]), shown("slow", &events)];
    let stages = [
        ("fast", progress(0, 95 * MIB, 1)),
        ("over again", progress(0, MIB, 1)),
        (
            "verifying",
            TransferEvent::Verifying {
                job: 0,
                bytes: 96 * MIB,
            },
        ),
        (
            "finished",
            TransferEvent::Finished {
                job: 0,
                bytes: 96 * MIB,
                elapsed: ms(600),
            },
        ),
    ];
    for (after, (what, event)) in (3..).zip(stages) {
        events.push((ms(after * 100), event));
        frames.push(shown(what, &events));
    }
    insta::assert_snapshot!(frames.join("\n"));
}

#[test]
fn files_of_all_kinds() {
    let one = |what, event| shown(what, &[(ms(0), event)]);
    let unknown = [
        (ms(0), named(0, "log", None, 0)),
        (ms(1000), progress(0, 5 * MIB, 1)),
    ];
    let frames = [
        one("resumed", named(0, "f", Some(4 * MIB), 3 * MIB)),
        shown("no length", &unknown),
        one("empty", named(0, "empty", Some(0), 0)),
        one(
            "wide name",
            named(
                0,
                "日本語のとても長い名前のファイルです.tar.zst",
                Some(MIB),
                0,
            ),
        ),
        one("bad name", named(0, "a\u{1b}[2Jb", Some(MIB), 0)),
        one(
            "no path",
            TransferEvent::DestinationKnown {
                job: 0,
                path: None,
                length: Some(MIB),
                resumed: 0,
            },
        ),
    ];
    insta::assert_snapshot!(frames.join("\n"));
}

#[test]
fn no_line_is_ever_wider_than_the_terminal() {
    let names = [
        "f",
        "debian-12.iso",
        "日本語のとても長い名前のファイルです.tar.zst",
        &"n".repeat(255),
    ];
    let rates = [0, 1, 1023, MIB, 5_000 * MIB, u64::MAX / 20];
    for (name, rate) in names.iter().flat_map(|name| rates.map(|rate| (name, rate))) {
        for length in [None, Some(0), Some(rate), Some(u64::MAX)] {
            let events = [
                (ms(0), named(0, name, length, 0)),
                (ms(1000), progress(0, rate, 999)),
            ];
            let (one, many) = (board(1, &events), board(7, &events));
            for width in 0..200u16 {
                let lines = [
                    progress_lines(&one, (24, width)),
                    progress_lines(&many, (24, width)),
                ]
                .concat();
                let widest = lines
                    .iter()
                    .map(|line| measure_text_width(line))
                    .max()
                    .unwrap_or(0);
                assert!(
                    widest <= usize::from(width.saturating_sub(1)),
                    "{width}: {lines:?}"
                );
            }
        }
    }
}

#[test]
fn columns_stay_while_numbers_change() {
    let widths: Vec<usize> = (1..=10)
        .map(|n| progress_lines(&board(1, &recorded(n * 100, 96 * MIB)), (24, 100)).concat())
        .map(|line| measure_text_width(&line))
        .collect();
    assert!(
        widths.windows(2).all(|pair| pair[0] == pair[1]),
        "{widths:?}"
    );
}

#[test]
fn several_jobs_have_a_line_each_and_one_for_all_within_the_height() {
    let mut events: Vec<(Duration, TransferEvent)> = (0..5)
        .map(|job| (ms(0), named(job, &format!("file-{job}"), Some(4 * MIB), 0)))
        .collect();
    events.extend((0..5).map(|job| (ms(1000), progress(job, (job + 1) * MIB / 2, 1))));
    events.push((
        ms(1000),
        TransferEvent::Finished {
            job: 1,
            bytes: 4 * MIB,
            elapsed: ms(1000),
        },
    ));
    events.push((
        ms(1000),
        TransferEvent::Failed {
            job: 2,
            error: "x".into(),
        },
    ));
    let board = board(100, &events);
    insta::assert_snapshot!(progress_lines(&board, (24, 80)).join("\n"));
    let low = progress_lines(&board, (4, 80));
    assert_eq!(low.len(), 3);
    assert!(low[2].starts_with("2 of 100 files"), "{low:?}");
    assert_eq!(progress_lines(&board, (0, 80)).len(), 1);
}

fn plain(verbose: bool, jobs: usize) -> PlainRenderer {
    let notes = EventMessages::new(false, verbose, jobs);
    PlainRenderer::new(Box::new(DownloadsView::new(notes, jobs)))
}

#[test]
fn plain_has_a_line_a_second_and_messages() {
    let mut plain = plain(true, 1);
    let mut lines = Vec::new();
    for (now, event) in recorded(2500, 30 * MIB) {
        lines.extend(plain.event_line(now, &event));
        lines.extend(plain.tick_lines(now));
    }
    let segment = TransferEvent::SegmentEnded {
        job: 0,
        range: 0..MIB,
        elapsed: ms(250),
        worker: 2,
    };
    let retry = TransferEvent::Retry {
        job: 0,
        attempt: 2,
        limit: 10,
        wait: ms(400),
        reason: "closed\u{1b}[2J".to_owned().into(),
    };
    let warning = TransferEvent::Warning {
        job: 0,
        warning: TransferWarning::StartsAgain {
            reason: "no validator",
        },
        url: None,
    };
    for event in [segment, retry, warning] {
        lines.extend(plain.event_line(ms(2600), &event));
    }
    plain.event_line(
        ms(3500),
        &TransferEvent::Verifying {
            job: 0,
            bytes: 96 * MIB,
        },
    );
    lines.extend(plain.tick_lines(ms(4000)));
    plain.event_line(
        ms(4000),
        &TransferEvent::Finished {
            job: 0,
            bytes: 96 * MIB,
            elapsed: ms(4000),
        },
    );
    lines.extend(plain.tick_lines(ms(6000)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn plain_has_one_line_for_all_of_several_jobs() {
    let mut plain = plain(false, 3);
    for job in 0..2 {
        plain.event_line(ms(0), &named(job, "f", Some(4 * MIB), 0));
        plain.event_line(ms(900), &progress(job, MIB, 2));
    }
    let lines = plain.tick_lines(ms(1000));
    assert_eq!(lines, ["0 of 3 files, 2.0 MiB, 2.0 MiB/s, 4 connections"]);
    assert!(plain.tick_lines(ms(1900)).is_empty());
}

#[test]
fn quiet_has_no_messages() {
    let mut quiet = EventMessages::new(true, false, 1);
    assert_eq!(
        quiet.line_for(&TransferEvent::Warning {
            job: 0,
            warning: TransferWarning::StartsAgain { reason: "x" },
            url: None
        }),
        None
    );
    let mut usual = EventMessages::new(false, false, 1);
    let at_once = TransferEvent::Retry {
        job: 0,
        attempt: 1,
        limit: 10,
        wait: Duration::ZERO,
        reason: "x".to_owned().into(),
    };
    assert_eq!(usual.line_for(&at_once), None);
    let mut all = EventMessages::new(false, true, 1);
    assert_eq!(
        all.line_for(&at_once).unwrap(),
        "haul: x; trying again at once"
    );
    let fewer = TransferEvent::Retry {
        job: 0,
        attempt: 0,
        limit: 0,
        wait: ms(400),
        reason: "x".to_owned().into(),
    };
    assert_eq!(
        usual.line_for(&fewer).unwrap(),
        "haul: x; no new connection for 0.4 s"
    );
    assert_eq!(
        usual.line_for(&TransferEvent::SegmentEnded {
            job: 0,
            range: 0..1,
            elapsed: ms(1),
            worker: 0
        }),
        None
    );
}

#[test]
fn messages_of_several_jobs_name_the_job() {
    let mut notes = EventMessages::new(false, true, 2);
    let warning = TransferEvent::Warning {
        job: 4,
        warning: TransferWarning::StartsAgain { reason: "hm" },
        url: None,
    };
    let url = url::Url::parse("http://h.test/f").unwrap();
    let mut lines = vec![notes.line_for(&warning)];
    notes.line_for(&TransferEvent::Started { job: 4, url });
    lines.push(notes.line_for(&warning));
    notes.line_for(&named(4, "d/f", None, 0));
    lines.push(notes.line_for(&warning));
    lines.push(notes.line_for(&TransferEvent::SegmentEnded {
        job: 4,
        range: 0..9,
        elapsed: ms(1),
        worker: 0,
    }));
    let connections = |bytes, round_trip, limit| TransferEvent::Connections {
        job: 4,
        connections: 2,
        bytes,
        round_trip,
        limit,
    };
    let several = connections(vec![9, 2048], Some(ms(30)), ConnectionCountLimit::Refused);
    let one = connections(vec![9], None, ConnectionCountLimit::FileSize);
    lines.extend([several, one].map(|event| notes.line_for(&event)));
    let plain: Vec<String> = lines
        .iter()
        .flatten()
        .map(|line| anstream::adapter::strip_str(line).to_string())
        .collect();
    let expected = [
        "haul: warning: hm: starting again",
        "haul: warning: http://h.test/f: hm: starting again",
        "haul: warning: d/f: hm: starting again",
        "d/f: segment 0-8  1 ms  9 B  8.8 KiB/s  connection 0",
        "d/f: 2 connections (9 B to 2.0 KiB each), round trip 30 ms; no more because the origin refused them",
        "d/f: 2 connections; no more because the file ended before they would have paid",
    ];
    assert_eq!(plain, expected);
}

#[test]
fn every_event_is_one_object() {
    let url = url::Url::parse("http://h.test/f").unwrap();
    let events = [
        TransferEvent::Started { job: 3, url },
        named(3, "d/f", Some(MIB), 10),
        TransferEvent::Progress {
            job: 3,
            done: 20,
            length: Some(MIB),
            connections: 4,
        },
        TransferEvent::SegmentEnded {
            job: 3,
            range: 0..20,
            elapsed: ms(7),
            worker: 1,
        },
        TransferEvent::Connections {
            job: 3,
            connections: 4,
            bytes: vec![20, 5],
            round_trip: Some(ms(30)),
            limit: ConnectionCountLimit::SharedRate,
        },
        TransferEvent::Retry {
            job: 3,
            attempt: 1,
            limit: 10,
            wait: ms(250),
            reason: "closed".to_owned().into(),
        },
        TransferEvent::Warning {
            job: 3,
            warning: TransferWarning::StartsAgain { reason: "hm" },
            url: None,
        },
        TransferEvent::Verifying { job: 3, bytes: 9 },
        TransferEvent::Finished {
            job: 3,
            bytes: MIB,
            elapsed: ms(9),
        },
    ];
    let lines: Vec<String> = events
        .iter()
        .filter_map(|event| json::event_object(ms(12), event))
        .map(|object| object.to_string())
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    // `job_failed` reports it with its causes and its hint.
    assert!(
        json::event_object(
            ms(12),
            &TransferEvent::Failed {
                job: 3,
                error: "x".into()
            }
        )
        .is_none()
    );
}

#[test]
fn messages_can_be_stripped_of_colours() {
    let text = message::error_text("it broke", Some("mend it"));
    assert_eq!(
        anstream::adapter::strip_str(&text).to_string(),
        "haul: error: it broke\nhint: mend it"
    );
}
