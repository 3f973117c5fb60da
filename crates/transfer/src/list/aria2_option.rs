//! The indented options of aria2's input format: what they say about an entry, and what of them is not obeyed.

use std::collections::BTreeSet;

use super::bad_line::{BadLineProblem, UnplacedBadLine};
use super::entry::ListEntry;
use super::fields;

/// Options that are not obeyed although they would change what is asked for, or of whom. They are told once each at the end of
/// a list. All others (how many connections, how long to wait, when to give up) are the command line's to say; most of them
/// have no meaning here.
const MISSED: [&str; 10] = [
    "all-proxy",
    "http-passwd",
    "http-proxy",
    "http-user",
    "https-proxy",
    "load-cookies",
    "metalink-file",
    "parameterized-uri",
    "select-file",
    "torrent-file",
];

/// An option's name and value, if a text has the form of one: a URL has not, whatever follows its first `=`.
pub(super) fn parse(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim_end();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (!name.is_empty() && name.bytes().all(is_name)).then(|| (name, value.trim()))
}

/// Applies an option to its entry.
pub(super) fn apply(
    (name, value): (&str, &str),
    entry: &mut ListEntry,
    ignored: &mut BTreeSet<&'static str>,
) -> Result<(), BadLineProblem> {
    match name {
        "out" => entry.path = Some(fields::parse_path(value)?),
        "dir" => entry.directory = Some(fields::parse_directory(value)?),
        "checksum" => entry.checksums.push(fields::parse_checksum(value)?),
        "header" => fields::add_header_line(&mut entry.headers, value)?,
        "referer" => fields::add_header(&mut entry.headers, name, value)?,
        "user-agent" => fields::add_header(&mut entry.headers, name, value)?,
        _ => ignored.extend(MISSED.iter().find(|missed| **missed == name)),
    }
    Ok(())
}

/// A bad option. Values that may be secrets are not shown.
pub(super) fn bad(
    line: u64,
    (name, value): (&str, &str),
    problem: BadLineProblem,
) -> UnplacedBadLine {
    match name {
        "out" | "dir" | "checksum" => {
            UnplacedBadLine::new(line, &format!("{name}={value}"), problem)
        }
        _ => UnplacedBadLine::new(line, &format!("{name}="), problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_a_form_that_no_url_has() {
        assert_eq!(parse("out=a=b "), Some(("out", "a=b")));
        assert_eq!(parse("max-tries = 5"), Some(("max-tries", "5")));
        assert_eq!(parse("out="), Some(("out", "")));
        for url in ["http://h/?a=b", "h.test/a=b", "=b", "out", "a b=c", "OUT=x"] {
            assert_eq!(parse(url), None, "{url}");
        }
    }

    #[test]
    fn what_is_not_obeyed_is_remembered_if_it_matters() {
        let mut entry = ListEntry::new(1, "http://h/".parse().unwrap());
        let mut ignored = BTreeSet::new();
        for option in [
            ("split", "5"),
            ("http-user", "me"),
            ("gid", "1"),
            ("http-user", "you"),
            ("nobody", ""),
        ] {
            apply(option, &mut entry, &mut ignored).unwrap();
        }
        assert_eq!(ignored.into_iter().collect::<Vec<_>>(), ["http-user"]);
        assert_eq!(entry, ListEntry::new(1, "http://h/".parse().unwrap()));
    }
}
