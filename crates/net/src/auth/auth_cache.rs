//! The challenge that each peer last sent, so that the next request answers it without being asked.
//!
//! Origins and proxies have one cache each. Requests run at the same time, so the remembered challenge may be newer than the one
//! that a refused request answered: whether a refusal is final depends on the credentials that the refused request itself carried.
//!
//! A nonce that many requests share gets used up, or spoilt when two requests arrive in another order than they were counted in:
//! squid takes 50 answers to a nonce, and none whose count is lower than one it has seen. A request that is refused for that gets
//! a nonce of its own ([`AuthCache::retry`]), and the second time it keeps the new nonce to itself. Then no other request can
//! spoil it, and [`MAX_AUTH_ATTEMPTS`] are enough.
//!
//! Some proxies never ask: they refuse by 401 or 403, or close the connection. Such a peer gets the login by Basic, as curl sends it from
//! the start, and later requests carry it at once. Basic shows the password to everybody on the way, so a peer that has ever asked for
//! something else never gets it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Login;
use super::challenge::{AuthChallenges, Authorization, ChosenChallenge};

/// How many peers are remembered.
const MAX_PEERS: usize = 1024;

/// How often a request is sent before a refusal is final: with the remembered challenge, with the one that came back, which other
/// requests may use at once, and with one that no other request knows.
pub const MAX_AUTH_ATTEMPTS: usize = 3;

/// What each peer wants. `None`: it asked for a login in a way that requests cannot share, or that is not supported.
#[derive(Debug, Default)]
pub(crate) struct AuthCache(Mutex<KnownPeers>);

type KnownPeers = HashMap<String, Option<ChosenChallenge>>;

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
        let challenge = known.get_mut(peer)?.as_mut()?;
        challenge.respond(login, method, target)
    }

    /// A peer refused a request that carried `refused`, with these challenges. Without any the peer gets the login unasked, unless it
    /// has asked before. Remembers the challenge; returns whether another try makes sense.
    pub(crate) fn record_refusal(
        &self,
        peer: &str,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
    ) -> bool {
        let mut known = self.lock();
        let Some(challenge) = next_challenge(&mut known, peer, challenges, refused) else {
            return false;
        };
        // If another request answered this very nonce, the remembered challenge holds its count.
        let remembered = known_challenge(&known, peer).and_then(ChosenChallenge::nonce);
        if remembered.is_none() || remembered != challenge.nonce() {
            remember(&mut known, peer, Some(challenge));
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
        let mut known = self.lock();
        let mut challenge = next_challenge(&mut known, peer, challenges, refused)?;
        if is_wrong_password(&challenge, refused) {
            return None;
        }
        let remembered = known_challenge(&known, peer).and_then(ChosenChallenge::nonce);
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
            remember(&mut known, peer, None);
        }
        if !is_remembered && (is_kept || is_in_use) {
            return challenge.respond(login, method, target);
        }
        if !is_remembered {
            remember(&mut known, peer, Some(challenge));
        }
        let challenge = known.get_mut(peer)?.as_mut()?;
        challenge.respond(login, method, target)
    }

    /// Whether the peer has ever asked for a login.
    pub(crate) fn has_asked(&self, peer: &str) -> bool {
        has_asked(&self.lock(), peer)
    }

    /// Whether nothing is known of the peer.
    pub(crate) fn is_unknown(&self, peer: &str) -> bool {
        !self.lock().contains_key(peer)
    }

    fn lock(&self) -> MutexGuard<'_, KnownPeers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the next request to a peer answers, after one that was refused with these challenges.
fn next_challenge(
    known: &mut KnownPeers,
    peer: &str,
    challenges: &AuthChallenges,
    refused: Option<&Authorization>,
) -> Option<ChosenChallenge> {
    let is_asked = has_asked(known, peer);
    if challenges.is_empty() {
        let is_first = refused.is_none() && !is_asked;
        return is_first.then_some(ChosenChallenge::Unasked);
    }
    if !is_asked {
        // From here on it never gets a password that it has not asked for.
        remember(known, peer, None);
    }
    let chosen = challenges.choose();
    chosen.filter(|challenge| !is_rejected(challenge, refused))
}

fn known_challenge<'a>(known: &'a KnownPeers, peer: &str) -> Option<&'a ChosenChallenge> {
    known.get(peer)?.as_ref()
}

fn has_asked(known: &KnownPeers, peer: &str) -> bool {
    let is_unasked = |challenge: &Option<_>| matches!(challenge, Some(ChosenChallenge::Unasked));
    known.get(peer).is_some_and(|known| !is_unasked(known))
}

fn remember(known: &mut KnownPeers, peer: &str, challenge: Option<ChosenChallenge>) {
    if known.len() >= MAX_PEERS {
        known.clear();
    }
    known.insert(peer.to_owned(), challenge);
}

/// Whether a peer repeats the challenge that the refused request answered: the same answer would be refused again.
fn is_rejected(challenge: &ChosenChallenge, refused: Option<&Authorization>) -> bool {
    match (challenge, refused) {
        (ChosenChallenge::Basic | ChosenChallenge::Unasked, Some(refused)) => {
            refused.nonce.is_none()
        }
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
    fn e4_a_peer_that_refuses_without_asking_gets_basic_unless_it_has_ever_asked() {
        let none = AuthChallenges::default();
        let basic = Authorization::basic(&login());
        let cache = AuthCache::default();
        assert_eq!(retry(&cache, &none, None), basic);
        // The next request carries it at once, and it is not sent twice to be refused.
        assert_eq!(authorize(&cache), basic);
        assert_eq!(retry(&cache, &none, basic.as_ref()), None);
        assert!(!cache.has_asked("p"));
        // Requests that were under way without it may try again, too.
        assert!(cache.record_refusal("p", &none, None));
        // A peer that asks after all gets what it asks for, and nothing else from then on.
        assert!(is_first_use_of(
            retry(&cache, &digest("a"), basic.as_ref()).as_ref(),
            "a"
        ));
        for asked in [
            digest("a"),
            challenges("Negotiate, NTLM"),
            challenges("Digest realm=\"r\", nonce=\"n\", algorithm=SHA3-256"),
        ] {
            let cache = AuthCache::default();
            let refused = retry(&cache, &asked, None);
            assert!(cache.has_asked("p"));
            for carried in [refused.as_ref(), None] {
                assert_eq!(retry(&cache, &none, carried), None, "{asked:?}");
                assert!(!cache.record_refusal("p", &none, carried));
            }
        }
        // Neither after two nonces that other requests spoilt.
        let cache = AuthCache::default();
        let first = retry(&cache, &digest("a"), None);
        retry(&cache, &stale_digest("b"), first.as_ref());
        assert_eq!(authorize(&cache), None);
        assert_eq!(retry(&cache, &none, None), None);
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
