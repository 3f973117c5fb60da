use proptest::prelude::*;

use super::*;

fn key(number: usize) -> ObjectKey {
    ObjectKey::parse(&format!("/{number}")).expect("a key").key
}

#[test]
fn reservations_are_released_unless_committed() {
    let quota = Arc::new(StorageQuota::new(50, Some(100)));
    let mut first = quota.reserve(&key(1), 0);
    first.grow(30).expect("room");
    let mut second = quota.reserve(&key(2), 0);
    assert!(matches!(second.grow(21), Err(StoreError::OverQuota { .. })));
    assert!(quota.take_refused() && !quota.take_refused());
    second.grow(20).expect("the rest");
    drop(first);
    second.grow(30).expect("what the first gave back");
    second.commit(0);
    let one = || quota.reserve(&key(3), 0).grow(1);
    assert!(matches!(one(), Err(StoreError::OverQuota { .. })));
    quota.remove_file(1, || Ok::<_, ()>(())).expect("removed");
    one().expect("what went");
    quota.remove_file(9, || Err(())).expect_err("not removed");
    assert!(!quota.fits(2));
}

#[test]
fn without_a_quota_nothing_is_limited() {
    let quota = Arc::new(StorageQuota::new(0, None));
    let mut reservation = quota.reserve(&key(1), 7);
    reservation.grow(u64::MAX).expect("room");
    reservation.change(0).expect("room");
}

/// How often the recount looks at a key before a change, and after it.
type Looks = (usize, usize);

/// What may happen to a store with some keys.
#[derive(Debug, Clone)]
enum QuotaStep {
    Begin(usize),
    Take(usize, u64),
    /// The recount looks while the disk shows a change or does not, and the quota does not count it yet.
    Commit(usize, Looks),
    Drop(usize),
    Delete(usize, Looks),
    /// The recount looks at the next key.
    Look,
}

fn step() -> impl Strategy<Value = QuotaStep> {
    let which = 0..KEYS;
    let looks = || (0..=KEYS + 1, 0..=KEYS + 1);
    prop_oneof![
        which.clone().prop_map(QuotaStep::Begin),
        (0..8_usize, 0..60_u64).prop_map(|(upload, bytes)| QuotaStep::Take(upload, bytes)),
        (0..8_usize, looks()).prop_map(|(upload, looks)| QuotaStep::Commit(upload, looks)),
        (0..8_usize).prop_map(QuotaStep::Drop),
        (which, looks()).prop_map(|(key, looks)| QuotaStep::Delete(key, looks)),
        Just(QuotaStep::Look),
    ]
}

const KEYS: usize = 4;
const MOST: u64 = 100;

/// The store, and the quota that counts it.
struct QuotaModel {
    files: [u64; KEYS],
    uploads: Vec<(usize, u64, QuotaReservation)>,
    quota: Arc<StorageQuota>,
    /// The position of the recount, its sum so far, and its start.
    count: (usize, u64, RecountStart),
}

impl QuotaModel {
    fn new(files: [u64; KEYS], believed: u64) -> Self {
        let quota = Arc::new(StorageQuota::new(believed, Some(MOST)));
        Self {
            files,
            uploads: Vec::new(),
            count: (0, 0, quota.begin_recount()),
            quota,
        }
    }

    fn take(&mut self, step: &QuotaStep) {
        let some = |index: usize| index % self.uploads.len().max(1);
        match *step {
            QuotaStep::Begin(key_) => {
                let reservation = self.quota.reserve(&key(key_), self.files[key_]);
                self.uploads.push((key_, 0, reservation));
            }
            QuotaStep::Take(index, bytes) => {
                let index = some(index);
                if let Some((_, len, reservation)) = self.uploads.get_mut(index)
                    && reservation.grow(bytes).is_ok()
                {
                    *len += bytes;
                }
            }
            QuotaStep::Commit(index, (before, after)) if !self.uploads.is_empty() => {
                let (key, len, mut reservation) = self.uploads.remove(some(index));
                let replaced_bytes = self.files[key];
                if reservation.change(replaced_bytes).is_ok() {
                    self.look_times(before);
                    self.files[key] = len;
                    self.look_times(after);
                    reservation.commit(replaced_bytes);
                }
            }
            QuotaStep::Drop(index) if !self.uploads.is_empty() => {
                self.uploads.remove(some(index));
            }
            QuotaStep::Commit(..) | QuotaStep::Drop(_) => {}
            QuotaStep::Delete(key, (before, after)) => {
                let (quota, bytes) = (Arc::clone(&self.quota), self.files[key]);
                let remove = || {
                    self.look_times(before);
                    self.files[key] = 0;
                    self.look_times(after);
                    Ok::<_, ()>(())
                };
                quota.remove_file(bytes, remove).expect("removed");
            }
            QuotaStep::Look => self.look(),
        }
    }

    fn look_times(&mut self, times: usize) {
        (0..times).for_each(|_| self.look());
    }

    fn look(&mut self) {
        let (at, found, since) = self.count;
        self.count = match self.files.get(at) {
            Some(bytes) => (at + 1, found + bytes, since),
            None => {
                self.quota.finish_recount(since, found);
                (0, 0, self.quota.begin_recount())
            }
        };
    }

    fn held(&self) -> u64 {
        self.files.iter().sum()
    }
}

proptest! {
    #[test]
    fn files_never_exceed_the_quota_and_a_recount_keeps_a_correct_count(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut model = QuotaModel::new([30, 10, 0, 20], 60);
        for step in &steps {
            model.take(step);
            prop_assert!(model.held() <= MOST);
            let files = model.quota.lock().files;
            prop_assert_eq!(files, model.held(), "{:?}", step);
        }
        model.uploads.clear();
        let count = model.quota.lock();
        prop_assert_eq!((count.reserved, count.in_flux, count.replaced.len()), (0, 0, 0));
    }

    #[test]
    fn a_quiet_recount_corrects_the_count(
        steps in proptest::collection::vec(step(), 0..100),
        believed in 0..MOST,
    ) {
        let mut model = QuotaModel::new([30, 10, 0, 20], believed);
        steps.iter().for_each(|step| model.take(step));
        model.uploads.clear();
        model.look_times(KEYS * 2 + 2);
        let files = model.quota.lock().files;
        prop_assert_eq!(files, model.held());
    }
}
