//! The record of a job in the spill file.

use std::path::PathBuf;

use haul_plan::{Checksum, RetryOptions};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::job::{BatchJob, BatchJobStrategy};
use crate::list::ListEntry;

/// The fields of a record. The format is private to one run: the process that writes a record reads it.
#[derive(Debug, Serialize, Deserialize)]
struct SpilledJob {
    id: u64,
    line: u64,
    url: String,
    mirrors: Vec<String>,
    path: PathBuf,
    staging_path: Option<PathBuf>,
    checksums: Vec<(String, Option<String>)>,
    size: Option<u64>,
    headers: Vec<(String, Vec<u8>)>,
    partial_file: bool,
    untrusted_hosts: bool,
}

/// Serializes a job; `None` when the job has state that records do not hold and must stay in memory.
pub(super) fn encode(job: &BatchJob) -> Option<Vec<u8>> {
    let partial_file = match job.strategy {
        BatchJobStrategy::SingleResponse { ranges: true } => false,
        BatchJobStrategy::PartialFile => true,
        _ => return None,
    };
    if job.stored_validators.is_some() || job.attempts > 0 || job.download.piece_digests.is_some() {
        return None;
    }
    let checksums = job.download.checksums.iter().map(|sum| {
        let digest = sum.digest.as_deref().map(crate::checksum::hex);
        (sum.algorithm.to_string(), digest)
    });
    let headers = job.download.headers.iter();
    let record = SpilledJob {
        id: job.download.id,
        line: job.line,
        url: job.download.url.to_string(),
        mirrors: job
            .download
            .mirrors
            .iter()
            .map(ToString::to_string)
            .collect(),
        path: job.path.clone(),
        staging_path: job.staging_path.clone(),
        checksums: checksums.collect(),
        size: job.download.expected_size,
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        partial_file,
        untrusted_hosts: job.download.credential_urls.is_some(),
    };
    serde_json::to_vec(&record).ok()
}

/// Parses a record.
pub(super) fn decode(record: &[u8], retry: &RetryOptions) -> Option<BatchJob> {
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
        untrusted_hosts: record.untrusted_hosts,
        ..ListEntry::new(record.line, record.url.parse().ok()?)
    };
    let mut job = BatchJob::new(record.id, entry, (record.path, record.staging_path), retry);
    if record.partial_file {
        job.strategy = BatchJobStrategy::PartialFile;
    }
    Some(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoded_job_equals_the_encoded_one() {
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
        let paths = || (PathBuf::from("d/f"), Some(PathBuf::from("s/1")));
        let mut job = BatchJob::new(3, entry, paths(), &retry);
        job.strategy = BatchJobStrategy::PartialFile;
        let back = decode(&encode(&job).unwrap(), &retry).unwrap();
        assert_eq!(format!("{back:?}"), format!("{job:?}"));
        job.attempts = 1;
        assert!(encode(&job).is_none());
    }
}
