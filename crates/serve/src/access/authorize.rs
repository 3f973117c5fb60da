//! The judgement of a request. Runs on a reactor, for each request: no disk, no waiting, and no hash of a password.
//!
//! What a request brings is looked at in this order, and the first thing that is there decides:
//!
//! 1. nothing is configured: everybody may do everything;
//! 2. OPTIONS asks about the server, often without credentials (a browser's preflight has none): granted, with the rights of
//!    strangers. Its answer must therefore not depend on what is in the store;
//! 3. a signature in the query, when there is a key to check it;
//! 4. the Authorization field. A wrong one is refused even where strangers may go, so that who mistypes a password is told;
//! 5. none of these: what strangers may do.
//!
//! How long an answer takes must not say which names exist. A name is looked up by its digest, and one comparison of digests is
//! made for each login, with a random digest when there is nobody to compare with. If any user has a hashed password, every login
//! that is not right at first sight costs one hash: the user's own, or for others the hash of a user that the name leads to, whose
//! outcome counts for nothing. In tests both are counted (`tally`).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method};

use crate::RequestPath;

use super::accounts::{AccessError, AccessOptions, StoredPassword, UserAccounts};
use super::credentials::RequestCredentials;
use super::decision::{AccessDecision, AccessRefusal, AccessRefusalReason};
use super::digest::{SecretDigest, SecretDigestKind};
use super::login_queue::{LoginAttempt, LoginQueue, LoginResult, PendingLogin};
use super::permissions::{PermissionSource, Permissions};
use super::scope::{AccessRight, AccessScope, AnonymousAccess};
use super::secret::ZeroizedSecret;
use super::signed_url::{SignatureCheck, SigningKey};

/// Who may do what. Cheap to clone; it never changes, so what was configured anew is a new one.
#[derive(Debug, Clone)]
pub struct AccessControl {
    /// `None` when everybody may do everything.
    rules: Option<Arc<AccessRules>>,
}

#[derive(Debug)]
struct AccessRules {
    accounts: UserAccounts,
    logins: Arc<LoginQueue>,
    /// What strangers may do.
    anonymous: Arc<[AccessScope]>,
    signing_key: Option<SigningKey>,
    /// What a 401 says.
    challenges: Arc<[HeaderValue]>,
}

/// What is known of a request when it is judged.
#[derive(Clone, Copy)]
pub struct AccessRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path.
    pub path: &'a RequestPath,
    /// Its query, as it was sent, without the question mark.
    pub query: Option<&'a str>,
    /// Its header fields, of which Authorization is looked at.
    pub headers: &'a HeaderMap,
    /// The time.
    pub now: SystemTime,
    /// Where it comes from, so that one client's guesses do not keep the others from logging in. `None` when that is not known:
    /// for a Unix socket, or a proxy that all come through.
    pub peer: Option<IpAddr>,
}

/// Without the fields and the query, which hold secrets.
impl fmt::Debug for AccessRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({} {})", self.method, self.path.key)
    }
}

impl AccessControl {
    /// Gathers what was configured. Blocks for no disk and hashes nothing.
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

    /// Whether somebody without a login, a token or a signature may do anything.
    #[must_use]
    pub fn allows_anonymous(&self) -> bool {
        let rules = self.rules.as_ref();
        rules.is_none_or(|rules| !rules.anonymous.is_empty())
    }

    /// What is to be done with a request.
    #[must_use]
    pub fn authorize(&self, ask: &AccessRequest<'_>) -> AccessDecision {
        self.decide(ask, None)
    }

    /// The same after its password was hashed; never [`AccessDecision::NeedsHashing`] for the request that it was hashed for. To be asked
    /// of the one that wanted it hashed, also if there is a newer one by now.
    #[must_use]
    pub fn authorize_with_result(
        &self,
        ask: &AccessRequest<'_>,
        checked: &LoginResult,
    ) -> AccessDecision {
        self.decide(ask, Some(checked))
    }

    fn decide(&self, ask: &AccessRequest<'_>, checked: Option<&LoginResult>) -> AccessDecision {
        let Some(rules) = &self.rules else {
            return AccessDecision::Granted(Permissions::open());
        };
        if *ask.method == Method::OPTIONS {
            return AccessDecision::Granted(Permissions::anonymous(&rules.anonymous));
        }
        if let Some(verdict) = rules.check_signature(ask) {
            return rules.granted_or_refused(verdict);
        }
        match RequestCredentials::parse(ask.headers) {
            RequestCredentials::None => {
                rules.check_permissions(ask, Permissions::anonymous(&rules.anonymous))
            }
            RequestCredentials::Malformed => {
                rules.refuse(AccessRefusalReason::MalformedAuthorization)
            }
            RequestCredentials::Token(token) => rules.check_token(ask, &token),
            RequestCredentials::Login { user, password } => {
                rules.check_login(ask, (&user, password), checked)
            }
        }
    }
}

impl AccessRules {
    /// What the query says of itself; `None` if it has no signature, or there is no key.
    fn check_signature(
        &self,
        ask: &AccessRequest<'_>,
    ) -> Option<Result<Permissions, AccessRefusalReason>> {
        let key = self.signing_key.as_ref()?;
        match key.verify(ask.method, ask.path, ask.query, ask.now) {
            SignatureCheck::Unsigned => None,
            SignatureCheck::Valid(method) => Some(Ok(Permissions::signed(method, ask.path))),
            SignatureCheck::Expired => Some(Err(AccessRefusalReason::LinkExpired)),
            SignatureCheck::Invalid => Some(Err(AccessRefusalReason::BadSignature)),
        }
    }

    fn check_token(&self, ask: &AccessRequest<'_>, token: &ZeroizedSecret) -> AccessDecision {
        let came = self
            .accounts
            .hasher
            .digest(SecretDigestKind::Token, &[token.expose()]);
        let known = self.accounts.tokens.get_key_value(&came);
        let held = known.map_or(&self.accounts.dummy_digest, |(digest, _)| digest);
        let is_right = came.matches(held);
        match known {
            Some((_, scopes)) if is_right => {
                let grant =
                    Permissions::scoped((PermissionSource::Token, None), scopes, &self.anonymous);
                self.check_permissions(ask, grant)
            }
            _ => self.refuse(AccessRefusalReason::WrongCredentials),
        }
    }

    fn check_login(
        &self,
        ask: &AccessRequest<'_>,
        (user, password): (&str, ZeroizedSecret),
        checked: Option<&LoginResult>,
    ) -> AccessDecision {
        let digests = &self.accounts.hasher;
        let name = digests.digest(SecretDigestKind::User, &[user]);
        let came = digests.digest(SecretDigestKind::Login, &[user, password.expose()]);
        let account = self.accounts.users.get(&name);
        let (held, own_hash) = match account.map(|account| &account.password) {
            Some(StoredPassword::Digest(digest)) => (digest, None),
            Some(StoredPassword::Hash(hash)) => (&self.accounts.dummy_digest, Some(hash)),
            None => (&self.accounts.dummy_digest, None),
        };
        let hashes = &self.accounts.hashes;
        let outcome = match came.matches(held) {
            true => Some(true),
            false if hashes.is_empty() => Some(false),
            false => self.cached_result(&came, ask.now, checked),
        };
        match (outcome, account) {
            (Some(true), Some(account)) => {
                let who = (PermissionSource::Login, Some(Arc::clone(&account.user)));
                return self.check_permissions(
                    ask,
                    Permissions::scoped(who, &account.scopes, &self.anonymous),
                );
            }
            (Some(_), _) => return self.refuse(AccessRefusalReason::WrongCredentials),
            (None, _) => {}
        }
        let Some(place) = self.logins.slots.try_acquire(ask.peer) else {
            return self.refuse(AccessRefusalReason::Busy);
        };
        let anothers = &hashes[name.index(hashes.len())];
        AccessDecision::NeedsHashing(PendingLogin {
            queue: Arc::clone(&self.logins),
            attempt: LoginAttempt {
                digest: came,
                password,
                hash: Arc::clone(own_hash.unwrap_or(anothers)),
                user_exists: own_hash.is_some(),
            },
            slot: place,
        })
    }

    /// What hashing said of this login, now or a while ago.
    fn cached_result(
        &self,
        came: &SecretDigest,
        now: SystemTime,
        checked: Option<&LoginResult>,
    ) -> Option<bool> {
        if let Some(checked) = checked.filter(|checked| checked.digest.matches(came)) {
            return Some(checked.is_correct);
        }
        if self.logins.successes.contains(came, now) {
            return Some(true);
        }
        self.logins.failures.contains(came, now).then_some(false)
    }

    /// Grants a request what it asks for, if the grant reaches that far.
    fn check_permissions(&self, ask: &AccessRequest<'_>, grant: Permissions) -> AccessDecision {
        let needed = AccessRight::required_for(ask.method).unwrap_or(AccessRight::Write);
        if grant.allows(needed, &ask.path.key) {
            return AccessDecision::Granted(grant);
        }
        self.refuse(match grant.source {
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
            Ok(grant) => AccessDecision::Granted(grant),
            Err(why) => self.refuse(why),
        }
    }

    fn refuse(&self, why: AccessRefusalReason) -> AccessDecision {
        let challenges = match why {
            AccessRefusalReason::LoginRequired
            | AccessRefusalReason::MalformedAuthorization
            | AccessRefusalReason::WrongCredentials => Arc::clone(&self.challenges),
            _ => Arc::from([]),
        };
        AccessDecision::Refused(AccessRefusal {
            reason: why,
            challenges,
        })
    }
}

/// How one may log in. Basic comes first: browsers that know one scheme alone know that.
fn challenges(accounts: &UserAccounts) -> Arc<[HeaderValue]> {
    let basic = HeaderValue::from_static(r#"Basic realm="haul", charset="UTF-8""#);
    let bearer = HeaderValue::from_static(r#"Bearer realm="haul""#);
    let basic = (!accounts.users.is_empty()).then_some(basic);
    let bearer = (!accounts.tokens.is_empty()).then_some(bearer);
    basic.into_iter().chain(bearer).collect()
}
