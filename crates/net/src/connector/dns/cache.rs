//! The names that were asked for, as many as are remembered.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::lookups::LookupState;

/// How many names are remembered.
const MAX_NAMES: usize = 10_000;

/// Names, and how far their look-ups are.
#[derive(Debug, Default)]
pub(super) struct LookupCache {
    /// With the place of each in the order. This holds the one receiver beside those of who waits.
    names: HashMap<String, (u64, Receiver<LookupState>)>,
    /// As they came. Those that were replaced meanwhile are here a second time.
    order: VecDeque<(String, u64)>,
    /// The next place.
    next_sequence: u64,
}

impl LookupCache {
    /// A name's look-up, under way or with what still holds: joined by whoever else asks.
    pub(super) fn get(&self, host: &str) -> Option<Receiver<LookupState>> {
        let (_, state) = self.names.get(host)?;
        Some(state).filter(|state| is_fresh(state)).cloned()
    }

    /// Remembers one, in place of the oldest where there are too many.
    pub(super) fn insert(&mut self, host: &str, state: Receiver<LookupState>) {
        let place = self.next_sequence;
        self.next_sequence += 1;
        self.names.insert(host.to_owned(), (place, state));
        self.order.push_back((host.to_owned(), place));
        if self.order.len() > MAX_NAMES
            && let Some((oldest, place)) = self.order.pop_front()
            && self
                .names
                .get(&oldest)
                .is_some_and(|(held, _)| *held == place)
        {
            self.names.remove(&oldest);
        }
    }
}

fn is_fresh(state: &Receiver<LookupState>) -> bool {
    // One that was given up has nobody who would tell how it ends.
    let is_under_way = state.has_changed().is_ok();
    match &*state.borrow() {
        LookupState::Finished(_, end) => Instant::now() < *end,
        LookupState::Queued | LookupState::Running => is_under_way,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::connector::dns::LookupError;

    #[tokio::test(start_paused = true)]
    async fn what_came_is_remembered_until_its_time_is_over() {
        let mut known = LookupCache::default();
        let (told, state) = watch::channel(LookupState::Queued);
        known.insert("h", state.clone());
        assert!(known.get("h").is_some_and(|held| held.same_channel(&state)));
        let failure = LookupError::transient(io::ErrorKind::TimedOut);
        let end = Instant::now() + Duration::from_secs(3);
        told.send_replace(LookupState::Finished(Err(failure), end));
        drop(told);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(known.get("h").is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(known.get("h").is_none());
    }

    #[tokio::test]
    async fn a_look_up_that_was_given_up_is_joined_by_nobody() {
        let mut known = LookupCache::default();
        let (told, state) = watch::channel(LookupState::Queued);
        known.insert("h", state.clone());
        drop(told);
        assert!(known.get("h").is_none());
    }

    #[test]
    fn the_cache_never_outgrows_its_bound() {
        let mut known = LookupCache::default();
        let (_told, state) = watch::channel(LookupState::Queued);
        (0..MAX_NAMES * 2).for_each(|n| known.insert(&n.to_string(), state.clone()));
        assert_eq!(
            (known.names.len(), known.order.len()),
            (MAX_NAMES, MAX_NAMES)
        );
        assert!(
            known.get(&MAX_NAMES.to_string()).is_some(),
            "the oldest went"
        );
    }
}
