//! `~/.netrc`: logins by host, as ftp(1) defined it and curl's lib/netrc.c reads it now.

use super::Login;
use crate::secret::Secret;

/// Logins by host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Netrc {
    /// In the file's order: the first that fits is taken.
    entries: Vec<NetrcEntry>,
}

/// What follows one `machine` or `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetrcEntry {
    /// In lower case; none stands for `default`.
    host: Option<String>,
    /// An entry without one is no login.
    user: Option<String>,
    /// Empty unless given.
    password: Secret,
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
        let mut words = NetrcTokens::of(text);
        let mut netrc = Self::default();
        while let Some((line, word)) = words.keyword()? {
            match word.to_ascii_lowercase().as_str() {
                "machine" => {
                    let host = words.value(line)?.to_ascii_lowercase();
                    netrc.entries.push(NetrcEntry::of(Some(host)));
                }
                "default" => netrc.entries.push(NetrcEntry::of(None)),
                "login" => netrc.last(line)?.user = Some(words.value(line)?),
                "password" => netrc.last(line)?.password = Secret::new(words.value(line)?),
                "account" => drop(words.value(line)?),
                "macdef" => words.skip_macro(),
                _ => return Err(NetrcError { line }),
            }
        }
        Ok(netrc)
    }

    /// The login for a host, by its name or by default.
    #[must_use]
    pub fn login(&self, host: &str) -> Option<Login> {
        self.find(host, true)
    }

    /// The login for a host that is named.
    #[must_use]
    pub fn login_by_name(&self, host: &str) -> Option<Login> {
        self.find(host, false)
    }

    /// A host named without a login gets none, by default neither.
    fn find(&self, host: &str, mut by_default: bool) -> Option<Login> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        for entry in &self.entries {
            match &entry.host {
                Some(known) if known.eq_ignore_ascii_case(host) => by_default = false,
                None if by_default => {}
                _ => continue,
            }
            if let Some(user) = entry.user.clone() {
                let password = entry.password.clone();
                return Some(Login { user, password });
            }
        }
        None
    }

    /// The password of a user of a host, whom another entry may come before.
    #[must_use]
    pub fn password(&self, host: &str, user: &str) -> Option<Secret> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let fits = |entry: &&NetrcEntry| {
            let here = entry.host.as_deref();
            here.is_none_or(|known| known.eq_ignore_ascii_case(host))
                && entry.user.as_deref() == Some(user)
        };
        Some(self.entries.iter().find(fits)?.password.clone())
    }

    fn last(&mut self, line: usize) -> Result<&mut NetrcEntry, NetrcError> {
        self.entries.last_mut().ok_or(NetrcError { line })
    }
}

impl NetrcEntry {
    fn of(host: Option<String>) -> Self {
        Self {
            host,
            user: None,
            password: Secret::new(String::new()),
        }
    }
}

/// The words of a netrc. Blanks separate; a word that begins with a quote ends with one, and only in it is a backslash
/// something else than itself. A line whose first sign is `#` is a comment, and so is the rest of one where `#` stands in a
/// keyword's place (curl reads on there); elsewhere it is part of the word, since passwords have it.
struct NetrcTokens<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    /// What is left of the line.
    rest: &'a str,
    line: usize,
}

impl<'a> NetrcTokens<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            rest: "",
            line: 0,
        }
    }

    /// The next word that is none of a value, and its line.
    fn keyword(&mut self) -> Result<Option<(usize, String)>, NetrcError> {
        while self.next_line_with_text() {
            if self.rest.starts_with('#') {
                self.rest = "";
            } else {
                return Ok(Some((self.line, self.word()?)));
            }
        }
        Ok(None)
    }

    /// The word that a keyword on `line` is followed by.
    fn value(&mut self, line: usize) -> Result<String, NetrcError> {
        if self.next_line_with_text() {
            self.word()
        } else {
            Err(NetrcError { line })
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

    /// Goes to the next word, over comment lines; false at the end.
    fn next_line_with_text(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        while self.rest.is_empty() {
            let Some((at, line)) = self.lines.next() else {
                return false;
            };
            let line = line.trim_start();
            self.line = at + 1;
            self.rest = if line.starts_with('#') { "" } else { line };
        }
        true
    }

    fn word(&mut self) -> Result<String, NetrcError> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find(char::is_whitespace);
            let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest;
            return Ok(word.to_owned());
        };
        let mut word = String::new();
        let mut chars = quoted.char_indices();
        let unfinished = NetrcError { line: self.line };
        loop {
            match chars.next().ok_or(unfinished)? {
                (at, '"') => {
                    self.rest = &quoted[at + 1..];
                    return Ok(word);
                }
                (_, '\\') => word.push(match chars.next().ok_or(unfinished)?.1 {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                }),
                (_, c) => word.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(netrc: &Netrc, host: &str) -> Option<(String, String)> {
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
        assert_eq!(found(&netrc, "a.test"), pair("me", "p w"));
        assert_eq!(found(&netrc, "B.TEST"), pair("you", "p\\\"#x"));
        assert_eq!(found(&netrc, "c.test"), pair("any", "none"));
        assert!(!format!("{netrc:?}").contains("p w"));
    }

    #[test]
    fn words_are_read_as_curl_reads_them() {
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
            assert_eq!(found(&netrc, "h"), pair(user, password), "{line}");
        }
    }

    #[test]
    fn an_entry_without_a_login_is_none_and_the_default_is_for_no_named_host() {
        let text = "machine a password p\nmachine b\nmachine b login me\ndefault login any";
        let netrc = Netrc::parse(text).unwrap();
        assert_eq!(netrc.login("a"), None);
        assert_eq!(found(&netrc, "b"), pair("me", ""));
        assert_eq!(found(&netrc, "c"), pair("any", ""));
        assert_eq!(netrc.login_by_name("c"), None);
        assert_eq!(netrc.login_by_name("b"), netrc.login("b"));
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
        let unfinished = "machine a\nlogin x password \"y\n";
        assert_eq!(Netrc::parse(unfinished), Err(NetrcError { line: 2 }));
        assert_eq!(Netrc::parse("").unwrap().login("a"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = Netrc::parse(&text);
        }
    }
}
