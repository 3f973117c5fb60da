//! Link header fields (RFC 8288) that name mirrors of a file (RFC 6249): `rel=duplicate` is another URL of
//! the same bytes, `rel=describedby` with Metalink's media type is a document that lists such URLs.
//!
//! Malformed links are skipped: nobody requested the field. Whether to trust a link is decided elsewhere: RFC
//! 6249 wants a digest of the file, or a strong entity tag that the servers have in common.

use haul_plan::join_from_peer;
use http::HeaderMap;
use http::header::LINK;
use url::Url;

use crate::metalink::MEDIA_TYPE;

/// The most links that are read, of all fields together.
const MAX_LINKS: usize = 256;

/// The longest reference, in bytes.
const MAX_REFERENCE_BYTES: usize = 8 * 1024;

/// The most parameters of a link that are read.
const MAX_PARAMETERS: usize = 32;

/// The lowest priority, and the one of a link without priority (RFC 6249 3.1).
const LOWEST_PRIORITY: u32 = 999_999;

/// The mirrors that Link headers name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkHeader {
    /// Other URLs of the same bytes, best first.
    pub duplicates: Vec<DuplicateLink>,
    /// Metalink documents that describe the file.
    pub metalinks: Vec<Url>,
}

/// Another URL of the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DuplicateLink {
    /// An http or https URL.
    pub url: Url,
    /// 1 is the best.
    pub priority: u32,
}

/// Parses the Link fields of a response head. `base` is the URL of the response.
#[must_use]
pub(crate) fn parse_link_headers(headers: &HeaderMap, base: &Url) -> LinkHeader {
    let mut found = LinkHeader::default();
    let values = headers.get_all(LINK).iter();
    let texts = values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    for link in texts.flat_map(LinkHeaderParser).take(MAX_LINKS) {
        add_link(&link, base, &mut found);
    }
    found.duplicates.sort_by_key(|duplicate| duplicate.priority);
    found
}

/// Adds a link, if it names a mirror or a Metalink document.
fn add_link(link: &LinkValue<'_>, base: &Url, found: &mut LinkHeader) {
    // A link with an anchor is about another resource.
    if link.reference.len() > MAX_REFERENCE_BYTES || link.parameter("anchor").is_some() {
        return;
    }
    let http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let Some(url) = join_from_peer(base, link.reference.trim())
        .ok()
        .filter(http)
    else {
        return;
    };
    let relations = link.parameter("rel").unwrap_or_default();
    let is = |name: &str| {
        let mut relations = relations.split_ascii_whitespace();
        relations.any(|relation| relation.eq_ignore_ascii_case(name))
    };
    let media = link.parameter("type").unwrap_or_default();
    if is("duplicate") && found.duplicates.iter().all(|known| known.url != url) {
        let priority = link
            .parameter("pri")
            .and_then(|pri| pri.trim().parse().ok())
            .map_or(LOWEST_PRIORITY, |pri: u32| pri.clamp(1, LOWEST_PRIORITY));
        found.duplicates.push(DuplicateLink { url, priority });
    } else if is("describedby") && media.trim().eq_ignore_ascii_case(MEDIA_TYPE) {
        found.metalinks.push(url);
    }
}

/// One link of a field.
#[derive(Debug)]
struct LinkValue<'a> {
    /// The text between the angle brackets.
    reference: &'a str,
    /// Names, and values without their quotes.
    parameters: Vec<(&'a str, String)>,
}

impl LinkValue<'_> {
    /// A parameter's value; the first of several counts (RFC 8288 3.3).
    fn parameter(&self, name: &str) -> Option<&str> {
        let known = |(known, _): &&(&str, String)| known.eq_ignore_ascii_case(name);
        self.parameters
            .iter()
            .find(known)
            .map(|(_, value)| value.as_str())
    }
}

/// Parses a field link by link (RFC 8288 B.2); holds the rest of the field. Ends where the syntax is broken.
struct LinkHeaderParser<'a>(&'a str);

impl<'a> Iterator for LinkHeaderParser<'a> {
    type Item = LinkValue<'a>;

    fn next(&mut self) -> Option<LinkValue<'a>> {
        self.0 = self.0.trim_start_matches([' ', '\t', ',']);
        let (reference, rest) = self.0.strip_prefix('<')?.split_once('>')?;
        self.0 = rest;
        let mut parameters = Vec::new();
        while let Some(parameter) = self.parameter() {
            if parameters.len() < MAX_PARAMETERS {
                parameters.push(parameter);
            }
        }
        // Text between here and the next comma is not a parameter: skip it.
        let comma = self.0.find(',').unwrap_or(self.0.len());
        self.0 = &self.0[comma..];
        Some(LinkValue {
            reference,
            parameters,
        })
    }
}

impl<'a> LinkHeaderParser<'a> {
    /// The next `;name=value`, `;name="value"` or `;name` of the link.
    fn parameter(&mut self) -> Option<(&'a str, String)> {
        let rest = skip_blanks(self.0).strip_prefix(';')?;
        let rest = skip_blanks(rest);
        let end = rest.find(['=', ';', ',', ' ', '\t']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let Some(value) = skip_blanks(rest).strip_prefix('=') else {
            self.0 = rest;
            return Some((name, String::new()));
        };
        let value = skip_blanks(value);
        let (value, rest) = match value.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = value.find([';', ',', ' ', '\t']).unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            }
        };
        self.0 = rest;
        Some((name, value))
    }
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// A quoted string without its opening quote, and the text after its closing quote. `None` when that is
/// missing.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn read(fields: &[&str]) -> LinkHeader {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(LINK, HeaderValue::from_bytes(field.as_bytes()).unwrap());
        }
        parse_link_headers(&headers, &Url::parse("https://a.test/dir/f.iso").unwrap())
    }

    fn duplicates(fields: &[&str]) -> Vec<String> {
        let found = read(fields).duplicates;
        found.into_iter().map(|d| d.url.into()).collect()
    }

    #[test]
    fn the_example_of_the_rfc_names_its_mirrors() {
        let found = read(&[
            "<http://www2.example.com/example.ext>; rel=duplicate; pri=2; pref",
            "<ftp://ftp.example.com/example.ext>; rel=duplicate",
            "<http://example.com/example.ext.torrent>; rel=describedby; type=\"application/x-bittorrent\"",
            "<http://example.com/example.ext.meta4>; rel=describedby; type=\"application/metalink4+xml\"",
            "<http://example.com/example.ext.asc>; rel=describedby; type=\"application/pgp-signature\"",
            "<http://www3.example.com/example.ext>; rel=duplicate; pri=1; geo=gb; depth=1",
        ]);
        let urls: Vec<_> = found
            .duplicates
            .iter()
            .map(|d| (d.url.as_str(), d.priority))
            .collect();
        assert_eq!(
            urls,
            [
                ("http://www3.example.com/example.ext", 1),
                ("http://www2.example.com/example.ext", 2)
            ]
        );
        let metalinks: Vec<_> = found.metalinks.iter().map(Url::as_str).collect();
        assert_eq!(metalinks, ["http://example.com/example.ext.meta4"]);
    }

    #[test]
    fn commas_separate_links_only_outside_of_quotes_and_brackets() {
        let field = ",, </x,y>;title=\"a, <b>; rel=\\\"c\\\"\" ; REL = \"prev Duplicate\" , <../z>;rel=duplicate,<q>; rel=\"next\"";
        assert_eq!(
            duplicates(&[field]),
            ["https://a.test/x,y", "https://a.test/z"]
        );
    }

    #[test]
    fn the_first_relation_counts_and_a_link_with_an_anchor_does_not() {
        assert_eq!(
            duplicates(&["</x>; rel=next; rel=duplicate"]),
            Vec::<String>::new()
        );
        assert_eq!(
            duplicates(&["</x>; rel=duplicate; anchor=\"#part\""]),
            Vec::<String>::new()
        );
        assert_eq!(
            duplicates(&["</x>; rel=duplicate, </x>; rel=duplicate"]),
            ["https://a.test/x"]
        );
    }

    #[test]
    fn malformed_links_are_skipped() {
        for field in [
            "",
            "x",
            "<x",
            "<x>",
            "<x>; rel",
            "<x>; rel=",
            "<x>; rel=\"duplicate",
            "<mailto:a@b>; rel=duplicate",
            "<http://>; rel=duplicate",
        ] {
            assert_eq!(read(&[field]), LinkHeader::default(), "{field}");
        }
        // Junk after a link does not spoil the next one.
        assert_eq!(
            duplicates(&["<x>; rel=next junk \u{e9}, <y>; rel=duplicate"]),
            ["https://a.test/dir/y"]
        );
    }

    #[test]
    fn nothing_grows_beyond_its_limit() {
        let many: Vec<String> = (0..MAX_LINKS + 9)
            .map(|n| format!("<{n}>;rel=duplicate"))
            .collect();
        assert_eq!(duplicates(&[&many.join(",")]).len(), MAX_LINKS);
        let long = format!("<{}>;rel=duplicate", "a".repeat(MAX_REFERENCE_BYTES + 1));
        assert_eq!(duplicates(&[&long]).len(), 0);
        let parameters = format!("<x>{};rel=duplicate", ";a=b".repeat(MAX_PARAMETERS));
        assert_eq!(duplicates(&[&parameters]).len(), 0);
    }

    proptest! {
        #[test]
        fn no_field_panics_or_loops(text in "[<>;,=\" \\\\a-z/]{0,80}") {
            let found = read(&[&text]);
            prop_assert!(found.duplicates.len() <= 80);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let headers = std::iter::once((LINK, value)).collect();
                let _ = parse_link_headers(&headers, &Url::parse("http://h.test/").unwrap());
            }
        }

        #[test]
        fn a_quoted_title_does_not_hide_the_parameters_after_it(title in "[ -~]{0,30}") {
            let quoted = title.replace('\\', "\\\\").replace('"', "\\\"");
            let field = format!("<x>; title=\"{quoted}\"; rel=duplicate");
            prop_assert_eq!(duplicates(&[&field]), ["https://a.test/dir/x"]);
        }
    }
}
