//! What peers want to see, remembered, so that the next request shows it unasked.
//!
//! Origins and proxies both have one of these. Requests go on at once, so what is remembered may be newer than what a
//! request carried: whether a refusal is final is judged by the credentials that the refused request itself had shown.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Login;
use super::challenge::{Authorization, Challenges, Wanted};

/// How many peers are remembered.
const PEERS: usize = 1024;

/// What each peer last wanted to see.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Wanted>>);

impl Sessions {
    /// What to show to a peer; `None` if it has not asked yet.
    pub(crate) fn answer(
        &self,
        peer: &str,
        login: &Login,
        (method, target): (&str, &str),
    ) -> Option<Authorization> {
        self.lock().get_mut(peer)?.answer(login, method, target)
    }

    /// A peer refused a request that carried `shown`. Remembers what it wants; tells whether that is worth another try.
    pub(crate) fn refused(
        &self,
        peer: &str,
        challenges: &Challenges,
        shown: Option<&Authorization>,
    ) -> bool {
        let Some(wanted) = challenges.wanted() else {
            return false;
        };
        // The same again: the answer was wrong, and would be so again.
        let is_final = match (&wanted, shown) {
            (Wanted::Basic, Some(shown)) => shown.nonce.is_none(),
            (Wanted::Digest(new), Some(shown)) => {
                shown.nonce.as_ref() == Some(&new.nonce) && !new.stale
            }
            (_, None) => false,
        };
        if is_final {
            return false;
        }
        let mut known = self.lock();
        // Another request's answer to this very nonce has counted its uses already.
        let counted = match (known.get(peer), &wanted) {
            (Some(Wanted::Digest(old)), Wanted::Digest(new)) => old.nonce == new.nonce,
            _ => false,
        };
        if !counted {
            if known.len() >= PEERS {
                known.clear();
            }
            known.insert(peer.to_owned(), wanted);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Wanted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    const WHAT: (&str, &str) = ("GET", "/");

    fn challenges(field: &str) -> Challenges {
        let mut challenges = Challenges::default();
        challenges.add(field.as_bytes());
        challenges
    }

    fn digest(nonce: &str) -> Challenges {
        challenges(&format!(
            "Digest realm=\"r\", qop=\"auth\", nonce=\"{nonce}\""
        ))
    }

    fn login() -> Login {
        Login {
            user: "u".into(),
            password: Secret::new("p".into()),
        }
    }

    #[test]
    fn a_nonce_that_another_request_answered_is_no_refusal_of_this_one() {
        let sessions = Sessions::default();
        let basic = Authorization::basic(&login());
        // Two requests were under way when the origin asked both for the same.
        assert!(sessions.refused("o", &digest("a"), basic.as_ref()));
        let first = sessions.answer("o", &login(), WHAT);
        assert!(sessions.refused("o", &digest("a"), basic.as_ref()));
        let second = sessions.answer("o", &login(), WHAT).unwrap();
        let counted = String::from_utf8(second.value.as_bytes().to_vec()).unwrap();
        assert!(counted.contains("nc=00000002"), "{counted}");
        // Either answer refused is final; a new nonce is not, nor is one said to be stale.
        assert!(!sessions.refused("o", &digest("a"), first.as_ref()));
        assert!(sessions.refused("o", &digest("b"), first.as_ref()));
        let stale = challenges("Digest realm=\"r\", nonce=\"a\", stale=TRUE");
        assert!(sessions.refused("o", &stale, Some(&second)));
    }

    #[test]
    fn a_peer_that_comes_to_want_basic_gets_it_once() {
        let sessions = Sessions::default();
        assert!(sessions.answer("p", &login(), WHAT).is_none());
        assert!(!sessions.refused("p", &challenges("Negotiate"), None));
        assert!(sessions.refused("p", &challenges("Basic realm=\"r\""), None));
        let shown = sessions.answer("p", &login(), WHAT);
        assert_eq!(shown, Authorization::basic(&login()));
        assert!(!sessions.refused("p", &challenges("Basic realm=\"r\""), shown.as_ref()));
    }

    #[test]
    fn memory_has_a_bound() {
        let sessions = Sessions::default();
        for n in 0..=PEERS * 2 {
            sessions.refused(&n.to_string(), &digest("n"), None);
        }
        assert!(sessions.lock().len() <= PEERS);
    }
}
