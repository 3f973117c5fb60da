//! Whether a 403 is worth asking again: some hosts say it to the fifth connection (row A18), most mean the file.
//!
//! Which it is shows when the same is asked again: a few jobs of each host are, and as long as it pays, further ones. A host is the
//! one that answered: where a redirect led, its 403 may be about a signature that a new redirect would renew (row A16), and says
//! nothing about the host that redirects.

use std::collections::HashMap;

/// Tries of a host before it is known to mean what it says.
const TRIES: u32 = 8;

/// One try in so many must have paid for further ones.
const WORTH: u32 = 4;

/// Hosts that are remembered; beyond, all are forgotten and found out again.
const HOSTS: usize = 4096;

/// What came of asking hosts again.
#[derive(Debug, Default)]
pub struct ForbiddenPolicy(HashMap<String, ForbiddenHistory>);

#[derive(Debug, Default, Clone, Copy)]
struct ForbiddenHistory {
    /// What came of asking again, so often.
    tried: u32,
    /// How often the file.
    paid: u32,
}

impl ForbiddenPolicy {
    /// A job got a 403, for the first time or again (`before`); whether it shall be asked for once more.
    pub fn denied(&mut self, host: &str, before: bool) -> bool {
        let known = self.known(host);
        known.tried = known.tried.saturating_add(u32::from(before));
        known.tried < TRIES || known.paid.saturating_mul(WORTH) >= known.tried
    }

    /// A job that was asked for again was given.
    pub fn granted(&mut self, host: &str) {
        let known = self.known(host);
        known.tried = known.tried.saturating_add(1);
        known.paid = known.paid.saturating_add(1);
    }

    /// Whether a host's 403 may be about how much is asked at once: it has given what it denied before, or is not known yet to mean
    /// what it says. Fewer are asked for at once then, for that is what asking again must show.
    #[must_use]
    pub fn may_be_crowd(&self, host: &str) -> bool {
        let known = self.0.get(host);
        known.is_none_or(|known| known.paid > 0 || known.tried < TRIES)
    }

    fn known(&mut self, host: &str) -> &mut ForbiddenHistory {
        if self.0.len() >= HOSTS && !self.0.contains_key(host) {
            self.0.clear();
        }
        self.0.entry(host.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a18_asking_again_goes_on_as_long_as_it_pays() {
        let mut denials = ForbiddenPolicy::default();
        let asked_again = (0..100).filter(|_| denials.denied("strict", true)).count();
        assert_eq!(asked_again, 7);
        assert!(!denials.may_be_crowd("strict"));
        for number in 0..100 {
            assert!(denials.denied("crowded", number % 2 == 0));
            denials.granted("crowded");
        }
        assert!(denials.may_be_crowd("crowded") && denials.may_be_crowd("unknown"));
    }

    #[test]
    fn c1_hosts_are_remembered_up_to_a_bound() {
        let mut denials = ForbiddenPolicy::default();
        for _ in 0..TRIES {
            denials.denied("strict", true);
        }
        for number in 0..2 * HOSTS {
            denials.denied(&number.to_string(), false);
            assert!(denials.0.len() <= HOSTS);
        }
        assert!(denials.may_be_crowd("strict"), "it was forgotten");
        // One that is known makes nobody forgotten.
        let (known, count) = ((2 * HOSTS - 1).to_string(), denials.0.len());
        denials.granted(&known);
        assert_eq!(denials.0.len(), count);
    }

    proptest! {
        /// Each job asks until it is given or not asked for again; one in `share` tries is given, or none.
        #[test]
        fn a18_what_is_meant_costs_a_few_requests_and_what_pays_goes_on(jobs in 1u32..400, share in prop::option::of(1u32..=3)) {
            let mut denials = ForbiddenPolicy::default();
            let (mut tries, mut given) = (0u32, 0);
            for _job in 0..jobs {
                let mut before = false;
                while denials.denied("h", before) {
                    before = true;
                    tries += 1;
                    if share.is_some_and(|share| tries.is_multiple_of(share)) {
                        denials.granted("h");
                        given += 1;
                        break;
                    }
                }
            }
            match share {
                None => prop_assert!(tries <= TRIES),
                Some(_) => prop_assert_eq!(given, jobs, "each of them"),
            }
        }
    }
}
