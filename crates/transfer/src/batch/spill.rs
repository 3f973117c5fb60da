//! Jobs put aside: those of hosts that hold as much of the window as is good for the others.
//!
//! A list that is sorted by host may have a hundred thousand jobs of a slow one in front. They are written to a file without a name,
//! each host's behind each other: a record leads to the next of its host, so that memory is needed for a host's first
//! and last one only. They come back in their order when the host has room again. When the file is empty it begins anew, and
//! there is a bound on it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::disk::UnnamedFile;

/// The largest that the file gets, in bytes: some five million jobs.
const MOST: u64 = 1 << 30;

/// Bytes before a record: where the next one of its host begins (0: nowhere), and how long it is.
const HEAD: usize = 12;

/// Where no record begins, since the file has something before the first.
const START: u64 = 8;

/// The jobs that lie aside.
#[derive(Debug)]
pub(super) struct SpillFile {
    /// Where they lie; `None` where a file cannot be without a name.
    file: Option<UnnamedFile>,
    /// Where the next one will.
    end: u64,
    /// The first and the last of each host.
    chains: HashMap<String, SpillChain>,
    /// Hosts, in the order in which they get their turn.
    turns: VecDeque<String>,
}

/// The records of one host.
#[derive(Debug, Clone, Copy)]
struct SpillChain {
    first: u64,
    last: u64,
}

impl SpillFile {
    /// With a file in the file system of a directory.
    pub(super) fn new(directory: &Path) -> Self {
        let here = directory.as_os_str().is_empty();
        let directory = if here { Path::new(".") } else { directory };
        Self {
            file: UnnamedFile::create_in(directory).ok(),
            end: START,
            chains: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Whether none lie here.
    pub(super) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// Whether some of a host's lie here: later ones go behind them.
    pub(super) fn holds_jobs_of(&self, host: &str) -> bool {
        self.chains.contains_key(host)
    }

    /// Whether one more may be put here.
    pub(super) fn has_room(&self) -> bool {
        self.file.is_some() && self.end < MOST
    }

    /// Puts a job here.
    ///
    /// # Errors
    /// What the system says; the job is not here then.
    pub(super) fn push(&mut self, host: &str, record: &[u8]) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let length = u32::try_from(record.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut bytes = Vec::with_capacity(HEAD + record.len());
        bytes.extend_from_slice(&0u64.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(record);
        let (at, next) = (self.end, self.end + bytes.len() as u64);
        file.write_at(at, &[Bytes::from(bytes)])?;
        match self.chains.get_mut(host) {
            Some(chain) => {
                file.write_at(chain.last, &[Bytes::copy_from_slice(&at.to_le_bytes())])?;
                chain.last = at;
            }
            None => {
                let chain = SpillChain {
                    first: at,
                    last: at,
                };
                self.chains.insert(host.to_owned(), chain);
                self.turns.push_back(host.to_owned());
            }
        }
        self.end = next;
        Ok(())
    }

    /// Takes the first job of the first host in turn that `may` have one; that host is then the last in turn.
    ///
    /// # Errors
    /// What the system says: the jobs of that host are lost then, and so is the batch's account of them.
    pub(super) fn pop(&mut self, mut may: impl FnMut(&str) -> bool) -> io::Result<Option<Vec<u8>>> {
        let Some(turn) = self.turns.iter().position(|host| may(host)) else {
            return Ok(None);
        };
        let Some(host) = self.turns.remove(turn) else {
            return Ok(None);
        };
        let (Some(file), Some(chain)) = (&self.file, self.chains.get_mut(&host)) else {
            return Ok(None);
        };
        let mut head = [0; HEAD];
        fill(file, chain.first, &mut head)?;
        let (next, length) = head.split_at(8);
        let next = u64::from_le_bytes(next.try_into().unwrap_or_default());
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        let mut record = vec![0; length as usize];
        fill(file, chain.first + HEAD as u64, &mut record)?;
        if chain.first == chain.last {
            self.chains.remove(&host);
        } else {
            chain.first = next;
            self.turns.push_back(host);
        }
        if self.chains.is_empty() {
            self.end = START;
        }
        Ok(Some(record))
    }
}

fn fill(file: &UnnamedFile, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = file.read_at(at, buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += read as u64;
        buffer = &mut buffer[read..];
    }
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_host_gets_its_jobs_back_in_their_order(steps in prop::collection::vec((any::<bool>(), 0u8..4, 0usize..300), 0..120)) {
            let dir = tempfile::tempdir().unwrap();
            let mut aside = SpillFile::new(dir.path());
            prop_assume!(aside.has_room());
            let mut model: HashMap<String, VecDeque<Vec<u8>>> = HashMap::new();
            for (number, (put, host, length)) in (0u8..).zip(steps) {
                let host = format!("http://h{host}");
                let queue = model.entry(host.clone()).or_default();
                if put {
                    let record = vec![number; length];
                    aside.push(&host, &record).unwrap();
                    queue.push_back(record);
                } else {
                    prop_assert_eq!(aside.pop(|other| other == host).unwrap(), queue.pop_front());
                }
                prop_assert_eq!(aside.holds_jobs_of(&host), !queue.is_empty());
                prop_assert_eq!(aside.is_empty(), model.values().all(VecDeque::is_empty));
            }
        }
    }

    #[test]
    fn hosts_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let mut aside = SpillFile::new(dir.path());
        if !aside.has_room() {
            return;
        }
        for (host, record) in [("a", b"1"), ("a", b"2"), ("b", b"3"), ("c", b"4")] {
            aside.push(host, record).unwrap();
        }
        let mut order = Vec::new();
        while let Some(record) = aside.pop(|host| host != "c").unwrap() {
            order.extend(record);
        }
        assert_eq!(order, b"132");
        assert!(aside.holds_jobs_of("c") && !aside.is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
