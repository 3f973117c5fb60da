//! What a peer wants to see, and the answer to it: Basic and Digest (RFC 7616).

use std::str::FromStr;

use digest_auth::{Algorithm, AuthContext, Charset, HttpMethod, Qop, WwwAuthenticateHeader};
use http::HeaderValue;

use super::challenge_parser::{self, ParsedChallenge};
use super::{Login, sensitive_header};

/// The longest realm that is shown, in characters.
const MAX_REALM: usize = 120;

/// How many ways of others are named, and how long a name may be.
const MAX_UNSUPPORTED: usize = 4;
const MAX_SCHEME_NAME: usize = 20;

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
    unsupported: Vec<String>,
}

/// A peer takes credentials in ways alone that are not known here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsupportedAuth {
    /// In these.
    #[error("it takes {}, and neither Basic nor a Digest that is known here", .0.join(", "))]
    Schemes(Vec<String>),
    /// It does not say in which.
    #[error(
        "it does not say in which way it takes them (Proxy-Authenticate), and so has seen none"
    )]
    NoChallenge,
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
    pub(super) is_first_use: bool,
}

impl AuthChallenges {
    /// The challenges of an answer's header fields.
    pub(crate) fn parse<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let mut challenges = Self::default();
        values
            .into_iter()
            .for_each(|value| challenges.add(value.as_bytes()));
        challenges
    }

    /// Adds a field's value, which may hold several challenges.
    pub(crate) fn add(&mut self, field: &[u8]) {
        for challenge in challenge_parser::parse_challenges(field) {
            if let Some(realm) = challenge.bytes("realm") {
                self.realm.get_or_insert_with(|| displayed_realm(realm));
            }
            match challenge.scheme.as_str() {
                "basic" => self.basic = true,
                "digest" if self.digest.is_none() => self.digest = parse_digest(&challenge),
                "digest" => {}
                other if self.unsupported.len() < MAX_UNSUPPORTED => {
                    self.unsupported
                        .push(other.chars().take(MAX_SCHEME_NAME).collect());
                }
                _ => {}
            }
        }
    }

    /// Why none of them can be answered, if that is for want of the ways and not of the right words.
    pub(crate) fn unsupported(&self) -> Option<UnsupportedAuth> {
        self.choose()
            .is_none()
            .then(|| match self.unsupported.as_slice() {
                [] => UnsupportedAuth::NoChallenge,
                others => UnsupportedAuth::Schemes(others.to_vec()),
            })
    }

    /// For whom credentials are wanted.
    pub(crate) fn realm(&self) -> Option<String> {
        self.realm.clone()
    }

    /// The strongest of them that can be answered.
    pub(super) fn choose(&self) -> Option<ChosenChallenge> {
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
    pub(super) fn respond(
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
            value: sensitive_header(&answer.to_header_string())?,
            nonce: Some(answer.nonce),
            is_first_use: answer.nc == 1,
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
            value: sensitive_header(&login.basic_header())?,
            nonce: None,
            is_first_use: true,
        })
    }
}

/// A challenge as `digest_auth` has it; its own parser is not asked, since it panics at what is not ASCII.
fn parse_digest(written: &ParsedChallenge) -> Option<WwwAuthenticateHeader> {
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
        Some(list) => Some(vec![parse_qop(list)?]),
    };
    Some(WwwAuthenticateHeader {
        domain: None,
        // Missing only in broken challenges; curl takes it for an empty one.
        realm: optional("realm")?.unwrap_or_default().to_owned(),
        nonce: written.text("nonce")?.to_owned(),
        opaque: optional("opaque")?.map(str::to_owned),
        stale: says("stale", "true"),
        algorithm: parse_algorithm(optional("algorithm")?.unwrap_or("MD5"))?,
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
fn parse_qop(list: &str) -> Option<Qop> {
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

fn parse_algorithm(name: &str) -> Option<Algorithm> {
    let upper = name.to_ascii_uppercase();
    let known = upper
        .strip_suffix("-SESS")
        .map(|front| format!("{front}-sess"));
    Algorithm::from_str(known.as_ref().unwrap_or(&upper)).ok()
}

fn displayed_realm(realm: &[u8]) -> String {
    let text = String::from_utf8_lossy(realm);
    text.chars()
        .filter(|c| !c.is_control())
        .take(MAX_REALM)
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

    fn chosen(fields: &[&str]) -> Option<ChosenChallenge> {
        let mut challenges = AuthChallenges::default();
        fields
            .iter()
            .for_each(|field| challenges.add(field.as_bytes()));
        challenges.choose()
    }

    fn header_text(shown: &Authorization) -> String {
        String::from_utf8(shown.value.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn digest_is_preferred_and_its_nonce_counted() {
        let login = login("Mufasa", "Circle of Life");
        let mut wanted = chosen(&[
            "Basic realm=\"first\"",
            "digest realm=\"second\", qop=\"auth\", nonce=\"abc\", algorithm=sha-256",
        ])
        .unwrap();
        let first = wanted.respond(&login, "GET", "/dir").unwrap();
        let second = wanted.respond(&login, "GET", "/dir").unwrap();
        assert_eq!(first.nonce.as_deref(), Some("abc"));
        assert!(
            header_text(&first).starts_with("Digest ")
                && header_text(&first).contains("nc=00000001"),
            "{}",
            header_text(&first)
        );
        assert!(
            header_text(&second).contains("nc=00000002"),
            "{}",
            header_text(&second)
        );
    }

    #[test]
    fn the_first_digest_that_can_be_answered_is() {
        let challenge =
            |algorithm| format!("Digest realm=\"r\", nonce=\"{algorithm}\", algorithm={algorithm}");
        let fields = ["SHA-3", "SHA-256", "MD5"].map(challenge);
        let answer = chosen(&fields.each_ref().map(String::as_str))
            .unwrap()
            .respond(&login("u", "p"), "GET", "/");
        assert_eq!(answer.unwrap().nonce.as_deref(), Some("SHA-256"));
        // All in one field, as proxies write them.
        let answer = chosen(&[&fields.join(", ")])
            .unwrap()
            .respond(&login("u", "p"), "GET", "/");
        assert_eq!(answer.unwrap().nonce.as_deref(), Some("SHA-256"));
        assert!(
            chosen(&["Digest realm=\"r\", nonce=\"n\", qop=\"other\""]).is_none(),
            "a quality that is not known cannot be given"
        );
        assert!(chosen(&["Digest realm=\"r\""]).is_none(), "without a nonce");
    }

    #[test]
    fn a_realm_in_utf8_is_answered_and_given_back() {
        let mut wanted =
            chosen(&["Digest realm=\"Прокси-сервер организации\", qop=\"auth\", nonce=\"x\""])
                .unwrap();
        let shown = wanted
            .respond(&login("u", "p"), "CONNECT", "h:443")
            .unwrap();
        assert!(header_text(&shown).contains("realm=\"Прокси-сервер организации\""));
    }

    #[test]
    fn what_nobody_speaks_gives_no_answer_but_a_realm() {
        let mut challenges = AuthChallenges::default();
        challenges.add(b"Negotiate realm=\"c\x07orp\"");
        assert_eq!(challenges.realm().as_deref(), Some("corp"));
        assert!(challenges.choose().is_none());
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
                let shown = challenges.choose().and_then(|mut wanted| wanted.respond(&login, "CONNECT", "h:443"));
                if let Some(shown) = shown {
                    prop_assert!(!shown.value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
                }
            }
        }
    }
}
