//! Users and tokens as they are written on a command line.
//!
//! A rule's parts stand between colons, and none of them may hold one: a rule that could be read in two ways might hand out
//! another password than the one that was meant. No error shows any of the text, since all of it may be a password.

use std::fmt;
use std::str::FromStr;

use super::scope::{AccessScope, AccessScopeError};
use super::secret::ZeroizedSecret;

/// A user, the password in plain, and one thing that the user may do: `user:password:ro|rw[:/prefix]`. Several rules may name one
/// user, with the same password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthRule {
    /// Who; has no colon and no control character, and is not empty.
    pub user: String,
    /// As the user types it.
    pub password: ZeroizedSecret,
    /// What they may do.
    pub scope: AccessScope,
}

/// A token and one thing that its bearer may do: `TOKEN:ro|rw[:/prefix]`. Several rules may have one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRule {
    /// As it stands after `Bearer` (RFC 6750 2.1).
    pub token: ZeroizedSecret,
    /// What the bearer may do.
    pub scope: AccessScope,
}

/// Why a text is no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthRuleError {
    /// Too few colons.
    #[error(
        "a login is written user:password:ro or user:password:rw, with :/prefix after it for a part of the store"
    )]
    Login,
    /// Too many, or they are not where they should be.
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
    /// The end of a rule, where nothing can be mistaken.
    #[error("what may be done is written ro|rw[:/prefix]")]
    Scope(#[source] AccessScopeError),
    /// Nobody.
    #[error("the user has no name")]
    NoUser,
    /// What no header can carry.
    #[error("the name of the user holds a control character")]
    UserControl,
    /// Likely a variable that was not set.
    #[error("the password is empty")]
    NoPassword,
    /// What no client can send (RFC 7617 2).
    #[error("the password holds a control character")]
    PasswordControl,
    /// What no header can carry.
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
                // Nothing but the last word can be wrong.
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

/// Shows who and what, and not the password.
impl fmt::Display for AuthRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:***:{}", self.user, self.scope)
    }
}

/// What a name may be, in a rule and in a file.
pub(super) fn check_user(user: &str) -> Result<(), AuthRuleError> {
    match user {
        "" => Err(AuthRuleError::NoUser),
        _ if user.chars().any(char::is_control) => Err(AuthRuleError::UserControl),
        _ => Ok(()),
    }
}

/// RFC 6750 2.1, `b64token`.
pub(super) fn is_token(text: &[u8]) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=');
    let body = end.map_or(&[][..], |end| &text[..=end]);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    !body.is_empty() && body.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ObjectKey;
    use crate::access::AccessRight;

    /// The whole chain of an error.
    fn said(error: &dyn std::error::Error) -> String {
        match error.source() {
            Some(source) => format!("{error}: {}", said(source)),
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
    fn what_is_no_rule_is_refused_and_never_shown() {
        use AuthRuleError::{Login, NoPassword, NoUser, PasswordControl, UserControl};
        let colons = |why| AuthRuleError::Colons(why);
        let relative = AccessScopeError::Prefix(crate::ObjectKeyError::Relative);
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
        for (text, why) in cases {
            let error = text.parse::<AuthRule>().expect_err(text);
            assert_eq!(error, why, "{text}");
            let shown = format!("{}{error:?}", said(&error));
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
        fn rules_come_back(
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
        fn no_text_is_a_panic(text in "(:|/|ro|rw|%|\\PC|\\p{Cc}){0,12}") {
            let _ = text.parse::<AuthRule>();
            let _ = text.parse::<TokenRule>();
            let _ = text.parse::<AccessScope>();
        }
    }
}
