//! The format of a list: given by name, or detected from the first line.

use super::source::{first_line, without_bom};
use crate::metalink;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// One URL a line; tabs and indentation have no meaning.
    Plain,
    /// The input format of aria2: tabs separate mirrors, indented lines are options. A list of plain URLs is valid,
    /// too.
    Aria2,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// One JSON object a line.
    JsonLines,
    /// A Metalink document (RFC 5854).
    Metalink,
}

/// Detects the format from the first line that is neither blank nor a comment. The word `url` alone is a CSV header,
/// because it cannot be a URL.
pub(super) fn detect(front: &[u8]) -> ListFormat {
    let line = first_line(without_bom(front)).trim_ascii();
    let has_url_column = |delimiter: u8| {
        line.split(|&byte| byte == delimiter).any(|name| {
            let name = name.trim_ascii();
            let bare = name
                .strip_prefix(b"\"")
                .and_then(|name| name.strip_suffix(b"\""));
            bare.unwrap_or(name).eq_ignore_ascii_case(b"url")
        })
    };
    // A first line of several plain words is a header, too: of a table that has no column of URLs.
    let is_header = |delimiter: u8| {
        let is_word = |name: &[u8]| {
            let is_plain = |byte: &u8| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ' | b'"')
            };
            name.iter().any(u8::is_ascii_alphabetic) && name.iter().all(is_plain)
        };
        line.contains(&delimiter) && line.split(|&byte| byte == delimiter).all(is_word)
    };
    if metalink::is_metalink(front) {
        ListFormat::Metalink
    } else if line.starts_with(b"{") {
        ListFormat::JsonLines
    } else if (has_url_column(b'\t') && line.contains(&b'\t')) || is_header(b'\t') {
        ListFormat::Tsv
    } else if has_url_column(b',') || is_header(b',') {
        ListFormat::Csv
    } else {
        ListFormat::Aria2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_the_format() {
        for (text, format) in [
            ("", ListFormat::Aria2),
            ("http://h/f\nurl,path", ListFormat::Aria2),
            ("http://h/f\thttp://i/f", ListFormat::Aria2),
            ("http://h/url,x", ListFormat::Aria2),
            ("{\"url\": \"http://h/f\"}", ListFormat::JsonLines),
            ("\u{feff}\r\n# list\n  {\"url\"", ListFormat::JsonLines),
            ("url,path\n", ListFormat::Csv),
            ("path, URL ,x", ListFormat::Csv),
            ("\"path\",\"Url\"", ListFormat::Csv),
            ("\u{feff}url\r\nhttp://h/f", ListFormat::Csv),
            ("sha256\turl\n", ListFormat::Tsv),
            ("\"url\"\tsha256", ListFormat::Tsv),
            ("#url,path\nhttp://h/", ListFormat::Aria2),
            ("curl,path", ListFormat::Csv),
            ("name,web link,\"size\"\n", ListFormat::Csv),
            ("name\tlink", ListFormat::Tsv),
            ("h.test/a,b", ListFormat::Aria2),
            ("http://h/a,x", ListFormat::Aria2),
            ("1,2", ListFormat::Aria2),
            ("<metalink xmlns=\"x\">", ListFormat::Metalink),
            (
                "\u{feff}<?xml version='1.0'?>\n<!-- url,x -->\n<m:metalink>",
                ListFormat::Metalink,
            ),
            ("<html>\n<metalink>", ListFormat::Metalink),
            ("<html>\n<a>", ListFormat::Aria2),
            ("http://h/\n<metalink>", ListFormat::Aria2),
        ] {
            assert_eq!(detect(text.as_bytes()), format, "{text}");
        }
    }
}
