//! Whether a 403 is worth asking again: some hosts say it to the fifth connection (row A18), most mean the file.
//!
//! Which it is shows when the same is asked again: a few jobs of each host are, and as long as it pays, further ones.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tries of a host before it is known to mean what it says.
const TRIES: u32 = 8;

/// Hosts that are remembered; beyond, all are forgotten and found out again.
const HOSTS: usize = 4096;

/// What came of asking hosts again.
#[derive(Debug, Default)]
pub(super) struct Denials(Mutex<HashMap<String, Known>>);

#[derive(Debug, Default, Clone, Copy)]
struct Known {
    /// What came of asking again, so often.
    tried: u32,
    /// How often the file.
    paid: u32,
}

impl Denials {
    /// A job got a 403, for the first time or again; whether it shall be asked for once more.
    pub(super) fn denied(&self, host: &str, before: bool) -> bool {
        let mut hosts = self.lock();
        if hosts.len() >= HOSTS {
            hosts.clear();
        }
        let known = hosts.entry(host.to_owned()).or_default();
        known.tried += u32::from(before);
        known.tried < TRIES || known.paid.saturating_mul(4) >= known.tried
    }

    /// A job that was asked for again was given.
    pub(super) fn granted(&self, host: &str) {
        let mut hosts = self.lock();
        let known = hosts.entry(host.to_owned()).or_default();
        known.tried += 1;
        known.paid += 1;
    }

    /// Whether a host has given what it denied before: then its 403 is about how much is asked at once.
    pub(super) fn is_crowd(&self, host: &str) -> bool {
        self.lock().get(host).is_some_and(|known| known.paid > 0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_asking_again_goes_on_as_long_as_it_pays() {
        let denials = Denials::default();
        let asked_again = (0..100).filter(|_| denials.denied("strict", true)).count();
        assert_eq!(asked_again, 7);
        for number in 0..100 {
            assert!(denials.denied("crowded", number % 2 == 0));
            denials.granted("crowded");
        }
    }
}
