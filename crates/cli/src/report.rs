//! What a job's end is told as: a line for people, an object for programs, checksums for `sha256sum -c`.

use std::io::{self, Write};

use haul_transfer::{GetError, Outcome};
use serde_json::{Map, Value, json};
use url::Url;

use crate::exit::Exit;
use crate::message;
use crate::progress::{bytes_text, rate_text};

/// The line on standard error.
pub(crate) fn summary(outcome: &Outcome) -> String {
    let name = outcome.path.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
    if outcome.not_modified {
        return format!("{name}  not modified");
    }
    let plural = if outcome.connections == 1 { "" } else { "s" };
    let resumed = match outcome.resumed {
        0 => String::new(),
        bytes => format!(", {} of it from an earlier run", bytes_text(bytes as f64)),
    };
    let came = outcome.bytes - outcome.resumed.min(outcome.bytes);
    format!(
        "{name}  {} in {:.2} s, {}, {} connection{plural}{resumed}",
        bytes_text(outcome.bytes as f64),
        outcome.elapsed.as_secs_f64(),
        rate_text(came, outcome.elapsed),
        outcome.connections,
    )
}

/// Digests, one a line, as the `*sum` tools print and check them.
pub(crate) fn checksums(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let name = outcome.path.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
    outcome.checksums.iter().try_for_each(|(_, hex)| writeln!(out, "{hex}  {name}"))
}

/// The result as an object.
pub(crate) fn object(outcome: &Outcome) -> Value {
    let seconds = outcome.elapsed.as_secs_f64();
    let came = outcome.bytes - outcome.resumed.min(outcome.bytes);
    let checksums: Map<String, Value> =
        outcome.checksums.iter().map(|(algorithm, hex)| (algorithm.to_string(), hex.as_str().into())).collect();
    json!({
        "url": outcome.url.as_str(),
        "final_url": outcome.final_url.as_str(),
        "path": outcome.path,
        "bytes": outcome.bytes,
        "fetched": outcome.fetched,
        "resumed": outcome.resumed,
        "ms": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rate": if seconds > 0.0 { (came as f64 / seconds).round() } else { 0.0 },
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
