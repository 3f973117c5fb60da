//! Reads an XML document from front to back, without a tree: one element is held at a time.
//!
//! Documents come from clients. Their length and depth are bounded, a DTD is refused, so that no
//! entity expands and nothing outside the document is read, and a text is one of the document's
//! own bytes or of XML's five entities.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

use crate::{S3ErrorCode, S3Failure};

/// The deepest nesting. Documents that operations take have four levels.
const MAX_DEPTH: usize = 16;

/// A document that is being read.
///
/// [`begin`](Self::begin) enters the root. [`next_child`](Self::next_child) enters the next child
/// of the open element, or leaves that element at its end. In a child, call
/// [`text`](Self::text) or [`skip`](Self::skip), which leave it, or `next_child` until it has
/// none left.
pub(super) struct DocumentReader<'a> {
    reader: Reader<&'a [u8]>,
    /// An element that has no content was entered: its end comes next.
    is_empty: bool,
    depth: usize,
}

/// What comes next in an element.
enum Token {
    Start(String),
    Text(String),
    End,
}

impl<'a> DocumentReader<'a> {
    /// Enters the root, which must have this name.
    ///
    /// # Errors
    /// `MalformedXML`, or `MaxMessageLengthExceeded` beyond `max_bytes`.
    pub(super) fn begin(
        document: &'a [u8],
        max_bytes: usize,
        root: &str,
    ) -> Result<Self, S3Failure> {
        if document.len() > max_bytes {
            return Err(S3ErrorCode::MaxMessageLengthExceeded.into());
        }
        let text = str::from_utf8(document).map_err(|_| malformed())?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = Self {
            reader: Reader::from_str(text),
            is_empty: false,
            depth: 0,
        };
        match reader.next()? {
            Token::Start(name) if name == root => Ok(reader),
            _ => Err(malformed()),
        }
    }

    /// Enters the next child and returns its name; `None` leaves the open element at its end. Text
    /// between children must be blank.
    pub(super) fn next_child(&mut self) -> Result<Option<String>, S3Failure> {
        loop {
            match self.next()? {
                Token::Start(name) => return Ok(Some(name)),
                Token::End => return Ok(None),
                Token::Text(text) if text.trim().is_empty() => {}
                Token::Text(_) => return Err(malformed()),
            }
        }
    }

    /// The text of the open element, which is left. An element in it is malformed.
    pub(super) fn text(&mut self) -> Result<String, S3Failure> {
        let mut text = String::new();
        loop {
            match self.next()? {
                Token::Text(part) => text.push_str(&part),
                Token::End => return Ok(text),
                Token::Start(_) => return Err(malformed()),
            }
        }
    }

    /// Leaves the open element, whatever it has.
    pub(super) fn skip(&mut self) -> Result<(), S3Failure> {
        let outside = self.depth - 1;
        while self.depth > outside {
            self.next()?;
        }
        Ok(())
    }

    /// Checks that nothing follows the root.
    pub(super) fn finish(mut self) -> Result<(), S3Failure> {
        loop {
            match self.reader.read_event().map_err(|_| malformed())? {
                Event::Eof => return Ok(()),
                Event::Comment(_) | Event::PI(_) => {}
                Event::Text(text) if text.xml10_content().trim().is_empty() => {}
                _ => return Err(malformed()),
            }
        }
    }

    fn next(&mut self) -> Result<Token, S3Failure> {
        if std::mem::take(&mut self.is_empty) {
            self.depth -= 1;
            return Ok(Token::End);
        }
        loop {
            let token = match self.reader.read_event().map_err(|_| malformed())? {
                Event::Start(start) => Token::Start(start.local_name().as_ref().to_owned()),
                Event::Empty(empty) => {
                    self.is_empty = true;
                    Token::Start(empty.local_name().as_ref().to_owned())
                }
                Event::End(_) => Token::End,
                Event::Text(text) => Token::Text(text.xml10_content().into_owned()),
                Event::CData(text) => Token::Text(text.xml10_content().into_owned()),
                Event::GeneralRef(reference) => Token::Text(referred(&reference)?.into()),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => continue,
                Event::DocType(_) | Event::Eof => return Err(malformed()),
            };
            match token {
                Token::Start(_) if self.depth == MAX_DEPTH => return Err(malformed()),
                Token::Start(_) => self.depth += 1,
                Token::End => self.depth -= 1,
                // Before the root there may be line ends.
                Token::Text(ref text) if self.depth == 0 && text.trim().is_empty() => continue,
                Token::Text(_) => {}
            }
            return Ok(token);
        }
    }
}

/// A character by its number, or one of the five entities that need no declaration.
fn referred(reference: &BytesRef<'_>) -> Result<char, S3Failure> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| malformed())? {
        return Ok(character);
    }
    quick_xml::escape::resolve_predefined_entity(reference)
        .and_then(|text| text.chars().next())
        .ok_or_else(malformed)
}

pub(super) fn malformed() -> S3Failure {
    S3ErrorCode::MalformedXML.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every text in the children of the root, by name.
    fn children(document: &str) -> Result<Vec<(String, String)>, S3Failure> {
        let mut reader = DocumentReader::begin(document.as_bytes(), 1 << 20, "R")?;
        let mut found = Vec::new();
        while let Some(name) = reader.next_child()? {
            match name.as_str() {
                "Skipped" => reader.skip()?,
                _ => found.push((name, reader.text()?)),
            }
        }
        reader.finish()?;
        Ok(found)
    }

    #[test]
    fn names_texts_and_entities_are_read() {
        let document = "\u{feff}<?xml version=\"1.0\"?>\n<!-- c --><a:R xmlns:a=\"x\">\n\
            <K>a&amp;b&#10;&#x41;<![CDATA[<c>]]></K><E/>\
            <Skipped><E/>text<X><Y/></X></Skipped><a:K> 2<!-- c -->3</a:K></a:R>\n<!-- end -->";
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let expected = [pair("K", "a&b\nA<c>"), pair("E", ""), pair("K", " 23")];
        assert_eq!(children(document).unwrap(), expected);
        assert_eq!(children("<R/>").unwrap(), []);
    }

    #[test]
    fn hostile_documents_are_malformed() {
        let deep = format!("<R><Skipped>{}", "<a>".repeat(100));
        for document in [
            "",
            " \n",
            "<R>",
            "<R></S>",
            "<S></S>",
            "x<R/>",
            "<R/>x",
            "<R/><R/>",
            "<R>text</R>",
            "<R><K><L/></K></R>",
            "<!DOCTYPE R [<!ENTITY x 'y'>]><R><K>&x;</K></R>",
            "<R><K>&unknown;</K></R>",
            "<R><K>&#0;</K></R>",
            "<R></R",
            deep.as_str(),
        ] {
            let refused = children(document).map_err(|failure| failure.code);
            assert_eq!(refused, Err(S3ErrorCode::MalformedXML), "{document}");
        }
        let long = DocumentReader::begin(b"<R></R>", 6, "R").map(drop);
        let code = long.map_err(|failure| failure.code);
        assert_eq!(code, Err(S3ErrorCode::MaxMessageLengthExceeded));
    }

    proptest! {
        #[test]
        fn no_document_panics(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "<R>", "</R>", "<a/>", "<a>", "</a>", "text", "&amp;", "&#", ";", "<![CDATA[",
                    "]]>", "<!--", "-->", "<?p", "?>", "<!DOCTYPE", "<Skipped>", "</Skipped>", "<", ">",
                ]),
                0..20,
            ),
        ) {
            let _ = children(&parts.concat());
        }
    }
}
