//! The challenge that each peer last sent, so that the next request answers it without being asked.
//!
//! Origins and proxies have one cache each. Requests run at the same time, so the remembered challenge may be newer than the one
//! that a refused request answered: whether a refusal is final depends on the credentials that the refused request itself carried.
//!
//! A nonce that many requests share gets used up, or spoilt when two requests arrive in another order than they were counted in:
//! squid takes 50 answers to a nonce, and none whose count is lower than one it has seen. A request that is refused for that gets
//! a nonce of its own ([`AuthCache::retry`]), and the second time it keeps the new nonce to itself. Then no other request can
//! spoil it, and [`MAX_AUTH_ATTEMPTS`] are enough.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Login;
use super::challenge::{AuthChallenges, Authorization, ChosenChallenge};

/// How many peers are remembered.
const MAX_PEERS: usize = 1024;

/// How often a request is sent before a refusal is final: with the remembered challenge, with the one that came back, which other
/// requests may use at once, and with one that no other request knows.
pub const MAX_AUTH_ATTEMPTS: usize = 3;

/// The last challenge of each peer.
#[derive(Debug, Default)]
pub(crate) struct AuthCache(Mutex<HashMap<String, ChosenChallenge>>);

impl AuthCache {
    /// The credentials for a request to a peer; `None` if the peer has sent no challenge yet.
    pub(crate) fn authorize(
        &self,
        peer: &str,
        login: &Login,
        method: &str,
        target: &str,
    ) -> Option<Authorization> {
        let mut known = self.lock();
        known.get_mut(peer)?.respond(login, method, target)
    }

    /// A peer refused a request that carried `refused`, with these challenges. Remembers the challenge; returns whether another
    /// try makes sense.
    pub(crate) fn record_refusal(
        &self,
        peer: &str,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
    ) -> bool {
        let Some(challenge) = challenges.choose() else {
            return false;
        };
        if is_rejected(&challenge, refused) {
            return false;
        }
        let mut known = self.lock();
        // If another request answered this very nonce, the remembered challenge holds its count.
        let is_counted = match (known.get(peer), &challenge) {
            (Some(ChosenChallenge::Digest(old)), ChosenChallenge::Digest(new)) => {
                old.nonce == new.nonce
            }
            _ => false,
        };
        if !is_counted {
            remember(&mut known, peer, challenge);
        }
        true
    }

    /// The same for a request that is sent again by its caller. Returns the credentials for the next try, if it makes sense; the
    /// caller sends the request at most [`MAX_AUTH_ATTEMPTS`] times.
    pub(crate) fn retry(
        &self,
        peer: &str,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
        login: &Login,
        method: &str,
        target: &str,
    ) -> Option<Authorization> {
        let mut challenge = challenges.choose()?;
        if is_rejected(&challenge, refused) || is_wrong_password(&challenge, refused) {
            return None;
        }
        let mut known = self.lock();
        let remembered = known.get(peer).and_then(ChosenChallenge::nonce);
        let is_remembered = remembered.is_some() && remembered == challenge.nonce();
        let is_spoilt = remembered.is_some_and(|nonce| {
            refused.and_then(|refused| refused.nonce.as_deref()) == Some(nonce)
        });
        // This request had a nonce of its own and lost it, because other requests came to know it. So it keeps the next one.
        let is_kept =
            refused.is_some_and(|refused| refused.nonce.is_some() && refused.is_first_use);
        // Other requests still use a nonce that this one was not refused for: it stays remembered.
        let is_in_use = remembered.is_some() && !is_spoilt;
        if is_spoilt && is_kept && !is_remembered {
            known.remove(peer);
        }
        if !is_remembered && (is_kept || is_in_use) {
            return challenge.respond(login, method, target);
        }
        if !is_remembered {
            remember(&mut known, peer, challenge);
        }
        known.get_mut(peer)?.respond(login, method, target)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ChosenChallenge>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remember(known: &mut HashMap<String, ChosenChallenge>, peer: &str, challenge: ChosenChallenge) {
    if known.len() >= MAX_PEERS {
        known.clear();
    }
    known.insert(peer.to_owned(), challenge);
}

/// Whether a peer repeats the challenge that the refused request answered: the same answer would be refused again.
fn is_rejected(challenge: &ChosenChallenge, refused: Option<&Authorization>) -> bool {
    match (challenge, refused) {
        (ChosenChallenge::Basic, Some(refused)) => refused.nonce.is_none(),
        (ChosenChallenge::Digest(new), Some(refused)) => {
            refused.nonce.as_ref() == Some(&new.nonce) && !new.stale
        }
        (_, None) => false,
    }
}

/// Whether the first answer to a nonce was refused, and not for the nonce. Some peers send a new nonce even then.
fn is_wrong_password(challenge: &ChosenChallenge, refused: Option<&Authorization>) -> bool {
    let is_first_use =
        refused.is_some_and(|refused| refused.nonce.is_some() && refused.is_first_use);
    is_first_use && matches!(challenge, ChosenChallenge::Digest(new) if !new.stale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    const METHOD: &str = "GET";
    const TARGET: &str = "/";

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

    fn stale_digest(nonce: &str) -> AuthChallenges {
        challenges(&format!(
            "Digest realm=\"r\", qop=\"auth\", nonce=\"{nonce}\", stale=true"
        ))
    }

    fn login() -> Login {
        Login {
            user: "u".into(),
            password: Secret::new("p".into()),
        }
    }

    fn authorize(cache: &AuthCache) -> Option<Authorization> {
        cache.authorize("p", &login(), METHOD, TARGET)
    }

    fn retry(
        cache: &AuthCache,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
    ) -> Option<Authorization> {
        cache.retry("p", challenges, refused, &login(), METHOD, TARGET)
    }

    fn is_first_use_of(authorization: Option<&Authorization>, nonce: &str) -> bool {
        authorization.is_some_and(|authorization| {
            authorization.is_first_use && authorization.nonce.as_deref() == Some(nonce)
        })
    }

    #[test]
    fn a_nonce_that_another_request_answered_is_not_rejected_for_this_one() {
        let cache = AuthCache::default();
        let basic = Authorization::basic(&login());
        // Two requests were on their way when the origin sent both the same challenge.
        assert!(cache.record_refusal("p", &digest("a"), basic.as_ref()));
        let first = authorize(&cache);
        assert!(cache.record_refusal("p", &digest("a"), basic.as_ref()));
        let second = authorize(&cache).unwrap();
        let header = String::from_utf8(second.value.as_bytes().to_vec()).unwrap();
        assert!(header.contains("nc=00000002"), "{header}");
        // If either answer is refused, that is final; but not with a new nonce, or with one that is stale.
        assert!(!cache.record_refusal("p", &digest("a"), first.as_ref()));
        assert!(cache.record_refusal("p", &digest("b"), first.as_ref()));
        let stale = challenges("Digest realm=\"r\", nonce=\"a\", stale=TRUE");
        assert!(cache.record_refusal("p", &stale, Some(&second)));
    }

    #[test]
    fn a_request_whose_nonce_others_spoilt_keeps_the_next_one_to_itself() {
        let cache = AuthCache::default();
        let first = retry(&cache, &digest("a"), None);
        assert!(is_first_use_of(first.as_ref(), "a"));
        let other = authorize(&cache);
        assert!(other.is_some_and(|other| !other.is_first_use));
        // The other request was faster.
        let second = retry(&cache, &stale_digest("b"), first.as_ref());
        assert!(is_first_use_of(second.as_ref(), "b"));
        assert_eq!(authorize(&cache), None);
        // A nonce that other requests do not use is not remembered over the one they use.
        let third = retry(&cache, &digest("c"), None);
        assert!(is_first_use_of(third.as_ref(), "c"));
        let fourth = retry(&cache, &digest("d"), None);
        assert!(is_first_use_of(fourth.as_ref(), "d"));
        let shared = authorize(&cache).unwrap();
        assert_eq!(shared.nonce.as_deref(), Some("c"));
    }

    #[test]
    fn a_wrong_password_is_sent_once_whatever_nonce_comes_back() {
        let cache = AuthCache::default();
        let first = retry(&cache, &digest("a"), None);
        assert!(first.is_some());
        assert_eq!(retry(&cache, &digest("b"), first.as_ref()), None);
        // The remembered nonce may be stale, which not all peers say.
        let remembered = authorize(&cache);
        let second = retry(&cache, &digest("b"), remembered.as_ref());
        assert!(second.is_some());
        assert_eq!(retry(&cache, &digest("c"), second.as_ref()), None);
    }

    #[test]
    fn a_peer_that_comes_to_ask_for_basic_gets_it_once() {
        let cache = AuthCache::default();
        assert!(authorize(&cache).is_none());
        assert!(!cache.record_refusal("p", &challenges("Negotiate"), None));
        let basic = challenges("Basic realm=\"r\"");
        assert!(cache.record_refusal("p", &basic, None));
        let authorization = authorize(&cache);
        assert_eq!(authorization, Authorization::basic(&login()));
        assert!(!cache.record_refusal("p", &basic, authorization.as_ref()));
    }

    #[test]
    fn the_number_of_peers_is_bounded() {
        let cache = AuthCache::default();
        for n in 0..=MAX_PEERS * 2 {
            cache.record_refusal(&n.to_string(), &digest("n"), None);
        }
        assert!(cache.lock().len() <= MAX_PEERS);
    }
}
