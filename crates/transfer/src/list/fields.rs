//! Parsers for the values of an entry, the same for every format.

use std::path::PathBuf;

use haul_plan::{Checksum, DigestAlgorithm};
use haul_s3::{DownloadUrlError, parse_download_url};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::{Position, Url};

use super::bad_line::BadLineProblem;
use crate::layout::{RelativePathError, relative_path};

/// The longest URL, in bytes: twice what servers accept. Thousands of URLs are in memory at a time.
const MAX_URL: usize = 16 << 10;

/// More header fields of one entry are a mistake.
const MAX_HEADERS: usize = 100;

/// Parses a URL that can be downloaded. It may contain a login.
///
/// # Errors
/// The text is not such a URL.
pub fn parse_list_url(text: &str) -> Result<Url, BadLineProblem> {
    ListUrlParser::default().parse(text)
}

/// Parses the URLs of a list, one after the other. Most have the origin of the one before: then the path alone is parsed, which takes
/// two fifths of the time.
#[derive(Debug, Default)]
pub struct ListUrlParser {
    previous: Option<Url>,
}

impl ListUrlParser {
    /// Parses a URL, with the result of [`parse_list_url`].
    ///
    /// # Errors
    /// The text is not such a URL.
    pub fn parse(&mut self, text: &str) -> Result<Url, BadLineProblem> {
        if text.len() > MAX_URL {
            return Err(BadLineProblem::UrlTooLong { limit: MAX_URL });
        }
        // A URL parser drops such characters, and two URLs would become one.
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(BadLineProblem::ControlCharacter);
        }
        if let Some(url) = self.parse_path(text) {
            return Ok(url);
        }
        let url = parse_download_url(text).map_err(|error| match error {
            DownloadUrlError::Malformed(error) => BadLineProblem::InvalidUrl(error),
            DownloadUrlError::NoScheme => BadLineProblem::NoScheme,
            DownloadUrlError::Scheme(_) => BadLineProblem::UnsupportedScheme,
            DownloadUrlError::Address(error) => BadLineProblem::InvalidAddress(error),
        })?;
        let is_http = matches!(url.scheme(), "http" | "https");
        self.previous = is_http.then(|| url.clone());
        Ok(url)
    }

    /// The URL, if the text begins with the previous origin and a path follows. Two slashes would begin another host.
    fn parse_path(&self, text: &str) -> Option<Url> {
        let previous = self.previous.as_ref()?;
        let path = text.strip_prefix(&previous[..Position::BeforePath])?;
        match path.as_bytes() {
            [b'/', b'/' | b'\\', ..] => None,
            [b'/', ..] => previous.join(path).ok(),
            _ => None,
        }
    }
}

pub(super) fn parse_path(text: &str) -> Result<PathBuf, BadLineProblem> {
    relative_path(text).map_err(BadLineProblem::InvalidPath)
}

/// Parses a directory below that of the batch. It cannot point elsewhere: the author of a list need not be its user.
pub(super) fn parse_directory(text: &str) -> Result<PathBuf, BadLineProblem> {
    let bare = text.trim_end_matches('/');
    match relative_path(if bare.is_empty() { text } else { bare }) {
        // The batch's own directory.
        Err(RelativePathError::Empty) if text == "." || text == "./" => Ok(PathBuf::new()),
        other => other.map_err(BadLineProblem::InvalidPath),
    }
}

/// Parses `ALGO:HEX` or `ALGO=HEX`.
pub(super) fn parse_checksum(text: &str) -> Result<Checksum, BadLineProblem> {
    let checksum: Checksum = text.parse().map_err(BadLineProblem::InvalidChecksum)?;
    match checksum.digest {
        Some(_) => Ok(checksum),
        None => Err(BadLineProblem::ChecksumWithoutDigest),
    }
}

/// Parses the hexadecimal digest of a known algorithm.
pub(super) fn parse_digest(
    algorithm: DigestAlgorithm,
    hex: &str,
) -> Result<Checksum, BadLineProblem> {
    parse_checksum(&format!("{algorithm}:{hex}"))
}

/// Parses a number of bytes. There are no units, because lists are written by programs.
pub(super) fn parse_size(text: &str) -> Result<u64, BadLineProblem> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let size = text.parse().ok().filter(|_| is_number);
    size.ok_or(BadLineProblem::InvalidSize)
}

/// Adds `Name: value`.
pub(super) fn add_header_line(headers: &mut HeaderMap, text: &str) -> Result<(), BadLineProblem> {
    let pair = text.split_once(':');
    let (name, value) = pair.ok_or(BadLineProblem::InvalidHeader(
        "write a header field as Name: value",
    ))?;
    add_header(headers, name, value)
}

/// Adds a header field. Its value is marked as sensitive and is never part of a message.
pub(super) fn add_header(
    headers: &mut HeaderMap,
    name: &str,
    value: &str,
) -> Result<(), BadLineProblem> {
    if headers.len() >= MAX_HEADERS {
        let (what, limit) = ("header fields", MAX_HEADERS);
        return Err(BadLineProblem::TooMany { what, limit });
    }
    let name: HeaderName = name
        .trim()
        .parse()
        .map_err(|_| BadLineProblem::InvalidHeader("not a valid name of a header field"))?;
    if haul_net::is_framing_header(&name) {
        return Err(BadLineProblem::InvalidHeader(
            "haul sets this header field itself",
        ));
    }
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
        BadLineProblem::InvalidHeader(
            "the header field contains a line break or a control character",
        )
    })?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parts of URLs that a parser could take for something else.
    const PARTS: [&str; 18] = [
        "http://h",
        "https://h",
        "http://h:80",
        "http://h:81",
        "HTTP://H",
        "http://me:pw@h",
        "s3://h",
        "http:",
        "/",
        "//",
        "\\",
        "..",
        "/./",
        "?",
        "#",
        "@x",
        "%2f",
        "ä b",
    ];

    proptest! {
        #[test]
        fn c2_a_url_behind_any_other_is_the_same_as_alone(
            texts in proptest::collection::vec(
                proptest::collection::vec(proptest::sample::select(&PARTS[..]), 1..5),
                1..6,
            ),
        ) {
            let mut parser = ListUrlParser::default();
            for text in texts.iter().map(|parts| parts.concat()) {
                let (found, expected) = (parser.parse(&text), parse_list_url(&text));
                prop_assert_eq!(found.ok(), expected.ok(), "{}", text);
            }
        }
    }

    #[test]
    fn c2_only_http_urls_are_accepted() {
        for good in ["http://h/f", "HTTPS://me:pw@h:1/ä b?x#y", "http://[::1]/"] {
            assert!(parse_list_url(good).is_ok(), "{good}");
        }
        assert_eq!(
            parse_list_url("http://me:pw@h/").unwrap().password(),
            Some("pw")
        );
        for bad in ["f.iso", "example.com/f", "localhost:80/f", "me:pw@h"] {
            assert!(
                matches!(parse_list_url(bad), Err(BadLineProblem::NoScheme)),
                "{bad}"
            );
        }
        for bad in ["", "f", "/f", "http://", "http://h:99999/", "http://a b/"] {
            assert!(
                matches!(parse_list_url(bad), Err(BadLineProblem::InvalidUrl(_))),
                "{bad}"
            );
        }
        for bad in ["ftp://h/f", "file:///etc/passwd", "data:,x"] {
            assert!(
                matches!(parse_list_url(bad), Err(BadLineProblem::UnsupportedScheme)),
                "{bad}"
            );
        }
        let long = format!("http://h/{}", "a".repeat(MAX_URL));
        assert!(matches!(
            parse_list_url(&long),
            Err(BadLineProblem::UrlTooLong { .. })
        ));
        assert!(parse_list_url(&long[..MAX_URL]).is_ok());
        for bad in ["http://h/a\tb", "http://h/\0", "http://h/\r", "\u{7f}"] {
            assert!(
                matches!(parse_list_url(bad), Err(BadLineProblem::ControlCharacter)),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn c2_checksums_and_sizes() {
        let md5 = "0123456789abcdef0123456789ABCDEF";
        for good in [
            format!("md5:{md5}"),
            format!("MD5={md5}"),
            format!("md-5 = {md5}"),
        ] {
            assert_eq!(
                parse_checksum(&good).unwrap(),
                parse_digest(DigestAlgorithm::Md5, md5).unwrap()
            );
        }
        assert!(matches!(
            parse_checksum("md5"),
            Err(BadLineProblem::ChecksumWithoutDigest)
        ));
        for bad in ["", "md5:", "md5:0123", "crc7:00", &md5[1..]] {
            assert!(
                matches!(parse_checksum(bad), Err(BadLineProblem::InvalidChecksum(_))),
                "{bad}"
            );
        }
        assert!(matches!(
            parse_digest(DigestAlgorithm::Sha1, md5),
            Err(BadLineProblem::InvalidChecksum(_))
        ));
        assert_eq!(parse_size("0").unwrap(), 0);
        assert_eq!(parse_size("18446744073709551615").unwrap(), u64::MAX);
        for bad in ["", "-1", "+1", "1.0", "1k", "18446744073709551616", "0x10"] {
            assert!(
                matches!(parse_size(bad), Err(BadLineProblem::InvalidSize)),
                "{bad}"
            );
        }
    }

    #[test]
    fn c2_header_fields() {
        let mut headers = HeaderMap::new();
        for good in [
            "X-A:  b: c ",
            "x-a:d",
            "Authorization: Bearer s3cret",
            "Empty:",
        ] {
            add_header_line(&mut headers, good).unwrap();
        }
        let values: Vec<_> = headers
            .get_all("x-a")
            .iter()
            .map(|v| v.to_str().unwrap())
            .collect();
        assert_eq!(values, ["b: c", "d"]);
        assert!(!format!("{headers:?}").contains("s3cret"));
        for bad in [
            "no colon",
            "a b: c",
            ": c",
            "a: b\r\nc: d",
            "a: b\0",
            "Range: bytes=0-1",
            "content-length: 5",
        ] {
            assert!(
                matches!(
                    add_header_line(&mut headers, bad),
                    Err(BadLineProblem::InvalidHeader(_))
                ),
                "{bad:?}"
            );
        }
        let mut many = HeaderMap::new();
        for _ in 0..MAX_HEADERS {
            add_header_line(&mut many, "a:b").unwrap();
        }
        assert!(matches!(
            add_header_line(&mut many, "a:b"),
            Err(BadLineProblem::TooMany { .. })
        ));
    }

    #[test]
    fn directories_are_below_that_of_the_batch() {
        for (text, path) in [("a/b/", "a/b"), ("./a", "a"), (".", "")] {
            assert_eq!(
                parse_directory(text).unwrap(),
                PathBuf::from(path),
                "{text}"
            );
        }
        for text in ["", "/", "/data", "../x", "a/../b", "a\0", "a\nb"] {
            assert!(parse_directory(text).is_err(), "{text:?}");
        }
    }
}
