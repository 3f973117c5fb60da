//! Results of downloads: a line for people, an object for programs, checksums in the format of the `*sum` tools. Results of batches are in
//! [`batch`].

mod action;
mod batch;

use std::path::PathBuf;
use std::time::Duration;

use console::{measure_text_width, truncate_str};
use haul_net::redacted_url;
use haul_plan::Checksum;
use haul_transfer::{DownloadJob, DownloadOutcome, GetError};
use serde_json::{Map, Value, json};

use crate::exit::ExitReason;
use crate::message;
use crate::progress::{bytes_text, rate_text};
pub(crate) use action::{FileAction, etag_value, upload_object};
pub(crate) use batch::{
    counts_object, ended_files, failures_text, not_tried_text, row_checksum_lines,
    row_failure_text, row_line, row_object, stop_text, summary_line, summary_object,
};

/// The line on standard error: `PATH  96.0 MiB in 1.02 s, 94.1 MiB/s, 16 connections`, or as much as fits into `width`.
pub(crate) fn download_line(outcome: &DownloadOutcome, width: Option<usize>) -> String {
    let name = message::sanitize(&display_path(outcome.path.as_ref()));
    if outcome.not_modified {
        return fit_line(&name, &["  not modified".into()], width);
    }
    let resumed = match outcome.resumed {
        0 => String::new(),
        bytes => format!(", {} of it from an earlier run", bytes_text(bytes)),
    };
    let one_connection = match outcome.path {
        Some(_) => "",
        None => ", as standard output takes bytes in order",
    };
    let plural = if outcome.connections == 1 { "" } else { "s" };
    let facts = [
        format!("  {}", bytes_text(outcome.bytes)),
        format!(" in {:.2} s", outcome.elapsed.as_secs_f64()),
        format!(", {}", rate_text(received_bytes(outcome), outcome.elapsed)),
        format!(", {} connection{plural}", outcome.connections),
        one_connection.to_owned(),
        resumed,
    ];
    fit_line(&name, &facts, width)
}

/// A name, the first fact, and as many others as fit. A name too long for the first fact is cut.
fn fit_line(name: &str, facts: &[String], width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("{name}{}", facts.concat());
    };
    let (first, others) = facts.split_first().map_or(("", facts), |(f, o)| (f, o));
    let room = width.saturating_sub(measure_text_width(first));
    let mut line = format!("{}{first}", truncate_str(name, room, "…"));
    for fact in others {
        if measure_text_width(&line) + measure_text_width(fact) > width {
            break;
        }
        line.push_str(fact);
    }
    truncate_str(line.trim_start(), width, "").into_owned()
}

/// The last line on standard error, of several jobs: `98 of 100 files, 98.0 MiB in 1.10 s, 89.1 MiB/s`.
pub(crate) fn total_line(
    done: usize,
    jobs: usize,
    bytes: u64,
    elapsed: Duration,
    width: Option<usize>,
) -> String {
    let facts = [
        format!("{done} of {jobs} files"),
        format!(", {}", bytes_text(bytes)),
        format!(" in {:.2} s", elapsed.as_secs_f64()),
        format!(", {}", rate_text(bytes, elapsed)),
    ];
    fit_line("", &facts, width)
}

/// The requested digests that have no value to compare with, one a line, in the format of the `*sum` tools.
pub(crate) fn checksum_lines(outcome: &DownloadOutcome, requested: &[Checksum]) -> Vec<String> {
    let name = display_path(outcome.path.as_ref());
    // A digest that was not computed has no line, so that none is taken for another.
    requested
        .iter()
        .filter(|checksum| checksum.digest.is_none())
        .filter_map(|checksum| {
            let mut found = outcome.checksums.iter();
            let (_, hex) = found.find(|(algorithm, _)| *algorithm == checksum.algorithm)?;
            Some(format!("{hex}  {name}"))
        })
        .collect()
}

/// All digests, by algorithm.
pub(crate) fn digests_object(outcome: &DownloadOutcome) -> Map<String, Value> {
    outcome
        .checksums
        .iter()
        .map(|(algorithm, hex)| (algorithm.to_string(), hex.as_str().into()))
        .collect()
}

pub(crate) fn download_object(job: u64, outcome: &DownloadOutcome) -> Value {
    let action = if outcome.not_modified {
        FileAction::Skip
    } else {
        FileAction::Download
    };
    json!({
        "action": action.name(),
        "job": job,
        "url": redacted_url(&outcome.url),
        "final_url": redacted_url(&outcome.final_url),
        "path": outcome.path.as_ref().map(|path| path.to_string_lossy()),
        "bytes": outcome.bytes,
        "fetched": outcome.fetched,
        "resumed": outcome.resumed,
        "ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rate": per_second(received_bytes(outcome), outcome.elapsed),
        "connections": outcome.connections,
        "segments": outcome.segments,
        "retries": outcome.retries,
        "etag": outcome.etag,
        "checksums": digests_object(outcome),
        "not_modified": outcome.not_modified,
    })
}

pub(crate) fn failure_object(job: &DownloadJob, error: &GetError) -> Value {
    json!({
        "action": FileAction::Download.name(),
        "job": job.id,
        "url": redacted_url(&job.url),
        "error": {
            "class": ExitReason::from_error(error).name(),
            "message": message::chain_text(error),
            "hint": message::error_hint(error),
        },
    })
}

/// A number a second, rounded down.
pub(crate) fn per_second(bytes: u64, elapsed: Duration) -> u64 {
    let per_second = u128::from(bytes) * 1_000_000 / elapsed.as_micros().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Bytes received in this run.
pub(crate) fn received_bytes(outcome: &DownloadOutcome) -> u64 {
    if outcome.not_modified {
        return 0;
    }
    outcome.bytes.saturating_sub(outcome.resumed)
}

fn display_path(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "-".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use haul_plan::DigestAlgorithm;
    use haul_transfer::JobOutput;
    use url::Url;

    use super::*;

    fn outcome() -> DownloadOutcome {
        DownloadOutcome {
            url: Url::parse("http://me:s3cret@h.test/f?sig=s3cret").unwrap(),
            final_url: Url::parse("http://cdn.test/f?X-Amz-Signature=s3cret&a=1").unwrap(),
            path: Some("d/f".into()),
            bytes: 96 << 20,
            fetched: 48 << 20,
            resumed: 0,
            elapsed: Duration::from_millis(1020),
            connections: 16,
            segments: 20,
            retries: 1,
            etag: Some("\"v1\"".into()),
            checksums: vec![(DigestAlgorithm::Crc32c, "00ff00ff".into())],
            not_modified: false,
        }
    }

    #[test]
    fn lines_of_downloads() {
        assert_eq!(
            download_line(&outcome(), None),
            "d/f  96.0 MiB in 1.02 s, 94.1 MiB/s, 16 connections"
        );
        let resumed = DownloadOutcome {
            resumed: 48 << 20,
            connections: 1,
            ..outcome()
        };
        let line =
            "d/f  96.0 MiB in 1.02 s, 47.1 MiB/s, 1 connection, 48.0 MiB of it from an earlier run";
        assert_eq!(download_line(&resumed, None), line);
        assert_eq!(
            download_line(
                &DownloadOutcome {
                    not_modified: true,
                    ..outcome()
                },
                None
            ),
            "d/f  not modified"
        );
        let same = DownloadOutcome {
            not_modified: true,
            ..outcome()
        };
        assert_eq!(download_object(0, &same)["rate"], 0);
        let total = total_line(98, 100, 98 << 20, Duration::from_secs(2), None);
        assert_eq!(total, "98 of 100 files, 98.0 MiB in 2.00 s, 49.0 MiB/s");
    }

    #[test]
    fn lines_fit_into_the_terminal() {
        let long = DownloadOutcome {
            path: Some("日本語のとても長い名前/debian-12.iso".into()),
            resumed: 1,
            ..outcome()
        };
        let mut lines = Vec::new();
        for width in [119, 79, 59, 39, 19, 9, 1, 0] {
            let total = total_line(98, 100, 98 << 20, Duration::from_secs(2), Some(width));
            let these = [
                download_line(&outcome(), Some(width)),
                download_line(&long, Some(width)),
                total,
            ];
            for line in these {
                assert!(measure_text_width(&line) <= width, "{width}: {line}");
                lines.push(format!("{width:>3} |{line}"));
            }
        }
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn only_digests_without_a_value_to_compare_with_are_printed() {
        let requested = |text: &str| checksum_lines(&outcome(), &[text.parse().unwrap()]);
        assert_eq!(requested("crc32c"), ["00ff00ff  d/f"]);
        assert!(requested("crc32c:00ff00ff").is_empty() && requested("md5").is_empty());
    }

    #[test]
    fn objects_of_downloads() {
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&download_object(0, &outcome())).unwrap()
        );
        let exists = GetError::Local {
            path: "d/f".into(),
            error: haul_transfer::LocalError::AlreadyExists,
            resumable: false,
        };
        let job = DownloadJob::new(0, outcome().url, JobOutput::Stdout);
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&failure_object(&job, &exists)).unwrap()
        );
    }
}
