//! Whether a request that got a 403 is worth repeating: some hosts send it to the fifth connection (row A18), most refuse the file.
//!
//! Another request shows which it is: a few jobs of each host repeat theirs, and as long as that succeeds, further jobs do. The host is the
//! one that sent the 403. At the target of a redirect, a 403 may be about a signature that a new redirect would renew (row A16), and
//! says nothing about the host that redirects.

use std::collections::HashMap;

/// Requests that are repeated before the 403s of a host count as permanent.
const TRIAL_RETRIES: u32 = 8;

/// How often one job repeats its request while the host has sent no file after a 403: a list with one dead link should not wait a minute for it.
const TRIAL_RETRIES_OF_JOB: u32 = 3;

/// One in this many repeated requests must succeed, or no further ones are sent.
const RETRIES_PER_SUCCESS: u32 = 4;

/// Hosts that are remembered. At one more, all are forgotten.
const MAX_HOSTS: usize = 4096;

/// What repeated requests to each host have shown.
#[derive(Debug, Default)]
pub(crate) struct ForbiddenPolicy(HashMap<String, ForbiddenHistory>);

#[derive(Debug, Default, Clone, Copy)]
struct ForbiddenHistory {
    /// Requests that were repeated after a 403.
    retries: u32,
    /// How many of them brought the file.
    successes: u32,
}

impl ForbiddenPolicy {
    /// A job got a 403, after it had repeated its request `repeated` times because of others. Returns whether to repeat it once more.
    pub(crate) fn on_forbidden(&mut self, host: &str, repeated: u32) -> bool {
        let history = self.history(host);
        history.retries = history.retries.saturating_add(u32::from(repeated > 0));
        let is_trial = history.retries < TRIAL_RETRIES
            && (history.successes > 0 || repeated < TRIAL_RETRIES_OF_JOB);
        is_trial
            || (history.successes > 0
                && history.successes.saturating_mul(RETRIES_PER_SUCCESS) >= history.retries)
    }

    /// A repeated request brought the file.
    pub(crate) fn on_success(&mut self, host: &str) {
        let history = self.history(host);
        history.retries = history.retries.saturating_add(1);
        history.successes = history.successes.saturating_add(1);
    }

    /// Whether a host's 403 may mean too many requests: it has sent files after a 403, or its 403s do not count as permanent yet. Then it
    /// gets fewer requests at once, since that shows whether a repeated one succeeds.
    #[must_use]
    pub(crate) fn may_mean_overload(&self, host: &str) -> bool {
        let history = self.0.get(host);
        history.is_none_or(|known| known.successes > 0 || known.retries < TRIAL_RETRIES)
    }

    fn history(&mut self, host: &str) -> &mut ForbiddenHistory {
        if self.0.len() >= MAX_HOSTS && !self.0.contains_key(host) {
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
    fn a18_requests_are_repeated_as_long_as_that_pays() {
        let mut policy = ForbiddenPolicy::default();
        let repeated = (0..100).filter(|_| policy.on_forbidden("strict", 1));
        assert_eq!(repeated.count(), 7);
        assert!(!policy.may_mean_overload("strict"));
        for number in 0..100 {
            assert!(policy.on_forbidden("crowded", number % 7));
            policy.on_success("crowded");
        }
        assert!(policy.may_mean_overload("crowded") && policy.may_mean_overload("unknown"));
    }

    #[test]
    fn a18_one_job_that_is_forbidden_alone_repeats_its_request_three_times() {
        let mut policy = ForbiddenPolicy::default();
        let repeated = (0..).take_while(|repeated| policy.on_forbidden("h", *repeated));
        assert_eq!(repeated.count(), 3);
    }

    #[test]
    fn c1_hosts_are_remembered_up_to_a_bound() {
        let mut policy = ForbiddenPolicy::default();
        for _ in 0..TRIAL_RETRIES {
            policy.on_forbidden("strict", 1);
        }
        for number in 0..2 * MAX_HOSTS {
            policy.on_forbidden(&number.to_string(), 0);
            assert!(policy.0.len() <= MAX_HOSTS);
        }
        assert!(policy.may_mean_overload("strict"), "it was forgotten");
        // For a known host no other is forgotten.
        let (known, count) = ((2 * MAX_HOSTS - 1).to_string(), policy.0.len());
        policy.on_success(&known);
        assert_eq!(policy.0.len(), count);
    }

    proptest! {
        /// Each job sends requests until one brings the file or none is worth repeating; one in `share` repeated requests brings it,
        /// or none does.
        #[test]
        fn a18_a_permanent_403_costs_a_few_requests_and_a_transient_one_is_overcome(jobs in 1u32..400, share in prop::option::of(1u32..=3)) {
            let mut policy = ForbiddenPolicy::default();
            let (mut retries, mut files) = (0u32, 0);
            for _job in 0..jobs {
                let mut repeated = 0;
                while policy.on_forbidden("h", repeated) {
                    repeated += 1;
                    retries += 1;
                    if share.is_some_and(|share| retries.is_multiple_of(share)) {
                        policy.on_success("h");
                        files += 1;
                        break;
                    }
                }
            }
            match share {
                None => prop_assert!(retries <= TRIAL_RETRIES),
                Some(_) => prop_assert_eq!(files, jobs, "each of them"),
            }
        }
    }
}
