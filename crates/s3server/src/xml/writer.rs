//! Writes XML documents: elements, escaped texts, and keys in the encoding that a listing asks for.

use std::borrow::Cow;
use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The namespace of S3's documents. Some clients insist on it.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// What `encoding-type=url` leaves as it is: unreserved characters, the slash and the asterisk.
const URL_KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'*')
    .remove(b'/');

/// How a listing writes keys, prefixes, delimiters and markers (`encoding-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum KeyEncoding {
    /// As text.
    #[default]
    Plain,
    /// Percent-encoded: XML 1.0 cannot carry most control characters. A space is `%20`, which every decoder knows;
    /// not all take `+` for one.
    Url,
}

impl KeyEncoding {
    /// A key as it stands in an element, before XML's own escapes.
    pub(crate) fn encode(self, key: &str) -> Cow<'_, str> {
        match self {
            Self::Plain => Cow::Borrowed(key),
            Self::Url => utf8_percent_encode(key, URL_KEPT).into(),
        }
    }
}

/// A document that is written from front to back.
#[derive(Debug)]
pub(crate) struct XmlDocument {
    text: String,
    /// The elements that are open, the root first.
    open: Vec<&'static str>,
}

impl XmlDocument {
    /// A document with this root, in S3's namespace.
    pub(crate) fn new(root: &'static str) -> Self {
        Self::with_start(root, &format!("<{root} xmlns=\"{NAMESPACE}\">"))
    }

    /// A document without a namespace, as S3's errors are.
    pub(crate) fn without_namespace(root: &'static str) -> Self {
        Self::with_start(root, &format!("<{root}>"))
    }

    fn with_start(root: &'static str, start: &str) -> Self {
        Self {
            text: format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{start}"),
            open: vec![root],
        }
    }

    pub(crate) fn open(&mut self, name: &'static str) {
        self.text.extend(["<", name, ">"]);
        self.open.push(name);
    }

    /// Closes the element that was opened last. The root stays open until the end.
    pub(crate) fn close(&mut self) {
        if self.open.len() > 1
            && let Some(name) = self.open.pop()
        {
            self.text.extend(["</", name, ">"]);
        }
    }

    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.text.extend(["<", name, ">"]);
        push_escaped(&mut self.text, text);
        self.text.extend(["</", name, ">"]);
    }

    /// An element with a number or another value that needs no escapes but may have them.
    pub(crate) fn value(&mut self, name: &'static str, value: impl ToString) {
        self.text(name, &value.to_string());
    }

    /// An element with a text, if there is one.
    pub(crate) fn optional(&mut self, name: &'static str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// An element with a key in an encoding.
    pub(crate) fn key(&mut self, name: &'static str, key: &str, encoding: KeyEncoding) {
        self.text(name, &encoding.encode(key));
    }

    /// The document, with all its elements closed.
    pub(crate) fn finish(mut self) -> String {
        while let Some(name) = self.open.pop() {
            self.text.extend(["</", name, ">"]);
        }
        self.text
    }
}

/// Appends a text with XML's escapes. XML 1.0 has no way to write most control characters; as S3
/// does, each becomes a reference. Strict clients refuse the document then, which is better than
/// another key: `encoding-type=url` is made for such keys.
fn push_escaped(document: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => document.push_str("&amp;"),
            '<' => document.push_str("&lt;"),
            '>' => document.push_str("&gt;"),
            '"' => document.push_str("&quot;"),
            // A reader would take a bare one for a line feed.
            '\r' => document.push_str("&#13;"),
            '\t' | '\n' => document.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                // Writing into a String cannot fail.
                let _ = write!(document, "&#x{:x};", u32::from(character));
            }
            other => document.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::xml::reader::DocumentReader;

    #[test]
    fn elements_nest_and_are_closed_at_the_end() {
        let mut document = XmlDocument::new("R");
        document.open("A");
        document.value("N", 3);
        document.optional("Absent", None);
        document.close();
        document.close();
        document.key("K", "a b+ü", KeyEncoding::Url);
        document.open("B");
        assert_eq!(
            document.finish(),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <R xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><A><N>3</N></A>\
             <K>a%20b%2B%C3%BC</K><B></B></R>"
        );
    }

    proptest! {
        #[test]
        fn texts_are_read_as_they_were_written(text in "[ -~\r\n\t\u{1}-\u{10}é€𝄞]{0,40}") {
            let mut document = XmlDocument::new("R");
            document.text("K", &text);
            let document = document.finish();
            let mut reader = DocumentReader::begin(document.as_bytes(), 1 << 20, "R").unwrap();
            prop_assert_eq!(reader.next_child().unwrap(), Some("K".to_owned()));
            prop_assert_eq!(reader.text().unwrap(), text);
        }

        /// Clients undo `encoding-type=url` as a form's encoding, or as that of a path.
        #[test]
        fn f15_encoded_keys_are_decoded_by_forms(key in "\\PC{0,30}|[\u{1}-\u{7f}]{0,30}") {
            let encoded = format!("k={}", KeyEncoding::Url.encode(&key));
            let decoded = url::form_urlencoded::parse(encoded.as_bytes()).next().unwrap().1;
            prop_assert_eq!(&decoded, &key);
            let encoded = KeyEncoding::Url.encode(&key);
            let decoded = percent_encoding::percent_decode_str(&encoded).decode_utf8().unwrap();
            prop_assert_eq!(&*decoded, key.as_str());
        }
    }
}
