//! Row B2: a power cut at any moment, and the journal still claims nothing that the disk does not hold.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use haul_plan::ResourceVersion;
use proptest::prelude::*;
use url::Url;

use super::*;
use crate::get::unsynced_ranges::written_ranges;
use crate::journal::{JournalHeader, SavedRangesCheck, load_journal};
use crate::range_set::RangeSet;

/// Bytes in a piece with a digest.
const CUT: u64 = 16;

/// A disk that holds after a power cut only what was synced.
#[derive(Debug, Default)]
struct PowerCutDisk(Mutex<SyncedBytesDisk>);

#[derive(Debug, Default, Clone)]
struct SyncedBytesDisk {
    /// What a reader sees while the power is on.
    cache: Vec<u8>,
    /// What is left when it goes.
    durable: Vec<u8>,
}

impl PowerCutDisk {
    fn state(&self) -> std::sync::MutexGuard<'_, SyncedBytesDisk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn power_cut(&self) {
        let mut state = self.state();
        state.cache = state.durable.clone();
    }
}

impl PartialStorage for PowerCutDisk {
    fn write_at(&self, offset: u64, pieces: &[Bytes]) -> io::Result<()> {
        let (at, bytes) = (usize::try_from(offset).unwrap(), pieces.concat());
        let mut state = self.state();
        if state.cache.len() < at + bytes.len() {
            state.cache.resize(at + bytes.len(), 0);
        }
        state.cache[at..at + bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state();
        let rest = state
            .cache
            .get(usize::try_from(offset).unwrap()..)
            .unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.durable = state.cache.clone();
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.state()
            .cache
            .resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.state().cache.len() as u64)
    }
}

#[derive(Debug, Clone)]
enum CheckpointStep {
    /// Bytes in the file turn out to be bad.
    Void(prop::sample::Index),
    /// These bytes are written somewhere nobody has written yet.
    Write(Vec<u8>),
    /// A checkpoint.
    Checkpoint,
}

fn any_step() -> impl Strategy<Value = CheckpointStep> {
    prop_oneof![
        3 => prop::collection::vec(1u8.., 1..50).prop_map(CheckpointStep::Write),
        1 => Just(CheckpointStep::Checkpoint),
        1 => any::<prop::sample::Index>().prop_map(CheckpointStep::Void),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn b2_after_a_power_cut_the_journal_claims_only_what_the_disk_holds(steps in prop::collection::vec(any_step(), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let url = Url::parse("http://h.test/f").unwrap();
        let header = JournalHeader::new(&url, 10_000, &ResourceVersion::default(), &[]);
        let disk = PowerCutDisk::default();
        let mut journal = Some(Journal::create(&path, &header).unwrap());
        let (mut pieces, mut at, mut claimed, mut voided) = (Vec::new(), 0u64, 0u64, RangeSet::new());
        for step in steps {
            match step {
                CheckpointStep::Write(bytes) => {
                    let bytes = [Bytes::from(bytes)];
                    disk.write_at(at, &bytes).unwrap();
                    pieces.extend(written_ranges(at, &bytes, Some(CUT)));
                    at += bytes[0].len() as u64;
                }
                CheckpointStep::Checkpoint => {
                    let spans = merge_adjacent(std::mem::take(&mut pieces), Some(CUT));
                    journal = checkpoint(&disk, journal, spans, &[]).unwrap();
                    claimed = at;
                }
                // A piece is taken back with what was written since, and then its bytes become others, not synced.
                CheckpointStep::Void(which) => {
                    let count = usize::try_from(at / CUT).unwrap();
                    if count == 0 {
                        continue;
                    }
                    let start = which.index(count) as u64 * CUT;
                    let spans = merge_adjacent(std::mem::take(&mut pieces), Some(CUT));
                    let discarded = DiscardedRange { start, end: start + CUT };
                    journal = checkpoint(&disk, journal, spans, &[discarded]).unwrap();
                    claimed = at;
                    voided.insert(start..start + CUT);
                    disk.write_at(start, &[vec![0; 7].into()]).unwrap();
                }
            }
        }
        disk.power_cut();
        let kept = load_journal(&path, &url).unwrap().unwrap();
        prop_assert!(!SavedRangesCheck::new(&disk, &kept).step().unwrap());
        let expected: RangeSet = voided.gaps(0..claimed).collect();
        prop_assert_eq!(kept.ranges(), expected);
    }
}

/// The order is what the row is about: with the steps swapped, the test above would see claims without bytes.
#[test]
fn b2_a_sync_that_fails_claims_nothing() {
    #[derive(Debug)]
    struct BrokenDisk;
    impl PartialStorage for BrokenDisk {
        fn write_at(&self, _: u64, _: &[Bytes]) -> io::Result<()> {
            Ok(())
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn sync(&self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn length(&self) -> io::Result<u64> {
            Ok(0)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let url = Url::parse("http://h.test/f").unwrap();
    let journal = Journal::create(
        &path,
        &JournalHeader::new(&url, 10, &ResourceVersion::default(), &[]),
    )
    .unwrap();
    let spans = vec![SavedRange {
        start: 0,
        end: 10,
        crc: 0,
    }];
    assert!(checkpoint(&BrokenDisk, Some(journal), spans, &[]).is_err());
    assert_eq!(load_journal(&path, &url).unwrap().unwrap().saved_ranges, []);
}

/// Three checkpoints of which the last one fails, and what a job does then: it closes with what is left. The journal still
/// claims what the first two did.
#[tokio::test]
async fn b4_a_checkpoint_that_fails_leaves_the_claims_of_those_before() {
    #[derive(Debug, Default)]
    struct FailsThirdSync(std::sync::atomic::AtomicUsize);
    impl PartialStorage for FailsThirdSync {
        fn write_at(&self, _: u64, _: &[Bytes]) -> io::Result<()> {
            Ok(())
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
        fn sync(&self) -> io::Result<()> {
            match self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                2 => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn length(&self) -> io::Result<u64> {
            Ok(0)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let url = Url::parse("http://h.test/f").unwrap();
    let journal = Journal::create(
        &path,
        &JournalHeader::new(&url, 10_000, &ResourceVersion::default(), &[]),
    )
    .unwrap();
    let storage = Arc::new(FailsThirdSync::default());
    let mut keeper = Checkpointer::new(storage, Some(journal), CheckpointOptions::default());
    let piece = |n: u64| {
        vec![SavedRange {
            start: n * 100,
            end: n * 100 + 100,
            crc: 0,
        }]
    };
    for n in 0..3 {
        keeper.begin(piece(n));
        assert_eq!(keeper.wait().await.is_ok(), n < 2);
    }
    let _ = keeper.close(piece(3)).await;
    let claimed = load_journal(&path, &url).unwrap().unwrap().ranges();
    assert!(claimed.covers(&(0..200)));
    assert_eq!(claimed.total_bytes(), 200);
}
