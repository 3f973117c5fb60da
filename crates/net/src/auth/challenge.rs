//! What a peer wants to see, and the answer to it: Basic and Digest (RFC 7616).

use digest_auth::{AuthContext, HttpMethod, WwwAuthenticateHeader};

use super::Login;

/// The challenges of one answer.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    /// A Digest challenge, with the count of its nonce's uses.
    digest: Option<WwwAuthenticateHeader>,
    /// Whether Basic would do.
    basic: bool,
    /// The first realm named.
    realm: Option<String>,
}

/// The longest challenge that is read, in bytes.
const LONGEST: usize = 8 * 1024;

impl Challenges {
    /// The challenges of an answer's header fields.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a http::HeaderValue>) -> Self {
        let mut challenges = Self::default();
        values
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .for_each(|value| challenges.add(value));
        challenges
    }

    /// Adds a field's value. One that holds several challenges is read for the first of each kind.
    pub(crate) fn add(&mut self, value: &str) {
        let lower = value.to_ascii_lowercase();
        if value.len() > LONGEST {
            return;
        }
        if let Some(realm) = lower
            .find("realm=\"")
            .and_then(|at| value.get(at + 7..)?.split('"').next())
        {
            self.realm.get_or_insert_with(|| {
                realm
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(120)
                    .collect()
            });
        }
        self.basic |= lower.starts_with("basic") || lower.contains(", basic ");
        if let Some(digest) = lower.find("digest ").and_then(|at| value.get(at..))
            && let Ok(challenge) = digest_auth::parse(digest)
        {
            self.digest = Some(challenge);
        }
    }

    /// Whether Digest is among them.
    pub(crate) fn has_digest(&self) -> bool {
        self.digest.is_some()
    }

    /// Whether two Digest challenges are about one nonce.
    pub(crate) fn same_nonce(&self, other: &Self) -> bool {
        matches!((&self.digest, &other.digest), (Some(a), Some(b)) if a.nonce == b.nonce)
    }

    /// For whom credentials are wanted.
    pub(crate) fn realm(&self) -> Option<String> {
        self.realm.clone()
    }

    /// The value of an Authorization that answers them, the strongest first; `None` if there is none.
    pub(crate) fn answer(&mut self, login: &Login, method: &str, target: &str) -> Option<String> {
        if let Some(digest) = &mut self.digest {
            let (user, password) = (login.user.as_str(), login.password.expose());
            let context = AuthContext::new_with_method(
                user,
                password,
                target,
                None::<&[u8]>,
                HttpMethod::from(method.to_owned()),
            );
            return digest
                .respond(&context)
                .ok()
                .map(|answer| answer.to_header_string());
        }
        self.basic.then(|| login.basic())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn digest_is_preferred_and_its_nonce_counted() {
        let login = Login {
            user: "Mufasa".into(),
            password: Secret::new("Circle of Life".into()),
        };
        let mut challenges = Challenges::default();
        challenges.add("Basic realm=\"first\"");
        challenges.add("Digest realm=\"second\", qop=\"auth\", nonce=\"abc\", algorithm=SHA-256");
        assert_eq!(challenges.realm().as_deref(), Some("first"));
        let first = challenges.answer(&login, "GET", "/dir").unwrap();
        let second = challenges.answer(&login, "GET", "/dir").unwrap();
        assert!(
            first.starts_with("Digest ") && first.contains("nc=00000001"),
            "{first}"
        );
        assert!(second.contains("nc=00000002"), "{second}");
    }

    #[test]
    fn what_nobody_speaks_gives_no_answer_but_a_realm() {
        let login = Login {
            user: "u".into(),
            password: Secret::new("p".into()),
        };
        let mut challenges = Challenges::default();
        challenges.add("Negotiate realm=\"corp\"");
        assert_eq!(challenges.answer(&login, "GET", "/"), None);
        assert_eq!(challenges.realm().as_deref(), Some("corp"));
    }
}
