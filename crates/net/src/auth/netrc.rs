//! `~/.netrc`: logins by host, as ftp(1) defines it and curl's lib/netrc.c reads it today.
//!
//! The parser is written here so that a file that works with curl means the same to haul, in its quotes, comments, macros and
//! defaults, and so that no error repeats what the file holds.

use super::Login;
use crate::secret::Secret;

/// Logins by host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netrc {
    /// In the file's order: the first that matches counts.
    entries: Vec<NetrcEntry>,
}

/// What follows one `machine` or `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetrcEntry {
    /// In lower case; `None` for `default`.
    host: Option<String>,
    /// An entry without one is no login.
    user: Option<String>,
    /// Empty unless given.
    password: Secret,
}

/// A netrc file that is malformed. The message does not repeat the text, which holds passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the netrc file is not valid")]
pub struct NetrcError {
    /// Counted from 1.
    pub line: usize,
}

impl Netrc {
    /// Parses a file.
    ///
    /// # Errors
    /// The line of the first token that has no place there.
    pub fn parse(text: &str) -> Result<Self, NetrcError> {
        let mut tokens = NetrcTokens::new(text);
        let mut netrc = Self::default();
        while let Some((line, keyword)) = tokens.next_keyword()? {
            match keyword.to_ascii_lowercase().as_str() {
                "machine" => {
                    let host = tokens.value(line)?.to_ascii_lowercase();
                    netrc.entries.push(NetrcEntry::new(Some(host)));
                }
                "default" => netrc.entries.push(NetrcEntry::new(None)),
                "login" => netrc.last_entry(line)?.user = Some(tokens.value(line)?),
                "password" => netrc.last_entry(line)?.password = Secret::new(tokens.value(line)?),
                "account" => drop(tokens.value(line)?),
                "macdef" => tokens.skip_macro(),
                _ => return Err(NetrcError { line }),
            }
        }
        Ok(netrc)
    }

    /// The login for a host: of an entry that names it, or the default.
    #[must_use]
    pub fn login(&self, host: &str) -> Option<Login> {
        self.find(host, true)
    }

    /// The login for a host, of an entry that names it.
    #[must_use]
    pub fn login_by_name(&self, host: &str) -> Option<Login> {
        self.find(host, false)
    }

    /// A host that is named without a login gets none, and not the default either.
    fn find(&self, host: &str, mut accepts_default: bool) -> Option<Login> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        for entry in &self.entries {
            match &entry.host {
                Some(name) if name.eq_ignore_ascii_case(host) => accepts_default = false,
                None if accepts_default => {}
                _ => continue,
            }
            if let Some(user) = entry.user.clone() {
                let password = entry.password.clone();
                return Some(Login { user, password });
            }
        }
        None
    }

    /// The password of one user of a host, also where an entry for another user comes first.
    #[must_use]
    pub fn password(&self, host: &str, user: &str) -> Option<Secret> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let matches = |entry: &&NetrcEntry| {
            let name = entry.host.as_deref();
            name.is_none_or(|name| name.eq_ignore_ascii_case(host))
                && entry.user.as_deref() == Some(user)
        };
        Some(self.entries.iter().find(matches)?.password.clone())
    }

    fn last_entry(&mut self, line: usize) -> Result<&mut NetrcEntry, NetrcError> {
        self.entries.last_mut().ok_or(NetrcError { line })
    }
}

impl NetrcEntry {
    fn new(host: Option<String>) -> Self {
        Self {
            host,
            user: None,
            password: Secret::new(String::new()),
        }
    }
}

/// The tokens of a netrc. Blanks separate them. A token that begins with a quote ends with one, and a backslash is an escape only
/// in such a token. A line that begins with `#` is a comment. So is the rest of a line where `#` begins a token in a keyword's
/// place (curl reads on there); elsewhere `#` is part of the token, since passwords contain it.
struct NetrcTokens<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    /// The rest of the current line.
    rest: &'a str,
    line: usize,
}

impl<'a> NetrcTokens<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            rest: "",
            line: 0,
        }
    }

    /// The next keyword, and its line.
    fn next_keyword(&mut self) -> Result<Option<(usize, String)>, NetrcError> {
        while self.skip_blanks() {
            if self.rest.starts_with('#') {
                self.rest = "";
            } else {
                return Ok(Some((self.line, self.token()?)));
            }
        }
        Ok(None)
    }

    /// The value that follows a keyword on `line`.
    fn value(&mut self, line: usize) -> Result<String, NetrcError> {
        if self.skip_blanks() {
            self.token()
        } else {
            Err(NetrcError { line })
        }
    }

    /// A macro ends with the next empty line.
    fn skip_macro(&mut self) {
        self.rest = "";
        for (_, line) in self.lines.by_ref() {
            if line.trim().is_empty() {
                return;
            }
        }
    }

    /// Goes to the next token, over empty lines and comment lines; false at the end.
    fn skip_blanks(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        while self.rest.is_empty() {
            let Some((index, line)) = self.lines.next() else {
                return false;
            };
            let line = line.trim_start();
            self.line = index + 1;
            self.rest = if line.starts_with('#') { "" } else { line };
        }
        true
    }

    fn token(&mut self) -> Result<String, NetrcError> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find(char::is_whitespace);
            let (token, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest;
            return Ok(token.to_owned());
        };
        let mut token = String::new();
        let mut chars = quoted.char_indices();
        let unterminated = NetrcError { line: self.line };
        loop {
            match chars.next().ok_or(unterminated)? {
                (index, '"') => {
                    self.rest = &quoted[index + 1..];
                    return Ok(token);
                }
                (_, '\\') => token.push(match chars.next().ok_or(unterminated)?.1 {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                }),
                (_, c) => token.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn login(netrc: &Netrc, host: &str) -> Option<(String, String)> {
        let login = netrc.login(host);
        login.map(|login| (login.user, login.password.expose().to_owned()))
    }

    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn hosts_defaults_quotes_comments_and_macros() {
        let text = "# mine\nmachine A.test login me password \"p w\"\nmacdef init\ncd /\n\nMACHINE b.test\n  login you\n  # hers\n  password p\\\"#x # end\ndefault login any password none\n";
        let netrc = Netrc::parse(text).unwrap();
        assert_eq!(login(&netrc, "a.test"), pair("me", "p w"));
        assert_eq!(login(&netrc, "B.TEST"), pair("you", "p\\\"#x"));
        assert_eq!(login(&netrc, "c.test"), pair("any", "none"));
        assert!(!format!("{netrc:?}").contains("p w"));
    }

    #[test]
    fn tokens_are_read_as_curl_reads_them() {
        for (line, user, password) in [
            ("login a#b\\c password #1x", "a#b\\c", "#1x"),
            (
                "login me password \"q\\\"x\\\\y\\tz\\w\"",
                "me",
                "q\"x\\y\tzw",
            ),
            ("login me password a\"b\"", "me", "a\"b\""),
            ("login me password \"\"", "me", ""),
            ("login me", "me", ""),
        ] {
            let netrc = Netrc::parse(&format!("machine h {line}\n")).unwrap();
            assert_eq!(login(&netrc, "h"), pair(user, password), "{line}");
        }
    }

    #[test]
    fn an_entry_without_a_login_is_none_and_the_default_is_for_no_named_host() {
        let text = "machine a password p\nmachine b\nmachine b login me\ndefault login any";
        let netrc = Netrc::parse(text).unwrap();
        assert_eq!(netrc.login("a"), None);
        assert_eq!(login(&netrc, "b"), pair("me", ""));
        assert_eq!(login(&netrc, "c"), pair("any", ""));
        assert_eq!(netrc.login_by_name("c"), None);
        assert_eq!(netrc.login_by_name("b"), netrc.login("b"));
    }

    #[test]
    fn the_password_of_a_user_is_found_behind_another_users() {
        let text = "machine a.test login me password one\nmachine a.test login you password two\ndefault login any password none";
        let netrc = Netrc::parse(text).unwrap();
        let password = |host, user| Some(netrc.password(host, user)?.expose().to_owned());
        assert_eq!(password("A.test", "you").as_deref(), Some("two"));
        assert_eq!(password("b.test", "any").as_deref(), Some("none"));
        assert_eq!(password("b.test", "me"), None);
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(
            Netrc::parse("machine a login x\npasswd y\n"),
            Err(NetrcError { line: 2 })
        );
        assert_eq!(Netrc::parse("login x"), Err(NetrcError { line: 1 }));
        assert_eq!(Netrc::parse("machine"), Err(NetrcError { line: 1 }));
        let unterminated = "machine a\nlogin x password \"y\n";
        assert_eq!(Netrc::parse(unterminated), Err(NetrcError { line: 2 }));
        assert_eq!(Netrc::parse("").unwrap().login("a"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = Netrc::parse(&text);
        }
    }
}
