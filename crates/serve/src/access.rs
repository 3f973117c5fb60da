//! Permissions: users, tokens, signed URLs, and what browsers may do for pages of other sites.
//!
//! Decisions here need no socket and, apart from reading the files at start-up, no disk. The
//! configuration becomes an [`AccessControl`]. Each request goes through
//! [`AccessControl::authorize`] before anything is looked up in the store, so a client without
//! permission does not learn which names exist. The decision is one of three: granted, refused, or
//! "a password must be hashed first". Hashing takes tens of milliseconds of a core, so it is left
//! to a thread that may block.
//!
//! - [`AccessScope`] is a right beneath a prefix; [`AuthRule`], [`TokenRule`], [`AuthFile`] and
//!   [`TokenFile`] say who has which.
//! - [`SigningKey`] makes and checks URLs that carry their own permission and expire.
//! - [`CorsPolicy`] says which pages of other sites may use the store from a browser;
//!   [`is_cross_site`] recognises the requests of all other pages.
//! - [`ServerNames`](haul_service::ServerNames) are the host names that a server without logins
//!   accepts, against DNS rebinding.
//!
//! The order of calls for one request:
//!
//! ```text
//! authorize(request) -> Granted(permissions) -> if it writes: is_cross_site? then
//! cross_site_write, or 403
//!                                            -> serve; ask permissions.allows, .allows_listing
//!                    -> Refused(refusal)     -> its status, challenges, Retry-After, text
//!                    -> NeedsHashing(pending) -> pending.acquire_permit().await
//!                                            -> on a blocking thread: verify()
//!                                            -> authorize_with_result(request, result)
//! ```
//!
//! Rights belong to keys, which are names. Where a link inside the root leads is not checked here:
//! who may read `/a` may read what a link in `/a` leads to, as far as the root follows it. Links
//! are made by users of the disk, not by requests.

mod accounts;
mod auth_files;
mod authorize;
mod cors;
#[cfg(test)]
mod counters;
mod credentials;
mod cross_site;
mod login_cache;
mod login_queue;
mod password_hash;
mod permissions;
mod rules;
mod signed_url;
#[cfg(test)]
mod tests;

pub use accounts::{AccessError, AccessOptions, LoginOptions};
pub use auth_files::{
    AuthFile, AuthFileError, AuthFileErrorKind, HashedRule, TokenFile, read_secrets,
};
pub use authorize::{
    AccessControl, AccessDecision, AccessRefusal, AccessRefusalReason, AccessRequest,
};
pub use cors::{
    AllowedOrigins, CorsError, CorsOptions, CorsPolicy, CrossSiteWrite, WebOrigin, WebOriginError,
};
pub use cross_site::is_cross_site;
pub use login_queue::{LoginResult, PendingLogin, ReadyLogin};
pub use password_hash::{PasswordHash, PasswordHashError};
pub use permissions::{PermissionSource, Permissions};
pub use rules::{
    AccessRight, AccessScope, AccessScopeError, AnonymousAccess, AuthRule, AuthRuleError,
    TokenRule, ZeroizedSecret,
};
pub use signed_url::{
    EXPIRES_PARAMETER, SIGNATURE_PARAMETER, SignError, SignableMethod, SigningKey, SigningKeyError,
    redact_signature, sign_url,
};
