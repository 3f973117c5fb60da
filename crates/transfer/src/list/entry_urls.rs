//! The URLs of an entry: which are accepted, and which of several is the first.

use url::Url;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::ListEntry;

/// More mirrors of one file are a mistake.
pub(super) const MAX_MIRRORS: usize = 256;

/// The longest URL, in bytes: twice what servers accept. Thousands of URLs are in memory at a time.
pub(super) const MAX_URL: usize = 16 << 10;

/// Parses a URL that can be downloaded. It may contain a login.
pub(super) fn parse_url(text: &str) -> Result<Url, BadLineProblem> {
    if text.len() > MAX_URL {
        return Err(BadLineProblem::UrlTooLong);
    }
    // A URL parser drops such characters, and two URLs would become one.
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(BadLineProblem::ControlCharacter);
    }
    let url = Url::parse(text).map_err(BadLineProblem::InvalidUrl)?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(BadLineProblem::UnsupportedScheme)
    }
}

/// An entry with one or several URLs; blank ones are ignored. A URL of another scheme is left out if any other is left,
/// because lists of mirrors often contain ftp URLs. Text that is not a URL is an error.
pub(super) fn entry_of_urls<'a>(
    line: u64,
    texts: impl Iterator<Item = &'a str>,
) -> Result<ListEntry, LineError> {
    let mut entry: Option<ListEntry> = None;
    let mut other_scheme = None;
    for text in texts.map(str::trim).filter(|text| !text.is_empty()) {
        match (parse_url(text), &mut entry) {
            (Ok(url), None) => entry = Some(ListEntry::new(line, url)),
            (Ok(_), Some(entry)) if entry.mirrors.len() >= MAX_MIRRORS => {
                let (what, limit) = ("mirrors", MAX_MIRRORS);
                return Err(LineError::new(
                    line,
                    text,
                    BadLineProblem::TooMany { what, limit },
                ));
            }
            (Ok(url), Some(entry)) => entry.mirrors.push(url),
            (Err(BadLineProblem::UnsupportedScheme), _) => {
                other_scheme = other_scheme.or(Some(text))
            }
            (Err(problem), _) => return Err(LineError::new(line, text, problem)),
        }
    }
    entry.ok_or_else(|| match other_scheme {
        Some(text) => LineError::new(line, text, BadLineProblem::UnsupportedScheme),
        None => LineError::new(line, "", BadLineProblem::NoUrl),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_only_http_urls_are_accepted() {
        for good in ["http://h/f", "HTTPS://me:pw@h:1/ä b?x#y", "http://[::1]/"] {
            assert!(parse_url(good).is_ok(), "{good}");
        }
        assert_eq!(parse_url("http://me:pw@h/").unwrap().password(), Some("pw"));
        for bad in [
            "",
            "f.iso",
            "/f",
            "example.com/f",
            "http://",
            "http://h:99999/",
            "http://a b/",
        ] {
            assert!(
                matches!(parse_url(bad), Err(BadLineProblem::InvalidUrl(_))),
                "{bad}"
            );
        }
        for bad in [
            "ftp://h/f",
            "localhost:80/f",
            "file:///etc/passwd",
            "data:,x",
            "me:pw@h",
        ] {
            assert!(
                matches!(parse_url(bad), Err(BadLineProblem::UnsupportedScheme)),
                "{bad}"
            );
        }
        let long = format!("http://h/{}", "a".repeat(MAX_URL));
        assert!(matches!(parse_url(&long), Err(BadLineProblem::UrlTooLong)));
        assert!(parse_url(&long[..MAX_URL]).is_ok());
        for bad in ["http://h/a\tb", "http://h/\0", "http://h/\r", "\u{7f}"] {
            assert!(
                matches!(parse_url(bad), Err(BadLineProblem::ControlCharacter)),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn mirrors_of_other_schemes_are_left_out() {
        let parsed = |text: &str| entry_of_urls(3, text.split('\t'));
        let found = parsed("ftp://a/f\thttp://b/f\t\t https://c/f ").unwrap();
        assert_eq!((found.line, found.url.as_str()), (3, "http://b/f"));
        assert_eq!(found.mirrors, [Url::parse("https://c/f").unwrap()]);
        let bad = parsed("ftp://a/f\tmagnet:x").unwrap_err();
        assert_eq!((bad.excerpt.as_str(), bad.line), ("ftp://a/f", 3));
        assert!(matches!(
            parsed("http://a/f\tb").unwrap_err().problem,
            BadLineProblem::InvalidUrl(_)
        ));
        assert!(matches!(
            parsed("\t").unwrap_err().problem,
            BadLineProblem::NoUrl
        ));
        let many = "http://a/f\t".repeat(MAX_MIRRORS + 1);
        assert_eq!(parsed(&many).unwrap().mirrors.len(), MAX_MIRRORS);
        let bad = parsed(&format!("{many}http://a/f")).unwrap_err();
        assert!(matches!(bad.problem, BadLineProblem::TooMany { .. }));
    }
}
