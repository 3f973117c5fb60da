//! The indented options of aria2's input format: those that haul obeys set fields of the entry.

use std::collections::BTreeSet;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::ListEntry;
use super::fields;

/// Options that haul ignores although they would change what is requested, or from which host. The user gets a warning
/// about each of them once, at the end of a list. All other ignored options (number of connections, timeouts, retries)
/// are set on haul's command line, or have no meaning for it.
const IGNORED: [&str; 10] = [
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

/// Splits text of the form `name=value`. A URL never has this form, whatever follows its first `=`.
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
        _ => ignored.extend(
            IGNORED
                .iter()
                .find(|ignored_option| **ignored_option == name),
        ),
    }
    Ok(())
}

/// An error in an option. Values that may be secret are not shown.
pub(super) fn option_error(
    line: u64,
    (name, value): (&str, &str),
    problem: BadLineProblem,
) -> LineError {
    match name {
        "out" | "dir" | "checksum" => LineError::new(line, &format!("{name}={value}"), problem),
        _ => LineError::new(line, &format!("{name}="), problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_url_is_taken_for_an_option() {
        assert_eq!(parse("out=a=b "), Some(("out", "a=b")));
        assert_eq!(parse("max-tries = 5"), Some(("max-tries", "5")));
        assert_eq!(parse("out="), Some(("out", "")));
        for url in ["http://h/?a=b", "h.test/a=b", "=b", "out", "a b=c", "OUT=x"] {
            assert_eq!(parse(url), None, "{url}");
        }
    }

    #[test]
    fn ignored_options_are_remembered_if_they_matter() {
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
