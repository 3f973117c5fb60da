//! A job as it is written down while it lies aside: what its entry said, and what was made of that.

use std::path::PathBuf;

use haul_plan::{Checksum, RetryOptions};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::errand::{BatchJob, BatchJobStrategy};
use crate::list::ListEntry;

/// What is written. Private to one run: it is read by the process that wrote it.
#[derive(Debug, Serialize, Deserialize)]
struct SpilledJob {
    id: u64,
    line: u64,
    url: String,
    mirrors: Vec<String>,
    path: PathBuf,
    staged: Option<PathBuf>,
    checksums: Vec<(String, Option<String>)>,
    size: Option<u64>,
    headers: Vec<(String, Vec<u8>)>,
    engine: bool,
    stranger: bool,
}

/// Writes a job down; `None` for one that must be kept in memory, since it knows more than is written.
pub(super) fn write(errand: &BatchJob) -> Option<Vec<u8>> {
    let engine = match errand.road {
        BatchJobStrategy::Quick { ranges: true } => false,
        BatchJobStrategy::Engine => true,
        _ => return None,
    };
    if errand.have.is_some() || errand.attempts > 0 || errand.job.pieces.is_some() {
        return None;
    }
    let checksums = errand.job.checksums.iter().map(|sum| {
        let digest = sum.digest.as_deref().map(crate::checksum::hex);
        (sum.algorithm.to_string(), digest)
    });
    let headers = errand.job.headers.iter();
    let record = SpilledJob {
        id: errand.job.id,
        line: errand.line,
        url: errand.job.url.to_string(),
        mirrors: errand.job.mirrors.iter().map(ToString::to_string).collect(),
        path: errand.path.clone(),
        staged: errand.staged.clone(),
        checksums: checksums.collect(),
        size: errand.job.size,
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        engine,
        stranger: errand.job.named.is_some(),
    };
    serde_json::to_vec(&record).ok()
}

/// Reads one back.
pub(super) fn read(record: &[u8], retry: &RetryOptions) -> Option<BatchJob> {
    let record: SpilledJob = serde_json::from_slice(record).ok()?;
    let mut headers = HeaderMap::new();
    for (name, value) in record.headers {
        let name = HeaderName::try_from(name).ok()?;
        headers.append(name, HeaderValue::from_bytes(&value).ok()?);
    }
    let checksum = |(algorithm, digest): (String, Option<String>)| -> Option<Checksum> {
        match digest {
            Some(digest) => format!("{algorithm}:{digest}").parse().ok(),
            None => algorithm.parse().ok(),
        }
    };
    let entry = ListEntry {
        mirrors: record
            .mirrors
            .iter()
            .map(|url| url.parse().ok())
            .collect::<Option<_>>()?,
        checksums: record
            .checksums
            .into_iter()
            .map(checksum)
            .collect::<Option<_>>()?,
        size: record.size,
        headers,
        untrusted_hosts: record.stranger,
        ..ListEntry::new(record.line, record.url.parse().ok()?)
    };
    let mut errand = BatchJob::new(record.id, entry, (record.path, record.staged), retry);
    if record.engine {
        errand.road = BatchJobStrategy::Engine;
    }
    Some(errand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let mut entry = ListEntry::new(7, "http://me:pw@h.test/a?b#c".parse().unwrap());
        entry.mirrors = vec!["https://m.test/a".parse().unwrap()];
        entry.checksums = vec![
            "md5:00112233445566778899aabbccddeeff".parse().unwrap(),
            "sha256".parse().unwrap(),
        ];
        entry.size = Some(9);
        entry.untrusted_hosts = true;
        let value = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        entry.headers.append("x-a", value.clone());
        entry.headers.append("x-a", HeaderValue::from_static("two"));
        let retry = RetryOptions::default();
        let place = || (PathBuf::from("d/f"), Some(PathBuf::from("s/1")));
        let mut errand = BatchJob::new(3, entry, place(), &retry);
        errand.road = BatchJobStrategy::Engine;
        let back = read(&write(&errand).unwrap(), &retry).unwrap();
        assert_eq!(format!("{back:?}"), format!("{errand:?}"));
        errand.attempts = 1;
        assert!(write(&errand).is_none());
    }
}
