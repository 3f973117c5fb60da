//! What peers want to see, remembered, so that the next request shows it unasked.
//!
//! Origins and proxies both have one of these. Requests go on at once, so what is remembered may be newer than what a
//! request carried: whether a refusal is final is judged by the credentials that the refused request itself had shown.
//!
//! A nonce that many requests share is used up, or spoilt by two that arrive in another order than they were counted in: squid takes
//! 50 answers, and none whose count is less than one it has seen. Who is refused for that is given a nonce of its own ([`AuthCache::retry`]),
//! and the second time keeps it to itself: then nobody else can spoil it, and no more than [`MAX_AUTH_ATTEMPTS`] are ever needed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Login;
use super::challenge::{AuthChallenges, Authorization, ChosenChallenge};

/// How many peers are remembered.
const MAX_PEERS: usize = 1024;

/// How often a request is sent until a refusal is final: with what is remembered, with what it was told then, which others may use at
/// once, and with what nobody else knows.
pub const MAX_AUTH_ATTEMPTS: usize = 3;

/// What each peer last wanted to see.
#[derive(Debug, Default)]
pub(crate) struct AuthCache(Mutex<HashMap<String, ChosenChallenge>>);

impl AuthCache {
    /// What to show to a peer; `None` if it has not asked yet.
    pub(crate) fn authorize(
        &self,
        peer: &str,
        login: &Login,
        (method, target): (&str, &str),
    ) -> Option<Authorization> {
        self.lock().get_mut(peer)?.respond(login, method, target)
    }

    /// A peer refused a request that carried `shown`. Remembers what it wants; tells whether that is worth another try.
    pub(crate) fn record_refusal(
        &self,
        peer: &str,
        challenges: &AuthChallenges,
        shown: Option<&Authorization>,
    ) -> bool {
        let Some(wanted) = challenges.choose() else {
            return false;
        };
        if is_rejected(&wanted, shown) {
            return false;
        }
        let mut known = self.lock();
        // Another request's answer to this very nonce has counted its uses already.
        let counted = match (known.get(peer), &wanted) {
            (Some(ChosenChallenge::Digest(old)), ChosenChallenge::Digest(new)) => {
                old.nonce == new.nonce
            }
            _ => false,
        };
        if !counted {
            remember(&mut known, peer, wanted);
        }
        true
    }

    /// The same for a request that carries its answer along: what to show next, if that is worth another try. It may be asked so until
    /// the request was sent [`MAX_AUTH_ATTEMPTS`] times.
    pub(crate) fn retry(
        &self,
        peer: &str,
        (challenges, shown): (&AuthChallenges, Option<&Authorization>),
        (login, (method, target)): (&Login, (&str, &str)),
    ) -> Option<Authorization> {
        let mut wanted = challenges.choose()?;
        if is_rejected(&wanted, shown) || is_wrong_password(&wanted, shown) {
            return None;
        }
        let mut known = self.lock();
        let remembered = known.get(peer).and_then(ChosenChallenge::nonce);
        // Once its own nonce was spoilt, because others came to know it, the next one is kept.
        let is_kept = shown.is_some_and(|shown| shown.nonce.is_some() && shown.is_first_use);
        let is_same = remembered.is_some() && remembered == wanted.nonce();
        let is_spoilt = remembered
            .is_some_and(|nonce| shown.and_then(|shown| shown.nonce.as_deref()) == Some(nonce));
        // What others use still, and this one was not refused for, is left to them.
        let is_left = remembered.is_some() && !is_spoilt;
        if is_spoilt && is_kept && !is_same {
            known.remove(peer);
        }
        if !is_same && (is_kept || is_left) {
            return wanted.respond(login, method, target);
        }
        if !is_same {
            remember(&mut known, peer, wanted);
        }
        known.get_mut(peer)?.respond(login, method, target)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ChosenChallenge>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remember(known: &mut HashMap<String, ChosenChallenge>, peer: &str, wanted: ChosenChallenge) {
    if known.len() >= MAX_PEERS {
        known.clear();
    }
    known.insert(peer.to_owned(), wanted);
}

/// Whether the same is wanted again: the answer was wrong, and would be so again.
fn is_rejected(wanted: &ChosenChallenge, shown: Option<&Authorization>) -> bool {
    match (wanted, shown) {
        (ChosenChallenge::Basic, Some(shown)) => shown.nonce.is_none(),
        (ChosenChallenge::Digest(new), Some(shown)) => {
            shown.nonce.as_ref() == Some(&new.nonce) && !new.stale
        }
        (_, None) => false,
    }
}

/// Whether the first answer to a nonce was refused, and not for the nonce: the password is wrong. Some give a new nonce even so.
fn is_wrong_password(wanted: &ChosenChallenge, shown: Option<&Authorization>) -> bool {
    let is_first = shown.is_some_and(|shown| shown.nonce.is_some() && shown.is_first_use);
    is_first && matches!(wanted, ChosenChallenge::Digest(new) if !new.stale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    const WHAT: (&str, &str) = ("GET", "/");

    fn challenges(field: &str) -> AuthChallenges {
        let mut challenges = AuthChallenges::default();
        challenges.add(field.as_bytes());
        challenges
    }

    fn digest(nonce: &str) -> AuthChallenges {
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
        let sessions = AuthCache::default();
        let basic = Authorization::basic(&login());
        // Two requests were under way when the origin asked both for the same.
        assert!(sessions.record_refusal("o", &digest("a"), basic.as_ref()));
        let first = sessions.authorize("o", &login(), WHAT);
        assert!(sessions.record_refusal("o", &digest("a"), basic.as_ref()));
        let second = sessions.authorize("o", &login(), WHAT).unwrap();
        let counted = String::from_utf8(second.value.as_bytes().to_vec()).unwrap();
        assert!(counted.contains("nc=00000002"), "{counted}");
        // Either answer refused is final; a new nonce is not, nor is one said to be stale.
        assert!(!sessions.record_refusal("o", &digest("a"), first.as_ref()));
        assert!(sessions.record_refusal("o", &digest("b"), first.as_ref()));
        let stale = challenges("Digest realm=\"r\", nonce=\"a\", stale=TRUE");
        assert!(sessions.record_refusal("o", &stale, Some(&second)));
    }

    #[test]
    fn who_is_refused_for_a_nonce_that_others_spoilt_keeps_the_next_one() {
        let (sessions, login) = (AuthCache::default(), login());
        let stale = |nonce: &str| {
            challenges(&format!(
                "Digest realm=\"r\", qop=\"auth\", nonce=\"{nonce}\", stale=true"
            ))
        };
        let retried = |challenges: &AuthChallenges, shown| {
            sessions.retry("p", (challenges, shown), (&login, WHAT))
        };
        let is_first_to = |shown: &Option<Authorization>, nonce: &str| {
            let shown = shown.as_ref().unwrap();
            shown.is_first_use && shown.nonce.as_deref() == Some(nonce)
        };
        let first = retried(&digest("a"), None);
        assert!(is_first_to(&first, "a"));
        let other = sessions.authorize("p", &login, WHAT);
        assert!(other.is_some_and(|other| !other.is_first_use));
        // The other was faster.
        let second = retried(&stale("b"), first.as_ref());
        assert!(is_first_to(&second, "b"));
        assert_eq!(sessions.authorize("p", &login, WHAT), None);
        // Nor is one left to others that is not what they use.
        assert!(is_first_to(&retried(&digest("c"), None), "c"));
        assert!(is_first_to(&retried(&digest("d"), None), "d"));
        let shared = sessions.authorize("p", &login, WHAT);
        assert_eq!(shared.unwrap().nonce.as_deref(), Some("c"));
    }

    #[test]
    fn a_wrong_password_is_shown_once_whatever_nonce_comes_back() {
        let (sessions, login) = (AuthCache::default(), login());
        let retried = |challenges, shown| sessions.retry("p", (&challenges, shown), (&login, WHAT));
        let first = retried(digest("a"), None);
        assert!(first.is_some());
        assert_eq!(retried(digest("b"), first.as_ref()), None);
        // What was remembered may have grown old, which not all say.
        let remembered = sessions.authorize("p", &login, WHAT);
        let again = retried(digest("b"), remembered.as_ref());
        assert!(again.is_some());
        assert_eq!(retried(digest("c"), again.as_ref()), None);
    }

    #[test]
    fn a_peer_that_comes_to_want_basic_gets_it_once() {
        let sessions = AuthCache::default();
        assert!(sessions.authorize("p", &login(), WHAT).is_none());
        assert!(!sessions.record_refusal("p", &challenges("Negotiate"), None));
        assert!(sessions.record_refusal("p", &challenges("Basic realm=\"r\""), None));
        let shown = sessions.authorize("p", &login(), WHAT);
        assert_eq!(shown, Authorization::basic(&login()));
        assert!(!sessions.record_refusal("p", &challenges("Basic realm=\"r\""), shown.as_ref()));
    }

    #[test]
    fn memory_has_a_bound() {
        let sessions = AuthCache::default();
        for n in 0..=MAX_PEERS * 2 {
            sessions.record_refusal(&n.to_string(), &digest("n"), None);
        }
        assert!(sessions.lock().len() <= MAX_PEERS);
    }
}
