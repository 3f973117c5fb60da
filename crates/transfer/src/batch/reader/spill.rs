//! The spill file: jobs of hosts that already fill their share of the dispatcher's window.
//!
//! A list that is sorted by host may begin with a hundred thousand jobs of a slow host. They are written to an unnamed
//! file. Each record points to the next one of the same host, so memory holds only the first and the last offset of
//! each host. Jobs come back in their order when the host has room again. An empty file starts again from the
//! beginning, and its size is bounded.
//!
//! Jobs that come back soon never reach the file, see [`RecordFile`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use haul_plan::Checksum;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::batch::job::{BatchJob, BatchJobStrategy};
use crate::batch::record_file::RecordFile;
use crate::list::ListEntry;
use crate::listed_version::ListedVersion;

/// The largest size of the file, in bytes: some five million jobs.
const MAX_BYTES: u64 = 1 << 30;

/// Length of the header of a record: the offset of the host's next record (0 for none), and the length of this one.
const RECORD_HEADER: usize = 12;

/// The spilled jobs.
#[derive(Debug)]
pub(super) struct SpillFile {
    records: RecordFile,
    /// The records of each host.
    chains: HashMap<String, HostSpillOffsets>,
    /// The hosts in the order of their turns.
    turns: VecDeque<String>,
}

/// Offsets of the first and the last record of one host.
#[derive(Debug, Clone, Copy)]
struct HostSpillOffsets {
    first: u64,
    last: u64,
}

impl SpillFile {
    /// A spill file in the file system of this directory.
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            records: RecordFile::new(directory),
            chains: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Whether no jobs are spilled.
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Whether jobs of this host are spilled. Later ones must follow them.
    pub(super) fn holds_jobs_of(&self, host: &str) -> bool {
        self.chains.contains_key(host)
    }

    /// Appends a job. False if that is not possible: without unnamed files, in a full file, after an error, or for a job
    /// with state that records do not hold.
    pub(super) fn push(&mut self, host: &str, job: &BatchJob) -> bool {
        let record = encode(job).filter(|_| self.has_room());
        record.is_some_and(|record| self.push_record(host, &record).is_ok())
    }

    /// Removes the first job of the first host in turn that `may_run` accepts. That host's next turn comes last.
    ///
    /// # Errors
    /// Errors of the file system. The jobs of that host are then lost.
    pub(super) fn pop(
        &mut self,
        may_run: impl FnMut(&str) -> bool,
    ) -> io::Result<Option<Box<BatchJob>>> {
        let Some(record) = self.pop_record(may_run)? else {
            return Ok(None);
        };
        // A record that cannot be parsed would be a job without an outcome.
        let job = decode(&record).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some(Box::new(job)))
    }

    fn has_room(&self) -> bool {
        self.records.is_on_disk() && self.records.end() < MAX_BYTES
    }

    /// Appends a record. After an error nothing points to it.
    fn push_record(&mut self, host: &str, record: &[u8]) -> io::Result<()> {
        let length = u32::try_from(record.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (no_next, length) = (0u64.to_le_bytes(), length.to_le_bytes());
        let at = self.records.append(&[&no_next, &length, record])?;
        if let Some(chain) = self.chains.get_mut(host) {
            self.records.overwrite(chain.last, &at.to_le_bytes())?;
            chain.last = at;
        } else {
            let (first, last) = (at, at);
            self.turns.push_back(host.to_owned());
            self.chains
                .insert(host.to_owned(), HostSpillOffsets { first, last });
        }
        Ok(())
    }

    fn pop_record(&mut self, mut may_run: impl FnMut(&str) -> bool) -> io::Result<Option<Vec<u8>>> {
        let Some(position) = self.turns.iter().position(|host| may_run(host)) else {
            return Ok(None);
        };
        let Some(host) = self.turns.remove(position) else {
            return Ok(None);
        };
        let Some(chain) = self.chains.get(&host).copied() else {
            return Ok(None);
        };
        let header = self.records.read(chain.first, RECORD_HEADER)?;
        let (next, length) = header.split_at(8);
        let next = u64::from_le_bytes(next.try_into().unwrap_or_default());
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        let start = chain.first + RECORD_HEADER as u64;
        let record = self.records.read(start, length as usize)?.to_vec();
        if chain.first == chain.last {
            self.chains.remove(&host);
        } else {
            let rest = HostSpillOffsets {
                first: next,
                ..chain
            };
            self.chains.insert(host.clone(), rest);
            self.turns.push_back(host);
        }
        if self.chains.is_empty() {
            self.records.clear();
        }
        Ok(Some(record))
    }
}

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
    listed_size: Option<u64>,
    headers: Vec<(String, Vec<u8>)>,
    partial_file: bool,
    untrusted_hosts: bool,
}

/// Serializes a job; `None` when the job has state that records do not hold and must stay in memory.
fn encode(job: &BatchJob) -> Option<Vec<u8>> {
    let partial_file = match job.strategy {
        BatchJobStrategy::SingleResponse { ranges: true } => false,
        BatchJobStrategy::PartialFile => true,
        _ => return None,
    };
    if job.stored_validators.is_some()
        || job.link_target.is_some()
        || job.download.replaces_file
        || job.attempts > 0
        || job.download.piece_digests.is_some()
    {
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
        listed_size: job.listed_size(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        partial_file,
        untrusted_hosts: job.download.credential_urls.is_some(),
    };
    serde_json::to_vec(&record).ok()
}

/// Parses a record.
fn decode(record: &[u8]) -> Option<BatchJob> {
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
        // What the list says beside it mattered only before the job was made.
        listed: record.listed_size.map(|size| ListedVersion {
            size,
            ..ListedVersion::default()
        }),
        headers,
        untrusted_hosts: record.untrusted_hosts,
        ..ListEntry::new(record.line, record.url.parse().ok()?)
    };
    let mut job = BatchJob::new(record.id, entry, record.path, record.staging_path);
    if record.partial_file {
        job.strategy = BatchJobStrategy::PartialFile;
    }
    Some(job)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_host_gets_its_jobs_back_in_their_order(steps in prop::collection::vec((any::<bool>(), 0u8..4, prop_oneof![0usize..300, 0usize..100_000]), 0..120)) {
            let dir = tempfile::tempdir().unwrap();
            let mut spill = SpillFile::new(dir.path());
            prop_assume!(spill.has_room());
            let mut model: HashMap<String, VecDeque<Vec<u8>>> = HashMap::new();
            for (number, (put, host, length)) in (0u8..).zip(steps) {
                let host = format!("http://h{host}");
                let queue = model.entry(host.clone()).or_default();
                if put {
                    let record = vec![number; length];
                    spill.push_record(&host, &record).unwrap();
                    queue.push_back(record);
                } else {
                    prop_assert_eq!(spill.pop_record(|other| other == host).unwrap(), queue.pop_front());
                }
                prop_assert_eq!(spill.holds_jobs_of(&host), !queue.is_empty());
                prop_assert_eq!(spill.is_empty(), model.values().all(VecDeque::is_empty));
            }
        }
    }

    #[test]
    fn hosts_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::new(dir.path());
        if !spill.has_room() {
            return;
        }
        for (host, record) in [("a", b"1"), ("a", b"2"), ("b", b"3"), ("c", b"4")] {
            spill.push_record(host, record).unwrap();
        }
        let mut order = Vec::new();
        while let Some(record) = spill.pop_record(|host| host != "c").unwrap() {
            order.extend(record);
        }
        assert_eq!(order, b"132");
        assert!(spill.holds_jobs_of("c") && !spill.is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

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
        let mut job = BatchJob::new(3, entry, "d/f".into(), Some("s/1".into()));
        job.strategy = BatchJobStrategy::PartialFile;
        let back = decode(&encode(&job).unwrap()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{job:?}"));
        job.attempts = 1;
        assert!(encode(&job).is_none());
    }
}
