//! Origins and proxies that require a login (A21, E4). Credentials are verified.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::status_with_header;
use crate::content::hexadecimal;
use crate::origin::{OriginResponse, RecordedRequest};

/// The only nonce. It does not expire.
const NONCE: &str = "bGFiIG5vbmNl";

/// The login that an origin or a proxy requires, and its scheme.
#[derive(Debug, Clone)]
pub struct RequiredLogin {
    user: String,
    password: String,
    realm: String,
    scheme: RequiredAuthScheme,
    /// Whether a proxy requires it: 407 and its fields.
    proxy: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequiredAuthScheme {
    Basic,
    DigestMd5,
    DigestSha256,
}

impl RequiredLogin {
    /// Requires Basic (RFC 7617).
    #[must_use]
    pub fn basic(user: &str, password: &str) -> Self {
        Self {
            user: user.into(),
            password: password.into(),
            realm: "lab".into(),
            scheme: RequiredAuthScheme::Basic,
            proxy: false,
        }
    }

    /// Requires Digest with SHA-256 (RFC 7616).
    #[must_use]
    pub fn digest(user: &str, password: &str) -> Self {
        Self {
            scheme: RequiredAuthScheme::DigestSha256,
            ..Self::basic(user, password)
        }
    }

    /// Requires Digest with MD5, like older servers.
    #[must_use]
    pub fn digest_md5(user: &str, password: &str) -> Self {
        Self {
            scheme: RequiredAuthScheme::DigestMd5,
            ..Self::basic(user, password)
        }
    }

    #[must_use]
    pub fn realm(mut self, realm: &str) -> Self {
        self.realm = realm.into();
        self
    }

    /// Makes it the login of a proxy: 407, `Proxy-Authenticate`, `Proxy-Authorization`.
    #[must_use]
    pub fn for_proxy(mut self) -> Self {
        self.proxy = true;
        self
    }

    /// The rule: 401 or 407 with a challenge for requests without the login.
    pub fn rule(self) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
        let (code, name) = if self.proxy {
            (407, "Proxy-Authenticate")
        } else {
            (401, "WWW-Authenticate")
        };
        let challenge = status_with_header(code, name, self.challenge());
        self.refused_by(challenge)
    }

    /// The same with another refusal, such as one that does not ask for the login.
    pub fn refused_by(
        self,
        refuse: impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync,
    ) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
        move |request, response| {
            if !self.is_given_by(request) {
                refuse(request, response);
            }
        }
    }

    fn challenge(&self) -> String {
        let realm = &self.realm;
        let digest = |algorithm| {
            format!(
                "Digest realm=\"{realm}\", qop=\"auth\", algorithm={algorithm}, nonce=\"{NONCE}\""
            )
        };
        match self.scheme {
            RequiredAuthScheme::Basic => format!("Basic realm=\"{realm}\""),
            RequiredAuthScheme::DigestMd5 => digest("MD5"),
            RequiredAuthScheme::DigestSha256 => digest("SHA-256"),
        }
    }

    fn is_given_by(&self, request: &RecordedRequest) -> bool {
        let name = if self.proxy {
            "proxy-authorization"
        } else {
            "authorization"
        };
        let Some((scheme, shown)) = request.header(name).and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        if self.scheme == RequiredAuthScheme::Basic {
            let both = format!("{}:{}", self.user, self.password);
            return scheme.eq_ignore_ascii_case("basic") && shown == BASE64_STANDARD.encode(both);
        }
        scheme.eq_ignore_ascii_case("digest") && self.digest_matches(request, &parameters(shown))
    }

    /// RFC 7616 3.4.1, with `qop=auth`.
    fn digest_matches(&self, request: &RecordedRequest, shown: &HashMap<String, String>) -> bool {
        let field = |name: &str| shown.get(name).map_or("", String::as_str);
        let user = self.hash(&format!("{}:{}:{}", self.user, self.realm, self.password));
        let what = self.hash(&format!("{}:{}", request.method, field("uri")));
        let (count, client) = (field("nc"), field("cnonce"));
        let expected = self.hash(&format!("{user}:{NONCE}:{count}:{client}:auth:{what}"));
        field("username") == self.user
            && field("realm") == self.realm
            && field("nonce") == NONCE
            && field("uri") == request.target
            && count.len() == 8
            && field("response") == expected
    }

    fn hash(&self, text: &str) -> String {
        match self.scheme {
            RequiredAuthScheme::DigestMd5 => hexadecimal(&Md5::digest(text)),
            RequiredAuthScheme::Basic | RequiredAuthScheme::DigestSha256 => {
                hexadecimal(&Sha256::digest(text))
            }
        }
    }
}

/// Parses `a=b, c="d"`. Clients send no commas within quotes.
fn parameters(text: &str) -> HashMap<String, String> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((
            name.trim().to_owned(),
            value.trim().trim_matches('"').into(),
        ))
    };
    text.split(',').filter_map(pair).collect()
}

/// 401 for requests without this token (RFC 6750).
pub fn require_bearer_token(
    token: &str,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + use<> {
    let expected = format!("Bearer {token}");
    move |request, response| {
        if request.header("authorization") != Some(&expected) {
            let challenge = "Bearer realm=\"lab\"".into();
            status_with_header(401, "WWW-Authenticate", challenge)(request, response);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_other_programs() {
        // The user of RFC 7616 3.9.1; the digest is that of md5sum.
        let login =
            RequiredLogin::digest_md5("Mufasa", "Circle of Life").realm("http-auth@example.org");
        assert_eq!(
            login.hash("Mufasa:http-auth@example.org:Circle of Life"),
            "3d78807defe7de2157e2b0b6573a855f"
        );
        let shown = parameters("username=\"Mufasa\", nc=00000001, uri=\"/dir/index.html\"");
        assert_eq!(
            (shown["username"].as_str(), shown["nc"].as_str()),
            ("Mufasa", "00000001")
        );
    }
}
