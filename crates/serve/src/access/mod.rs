//! Who may do what: users, tokens, signed URLs, and what browsers are let do for other pages.
//!
//! Everything here is decided without a socket and, but for reading its files at start-up, without a disk. What was configured
//! becomes an [`AccessControl`]; each request is put to [`AccessControl::judge`] before anything is looked up in the store, so that who may not
//! read learns of no name whether it exists. An answer is one of three: granted, refused, or "a password must be hashed first",
//! which takes tens of milliseconds of a core and is therefore handed back for a thread that may block.
//!
//! - [`AccessScope`] is a right beneath a prefix; [`AuthRule`], [`TokenRule`], [`AuthFile`] and [`TokenFile`] say who has which.
//! - [`SigningKey`] makes and checks URLs that carry their own permission and expire.
//! - [`CorsPolicy`] says which other pages may use the store from a browser, and [`is_cross_site`] finds out those who were not asked.
//! - [`ServerNames`](haul_service::ServerNames) are the names that a server without logins goes by, against pages whose name was led here.
//!
//! The order of calls, for one request:
//!
//! ```text
//! judge(ask) -> Granted(grant)  -> if it writes: is_cross_site? then Cors::admits, or 403 -> serve; grant.may, grant.may_list
//!            -> Refused(refusal) -> its status, challenges, Retry-After, text
//!            -> NeedsHashing(pending) -> pending.turn().await -> on a blocking thread: run() -> judge_again(ask, checked)
//! ```
//!
//! Rights belong to keys, which are names. Where a link inside the root leads is not asked here: who may read `/a` may read what a
//! link in `/a` leads to, as far as the root lets it be followed. Links are made by those who have the disk, not by requests.

mod accounts;
mod auth_files;
mod authorize;
mod cors;
#[cfg(test)]
mod counters;
mod credentials;
mod cross_site;
mod decision;
mod digest;
mod hashing_slots;
mod login_cache;
mod login_queue;
mod password_hash;
mod permissions;
mod rules;
mod scope;
mod secret;
mod sign_url;
mod signed_url;
#[cfg(test)]
mod tests;
mod web_origin;

pub use accounts::{AccessError, AccessOptions, LoginOptions};
pub use auth_files::{AuthFile, AuthFileError, AuthFileErrorKind, HashedRule, TokenFile};
pub use authorize::{AccessControl, AccessRequest};
pub use cors::{AllowedOrigins, CorsError, CorsOptions, CorsPolicy, CrossSiteWrite};
pub use cross_site::is_cross_site;
pub use decision::{AccessDecision, AccessRefusal, AccessRefusalReason};
pub use login_queue::{LoginResult, PendingLogin, ReadyLogin};
pub use password_hash::{PasswordHash, PasswordHashError};
pub use permissions::{PermissionSource, Permissions};
pub use rules::{AuthRule, AuthRuleError, TokenRule};
pub use scope::{AccessRight, AccessScope, AccessScopeError, AnonymousAccess};
pub use secret::ZeroizedSecret;
pub use sign_url::{SignError, sign_url};
pub use signed_url::{
    EXPIRES_PARAMETER, SIGNATURE_PARAMETER, SignableMethod, SignableMethodError, SigningKey,
    SigningKeyError, redact_signature,
};
pub use web_origin::{WebOrigin, WebOriginError};
