//! Files of logins and of tokens: one on each line; `#` begins a comment, and blank lines are
//! ignored.
//!
//! A login is `user:HASH:ro|rw[:/prefix]`; a token is written as on the command line. Errors name
//! the file and the line but show no text of it, as people put passwords where hashes belong. A
//! file without a login permits nobody anything.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use zeroize::Zeroizing;

use super::password_hash::{PasswordHash, PasswordHashError};
use super::rules::{AccessScope, AccessScopeError, AuthRuleError, TokenRule, check_user};

/// Maximum bytes of a file: some hundred thousand logins.
const MAX_BYTES: u64 = 32 << 20;

/// A user, the password's hash, and one scope of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedRule {
    /// The user's name.
    pub user: String,
    pub hash: PasswordHash,
    /// What the user may do.
    pub scope: AccessScope,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthFile {
    /// In the order of the lines. Several may name one user, with the same hash.
    pub rules: Vec<HashedRule>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenFile {
    /// In the order of the lines.
    pub rules: Vec<TokenRule>,
}

/// Why a file of logins or tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub struct AuthFileError {
    pub path: PathBuf,
    /// The line, from 1; `None` if the error concerns the whole file.
    pub line: Option<usize>,
    /// What is wrong.
    #[source]
    pub kind: AuthFileErrorKind,
}

impl fmt::Display for AuthFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.line {
            Some(line) => write!(f, "{path}, line {line}"),
            None => write!(f, "{path}"),
        }
    }
}

/// What is wrong with a file or with a line of it.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileErrorKind {
    /// The system could not read it.
    #[error("it cannot be read")]
    Io(#[from] std::io::Error),
    /// Probably not a file of logins or tokens.
    #[error("it is larger than {} MiB", MAX_BYTES >> 20)]
    TooLong,
    /// Probably not a file of logins or tokens.
    #[error("it is not text in UTF-8")]
    Encoding,
    /// The line does not have three or four fields.
    #[error(
        "a login is written user:HASH:ro or user:HASH:rw, with :/prefix after it for a part of the store"
    )]
    Format,
    /// The user name is invalid.
    #[error("not a valid login")]
    Rule(#[from] AuthRuleError),
    /// The hash is invalid.
    #[error("not a password hash")]
    Hash(#[from] PasswordHashError),
    /// The scope is invalid.
    #[error("the rights are written ro|rw[:/prefix]")]
    Scope(#[from] AccessScopeError),
}

impl AuthFile {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or a line is invalid.
    pub fn read(path: &Path) -> Result<Self, AuthFileError> {
        Self::parse(path, &read_secrets(path)?)
    }

    /// Parses a text; `path` is for errors.
    ///
    /// # Errors
    /// When a line is invalid.
    pub fn parse(path: &Path, text: &str) -> Result<Self, AuthFileError> {
        let rules = parse_lines(path, text, parse_login)?;
        Ok(Self { rules })
    }
}

impl TokenFile {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or a line is invalid.
    pub fn read(path: &Path) -> Result<Self, AuthFileError> {
        Self::parse(path, &read_secrets(path)?)
    }

    /// Parses a text; `path` is for errors.
    ///
    /// # Errors
    /// When a line is invalid.
    pub fn parse(path: &Path, text: &str) -> Result<Self, AuthFileError> {
        let rules = parse_lines(path, text, |line| Ok(TokenRule::from_str(line)?))?;
        Ok(Self { rules })
    }
}

fn parse_login(line: &str) -> Result<HashedRule, AuthFileErrorKind> {
    let mut parts = line.splitn(3, ':');
    let (Some(user), Some(hash), Some(scope)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(AuthFileErrorKind::Format);
    };
    check_user(user)?;
    Ok(HashedRule {
        user: user.to_owned(),
        hash: hash.parse()?,
        scope: scope.parse()?,
    })
}

/// Warns when every user of the machine can read a file of secrets. The file is used nevertheless:
/// in a container there may be no other user.
pub(super) fn warn_if_exposed(path: &Path, file: &std::fs::File) {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = file.metadata();
    if meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o004 != 0) {
        let path = path.display();
        tracing::warn!(
            "{path} can be read by every user of this machine; `chmod o= {path}` fixes that"
        );
    }
}

/// Parses each line that is neither blank nor a comment.
fn parse_lines<T>(
    path: &Path,
    text: &str,
    read: impl Fn(&str) -> Result<T, AuthFileErrorKind>,
) -> Result<Vec<T>, AuthFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let numbered = text.lines().map(str::trim).zip(1..);
    let rules = numbered
        .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
        .map(|(line, number)| {
            read(line).map_err(|kind| AuthFileError {
                path: path.to_owned(),
                line: Some(number),
                kind,
            })
        });
    rules.collect()
}

/// Reads a file of bounded size as text: `/dev/zero` has no end. Warns of one that others can read.
///
/// # Errors
/// The file cannot be read, is too long, or is not UTF-8.
pub fn read_secrets(path: &Path) -> Result<Zeroizing<String>, AuthFileError> {
    let read = || {
        let file = std::fs::File::open(path)?;
        warn_if_exposed(path, &file);
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(AuthFileErrorKind::TooLong);
        }
        let text = String::from_utf8(bytes).map_err(|_| AuthFileErrorKind::Encoding)?;
        Ok(Zeroizing::new(text))
    };
    read().map_err(|kind| AuthFileError {
        path: path.to_owned(),
        line: None,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessRight;
    use crate::access::tests::{argon2_of, bcrypt_of};

    #[test]
    fn files_are_read() {
        let (argon2, bcrypt) = (argon2_of("a"), bcrypt_of("b"));
        let text =
            format!("\u{feff}# people\r\n\r\n alice:{argon2}:rw:/a\r\n  # more\nbob:{bcrypt}:ro\n");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logins");
        std::fs::write(&path, text).expect("written");
        let file = AuthFile::read(&path).expect("a file");
        let [alice, bob] = &file.rules[..] else {
            panic!("{file:?}");
        };
        assert_eq!(
            (alice.user.as_str(), alice.scope.to_string()),
            ("alice", "rw:/a".to_owned())
        );
        assert!(alice.hash.verify("a") && bob.hash.verify("b"));
        assert_eq!(bob.scope, AccessScope::everywhere(AccessRight::Read));
        assert!(!format!("{file:?}").contains(&argon2));
    }

    #[test]
    fn tokens_are_read() {
        let file =
            TokenFile::parse(Path::new("tokens"), "# x\nabc:ro\ndef:rw:/b\n").expect("a file");
        assert_eq!(file.rules.len(), 2);
        let error =
            TokenFile::parse(Path::new("tokens"), "abc:ro\n\nd e f:rw").expect_err("no token");
        assert_eq!(error.to_string(), "tokens, line 3");
    }

    #[test]
    fn errors_name_the_line_and_hide_its_text() {
        let hash = bcrypt_of("x");
        let cases = [
            ("alice".to_owned(), "a login is written"),
            ("alice:hunter2".to_owned(), "a login is written"),
            ("alice:hunter2:ro".to_owned(), "not a password hash"),
            (format!(":{hash}:ro"), "not a valid login"),
            (format!("alice:{hash}:hunter2"), "the rights are written"),
            (format!("alice:{hash}:ro:hunter2"), "the rights are written"),
        ];
        for (line, wanted) in cases {
            let error =
                AuthFile::parse(Path::new("logins"), &format!("#\n{line}\n")).expect_err(&line);
            assert_eq!(error.to_string(), "logins, line 2");
            let shown = format!("{error:?} {}", error.kind);
            assert!(
                shown.contains(wanted) && !shown.contains("hunter2"),
                "{shown}"
            );
        }
    }

    #[test]
    fn unreadable_and_endless_files_are_refused() {
        let error = AuthFile::read(Path::new("/nonexistent")).expect_err("none");
        assert!(matches!(error.kind, AuthFileErrorKind::Io(_)) && error.line.is_none());
        let error = AuthFile::read(Path::new("/dev/zero")).expect_err("no end");
        assert!(matches!(error.kind, AuthFileErrorKind::TooLong));
    }
}
