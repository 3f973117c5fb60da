//! The most recent lookups, by name.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::lookups::LookupState;

/// How many names are remembered.
const MAX_NAMES: usize = 10_000;

/// Lookups that run, or whose results still hold.
#[derive(Debug, Default)]
pub(super) struct LookupCache {
    /// Each with its sequence number. The cache holds one receiver of each lookup beside those of the connections that wait.
    names: HashMap<String, (u64, Receiver<LookupState>)>,
    /// In the order of insertion. A name that was replaced is here a second time, with its old number.
    order: VecDeque<(String, u64)>,
    next_sequence: u64,
}

impl LookupCache {
    /// A name's lookup that runs or whose result still holds, to be shared.
    pub(super) fn get(&self, host: &str) -> Option<Receiver<LookupState>> {
        let (_, state) = self.names.get(host)?;
        Some(state).filter(|state| is_valid(state)).cloned()
    }

    /// Remembers a lookup, and forgets the oldest one where there are too many.
    pub(super) fn insert(&mut self, host: &str, state: Receiver<LookupState>) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.names.insert(host.to_owned(), (sequence, state));
        self.order.push_back((host.to_owned(), sequence));
        if self.order.len() > MAX_NAMES
            && let Some((oldest, sequence)) = self.order.pop_front()
            && let Some((current, _)) = self.names.get(&oldest)
            && *current == sequence
        {
            self.names.remove(&oldest);
        }
    }
}

fn is_valid(state: &Receiver<LookupState>) -> bool {
    // An abandoned lookup has no sender that would tell its result.
    let is_running = state.has_changed().is_ok();
    match &*state.borrow() {
        LookupState::Finished(_, expires) => Instant::now() < *expires,
        LookupState::Queued | LookupState::Running => is_running,
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
    async fn a_result_is_remembered_until_it_expires() {
        let mut cache = LookupCache::default();
        let (sender, state) = watch::channel(LookupState::Queued);
        cache.insert("h", state.clone());
        let running = cache.get("h");
        assert!(running.is_some_and(|running| running.same_channel(&state)));
        let failure = LookupError::transient(io::ErrorKind::TimedOut);
        let expires = Instant::now() + Duration::from_secs(3);
        sender.send_replace(LookupState::Finished(Err(failure), expires));
        drop(sender);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(cache.get("h").is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(cache.get("h").is_none());
    }

    #[tokio::test]
    async fn an_abandoned_lookup_is_not_shared() {
        let mut cache = LookupCache::default();
        let (sender, state) = watch::channel(LookupState::Queued);
        cache.insert("h", state.clone());
        drop(sender);
        assert!(cache.get("h").is_none());
    }

    #[test]
    fn the_cache_never_outgrows_its_bound() {
        let mut cache = LookupCache::default();
        let (_sender, state) = watch::channel(LookupState::Queued);
        (0..MAX_NAMES * 2).for_each(|n| cache.insert(&n.to_string(), state.clone()));
        assert_eq!(
            (cache.names.len(), cache.order.len()),
            (MAX_NAMES, MAX_NAMES)
        );
        let oldest_kept = MAX_NAMES.to_string();
        assert!(cache.get(&oldest_kept).is_some());
    }
}
