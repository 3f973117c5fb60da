//! Authorizes requests. Runs on a reactor for each request: no disk, no waiting, and no password
//! hash.
//!
//! These are checked in order, and the first that applies decides:
//!
//! 1. No access is configured: everybody may do everything.
//! 2. OPTIONS asks about the server, often without credentials (a browser's preflight has none):
//!    granted, with the permissions of requests without credentials. Its response must therefore
//!    not depend on the files in the store.
//! 3. A signature in the query, if there is a key to check it with.
//! 4. The Authorization field. Wrong credentials are refused even where none are needed, so that a
//!    user who mistypes a password learns of it.
//! 5. None of these: what requests without credentials may do.
//!
//! The time that a response takes must not reveal which user names exist. A name is looked up by
//! its digest, and each login costs one comparison of digests, with a random digest for unknown
//! users. If any user has a hashed password, every login that does not match at once costs one
//! hash: the user's own, or for unknown users the hash of some user, whose outcome is ignored.
//! Tests count both (`counters`).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::accounts::{
    AccessError, AccessOptions, SecretDigest, SecretDigestKind, StoredPassword, UserAccounts,
};
use super::credentials::RequestCredentials;
use super::login_queue::{LoginAttempt, LoginQueue, LoginResult, PendingLogin};
use super::permissions::{PermissionSource, Permissions};
use super::rules::{AccessRight, AccessScope, AnonymousAccess, ZeroizedSecret};
use super::signed_url::{SignatureCheck, SigningKey};
use crate::RequestPath;

/// Who may do what. Cheap to clone, and immutable: a reload makes a new one.
#[derive(Debug, Clone)]
pub struct AccessControl {
    /// `None` when everybody may do everything.
    rules: Option<Arc<AccessRules>>,
}

#[derive(Debug)]
struct AccessRules {
    accounts: UserAccounts,
    logins: Arc<LoginQueue>,
    /// What requests without credentials may do.
    anonymous: Arc<[AccessScope]>,
    signing_key: Option<SigningKey>,
    /// The `WWW-Authenticate` fields of a 401.
    challenges: Arc<[HeaderValue]>,
}

/// The parts of a request that matter for its permissions.
#[derive(Clone, Copy)]
pub struct AccessRequest<'a> {
    pub method: &'a Method,
    pub path: &'a RequestPath,
    /// The query as it was sent, without the question mark.
    pub query: Option<&'a str>,
    /// The header fields; only Authorization is used.
    pub headers: &'a HeaderMap,
    pub now: SystemTime,
    /// The client's address, so that one client's guesses do not keep the others from logging in.
    /// `None` when it is unknown: for a Unix socket, or a proxy that all clients come through.
    pub peer: Option<IpAddr>,
}

/// Leaves out the header fields and the query, which hold secrets.
impl fmt::Debug for AccessRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({} {})", self.method, self.path.key)
    }
}

impl AccessControl {
    /// Builds the tables. Neither blocks nor hashes.
    ///
    /// # Errors
    /// When the rules contradict each other.
    pub fn new(options: AccessOptions) -> Result<Self, AccessError> {
        let is_open = options.users.is_empty()
            && options.auth_files.is_empty()
            && options.tokens.is_empty()
            && options.token_files.is_empty()
            && options.signing_key.is_none()
            && options.anonymous == AnonymousAccess::None;
        if is_open {
            return Ok(Self::open());
        }
        let accounts = UserAccounts::new(&options)?;
        let rules = AccessRules {
            challenges: challenges(&accounts),
            accounts,
            logins: Arc::new(LoginQueue::new(&options.logins)),
            anonymous: match options.anonymous {
                AnonymousAccess::None => Arc::from([]),
                AnonymousAccess::Some(scopes) => scopes.into(),
            },
            signing_key: options.signing_key,
        };
        Ok(Self {
            rules: Some(Arc::new(rules)),
        })
    }

    /// Everybody may do everything.
    #[must_use]
    pub fn open() -> Self {
        Self { rules: None }
    }

    /// Whether everybody may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_none()
    }

    /// Whether requests without credentials may do anything.
    #[must_use]
    pub fn allows_anonymous(&self) -> bool {
        let rules = self.rules.as_ref();
        rules.is_none_or(|rules| !rules.anonymous.is_empty())
    }

    /// The refusal that asks for a user name and a password, for a client that wants to log in where
    /// it needs no login. `None` if there are no users.
    #[must_use]
    pub fn login_challenge(&self) -> Option<AccessRefusal> {
        let rules = self.rules.as_ref()?;
        (!rules.accounts.users.is_empty()).then(|| AccessRefusal {
            reason: AccessRefusalReason::LoginRequired,
            challenges: Arc::clone(&rules.challenges),
        })
    }

    /// Decides what is to be done with a request.
    #[must_use]
    pub fn authorize(&self, request: &AccessRequest<'_>) -> AccessDecision {
        self.decide(request, None)
    }

    /// Decides again after the password was hashed; never [`AccessDecision::NeedsHashing`] for the
    /// request that it was hashed for. Call it on the instance that returned the [`PendingLogin`],
    /// even if a reload has made a newer one.
    #[must_use]
    pub fn authorize_with_result(
        &self,
        request: &AccessRequest<'_>,
        login_result: &LoginResult,
    ) -> AccessDecision {
        self.decide(request, Some(login_result))
    }

    fn decide(
        &self,
        request: &AccessRequest<'_>,
        login_result: Option<&LoginResult>,
    ) -> AccessDecision {
        let Some(rules) = &self.rules else {
            return AccessDecision::Granted(Permissions::open());
        };
        if *request.method == Method::OPTIONS {
            return AccessDecision::Granted(Permissions::anonymous(&rules.anonymous));
        }
        if let Some(verdict) = rules.check_signature(request) {
            return rules.granted_or_refused(verdict);
        }
        match RequestCredentials::parse(request.headers) {
            RequestCredentials::None => {
                rules.check_permissions(request, Permissions::anonymous(&rules.anonymous))
            }
            RequestCredentials::Malformed => {
                rules.refuse(AccessRefusalReason::MalformedAuthorization)
            }
            RequestCredentials::Token(token) => rules.check_token(request, &token),
            RequestCredentials::Login { user, password } => {
                rules.check_login(request, &user, password, login_result)
            }
        }
    }
}

impl AccessRules {
    /// The outcome of the signature in the query; `None` if there is no signature or no key.
    fn check_signature(
        &self,
        request: &AccessRequest<'_>,
    ) -> Option<Result<Permissions, AccessRefusalReason>> {
        let key = self.signing_key.as_ref()?;
        match key.verify(request.method, request.path, request.query, request.now) {
            SignatureCheck::Unsigned => None,
            SignatureCheck::Valid(method) => Some(Ok(Permissions::signed(method, request.path))),
            SignatureCheck::Expired => Some(Err(AccessRefusalReason::LinkExpired)),
            SignatureCheck::Invalid => Some(Err(AccessRefusalReason::BadSignature)),
        }
    }

    fn check_token(&self, request: &AccessRequest<'_>, token: &ZeroizedSecret) -> AccessDecision {
        let digest = self
            .accounts
            .hasher
            .digest(SecretDigestKind::Token, &[token.expose()]);
        let known = self.accounts.tokens.get_key_value(&digest);
        let expected = known.map_or(&self.accounts.dummy_digest, |(digest, _)| digest);
        let is_correct = digest.matches(expected);
        match known {
            Some((_, scopes)) if is_correct => {
                let permissions =
                    Permissions::scoped(PermissionSource::Token, None, scopes, &self.anonymous);
                self.check_permissions(request, permissions)
            }
            _ => self.refuse(AccessRefusalReason::WrongCredentials),
        }
    }

    fn check_login(
        &self,
        request: &AccessRequest<'_>,
        user: &str,
        password: ZeroizedSecret,
        login_result: Option<&LoginResult>,
    ) -> AccessDecision {
        let digests = &self.accounts.hasher;
        let user_digest = digests.digest(SecretDigestKind::User, &[user]);
        let digest = digests.digest(SecretDigestKind::Login, &[user, password.expose()]);
        let account = self.accounts.users.get(&user_digest);
        let (expected, own_hash) = match account.map(|account| &account.password) {
            Some(StoredPassword::Digest(digest)) => (digest, None),
            Some(StoredPassword::Hash(hash)) => (&self.accounts.dummy_digest, Some(hash)),
            None => (&self.accounts.dummy_digest, None),
        };
        let hashes = &self.accounts.hashes;
        let outcome = match digest.matches(expected) {
            true => Some(true),
            false if hashes.is_empty() => Some(false),
            false => self.cached_result(&digest, request.now, login_result),
        };
        match (outcome, account) {
            (Some(true), Some(account)) => {
                let user = Some(Arc::clone(&account.user));
                let permissions = Permissions::scoped(
                    PermissionSource::Login,
                    user,
                    &account.scopes,
                    &self.anonymous,
                );
                return self.check_permissions(request, permissions);
            }
            (Some(_), _) => return self.refuse(AccessRefusalReason::WrongCredentials),
            (None, _) => {}
        }
        let Some(slot) = self.logins.slots.try_acquire(request.peer) else {
            return self.refuse(AccessRefusalReason::Busy);
        };
        let decoy = &hashes[user_digest.index(hashes.len())];
        AccessDecision::NeedsHashing(PendingLogin {
            queue: Arc::clone(&self.logins),
            attempt: LoginAttempt {
                digest,
                password,
                now: request.now,
                hash: Arc::clone(own_hash.unwrap_or(decoy)),
                user_exists: own_hash.is_some(),
            },
            slot,
        })
    }

    /// Whether this login is correct, if that is known from hashing it now or earlier.
    fn cached_result(
        &self,
        digest: &SecretDigest,
        now: SystemTime,
        login_result: Option<&LoginResult>,
    ) -> Option<bool> {
        if let Some(login_result) =
            login_result.filter(|login_result| login_result.digest.matches(digest))
        {
            return Some(login_result.is_correct);
        }
        if self.logins.successes.contains(digest, now) {
            return Some(true);
        }
        self.logins.failures.contains(digest, now).then_some(false)
    }

    /// Grants the request if the permissions allow its method and path.
    fn check_permissions(
        &self,
        request: &AccessRequest<'_>,
        permissions: Permissions,
    ) -> AccessDecision {
        let needed = AccessRight::required_for(request.method).unwrap_or(AccessRight::Write);
        if permissions.allows(needed, &request.path.key) {
            return AccessDecision::Granted(permissions);
        }
        self.refuse(match permissions.source {
            PermissionSource::Anonymous if !self.challenges.is_empty() => {
                AccessRefusalReason::LoginRequired
            }
            PermissionSource::Anonymous if self.signing_key.is_some() => {
                AccessRefusalReason::SignatureRequired
            }
            _ => AccessRefusalReason::NotAllowed,
        })
    }

    fn granted_or_refused(
        &self,
        outcome: Result<Permissions, AccessRefusalReason>,
    ) -> AccessDecision {
        match outcome {
            Ok(permissions) => AccessDecision::Granted(permissions),
            Err(reason) => self.refuse(reason),
        }
    }

    fn refuse(&self, reason: AccessRefusalReason) -> AccessDecision {
        let challenges = match reason {
            AccessRefusalReason::LoginRequired
            | AccessRefusalReason::MalformedAuthorization
            | AccessRefusalReason::WrongCredentials => Arc::clone(&self.challenges),
            _ => Arc::from([]),
        };
        AccessDecision::Refused(AccessRefusal { reason, challenges })
    }
}

/// The challenges of a 401. Basic comes first: browsers that support one scheme only support that.
fn challenges(accounts: &UserAccounts) -> Arc<[HeaderValue]> {
    let basic = HeaderValue::from_static(r#"Basic realm="haul", charset="UTF-8""#);
    let bearer = HeaderValue::from_static(r#"Bearer realm="haul""#);
    let basic = (!accounts.users.is_empty()).then_some(basic);
    let bearer = (!accounts.tokens.is_empty()).then_some(bearer);
    basic.into_iter().chain(bearer).collect()
}

/// What is to be done with a request.
#[derive(Debug)]
pub enum AccessDecision {
    /// Serve it with these permissions.
    Granted(Permissions),
    Refused(AccessRefusal),
    /// Undecided until a password has been hashed.
    NeedsHashing(PendingLogin),
}

/// A refusal. Its text (`Display`) is the response body; it reveals nothing that the client did not
/// know.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct AccessRefusal {
    /// Decides the status and the text.
    pub reason: AccessRefusalReason,
    /// The `WWW-Authenticate` fields, one for each scheme; empty unless the status is 401.
    pub challenges: Arc<[HeaderValue]>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusalReason {
    /// Requests without credentials may not do this.
    #[error("this needs a login")]
    LoginRequired,
    /// The same where there are no logins, only signed links.
    #[error("this needs a signed link")]
    SignatureRequired,
    /// The Authorization field cannot be parsed, or there are two.
    #[error("the Authorization field is malformed")]
    MalformedAuthorization,
    /// Nobody has these credentials. The same is said for unknown names.
    #[error("the user name or password, or the token, is wrong")]
    WrongCredentials,
    /// The user is known but lacks this permission.
    #[error("you may not do this here")]
    NotAllowed,
    /// The signature is valid, but expired.
    #[error("this link has expired: ask for a new one")]
    LinkExpired,
    /// The signature does not fit this request or this server's key.
    #[error(
        "the signature of this link is wrong: it is valid for one method and one URL, neither of which may be changed"
    )]
    BadSignature,
    /// Too many logins wait for their passwords to be checked.
    #[error("too many logins at once: try again in a moment")]
    Busy,
}

impl AccessRefusal {
    /// The status of the response: 401, 403 or 503.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            // Without logins there is nothing to challenge for, and a 401 must carry a challenge
            // (RFC 9110 15.5.2).
            AccessRefusalReason::LoginRequired
            | AccessRefusalReason::MalformedAuthorization
            | AccessRefusalReason::WrongCredentials
                if self.challenges.is_empty() =>
            {
                StatusCode::FORBIDDEN
            }
            AccessRefusalReason::LoginRequired
            | AccessRefusalReason::MalformedAuthorization
            | AccessRefusalReason::WrongCredentials => StatusCode::UNAUTHORIZED,
            AccessRefusalReason::SignatureRequired
            | AccessRefusalReason::NotAllowed
            | AccessRefusalReason::LinkExpired
            | AccessRefusalReason::BadSignature => StatusCode::FORBIDDEN,
            AccessRefusalReason::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The value of `Retry-After`, if the response has one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.reason == AccessRefusalReason::Busy).then_some(Duration::from_secs(2))
    }
}
