//! Challenges, and the responses to them: Basic (RFC 7617) and Digest (RFC 7616).

use std::str::FromStr;

use digest_auth::{Algorithm, AuthContext, Charset, HttpMethod, Qop, WwwAuthenticateHeader};
use http::HeaderValue;

use super::challenge_parser::{ParsedChallenge, parse_challenges};
use super::{Login, sensitive_header};

/// The longest realm that messages show, in characters.
const MAX_REALM: usize = 120;

/// How many unsupported schemes messages name.
const MAX_UNSUPPORTED: usize = 4;

/// The longest name of a scheme that messages show, in characters.
const MAX_SCHEME_NAME: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct AuthChallenges {
    /// The first Digest challenge that is supported: the peer sends them in its order of preference (RFC 7616 3.7).
    digest: Option<WwwAuthenticateHeader>,
    has_basic: bool,
    /// The first realm.
    realm: Option<String>,
    /// The names of other schemes.
    unsupported: Vec<String>,
}

/// Those of a peer that does not ask.
pub(crate) static NO_CHALLENGES: AuthChallenges = AuthChallenges {
    digest: None,
    has_basic: false,
    realm: None,
    unsupported: Vec::new(),
};

/// A peer accepts credentials only in schemes that haul does not support.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsupportedAuth {
    #[error("it accepts only {}; haul supports Basic and Digest", .0.join(", "))]
    Schemes(Vec<String>),
    /// The peer names no scheme.
    #[error("it does not say how, and haul has no login for it")]
    NoChallenge,
}

/// The challenge that is answered: the strongest that is supported.
#[derive(Debug, Clone)]
pub(super) enum ChosenChallenge {
    Basic,
    /// The peer refused a request without a challenge: it gets the login by Basic, which needs none.
    Unasked,
    /// With the count of how often its nonce was used.
    Digest(Box<WwwAuthenticateHeader>),
}

/// Credentials as one request carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// The value of the header field.
    pub(crate) value: HeaderValue,
    /// The nonce that this answers, for Digest.
    pub(super) nonce: Option<String>,
    /// Whether this is the first answer to the nonce.
    pub(super) is_first_use: bool,
}

impl AuthChallenges {
    /// The challenges of these header fields.
    pub(crate) fn parse<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let mut challenges = Self::default();
        values
            .into_iter()
            .for_each(|value| challenges.add(value.as_bytes()));
        challenges
    }

    /// Adds the value of a header field, which may hold several challenges.
    pub(crate) fn add(&mut self, field: &[u8]) {
        for challenge in parse_challenges(field) {
            if let Some(realm) = challenge.bytes("realm") {
                self.realm.get_or_insert_with(|| displayed_realm(realm));
            }
            match challenge.scheme.as_str() {
                "basic" => self.has_basic = true,
                "digest" if self.digest.is_some() => {}
                "digest" => match parse_digest(&challenge) {
                    Some(digest) => self.digest = Some(digest),
                    None => self.add_unsupported("another kind of Digest"),
                },
                other => self.add_unsupported(other),
            }
        }
    }

    fn add_unsupported(&mut self, name: &str) {
        if self.unsupported.len() < MAX_UNSUPPORTED {
            let name = name.chars().take(MAX_SCHEME_NAME).collect();
            self.unsupported.push(name);
        }
    }

    /// Why no challenge can be answered, if that is because haul does not support the schemes.
    pub(crate) fn unsupported(&self) -> Option<UnsupportedAuth> {
        if self.choose().is_some() {
            return None;
        }
        Some(match self.unsupported.as_slice() {
            [] => UnsupportedAuth::NoChallenge,
            schemes => UnsupportedAuth::Schemes(schemes.to_vec()),
        })
    }

    /// Whether the peer names no scheme at all.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_basic && self.digest.is_none() && self.unsupported.is_empty()
    }

    /// The realm that the peer names, for messages.
    pub(crate) fn realm(&self) -> Option<String> {
        self.realm.clone()
    }

    /// The strongest challenge that is supported.
    pub(super) fn choose(&self) -> Option<ChosenChallenge> {
        match &self.digest {
            Some(digest) => Some(ChosenChallenge::Digest(Box::new(digest.clone()))),
            None => self.has_basic.then_some(ChosenChallenge::Basic),
        }
    }
}

impl ChosenChallenge {
    pub(super) fn nonce(&self) -> Option<&str> {
        match self {
            Self::Basic | Self::Unasked => None,
            Self::Digest(digest) => Some(&digest.nonce),
        }
    }

    /// The response, which counts as a use of the nonce. `None` for a login that no header field can carry.
    pub(super) fn respond(
        &mut self,
        login: &Login,
        method: &str,
        target: &str,
    ) -> Option<Authorization> {
        let digest = match self {
            Self::Basic | Self::Unasked => return Authorization::basic(login),
            Self::Digest(digest) => digest,
        };
        let (user, password) = (login.user.as_str(), login.password.expose());
        // The digest of the body is sent only where the peer accepts nothing but auth-int. No request has a body.
        let is_auth_int = digest.qop.as_deref() == Some(&[Qop::AUTH_INT]);
        let body = is_auth_int.then_some(&b""[..]);
        let method = HttpMethod::from(method.to_owned());
        let context = AuthContext::new_with_method(user, password, target, body, method);
        let response = digest.respond(&context).ok()?;
        Some(Authorization {
            value: sensitive_header(&response.to_header_string())?,
            nonce: Some(response.nonce),
            is_first_use: response.nc == 1,
        })
    }
}

impl Authorization {
    /// The value of the header field. It is marked as sensitive, so that no log shows it.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Whether any number of requests may carry it. A nonce may be used up at any time by requests that run at the same time.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        self.nonce.is_none()
    }

    pub(crate) fn basic(login: &Login) -> Option<Self> {
        Some(Self {
            value: sensitive_header(&login.basic_header())?,
            nonce: None,
            is_first_use: true,
        })
    }
}

/// A Digest challenge in the form of the `digest_auth` crate, whose own parser panics at text beyond ASCII.
fn parse_digest(challenge: &ParsedChallenge) -> Option<WwwAuthenticateHeader> {
    // A parameter that is there and not valid text makes the challenge unusable; one that is missing has a default.
    let optional = |name| match challenge.bytes(name) {
        Some(_) => challenge.text(name).map(Some),
        None => Some(None),
    };
    let is = |name, expected: &str| {
        let value = challenge.text(name);
        value.is_some_and(|value| value.eq_ignore_ascii_case(expected))
    };
    let qop = match optional("qop")? {
        None => None,
        Some(list) => Some(vec![parse_qop(list)?]),
    };
    Some(WwwAuthenticateHeader {
        domain: None,
        // Missing only in broken challenges, which curl reads as an empty realm.
        realm: optional("realm")?.unwrap_or_default().to_owned(),
        nonce: challenge.text("nonce")?.to_owned(),
        opaque: optional("opaque")?.map(str::to_owned),
        stale: is("stale", "true"),
        algorithm: parse_algorithm(optional("algorithm")?.unwrap_or("MD5"))?,
        qop,
        userhash: is("userhash", "true"),
        charset: if is("charset", "UTF-8") {
            Charset::UTF8
        } else {
            Charset::ASCII
        },
        nc: 0,
    })
}

/// Plain `auth` is enough; `auth-int` is used where nothing else is offered.
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
    let session = upper
        .strip_suffix("-SESS")
        .map(|base| format!("{base}-sess"));
    Algorithm::from_str(session.as_ref().unwrap_or(&upper)).ok()
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

    fn choose(fields: &[&str]) -> Option<ChosenChallenge> {
        let mut challenges = AuthChallenges::default();
        fields
            .iter()
            .for_each(|field| challenges.add(field.as_bytes()));
        challenges.choose()
    }

    fn header_text(authorization: &Authorization) -> String {
        String::from_utf8(authorization.value.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn digest_is_preferred_and_the_uses_of_its_nonce_are_counted() {
        let login = login("Mufasa", "Circle of Life");
        let mut challenge = choose(&[
            "Basic realm=\"first\"",
            "digest realm=\"second\", qop=\"auth\", nonce=\"abc\", algorithm=sha-256",
        ])
        .unwrap();
        let first = challenge.respond(&login, "GET", "/dir").unwrap();
        let second = challenge.respond(&login, "GET", "/dir").unwrap();
        assert_eq!(first.nonce.as_deref(), Some("abc"));
        let (first, second) = (header_text(&first), header_text(&second));
        assert!(
            first.starts_with("Digest ") && first.contains("nc=00000001"),
            "{first}"
        );
        assert!(second.contains("nc=00000002"), "{second}");
    }

    #[test]
    fn the_first_supported_digest_is_answered() {
        let challenge =
            |algorithm| format!("Digest realm=\"r\", nonce=\"{algorithm}\", algorithm={algorithm}");
        let fields = ["SHA-3", "SHA-256", "MD5"].map(challenge);
        let answered_nonce = |fields: &[&str]| {
            let response = choose(fields)?.respond(&login("u", "p"), "GET", "/");
            response?.nonce
        };
        let separate = answered_nonce(&fields.each_ref().map(String::as_str));
        assert_eq!(separate.as_deref(), Some("SHA-256"));
        // All in one field, as proxies write them.
        let joined = answered_nonce(&[&fields.join(", ")]);
        assert_eq!(joined.as_deref(), Some("SHA-256"));
        assert!(
            choose(&["Digest realm=\"r\", nonce=\"n\", qop=\"other\""]).is_none(),
            "an unknown qop cannot be given"
        );
        assert!(choose(&["Digest realm=\"r\""]).is_none(), "without a nonce");
    }

    #[test]
    fn a_realm_in_utf8_is_sent_back() {
        let mut challenge =
            choose(&["Digest realm=\"Прокси-сервер организации\", qop=\"auth\", nonce=\"x\""])
                .unwrap();
        let response = challenge.respond(&login("u", "p"), "CONNECT", "h:443");
        let header = header_text(&response.unwrap());
        assert!(header.contains("realm=\"Прокси-сервер организации\""));
    }

    #[test]
    fn an_unsupported_scheme_has_a_realm_and_no_response() {
        let mut challenges = AuthChallenges::default();
        challenges.add(b"Negotiate realm=\"c\x07orp\"");
        assert_eq!(challenges.realm().as_deref(), Some("corp"));
        assert!(challenges.choose().is_none());
    }

    proptest! {
        /// No challenge and no login cause a panic, or a line break in the request.
        #[test]
        fn no_challenge_makes_it_panic(
            field in ".{0,60}",
            realm in ".{0,20}",
            qop in prop::sample::select(vec!["", ", qop=auth", ", qop=\"auth-int\"", ", qop=é", ", qop=\"auth, x\""]),
            (user, password) in (".{0,10}", ".{0,10}"),
        ) {
            let login = login(&user, &password);
            for field in [field.clone(), format!("Digest {field}"), format!("Digest realm=\"{realm}\", nonce=\"{field}\"{qop}")] {
                let response = choose(&[&field]).and_then(|mut challenge| challenge.respond(&login, "CONNECT", "h:443"));
                if let Some(response) = response {
                    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
                    prop_assert!(!response.value.as_bytes().iter().any(is_break));
                }
            }
        }
    }
}
