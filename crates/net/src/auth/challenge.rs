//! What a peer wants to see, and the answer to it: Basic and Digest (RFC 7616).

use std::str::FromStr;

use digest_auth::{Algorithm, AuthContext, Charset, HttpMethod, Qop, WwwAuthenticateHeader};
use http::HeaderValue;

use super::grammar::{self, ParsedChallenge};
use super::{Login, sensitive};

/// The longest realm that is shown, in characters.
const SHOWN: usize = 120;

/// How many ways of others are named, and how long a name may be.
const NAMED: usize = 4;
const NAME: usize = 20;

/// The challenges of one answer.
#[derive(Debug, Default)]
pub(crate) struct AuthChallenges {
    /// The first Digest challenge that can be answered: the peer put them in its order of preference (RFC 7616 3.7).
    digest: Option<WwwAuthenticateHeader>,
    /// Whether Basic would do.
    basic: bool,
    /// The first realm named.
    realm: Option<String>,
    /// What else would do, and is not known here.
    others: Vec<String>,
}

/// A peer takes credentials in ways alone that are not known here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsupportedAuth {
    /// In these.
    #[error("it takes {}, and neither Basic nor a Digest that is known here", .0.join(", "))]
    Others(Vec<String>),
    /// It does not say in which.
    #[error(
        "it does not say in which way it takes them (Proxy-Authenticate), and so has seen none"
    )]
    Unsaid,
}

/// What a peer wants to see: the strongest that we can show.
#[derive(Debug, Clone)]
pub(super) enum ChosenChallenge {
    /// Name and password.
    Basic,
    /// An answer to this, with the count of its nonce's uses.
    Digest(Box<WwwAuthenticateHeader>),
}

/// Credentials as one request carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The field's value.
    pub(crate) value: HeaderValue,
    /// The nonce that it answers, for Digest.
    pub(super) nonce: Option<String>,
    /// Whether it is the first answer to that nonce.
    pub(super) is_first: bool,
}

impl AuthChallenges {
    /// The challenges of an answer's header fields.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let mut challenges = Self::default();
        values
            .into_iter()
            .for_each(|value| challenges.add(value.as_bytes()));
        challenges
    }

    /// Adds a field's value, which may hold several challenges.
    pub(crate) fn add(&mut self, field: &[u8]) {
        for challenge in grammar::challenges(field) {
            if let Some(realm) = challenge.bytes("realm") {
                self.realm.get_or_insert_with(|| shown(realm));
            }
            match challenge.scheme.as_str() {
                "basic" => self.basic = true,
                "digest" if self.digest.is_none() => self.digest = digest(&challenge),
                "digest" => {}
                other if self.others.len() < NAMED => {
                    self.others.push(other.chars().take(NAME).collect());
                }
                _ => {}
            }
        }
    }

    /// Why none of them can be answered, if that is for want of the ways and not of the right words.
    pub(crate) fn unspoken(&self) -> Option<UnsupportedAuth> {
        self.wanted()
            .is_none()
            .then(|| match self.others.as_slice() {
                [] => UnsupportedAuth::Unsaid,
                others => UnsupportedAuth::Others(others.to_vec()),
            })
    }

    /// For whom credentials are wanted.
    pub(crate) fn realm(&self) -> Option<String> {
        self.realm.clone()
    }

    /// The strongest of them that can be answered.
    pub(super) fn wanted(&self) -> Option<ChosenChallenge> {
        match &self.digest {
            Some(digest) => Some(ChosenChallenge::Digest(Box::new(digest.clone()))),
            None => self.basic.then_some(ChosenChallenge::Basic),
        }
    }
}

impl ChosenChallenge {
    /// What its answers are counted for.
    pub(super) fn nonce(&self) -> Option<&str> {
        match self {
            Self::Basic => None,
            Self::Digest(digest) => Some(&digest.nonce),
        }
    }

    /// What to show. `None` for what no header field can carry.
    pub(super) fn answer(
        &mut self,
        login: &Login,
        method: &str,
        target: &str,
    ) -> Option<Authorization> {
        let digest = match self {
            Self::Basic => return Authorization::basic(login),
            Self::Digest(digest) => digest,
        };
        let (user, password) = (login.user.as_str(), login.password.expose());
        // No request here has a body; its digest is wanted where nothing but auth-int will do.
        let whole = digest.qop.as_deref() == Some(&[Qop::AUTH_INT]);
        let body = whole.then_some(&b""[..]);
        let method = HttpMethod::from(method.to_owned());
        let context = AuthContext::new_with_method(user, password, target, body, method);
        let answer = digest.respond(&context).ok()?;
        Some(Authorization {
            value: sensitive(&answer.to_header_string())?,
            nonce: Some(answer.nonce),
            is_first: answer.nc == 1,
        })
    }
}

impl Authorization {
    /// The field's value, which no log shows.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Whether it may be shown any number of times: a nonce may be used up at any time, by requests that go on at once.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        self.nonce.is_none()
    }

    /// Basic.
    pub(super) fn basic(login: &Login) -> Option<Self> {
        Some(Self {
            value: sensitive(&login.basic())?,
            nonce: None,
            is_first: true,
        })
    }
}

/// A challenge as `digest_auth` has it; its own parser is not asked, since it panics at what is not ASCII.
fn digest(written: &ParsedChallenge) -> Option<WwwAuthenticateHeader> {
    // What is there and not understood makes the challenge one that cannot be answered; what is missing has defaults.
    let optional = |name| match written.bytes(name) {
        Some(_) => written.text(name).map(Some),
        None => Some(None),
    };
    let says = |name, wanted: &str| {
        written
            .text(name)
            .is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    };
    let qop = match optional("qop")? {
        None => None,
        Some(list) => Some(vec![quality(list)?]),
    };
    Some(WwwAuthenticateHeader {
        domain: None,
        // Missing only in broken challenges; curl takes it for an empty one.
        realm: optional("realm")?.unwrap_or_default().to_owned(),
        nonce: written.text("nonce")?.to_owned(),
        opaque: optional("opaque")?.map(str::to_owned),
        stale: says("stale", "true"),
        algorithm: algorithm(optional("algorithm")?.unwrap_or("MD5"))?,
        qop,
        userhash: says("userhash", "true"),
        charset: if says("charset", "UTF-8") {
            Charset::UTF8
        } else {
            Charset::ASCII
        },
        nc: 0,
    })
}

/// Plain authentication is enough; the body's digest is sent where nothing else is offered.
fn quality(list: &str) -> Option<Qop> {
    let offers = |name: &str| {
        list.split(',')
            .any(|item| item.trim().eq_ignore_ascii_case(name))
    };
    match (offers("auth"), offers("auth-int")) {
        (true, _) => Some(Qop::AUTH),
        (false, true) => Some(Qop::AUTH_INT),
        (false, false) => None,
    }
}

fn algorithm(name: &str) -> Option<Algorithm> {
    let upper = name.to_ascii_uppercase();
    let known = upper
        .strip_suffix("-SESS")
        .map(|front| format!("{front}-sess"));
    Algorithm::from_str(known.as_ref().unwrap_or(&upper)).ok()
}

fn shown(realm: &[u8]) -> String {
    let text = String::from_utf8_lossy(realm);
    text.chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use proptest::prelude::*;

    fn login(user: &str, password: &str) -> Login {
        Login {
            user: user.into(),
            password: Secret::new(password.into()),
        }
    }

    fn wanted(fields: &[&str]) -> Option<ChosenChallenge> {
        let mut challenges = AuthChallenges::default();
        fields
            .iter()
            .for_each(|field| challenges.add(field.as_bytes()));
        challenges.wanted()
    }

    fn text(shown: &Authorization) -> String {
        String::from_utf8(shown.value.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn digest_is_preferred_and_its_nonce_counted() {
        let login = login("Mufasa", "Circle of Life");
        let mut wanted = wanted(&[
            "Basic realm=\"first\"",
            "digest realm=\"second\", qop=\"auth\", nonce=\"abc\", algorithm=sha-256",
        ])
        .unwrap();
        let first = wanted.answer(&login, "GET", "/dir").unwrap();
        let second = wanted.answer(&login, "GET", "/dir").unwrap();
        assert_eq!(first.nonce.as_deref(), Some("abc"));
        assert!(
            text(&first).starts_with("Digest ") && text(&first).contains("nc=00000001"),
            "{}",
            text(&first)
        );
        assert!(text(&second).contains("nc=00000002"), "{}", text(&second));
    }

    #[test]
    fn the_first_digest_that_can_be_answered_is() {
        let challenge =
            |algorithm| format!("Digest realm=\"r\", nonce=\"{algorithm}\", algorithm={algorithm}");
        let fields = ["SHA-3", "SHA-256", "MD5"].map(challenge);
        let answer = wanted(&fields.each_ref().map(String::as_str))
            .unwrap()
            .answer(&login("u", "p"), "GET", "/");
        assert_eq!(answer.unwrap().nonce.as_deref(), Some("SHA-256"));
        // All in one field, as proxies write them.
        let answer = wanted(&[&fields.join(", ")])
            .unwrap()
            .answer(&login("u", "p"), "GET", "/");
        assert_eq!(answer.unwrap().nonce.as_deref(), Some("SHA-256"));
        assert!(
            wanted(&["Digest realm=\"r\", nonce=\"n\", qop=\"other\""]).is_none(),
            "a quality that is not known cannot be given"
        );
        assert!(wanted(&["Digest realm=\"r\""]).is_none(), "without a nonce");
    }

    #[test]
    fn a_realm_in_utf8_is_answered_and_given_back() {
        let mut wanted =
            wanted(&["Digest realm=\"Прокси-сервер организации\", qop=\"auth\", nonce=\"x\""])
                .unwrap();
        let shown = wanted.answer(&login("u", "p"), "CONNECT", "h:443").unwrap();
        assert!(text(&shown).contains("realm=\"Прокси-сервер организации\""));
    }

    #[test]
    fn what_nobody_speaks_gives_no_answer_but_a_realm() {
        let mut challenges = AuthChallenges::default();
        challenges.add(b"Negotiate realm=\"c\x07orp\"");
        assert_eq!(challenges.realm().as_deref(), Some("corp"));
        assert!(challenges.wanted().is_none());
    }

    proptest! {
        /// Whatever is challenged and whoever answers: no panic, and no line of its own in the request.
        #[test]
        fn no_challenge_makes_it_panic(
            field in ".{0,60}",
            realm in ".{0,20}",
            qop in prop::sample::select(vec!["", ", qop=auth", ", qop=\"auth-int\"", ", qop=é", ", qop=\"auth, x\""]),
            (user, password) in (".{0,10}", ".{0,10}"),
        ) {
            let login = login(&user, &password);
            for field in [field.clone(), format!("Digest {field}"), format!("Digest realm=\"{realm}\", nonce=\"{field}\"{qop}")] {
                let mut challenges = AuthChallenges::default();
                challenges.add(field.as_bytes());
                let shown = challenges.wanted().and_then(|mut wanted| wanted.answer(&login, "CONNECT", "h:443"));
                if let Some(shown) = shown {
                    prop_assert!(!shown.value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
                }
            }
        }
    }
}
