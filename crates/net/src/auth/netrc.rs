//! `~/.netrc`: logins by host, as ftp(1) defined it and curl reads it.

use super::Login;
use crate::secret::Secret;

/// Logins by host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netrc {
    /// In the file's order; no host stands for `default`.
    entries: Vec<(Option<String>, Login)>,
}

/// A netrc file that cannot be read. What it says is not repeated: it holds passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the netrc file cannot be understood")]
pub struct NetrcError {
    /// Counted from 1.
    pub line: usize,
}

impl Netrc {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The line of a word that has no place there.
    pub fn parse(text: &str) -> Result<Self, NetrcError> {
        let mut words = Words::of(text);
        let mut netrc = Self::default();
        while let Some((line, word)) = words.next() {
            let mut value = || {
                words
                    .next()
                    .map(|(_, word)| word)
                    .ok_or(NetrcError { line })
            };
            let blank = || Login {
                user: String::new(),
                password: Secret::new(String::new()),
            };
            match word.as_str() {
                "machine" => {
                    let host = value()?.to_ascii_lowercase();
                    netrc.entries.push((Some(host), blank()));
                }
                "default" => netrc.entries.push((None, blank())),
                "login" => netrc.last(line)?.user = value()?,
                "password" => {
                    let password = value()?;
                    netrc.last(line)?.password = Secret::new(password);
                }
                "account" => drop(value()?),
                "macdef" => words.skip_macro(),
                _ => return Err(NetrcError { line }),
            }
        }
        Ok(netrc)
    }

    /// The login for a host, if there is one.
    #[must_use]
    pub fn login(&self, host: &str) -> Option<Login> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let fits = |known: &Option<String>| {
            known
                .as_deref()
                .is_none_or(|known| known.eq_ignore_ascii_case(host))
        };
        self.entries
            .iter()
            .find(|(known, _)| fits(known))
            .map(|(_, login)| login.clone())
    }

    /// The password of a user of a host, whom another entry may come before.
    #[must_use]
    pub fn password(&self, host: &str, user: &str) -> Option<Secret> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let fits = |known: &Option<String>| {
            known
                .as_deref()
                .is_none_or(|known| known.eq_ignore_ascii_case(host))
        };
        self.entries
            .iter()
            .find(|(known, login)| fits(known) && login.user == user)
            .map(|(_, login)| login.password.clone())
    }

    fn last(&mut self, line: usize) -> Result<&mut Login, NetrcError> {
        self.entries
            .last_mut()
            .map(|(_, login)| login)
            .ok_or(NetrcError { line })
    }
}

/// The words of a netrc with their lines: blanks separate, quotes and backslashes protect, `#` begins a comment.
struct Words<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    /// What is left of the line.
    rest: &'a str,
    line: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            rest: "",
            line: 0,
        }
    }

    /// A macro goes to the next empty line.
    fn skip_macro(&mut self) {
        self.rest = "";
        for (_, line) in self.lines.by_ref() {
            if line.trim().is_empty() {
                return;
            }
        }
    }
}

impl Iterator for Words<'_> {
    type Item = (usize, String);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.is_empty() && !self.rest.starts_with('#') {
                break;
            }
            let (at, line) = self.lines.next()?;
            (self.line, self.rest) = (at + 1, line);
        }
        let quoted = self.rest.starts_with('"');
        let mut word = String::new();
        let mut chars = self.rest.char_indices().skip(usize::from(quoted));
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => word.extend(chars.next().map(|(_, escaped)| escaped)),
                '"' if quoted => {
                    end = at + 1;
                    break;
                }
                c if c.is_whitespace() && !quoted => {
                    end = at;
                    break;
                }
                c => word.push(c),
            }
        }
        self.rest = &self.rest[end..];
        Some((self.line, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_defaults_quotes_comments_and_macros() {
        let text = "# mine\nmachine A.test login me password \"p w\"\nmacdef init\ncd /\n\nmachine b.test\n  login you\n  password p\\\"#x # end\ndefault login any password none\n";
        let netrc = Netrc::parse(text).unwrap();
        let find = |host: &str| {
            netrc
                .login(host)
                .map(|l| (l.user, l.password.expose().to_owned()))
                .unwrap()
        };
        assert_eq!(find("a.test"), ("me".into(), "p w".into()));
        assert_eq!(find("B.TEST"), ("you".into(), "p\"#x".into()));
        assert_eq!(find("c.test"), ("any".into(), "none".into()));
        assert!(!format!("{netrc:?}").contains("p w"));
    }

    #[test]
    fn a_users_password_is_found_behind_another_users() {
        let text = "machine a.test login me password one\nmachine a.test login you password two\ndefault login any password none";
        let netrc = Netrc::parse(text).unwrap();
        let find = |host, user| Some(netrc.password(host, user)?.expose().to_owned());
        assert_eq!(find("A.test", "you").as_deref(), Some("two"));
        assert_eq!(find("b.test", "any").as_deref(), Some("none"));
        assert_eq!(find("b.test", "me"), None);
    }

    #[test]
    fn errors_name_the_line_and_nothing_else() {
        assert_eq!(
            Netrc::parse("machine a login x\npasswd y\n"),
            Err(NetrcError { line: 2 })
        );
        assert_eq!(Netrc::parse("login x"), Err(NetrcError { line: 1 }));
        assert_eq!(Netrc::parse("machine"), Err(NetrcError { line: 1 }));
        assert_eq!(Netrc::parse("").unwrap().login("a"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = Netrc::parse(&text);
        }
    }
}
