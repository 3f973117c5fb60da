//! Results of a batch and of its jobs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use haul_plan::{Checksum, Remedy};
use haul_transfer::batch::{BatchSummary, EarlyStop, FailureGroup, StopReason};
use haul_transfer::manifest::{JobRowState, ManifestRow};
use serde_json::{Value, json};

use super::{FileAction, fit_line, per_second};
use crate::exit::ExitReason;
use crate::message::{error_text, remedies_hint, sanitize};
use crate::progress::{bytes_text, files_rate_text, rate_text};

/// Causes that are listed.
const CAUSES: usize = 10;

/// The result of a job as an object, with the keys of a manifest row.
pub(crate) fn row_object(row: &ManifestRow) -> Value {
    let action = match row.state {
        JobRowState::Done | JobRowState::Failed => FileAction::Download,
        JobRowState::Skipped => FileAction::Skip,
    };
    let mut object = json!(row.fields());
    object["action"] = action.name().into();
    object
}

/// Why a job failed, in a line that names the job.
pub(crate) fn row_failure_text(row: &ManifestRow) -> String {
    let text = row.error.as_ref().map_or("failed", |error| &error.text);
    let path = row.path.as_deref().unwrap_or_default();
    let named = text.contains(&row.url) || (!path.is_empty() && text.contains(path));
    if named {
        text.to_owned()
    } else {
        format!("{}: {text}", row.url)
    }
}

/// The line of a job that did not fail: `d/f  12.3 KiB in 34 ms`.
pub(crate) fn row_line(row: &ManifestRow) -> String {
    let name = row.path.as_deref().unwrap_or(&row.url);
    match (row.state, row.status, &row.error) {
        (JobRowState::Skipped, Some(304), _) => format!("{name}  not modified"),
        (JobRowState::Skipped, _, Some(why)) => format!("{name}  skipped: {}", why.text),
        (JobRowState::Skipped, ..) => format!("{name}  skipped"),
        _ => format!(
            "{name}  {} in {} ms",
            bytes_text(row.bytes),
            row.timings.total
        ),
    }
}

/// The requested digests of a file that have no value to compare with, in the format of the `*sum` tools.
pub(crate) fn row_checksum_lines(row: &ManifestRow, requested: &[Checksum]) -> Vec<String> {
    let Some(name) = row
        .path
        .as_deref()
        .filter(|_| row.state == JobRowState::Done)
    else {
        return Vec::new();
    };
    requested
        .iter()
        .filter_map(|checksum| {
            let mut found = row.checksums.iter();
            let (_, hex) = found.find(|(algorithm, _)| *algorithm == checksum.algorithm)?;
            Some(format!("{hex}  {name}"))
        })
        .collect()
}

/// Jobs that have ended, failed ones included, in this run or an earlier one.
pub(crate) fn ended_files(summary: &BatchSummary) -> u64 {
    summary.done + summary.done_earlier + summary.skipped + summary.failed
}

pub(crate) fn counts_object(summary: &BatchSummary) -> Value {
    json!({
        "listed": summary.listed,
        "complete": summary.list_complete,
        "done": summary.done,
        "earlier": summary.done_earlier,
        "skipped": summary.skipped,
        "failed": summary.failed,
        "retries": summary.retries,
        "pages": summary.pages,
        "bytes": summary.bytes,
        "fetched": summary.fetched,
        "planned": summary.planned_bytes,
    })
}

pub(crate) fn summary_object(summary: &BatchSummary, elapsed: Duration) -> Value {
    let cause = |cause: &FailureGroup| {
        json!({
            "class": ExitReason::from_class(cause.class).name(),
            "text": cause.cause,
            "count": cause.count,
            "example": sanitize(&cause.example),
        })
    };
    let mut object = counts_object(summary);
    object["event"] = "summary".into();
    object["ms"] = u64::try_from(elapsed.as_millis()).ok().into();
    object["files_per_second"] = per_second(summary.done, elapsed).into();
    object["bytes_per_second"] = per_second(summary.bytes, elapsed).into();
    object["causes"] = summary.failure_groups.iter().map(cause).collect();
    object["halted"] = summary
        .stopped
        .as_ref()
        .map(|stopped| sanitize(&stopped.text))
        .into();
    object
}

/// The last line of a batch: `98 of 100 files, 1 skipped, 98.0 MiB in 1.10 s, 89 files/s, 89.1 MiB/s`.
pub(crate) fn summary_line(
    summary: &BatchSummary,
    elapsed: Duration,
    width: Option<usize>,
) -> String {
    let of = if summary.list_complete {
        format!("{} of {} files", summary.done, summary.listed)
    } else {
        // The total is not known.
        format!("{} files", summary.done)
    };
    let counted = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let per_second = summary.done as f64 / elapsed.as_secs_f64().max(1e-6);
    let facts = [
        of,
        counted(summary.failed, "failed"),
        counted(summary.done_earlier, "done before"),
        counted(summary.skipped, "skipped"),
        format!(", {}", bytes_text(summary.bytes)),
        format!(" in {:.2} s", elapsed.as_secs_f64()),
        format!(", {}", files_rate_text(per_second)),
        format!(", {}", rate_text(summary.bytes, elapsed)),
        counted(summary.retries, "retries"),
        counted(summary.pages, "pages in place of files"),
    ];
    fit_line("", &facts, width)
}

/// Why a batch ended early, and after a refusal how much was not tried.
pub(crate) fn stop_text(summary: &BatchSummary, stopped: &EarlyStop) -> String {
    match stopped.reason {
        StopReason::Refused => {
            let left = summary.listed.saturating_sub(ended_files(summary));
            format!(
                "{}: {}",
                stopped.text,
                not_tried_text(left, summary.list_complete)
            )
        }
        _ => stopped.text.clone(),
    }
}

/// `at least 5 files were not tried`.
pub(crate) fn not_tried_text(files: u64, is_complete: bool) -> String {
    let at_least = if is_complete { "" } else { "at least " };
    match files {
        0 => "the rest of the list was not tried".to_owned(),
        1 => format!("{at_least}1 file was not tried"),
        files => format!("{at_least}{files} files were not tried"),
    }
}

/// The failures by cause, with an example each, and a hint; `None` without failures.
pub(crate) fn failures_text(summary: &BatchSummary, hint: &str) -> Option<String> {
    if summary.failed == 0 {
        return None;
    }
    let ended = ended_files(summary);
    let mut text = format!("{} of {ended} files failed", summary.failed);
    let (listed, others) = summary
        .failure_groups
        .split_at(summary.failure_groups.len().min(CAUSES));
    let digits = listed
        .iter()
        .map(|cause| cause.count.to_string().len())
        .max()
        .unwrap_or(0);
    for cause in listed {
        let FailureGroup {
            count,
            cause: what,
            example,
            example_url,
            ..
        } = cause;
        let (what, example) = (sanitize(what), sanitize(example));
        if let Some((url, detail)) = example_url {
            let (url, detail) = (sanitize(url), sanitize(detail));
            let _ = write!(text, "\n  {count:>digits$}  {what}{detail}, e.g. {url}");
            continue;
        }
        let such = if *count == 1 { "" } else { "such as " };
        // Writing into a String cannot fail.
        let _ = write!(text, "\n  {count:>digits$}  {what}: {such}{example}");
    }
    let rest: u64 = others.iter().map(|cause| cause.count).sum();
    if rest > 0 {
        let _ = write!(
            text,
            "\n  {rest:>digits$}  for {} other reasons",
            others.len()
        );
    }
    let remedies: Vec<Remedy> = listed
        .iter()
        .flat_map(|cause| &cause.remedies)
        .filter(|remedy| helps_many(remedy))
        .collect::<BTreeSet<&Remedy>>()
        .into_iter()
        .cloned()
        .collect();
    let hints: Vec<String> = std::iter::once(hint.to_owned())
        .chain(remedies_hint(&remedies))
        .collect();
    Some(error_text(&text, Some(&hints.join("; "))))
}

/// Whether a remedy is one setting that may help all files with the same cause.
fn helps_many(remedy: &Remedy) -> bool {
    matches!(
        remedy,
        Remedy::ExtendTimeLimit(_) | Remedy::Replace | Remedy::IgnoreRobotsTag
    )
}

#[cfg(test)]
mod tests {
    use haul_plan::DigestAlgorithm;
    use haul_plan::TransferTimeLimit;
    use haul_transfer::ErrorClass;
    use haul_transfer::archive::ShardEntryLocation;
    use haul_transfer::manifest::{ManifestRowError, RowTimings};

    use super::*;

    fn done() -> ManifestRow {
        ManifestRow {
            path: Some("d/f".into()),
            status: Some(200),
            bytes: 12_595,
            checksums: vec![
                (DigestAlgorithm::Md5, "00ff".into()),
                (DigestAlgorithm::Crc32c, "abcd".into()),
            ],
            etag: Some("\"v1\"".into()),
            attempts: 2,
            timings: RowTimings {
                dns: 1,
                connect: 2,
                tls: 3,
                first_byte: 4,
                total: 34,
            },
            ..ManifestRow::new(Some(7), "http://h.test/f?sig=***".into(), JobRowState::Done)
        }
    }

    fn failed(text: &str) -> ManifestRow {
        ManifestRow {
            state: JobRowState::Failed,
            status: None,
            checksums: Vec::new(),
            etag: None,
            error: Some(ManifestRowError::new(ErrorClass::Network, text.into())),
            ..done()
        }
    }

    #[test]
    fn row_objects_have_the_keys_of_a_manifest() {
        let shard = Some(ShardEntryLocation {
            shard: "t-00000.tar".into(),
            offset: 1024,
            end: 14_848,
        });
        let placed = ManifestRow { shard, ..done() };
        let rows = [row_object(&placed), row_object(&failed("closed"))];
        insta::assert_snapshot!(serde_json::to_string_pretty(&rows).unwrap());
    }

    #[test]
    fn rows_of_jobs_without_a_request_have_no_times() {
        let skipped = ManifestRow {
            attempts: 0,
            ..done()
        };
        assert!(row_object(&skipped).get("ms").is_none());
    }

    #[test]
    fn lines_of_rows() {
        assert_eq!(row_line(&done()), "d/f  12.3 KiB in 34 ms");
        let skipped = |status, error| ManifestRow {
            state: JobRowState::Skipped,
            status,
            error,
            ..done()
        };
        assert_eq!(row_line(&skipped(Some(304), None)), "d/f  not modified");
        let error = failed("another line has it").error;
        assert_eq!(
            row_line(&skipped(None, error)),
            "d/f  skipped: another line has it"
        );
        for (text, object) in [
            ("closed", "http://h.test/f?sig=***: closed"),
            (
                "cannot fetch http://h.test/f?sig=***: closed",
                "cannot fetch http://h.test/f?sig=***: closed",
            ),
            ("d/f exists already", "d/f exists already"),
        ] {
            assert_eq!(row_failure_text(&failed(text)), object);
        }
    }

    #[test]
    fn digests_are_printed_as_requested_for_complete_files() {
        let requested = |algorithm| Checksum {
            algorithm,
            digest: None,
        };
        let both = [
            requested(DigestAlgorithm::Crc32c),
            requested(DigestAlgorithm::Sha1),
        ];
        assert_eq!(row_checksum_lines(&done(), &both), ["abcd  d/f"]);
        assert!(row_checksum_lines(&failed("x"), &both).is_empty());
    }

    fn summary() -> BatchSummary {
        let cause = |count, text: &str, example: &str| FailureGroup {
            class: ErrorClass::Network,
            cause: text.into(),
            count,
            example: example.into(),
            example_url: text
                .starts_with("404")
                .then(|| ("http://h.test/a".to_owned(), String::new())),
            remedies: if text.ends_with("asks to wait") {
                vec![Remedy::ExtendTimeLimit(TransferTimeLimit::RequestedWait)]
            } else {
                Vec::new()
            },
        };
        let mut causes = vec![
            cause(
                1200,
                "404 Not Found",
                "http://h.test/a answered 404 Not Found",
            ),
            cause(
                1,
                "cannot connect",
                "cannot fetch http://i.test/\u{1b}[2J: cannot connect",
            ),
        ];
        causes.extend((0..9).map(|n| cause(1, &format!("odd {n}"), "x")));
        causes.insert(2, cause(1, "the host asks to wait", "x"));
        BatchSummary {
            listed: 5000,
            list_complete: true,
            done: 3700,
            done_earlier: 0,
            skipped: 89,
            failed: 1211,
            retries: 3,
            pages: 2,
            bytes: 98 << 20,
            fetched: 99 << 20,
            planned_bytes: None,
            ended_bytes: 0,
            failure_groups: causes,
            stopped: None,
        }
    }

    #[test]
    fn failures_are_grouped_by_cause_with_an_example_each() {
        let object = failures_text(&summary(), "do this").unwrap();
        insta::assert_snapshot!(anstream::adapter::strip_str(&object).to_string());
        let well = BatchSummary {
            failed: 0,
            ..summary()
        };
        assert_eq!(failures_text(&well, "x"), None);
    }

    #[test]
    fn the_summary_line_fits_into_the_terminal() {
        let seconds = Duration::from_secs(2);
        let cut_off = BatchSummary {
            list_complete: false,
            failed: 0,
            skipped: 0,
            retries: 0,
            ..summary()
        };
        let widths = [None, Some(79), Some(40), Some(20), Some(5)];
        let mut lines: Vec<String> = widths
            .into_iter()
            .map(|width| summary_line(&summary(), seconds, width))
            .collect();
        lines.push(summary_line(&cut_off, seconds, None));
        let again = BatchSummary {
            done_earlier: 4000,
            ..summary()
        };
        lines.push(summary_line(&again, seconds, None));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn the_summary_as_an_object() {
        let short = BatchSummary {
            failure_groups: summary().failure_groups[..2].to_vec(),
            stopped: Some(EarlyStop {
                reason: StopReason::LocalIo,
                text: "no space left".into(),
            }),
            ..summary()
        };
        let object = summary_object(&short, Duration::from_secs(2));
        insta::assert_snapshot!(serde_json::to_string_pretty(&object).unwrap());
    }
}
