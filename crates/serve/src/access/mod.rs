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

mod account;
mod answers;
mod cors;
mod credentials;
mod cross_site;
mod digest;
mod file;
mod grant;
mod hash;
mod judge;
mod link;
mod origin;
mod pending;
mod queue;
mod remembered;
mod rule;
mod scope;
mod secret;
mod signed;
#[cfg(test)]
mod tally;
#[cfg(test)]
mod tests;

pub use account::{AccessError, AccessOptions, LoginOptions};
pub use answers::{AccessDecision, AccessRefusal, AccessRefusalReason};
pub use cors::{AllowedOrigins, CorsError, CorsOptions, CorsPolicy, CrossSiteWrite};
pub use cross_site::is_cross_site;
pub use file::{AuthFile, AuthFileError, AuthFileErrorKind, HashedRule, TokenFile};
pub use grant::{PermissionSource, Permissions};
pub use hash::{PasswordHash, PasswordHashError};
pub use judge::{AccessControl, AccessRequest};
pub use link::{SignError, sign_url};
pub use origin::{WebOrigin, WebOriginError};
pub use pending::{LoginResult, PendingLogin, ReadyLogin};
pub use rule::{AuthRule, AuthRuleError, TokenRule};
pub use scope::{AccessRight, AccessScope, AccessScopeError, AnonymousAccess};
pub use secret::ZeroizedSecret;
pub use signed::{
    EXPIRES, SIGNATURE, SignableMethod, SignableMethodError, SigningKey, SigningKeyError,
    without_signature,
};
