//! Users and tokens as they are written on a command line.
//!
//! The fields of a rule are separated by colons, and none may contain one: a rule that could be
//! read in two ways might set another password than its author meant. Errors show nothing of the
//! text, since all of it may be a password.

use std::fmt;
use std::str::FromStr;

use http::Method;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::{ObjectKey, ObjectKeyError};

/// A user, the password in plain text, and one scope: `user:password:ro|rw[:/prefix]`. Several
/// rules may name one user, with the same password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRule {
    /// The name: not empty, without a colon or control character.
    pub user: String,
    /// The password as the user types it.
    pub password: ZeroizedSecret,
    /// What the user may do.
    pub scope: AccessScope,
}

/// A token and one scope: `TOKEN:ro|rw[:/prefix]`. Several rules may have the same token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRule {
    /// The token as it follows `Bearer` (RFC 6750 2.1).
    pub token: ZeroizedSecret,
    /// What a request with this token may do.
    pub scope: AccessScope,
}

/// Why a text is not a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthRuleError {
    /// Too few colons.
    #[error(
        "a login is written user:password:ro or user:password:rw, with :/prefix after it for a part of the store"
    )]
    Login,
    /// Too many colons, or they are misplaced.
    #[error(
        "a login is written user:password:ro|rw[:/prefix]; a password that holds a colon cannot be written so: put its hash into \
         a file of logins"
    )]
    Colons(#[source] AccessScopeError),
    /// Too few colons.
    #[error(
        "a token is written TOKEN:ro or TOKEN:rw, with :/prefix after it for a part of the store"
    )]
    Token,
    /// The right at the end is wrong, and the rest cannot be misread.
    #[error("the rights are written ro|rw[:/prefix]")]
    Scope(#[source] AccessScopeError),
    /// The user name is empty.
    #[error("the user name is empty")]
    NoUser,
    /// No header can carry a control character.
    #[error("the user name contains a control character")]
    UserControl,
    /// Probably a variable that was not set.
    #[error("the password is empty")]
    NoPassword,
    /// No client can send a control character (RFC 7617 2).
    #[error("the password contains a control character")]
    PasswordControl,
    /// No header can carry these characters.
    #[error("a token is made of letters, digits and -._~+/ (and = at its end)")]
    TokenCharacters,
}

impl FromStr for AuthRule {
    type Err = AuthRuleError;

    fn from_str(text: &str) -> Result<Self, AuthRuleError> {
        let mut parts = text.splitn(3, ':');
        let (Some(user), Some(password), Some(scope)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthRuleError::Login);
        };
        check_user(user)?;
        match password {
            "" => return Err(AuthRuleError::NoPassword),
            _ if password.chars().any(char::is_control) => {
                return Err(AuthRuleError::PasswordControl);
            }
            _ => {}
        }
        Ok(Self {
            user: user.to_owned(),
            password: ZeroizedSecret::new(password),
            scope: scope.parse().map_err(|error| match error {
                // The rest of the rule cannot be misread.
                AccessScopeError::Right if !scope.contains(':') => AuthRuleError::Scope(error),
                _ => AuthRuleError::Colons(error),
            })?,
        })
    }
}

impl FromStr for TokenRule {
    type Err = AuthRuleError;

    fn from_str(text: &str) -> Result<Self, AuthRuleError> {
        let (token, scope) = text.split_once(':').ok_or(AuthRuleError::Token)?;
        if !is_token(token.as_bytes()) {
            return Err(AuthRuleError::TokenCharacters);
        }
        Ok(Self {
            token: ZeroizedSecret::new(token),
            scope: scope.parse().map_err(AuthRuleError::Scope)?,
        })
    }
}

/// Shows the user and the scope, and not the password.
impl fmt::Display for AuthRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***:{}", self.user, self.scope)
    }
}

/// Checks a user name, of a rule or of a file.
pub(super) fn check_user(user: &str) -> Result<(), AuthRuleError> {
    match user {
        "" => Err(AuthRuleError::NoUser),
        _ if user.chars().any(char::is_control) => Err(AuthRuleError::UserControl),
        _ => Ok(()),
    }
}

/// Whether a text is a `b64token` (RFC 6750 2.1).
pub(super) fn is_token(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=');
    let body = end.map_or(&[][..], |end| &text[..=end]);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    !body.is_empty() && body.iter().all(is_plain)
}

/// What may be done with a key. The later implies the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessRight {
    /// Read it, and list it if it is a folder.
    Read,
    /// Read, replace and delete it.
    Write,
}

impl AccessRight {
    /// The right that a method needs; `None` for OPTIONS, which concerns the server and not its
    /// files. Unknown methods need the highest.
    #[must_use]
    pub fn required_for(method: &Method) -> Option<Self> {
        match *method {
            Method::OPTIONS => None,
            Method::GET | Method::HEAD => Some(Self::Read),
            _ => Some(Self::Write),
        }
    }
}

impl FromStr for AccessRight {
    type Err = AccessScopeError;

    fn from_str(text: &str) -> Result<Self, AccessScopeError> {
        match text {
            "ro" => Ok(Self::Read),
            "rw" => Ok(Self::Write),
            _ => Err(AccessScopeError::Right),
        }
    }
}

impl fmt::Display for AccessRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "ro",
            Self::Write => "rw",
        })
    }
}

/// A right to a key and all beneath it. As text: `ro`, `rw`, `rw:/team/uploads`.
///
/// A scope covers a prefix as a whole: a user who may read `/a/b` may read and list that key and
/// all beneath it, and nothing beside or above it. So that user may not list `/` or `/a`, not even
/// to find `/a/b/`: a listing shows names, and the other names there belong to other users. In
/// return, a folder that may be listed may be listed to any depth, and a listing or tar file needs
/// no check for each entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AccessScope {
    /// The highest right.
    pub right: AccessRight,
    /// The key. The root covers everything.
    pub prefix: ObjectKey,
}

/// Why a text is not a scope. Contains nothing of the text: it may be the end of a password with a
/// colon in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessScopeError {
    /// A word other than `ro` and `rw`.
    #[error("the right is neither `ro` (read) nor `rw` (read and write)")]
    Right,
    /// A colon in the prefix, or in the password before it.
    #[error("there are too many colons: in a prefix a colon is written %3A")]
    Colons,
    /// The prefix is not a valid key.
    #[error("the prefix is written as in a URL, like `/team/my%20files`")]
    Prefix(#[source] ObjectKeyError),
}

impl AccessScope {
    /// A right to the whole store.
    #[must_use]
    pub fn everywhere(right: AccessRight) -> Self {
        Self {
            right,
            prefix: ObjectKey::root(),
        }
    }

    /// Whether this scope permits `right` on `key`.
    #[must_use]
    pub fn covers(&self, right: AccessRight, key: &ObjectKey) -> bool {
        right <= self.right && key.is_within(&self.prefix)
    }
}

impl FromStr for AccessScope {
    type Err = AccessScopeError;

    /// Ignores a slash at the end of the prefix.
    fn from_str(text: &str) -> Result<Self, AccessScopeError> {
        let Some((right, prefix)) = text.split_once(':') else {
            return Ok(Self::everywhere(text.parse()?));
        };
        let right = right.parse()?;
        if prefix.contains(':') {
            return Err(AccessScopeError::Colons);
        }
        let path = ObjectKey::parse(prefix).map_err(AccessScopeError::Prefix)?;
        Ok(Self {
            right,
            prefix: path.key,
        })
    }
}

impl fmt::Display for AccessScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix.is_root() {
            return self.right.fmt(f);
        }
        write!(f, "{}:{}", self.right, self.prefix.escaped())
    }
}

/// What requests without credentials may do. Requests with credentials may do the same, besides
/// what their own scopes permit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// Nothing; but if no access is configured at all, everything.
    #[default]
    None,
    /// What these scopes permit, whatever else is configured.
    Some(Vec<AccessScope>),
}

/// A secret. `Debug` shows nothing of it, and its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct ZeroizedSecret(Zeroizing<Box<str>>);

impl ZeroizedSecret {
    #[must_use]
    pub fn new(text: &str) -> Self {
        // A box of the exact length: a string that grows leaves copies behind, which nothing
        // overwrites.
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for ZeroizedSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for ZeroizedSecret {}

impl fmt::Debug for ZeroizedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ObjectKey;
    use crate::access::AccessRight;

    /// The messages of an error and its sources.
    fn error_chain(error: &dyn std::error::Error) -> String {
        match error.source() {
            Some(source) => format!("{error}: {}", error_chain(source)),
            None => error.to_string(),
        }
    }

    #[test]
    fn rules_are_read() {
        let rule: AuthRule = "alice:s3cret:rw:/team/my%20files/".parse().expect("a rule");
        assert_eq!(rule.user, "alice");
        assert_eq!(rule.password.expose(), "s3cret");
        assert_eq!(rule.scope.right, AccessRight::Write);
        assert_eq!(rule.scope.prefix.as_bytes(), b"team/my files");
        assert_eq!(rule.to_string(), "alice:***:rw:/team/my%20files");
        let rule: TokenRule = "abc-._~+/DEF==:ro".parse().expect("a rule");
        assert_eq!(rule.scope, AccessScope::everywhere(AccessRight::Read));
    }

    #[test]
    fn malformed_rules_are_refused_and_never_shown() {
        use AuthRuleError::{Login, NoPassword, NoUser, PasswordControl, UserControl};
        let colons = |reason| AuthRuleError::Colons(reason);
        let relative = AccessScopeError::Prefix(ObjectKeyError::Relative);
        let cases = [
            ("", Login),
            ("hunter2", Login),
            ("alice:hunter2", Login),
            (":hunter2:ro", NoUser),
            ("ali\nce:hunter2:ro", UserControl),
            ("alice::rw", NoPassword),
            ("alice:hunter2\u{7f}:rw", PasswordControl),
            (
                "alice:hunter2:",
                AuthRuleError::Scope(AccessScopeError::Right),
            ),
            (
                "alice:hunter2:x",
                AuthRuleError::Scope(AccessScopeError::Right),
            ),
            ("alice:hunter2:hunter2:ro", colons(AccessScopeError::Right)),
            // Each of these could be a password with a colon in it.
            (
                "alice:hunter2:ro:hunter2:rw",
                colons(AccessScopeError::Colons),
            ),
            (
                "alice:hunter2:ro:/hunter2:rw",
                colons(AccessScopeError::Colons),
            ),
            ("alice:hunter2:ro:hunter2", colons(relative)),
        ];
        for (text, reason) in cases {
            let error = text.parse::<AuthRule>().expect_err(text);
            assert_eq!(error, reason, "{text}");
            let shown = format!("{}{error:?}", error_chain(&error));
            assert!(
                !shown.contains("hunter2") && !shown.contains("alice"),
                "{shown}"
            );
        }
        for text in ["", ":ro", "a b:ro", "=:ro", "a=b:ro", "\u{e9}:ro"] {
            assert!(text.parse::<TokenRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_in_a_log_shows_no_secret() {
        let rule: AuthRule = "alice:hunter2:ro".parse().expect("a rule");
        let token: TokenRule = "hunter2:ro".parse().expect("a rule");
        assert!(!format!("{rule:?}{rule}{token:?}").contains("hunter2"));
    }

    proptest! {
        #[test]
        fn rules_survive_a_round_trip(
            user in "[^:\\p{Cc}]{1,12}",
            password in "[^:\\p{Cc}]{1,20}",
            is_write: bool,
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..8), 0..4),
        ) {
            let prefix = names.iter().try_fold(ObjectKey::root(), |key, name| key.child(name));
            prop_assume!(prefix.is_ok());
            let right = if is_write { AccessRight::Write } else { AccessRight::Read };
            let scope = AccessScope { right, prefix: prefix.expect("checked") };
            let rule = AuthRule { user, password: ZeroizedSecret::new(&password), scope };
            let text = format!("{}:{}:{}", rule.user, password, rule.scope);
            prop_assert_eq!(text.parse(), Ok(rule));
        }

        #[test]
        fn no_text_panics(text in "(:|/|ro|rw|%|\\PC|\\p{Cc}){0,12}") {
            let _ = text.parse::<AuthRule>();
            let _ = text.parse::<TokenRule>();
            let _ = text.parse::<AccessScope>();
        }
    }
}
