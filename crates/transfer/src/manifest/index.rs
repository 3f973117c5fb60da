//! Which jobs are done, in 20 bytes each: a million rows are 20 MB, whatever their URLs' length.
//!
//! A job is known by 48 bits of a hash of its path and as many of its URL's: among a million jobs that share neither two are alike once
//! in 10^17 runs, and among a million with two paths each once in 10^8. Jobs of one path lie side by side, so that no second list is
//! needed to tell whose file it is that lies under a path. The list is made as large as it
//! will be before the first row is read, since one that grows by doubling needs three times the memory for a moment.

use std::collections::TryReserveError;

/// A row's job, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ManifestIndexEntry {
    /// The fronts of two hashes: of the path, 48 bits, then of the URL.
    key: [u32; 3],
    /// The row's offset, doubled, and one more when the job was done by it; the upper half first. In words, so that no byte is
    /// lost to alignment, and in this order, so that the last row of a job is sorted last.
    packed_row: [u32; 2],
}

/// The last row of each job.
#[derive(Debug, Default)]
pub(super) struct ManifestIndex {
    entries: Vec<ManifestIndexEntry>,
}

/// Where a job's last row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastRow {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// Whether it says that the job is done.
    pub(super) done: bool,
}

impl ManifestIndex {
    /// One with room for so many rows.
    pub(super) fn with_capacity(rows: u64) -> Result<Self, TryReserveError> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(usize::try_from(rows).unwrap_or(usize::MAX))?;
        Ok(Self { entries })
    }

    /// Takes a row's place. The rows come in the order of the file.
    pub(super) fn push(&mut self, url: &str, path: Option<&str>, last: LastRow) {
        self.entries.push(ManifestIndexEntry {
            key: job(url, path),
            packed_row: pack(last),
        });
    }

    /// Keeps the last row of each job; before that nothing is found.
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

    /// A job's last row.
    pub(super) fn find(&self, url: &str, path: Option<&str>) -> Option<LastRow> {
        let job = job(url, path);
        let at = self
            .entries
            .binary_search_by_key(&job, |entry| entry.key)
            .ok()?;
        Some(unpack(self.entries[at].packed_row))
    }

    /// The last row that says of any job with this path that it is done: whose file lies there, if one does.
    pub(super) fn last_done_at(&self, path: &str) -> Option<LastRow> {
        let path = under(job("", Some(path)));
        let first = self
            .entries
            .partition_point(|entry| under(entry.key) < path);
        let jobs = self.entries[first..].iter();
        jobs.take_while(|entry| under(entry.key) == path)
            .map(|entry| unpack(entry.packed_row))
            .filter(|last| last.done)
            .max_by_key(|last| last.offset)
    }

    /// How many jobs are done, and how many are not.
    pub(super) fn counts(&self) -> (u64, u64) {
        let done = self
            .entries
            .iter()
            .filter(|entry| unpack(entry.packed_row).done)
            .count();
        (done as u64, (self.entries.len() - done) as u64)
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<ManifestIndexEntry>()
    }
}

/// What a job is known by: the fronts of the hashes of its path and its URL.
fn job(url: &str, path: Option<&str>) -> [u32; 3] {
    let [p0, p1, p2, p3, p4, p5] = front(path.unwrap_or_default());
    let [u0, u1, u2, u3, u4, u5] = front(url);
    [
        u32::from_be_bytes([p0, p1, p2, p3]),
        u32::from_be_bytes([p4, p5, u0, u1]),
        u32::from_be_bytes([u2, u3, u4, u5]),
    ]
}

fn front(text: &str) -> [u8; 6] {
    let hash = blake3::hash(text.as_bytes());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

/// The path's part of it.
fn under(job: [u32; 3]) -> (u32, u32) {
    (job[0], job[1] >> 16)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves of a word, each taken by itself"
)]
fn pack(last: LastRow) -> [u32; 2] {
    let word = last.offset << 1 | u64::from(last.done);
    [(word >> 32) as u32, word as u32]
}

fn unpack([upper, lower]: [u32; 2]) -> LastRow {
    let word = u64::from(upper) << 32 | u64::from(lower);
    LastRow {
        offset: word >> 1,
        done: word & 1 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// So much may a row take that a million of them and everything else fit in 64 MiB.
    #[test]
    fn c1_a_million_rows_take_twenty_megabytes_and_never_more() {
        let mut index = ManifestIndex::with_capacity(1_000_000).unwrap();
        let before = index.memory_bytes();
        for n in 0..1_000_000u64 {
            // Every third job has two rows.
            let url = format!("http://h.test/{}", n - n % 4 / 3);
            index.push(
                &url,
                None,
                LastRow {
                    offset: n * 300,
                    done: n % 2 == 0,
                },
            );
        }
        assert_eq!(index.memory_bytes(), before, "it grew");
        assert_eq!(before, 20_000_000);
        index.sort();
        assert_eq!(index.counts(), (250_000, 500_000));
        assert_eq!(index.memory_bytes(), 750_000 * 20);
        assert_eq!(
            index.find("http://h.test/2", None),
            Some(LastRow {
                offset: 900,
                done: false
            })
        );
    }

    #[test]
    fn a_size_that_no_memory_has_is_an_error() {
        assert!(ManifestIndex::with_capacity(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn the_last_row_of_each_job_is_what_is_found(
            rows in prop::collection::vec((0u8..8, prop::option::of(1u8..3), any::<bool>(), 0u64..1 << 40), 0..40),
        ) {
            let mut index = ManifestIndex::with_capacity(rows.len() as u64).unwrap();
            let mut model = HashMap::new();
            let mut at = 0;
            for (url, path, done, length) in rows {
                at += length;
                let (url, path) = (format!("u{url}"), path.map(|path| format!("p{path}")));
                index.push(&url, path.as_deref(), LastRow { offset: at, done });
                model.insert((url, path), LastRow { offset: at, done });
                at += 1;
            }
            index.sort();
            let done = model.values().filter(|last| last.done).count() as u64;
            prop_assert_eq!(index.counts(), (done, model.len() as u64 - done));
            for path in ["p1", "p2"] {
                let of = |((_, at), last): (&(String, Option<String>), &LastRow)| {
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
