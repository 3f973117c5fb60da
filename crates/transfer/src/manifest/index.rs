//! An index of the jobs that are done, with 20 bytes a row: a million rows take 20 MB, whatever the length of their
//! URLs.
//!
//! The key of a job is 48 bits of the hash of its path and 48 bits of the hash of its URL. Among a million jobs, two
//! that share neither collide once in 10^17 runs, and a million jobs with two paths each once in 10^8. Jobs with the
//! same path are neighbours, so that no second index is needed to find out which job wrote the file under a path. The
//! memory is reserved before the first row is read, because a vector that grows by doubling needs three times the
//! memory for a moment.

use std::collections::TryReserveError;

/// The key of a job and the place of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ManifestIndexEntry {
    /// The first bits of two hashes: 48 of the path's, then 48 of the URL's.
    key: [u32; 3],
    /// Twice the row's offset, plus one when the row says that the job is done; the upper half first. Two `u32` avoid
    /// padding, and their order sorts the last row of a job last.
    packed_row: [u32; 2],
}

/// The last row of each job.
#[derive(Debug, Default)]
pub(super) struct ManifestIndex {
    entries: Vec<ManifestIndexEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastJobRow {
    /// The row's offset in the file.
    pub(super) offset: u64,
    /// Whether the row says that the job is done.
    pub(super) done: bool,
}

impl ManifestIndex {
    /// An index with room for this many rows.
    pub(super) fn with_capacity(rows: u64) -> Result<Self, TryReserveError> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(usize::try_from(rows).unwrap_or(usize::MAX))?;
        Ok(Self { entries })
    }

    /// Adds a row. Rows come in the order of the file.
    pub(super) fn push(&mut self, url: &str, path: Option<&str>, last: LastJobRow) {
        self.entries.push(ManifestIndexEntry {
            key: key_of(url, path),
            packed_row: pack_row(last),
        });
    }

    /// Keeps the last row of each job. Nothing is found before this call.
    pub(super) fn sort(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by(|later, kept| {
            let same = later.key == kept.key;
            if same {
                kept.packed_row = later.packed_row;
            }
            same
        });
        self.entries.shrink_to_fit();
    }

    /// The last row of a job.
    pub(super) fn find(&self, url: &str, path: Option<&str>) -> Option<LastJobRow> {
        let key_of = key_of(url, path);
        let at = self
            .entries
            .binary_search_by_key(&key_of, |entry| entry.key)
            .ok()?;
        Some(unpack_row(self.entries[at].packed_row))
    }

    /// The last of the rows that say that a job with this path is done, whatever the job's URL.
    pub(super) fn last_done_at(&self, path: &str) -> Option<LastJobRow> {
        let path = path_part(key_of("", Some(path)));
        let first = self
            .entries
            .partition_point(|entry| path_part(entry.key) < path);
        let jobs = self.entries[first..].iter();
        jobs.take_while(|entry| path_part(entry.key) == path)
            .map(|entry| unpack_row(entry.packed_row))
            .filter(|last| last.done)
            .max_by_key(|last| last.offset)
    }

    /// How many jobs are done.
    pub(super) fn done_count(&self) -> u64 {
        let rows = self.entries.iter();
        rows.filter(|entry| unpack_row(entry.packed_row).done)
            .count() as u64
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<ManifestIndexEntry>()
    }
}

fn key_of(url: &str, path: Option<&str>) -> [u32; 3] {
    let [p0, p1, p2, p3, p4, p5] = hash_prefix(path.unwrap_or_default());
    let [u0, u1, u2, u3, u4, u5] = hash_prefix(url);
    [
        u32::from_be_bytes([p0, p1, p2, p3]),
        u32::from_be_bytes([p4, p5, u0, u1]),
        u32::from_be_bytes([u2, u3, u4, u5]),
    ]
}

fn hash_prefix(text: &str) -> [u8; 6] {
    let hash = blake3::hash(text.as_bytes());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

/// The path's part of a key.
fn path_part(key_of: [u32; 3]) -> (u32, u32) {
    (key_of[0], key_of[1] >> 16)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves of a word, each taken by itself"
)]
fn pack_row(last: LastJobRow) -> [u32; 2] {
    let word = last.offset << 1 | u64::from(last.done);
    [(word >> 32) as u32, word as u32]
}

fn unpack_row([upper, lower]: [u32; 2]) -> LastJobRow {
    let word = u64::from(upper) << 32 | u64::from(lower);
    LastJobRow {
        offset: word >> 1,
        done: word & 1 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A million rows and everything else must fit into 64 MiB.
    #[test]
    fn c1_a_million_rows_take_twenty_megabytes() {
        let mut index = ManifestIndex::with_capacity(1_000_000).unwrap();
        let before = index.memory_bytes();
        for n in 0..1_000_000u64 {
            // Every third job has two rows.
            let url = format!("http://h.test/{}", n - n % 4 / 3);
            index.push(
                &url,
                None,
                LastJobRow {
                    offset: n * 300,
                    done: n % 2 == 0,
                },
            );
        }
        assert_eq!(index.memory_bytes(), before, "it grew");
        assert_eq!(before, 20_000_000);
        index.sort();
        assert_eq!(index.done_count(), 250_000);
        assert_eq!(index.memory_bytes(), 750_000 * 20);
        assert_eq!(
            index.find("http://h.test/2", None),
            Some(LastJobRow {
                offset: 900,
                done: false
            })
        );
    }

    #[test]
    fn an_index_that_does_not_fit_into_memory_is_an_error() {
        assert!(ManifestIndex::with_capacity(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn the_last_row_of_each_job_is_found(
            rows in prop::collection::vec((0u8..8, prop::option::of(1u8..3), any::<bool>(), 0u64..1 << 40), 0..40),
        ) {
            let mut index = ManifestIndex::with_capacity(rows.len() as u64).unwrap();
            let mut model = HashMap::new();
            let mut at = 0;
            for (url, path, done, length) in rows {
                at += length;
                let (url, path) = (format!("u{url}"), path.map(|path| format!("p{path}")));
                index.push(&url, path.as_deref(), LastJobRow { offset: at, done });
                model.insert((url, path), LastJobRow { offset: at, done });
                at += 1;
            }
            index.sort();
            let done = model.values().filter(|last| last.done).count() as u64;
            prop_assert_eq!(index.done_count(), done);
            for path in ["p1", "p2"] {
                let of = |((_, at), last): (&(String, Option<String>), &LastJobRow)| {
                    (at.as_deref() == Some(path) && last.done).then_some(*last)
                };
                let last = model.iter().filter_map(of).max_by_key(|last| last.offset);
                prop_assert_eq!(index.last_done_at(path), last);
            }
            prop_assert_eq!(index.last_done_at("p3"), None);
            for ((url, path), last) in model {
                prop_assert_eq!(index.find(&url, path.as_deref()), Some(last));
                prop_assert_eq!(index.find(&format!("{url}x"), path.as_deref()), None);
            }
        }
    }
}
