//! What a job's end is told as: a line for people, an object for programs, checksums as the `*sum` tools read them.

use std::path::PathBuf;
use std::time::Duration;

use haul_transfer::{GetError, Outcome};
use serde_json::{Map, Value, json};
use url::Url;

use crate::exit::Exit;
use crate::message;
use crate::progress::{bytes_text, rate_text};

/// The line on standard error: `PATH  96.0 MiB in 1.02 s, 94.1 MiB/s, 16 connections`.
pub(crate) fn summary(outcome: &Outcome) -> String {
    let name = message::harmless(&name(outcome.path.as_ref()));
    if outcome.not_modified {
        return format!("{name}  not modified");
    }
    let resumed = match outcome.resumed {
        0 => String::new(),
        bytes => format!(", {} of it from an earlier run", bytes_text(bytes)),
    };
    format!(
        "{name}  {} in {:.2} s, {}, {} connection{}{resumed}",
        bytes_text(outcome.bytes),
        outcome.elapsed.as_secs_f64(),
        rate_text(came(outcome), outcome.elapsed),
        outcome.connections,
        if outcome.connections == 1 { "" } else { "s" },
    )
}

/// The last line on standard error, of several jobs: `98 of 100 files, 98.0 MiB in 1.10 s, 89.1 MiB/s`.
pub(crate) fn total((done, jobs): (usize, usize), bytes: u64, elapsed: Duration) -> String {
    let rate = rate_text(bytes, elapsed);
    format!(
        "{done} of {jobs} files, {} in {:.2} s, {rate}",
        bytes_text(bytes),
        elapsed.as_secs_f64()
    )
}

/// Digests, one a line, as the `*sum` tools print and check them.
pub(crate) fn checksums(outcome: &Outcome) -> Vec<String> {
    let name = name(outcome.path.as_ref());
    outcome
        .checksums
        .iter()
        .map(|(_, hex)| format!("{hex}  {name}"))
        .collect()
}

/// The result as an object.
pub(crate) fn object(outcome: &Outcome) -> Value {
    let checksums: Map<String, Value> = outcome
        .checksums
        .iter()
        .map(|(algorithm, hex)| (algorithm.to_string(), hex.as_str().into()))
        .collect();
    json!({
        "url": haul_net::without_credentials(&outcome.url).as_str(),
        "final_url": outcome.final_url.as_str(),
        "path": outcome.path.as_ref().map(|path| path.to_string_lossy()),
        "bytes": outcome.bytes,
        "fetched": outcome.fetched,
        "resumed": outcome.resumed,
        "ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rate": rate(came(outcome), outcome.elapsed),
        "connections": outcome.connections,
        "segments": outcome.segments,
        "retries": outcome.retries,
        "etag": outcome.etag,
        "checksums": checksums,
        "not_modified": outcome.not_modified,
    })
}

/// A failure as an object.
pub(crate) fn failure(url: &Url, error: &GetError) -> Value {
    json!({
        "url": haul_net::without_credentials(url).as_str(),
        "error": {
            "class": Exit::of(error).name(),
            "message": message::chain(error),
            "hint": message::hint(error),
        },
    })
}

/// Whole bytes a second.
fn rate(bytes: u64, elapsed: Duration) -> u64 {
    let per_second = u128::from(bytes) * 1_000_000 / elapsed.as_micros().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Bytes of the resource that came in this run.
pub(crate) fn came(outcome: &Outcome) -> u64 {
    outcome.bytes.saturating_sub(outcome.resumed)
}

fn name(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "-".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use haul_plan::Algorithm;

    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            url: Url::parse("http://me:s3cret@h.test/f").unwrap(),
            final_url: Url::parse("http://cdn.test/f").unwrap(),
            path: Some("d/f".into()),
            bytes: 96 << 20,
            fetched: 48 << 20,
            resumed: 0,
            elapsed: Duration::from_millis(1020),
            connections: 16,
            segments: 20,
            retries: 1,
            etag: Some("\"v1\"".into()),
            checksums: vec![(Algorithm::Crc32c, "00ff00ff".into())],
            not_modified: false,
        }
    }

    #[test]
    fn lines_for_people() {
        assert_eq!(
            summary(&outcome()),
            "d/f  96.0 MiB in 1.02 s, 94.1 MiB/s, 16 connections"
        );
        let resumed = Outcome {
            resumed: 48 << 20,
            connections: 1,
            ..outcome()
        };
        let line =
            "d/f  96.0 MiB in 1.02 s, 47.1 MiB/s, 1 connection, 48.0 MiB of it from an earlier run";
        assert_eq!(summary(&resumed), line);
        assert_eq!(
            summary(&Outcome {
                not_modified: true,
                ..outcome()
            }),
            "d/f  not modified"
        );
        assert_eq!(checksums(&outcome()), ["00ff00ff  d/f"]);
        let total = total((98, 100), 98 << 20, Duration::from_secs(2));
        assert_eq!(total, "98 of 100 files, 98.0 MiB in 2.00 s, 49.0 MiB/s");
    }

    #[test]
    fn objects_for_programs() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&object(&outcome())).unwrap());
        let exists = GetError::Exists { path: "d/f".into() };
        let url = Url::parse("http://me:s3cret@h.test/f").unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&failure(&url, &exists)).unwrap());
    }
}
