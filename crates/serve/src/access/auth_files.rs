//! Files of logins and of tokens: one to a line, `#` before a comment, blank lines as one likes.
//!
//! A login is `user:HASH:ro|rw[:/prefix]`; a token is written as on the command line. Errors name the file and the line and show
//! nothing of either, as people put passwords where hashes belong. A file that names nobody lets nobody in: it opens nothing.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use zeroize::Zeroizing;

use super::password_hash::{PasswordHash, PasswordHashError};
use super::rules::{AuthRuleError, TokenRule, check_user};
use super::scope::{AccessScope, AccessScopeError};

/// Bytes of the longest file; some hundred thousand logins.
const MAX_BYTES: u64 = 32 << 20;

/// A user, the password's hash, and one thing that the user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedRule {
    /// Who.
    pub user: String,
    /// Of the password.
    pub hash: PasswordHash,
    /// What they may do.
    pub scope: AccessScope,
}

/// A file of logins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthFile {
    /// In the order of their lines. Several may name one user, with the same hash.
    pub rules: Vec<HashedRule>,
}

/// A file of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenFile {
    /// In the order of their lines.
    pub rules: Vec<TokenRule>,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub struct AuthFileError {
    /// Which.
    pub path: PathBuf,
    /// Where in it, from 1.
    pub line: Option<usize>,
    /// Why.
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

/// What is wrong with a file, or a line of one.
#[derive(Debug, thiserror::Error)]
pub enum AuthFileErrorKind {
    /// The system says so.
    #[error("it cannot be read")]
    Io(#[from] std::io::Error),
    /// Some other file.
    #[error("it is larger than {} MiB", MAX_BYTES >> 20)]
    TooLong,
    /// Some other file.
    #[error("it is not text in UTF-8")]
    Encoding,
    /// A line of three or four parts was expected.
    #[error(
        "a login is written user:HASH:ro or user:HASH:rw, with :/prefix after it for a part of the store"
    )]
    Format,
    /// The first part.
    #[error("this is no login")]
    Rule(#[from] AuthRuleError),
    /// The second part.
    #[error("this is no hash of a password")]
    Hash(#[from] PasswordHashError),
    /// The rest.
    #[error("what may be done is written ro|rw[:/prefix]")]
    Scope(#[from] AccessScopeError),
}

impl AuthFile {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no login.
    pub fn read(path: &Path) -> Result<Self, AuthFileError> {
        Self::parse(path, &read_text(path)?)
    }

    /// The same with the text at hand; the path is for errors.
    ///
    /// # Errors
    /// When a line is no login.
    pub fn parse(path: &Path, text: &str) -> Result<Self, AuthFileError> {
        let rules = parse_lines(path, text, parse_login)?;
        Ok(Self { rules })
    }
}

impl TokenFile {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no token.
    pub fn read(path: &Path) -> Result<Self, AuthFileError> {
        Self::parse(path, &read_text(path)?)
    }

    /// The same with the text at hand; the path is for errors.
    ///
    /// # Errors
    /// When a line is no token.
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

/// Says so when every user of the machine can read a file of secrets. It is used all the same: in a container there may be no other
/// user.
pub(super) fn warn_if_exposed(path: &Path, file: &std::fs::File) {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = file.metadata();
    if meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o004 != 0) {
        let path = path.display();
        tracing::warn!(
            "{path} can be read by every user of this machine; `chmod o= {path}` mends that"
        );
    }
}

/// What stands on each line that says something.
fn parse_lines<T>(
    path: &Path,
    text: &str,
    read: impl Fn(&str) -> Result<T, AuthFileErrorKind>,
) -> Result<Vec<T>, AuthFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let numbered = text.lines().map(str::trim).zip(1..);
    let said = numbered.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let rules = said.map(|(line, number)| {
        read(line).map_err(|kind| AuthFileError {
            path: path.to_owned(),
            line: Some(number),
            kind,
        })
    });
    rules.collect()
}

/// A file as text, with a bound: `/dev/zero` has no end.
fn read_text(path: &Path) -> Result<Zeroizing<String>, AuthFileError> {
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
    fn errors_name_the_line_and_show_nothing_of_it() {
        let hash = bcrypt_of("x");
        let cases = [
            ("alice".to_owned(), "a login is written"),
            ("alice:hunter2".to_owned(), "a login is written"),
            ("alice:hunter2:ro".to_owned(), "no hash"),
            (format!(":{hash}:ro"), "no login"),
            (format!("alice:{hash}:hunter2"), "what may be done"),
            (format!("alice:{hash}:ro:hunter2"), "what may be done"),
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
    fn what_is_no_file_of_text_is_refused() {
        let error = AuthFile::read(Path::new("/nonexistent")).expect_err("none");
        assert!(matches!(error.kind, AuthFileErrorKind::Io(_)) && error.line.is_none());
        let error = AuthFile::read(Path::new("/dev/zero")).expect_err("no end");
        assert!(matches!(error.kind, AuthFileErrorKind::TooLong));
    }
}
