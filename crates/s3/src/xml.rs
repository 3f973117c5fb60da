//! Small XML documents, read into a tree: what S3 responds with.
//!
//! Documents come from a peer. Their size, depth and number of elements are bounded, DTDs are refused, and nothing outside the
//! document is ever read. Namespaces are ignored, as all S3 programs do.

use quick_xml::Reader;
use quick_xml::events::Event;

/// The deepest nesting. S3's documents have five levels.
const MAX_DEPTH: usize = 16;

/// The most elements: ten thousand parts or keys with some twenty elements each.
const MAX_ELEMENTS: usize = 400_000;

/// An element of a document with its text and its children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XmlNode {
    /// The name without its prefix.
    pub name: String,
    /// The text directly in it.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Self>,
}

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum XmlReadError {
    /// It is malformed, or ends early.
    #[error("malformed XML")]
    Malformed(#[from] quick_xml::Error),
    /// A text has bytes that are not UTF-8, or an unknown entity.
    #[error("the XML has text that cannot be read")]
    Text,
    /// It has a DTD, or exceeds a limit.
    #[error("the XML has a document type, or is too large")]
    Refused,
    /// There is no element.
    #[error("the XML document is empty or incomplete")]
    Incomplete,
}

impl XmlNode {
    /// Reads a document.
    pub fn parse(document: &[u8]) -> Result<Self, XmlReadError> {
        let document = str::from_utf8(document).map_err(|_| XmlReadError::Text)?;
        let mut reader = Reader::from_str(document);
        let mut open: Vec<Self> = Vec::new();
        let mut count = 0;
        loop {
            match reader.read_event()? {
                Event::Start(start) => {
                    count += 1;
                    if open.len() >= MAX_DEPTH || count > MAX_ELEMENTS {
                        return Err(XmlReadError::Refused);
                    }
                    open.push(Self::named(start.local_name().as_ref()));
                }
                Event::Empty(empty) => {
                    count += 1;
                    let element = Self::named(empty.local_name().as_ref());
                    match open.last_mut() {
                        Some(parent) if count <= MAX_ELEMENTS => parent.children.push(element),
                        Some(_) => return Err(XmlReadError::Refused),
                        None => return Ok(element),
                    }
                }
                Event::End(_) => {
                    let element = open.pop().ok_or(XmlReadError::Incomplete)?;
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => return Ok(element),
                    }
                }
                Event::Text(text) => {
                    if let Some(parent) = open.last_mut() {
                        parent.text.push_str(&text.xml10_content());
                    }
                }
                Event::CData(text) => {
                    if let Some(parent) = open.last_mut() {
                        parent.text.push_str(&text.xml10_content());
                    }
                }
                Event::GeneralRef(reference) => {
                    let text = entity(&reference)?;
                    if let Some(parent) = open.last_mut() {
                        parent.text.push(text);
                    }
                }
                Event::DocType(_) => return Err(XmlReadError::Refused),
                Event::Eof => return Err(XmlReadError::Incomplete),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            }
        }
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// The first child with this name.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The children with this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child with this name; empty without one.
    #[must_use]
    pub fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| child.text.as_str())
    }

    /// Whether the child says `true`.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.text_of(name).trim() == "true"
    }
}

/// One of the five entities that need no declaration, or a character by its number.
fn entity(reference: &quick_xml::events::BytesRef<'_>) -> Result<char, XmlReadError> {
    if let Some(character) = reference.resolve_char_ref()? {
        return Ok(character);
    }
    match &**reference {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(XmlReadError::Text),
    }
}

/// A text as it stands in an element.
#[must_use]
pub fn escaped_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // A line end would be read as another one.
            '\r' => escaped.push_str("&#13;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_texts_and_entities_are_read() {
        let document = br#"<?xml version="1.0"?><a:R xmlns:a="http://x/"><K>a&amp;b&#10;<![CDATA[<c>]]></K><E/><K>2</K></a:R>"#;
        let root = XmlNode::parse(document).unwrap();
        assert_eq!(root.name, "R");
        assert_eq!(root.text_of("K"), "a&b\n<c>");
        assert_eq!(root.all("K").count(), 2);
        assert!(root.child("E").is_some() && !root.is_true("E"));
    }

    #[test]
    fn hostile_documents_are_refused() {
        let deep = "<a>".repeat(100);
        for document in [
            "",
            " \n",
            "<a>",
            "<a></b>",
            "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
            "<a>&unknown;</a>",
            "not xml",
            deep.as_str(),
        ] {
            assert!(XmlNode::parse(document.as_bytes()).is_err(), "{document}");
        }
    }

    #[test]
    fn escaped_texts_are_read_as_they_were() {
        let text = "a<b>&\"c'\r\n\u{e9}";
        let document = format!("<K>{}</K>", escaped_text(text));
        assert_eq!(XmlNode::parse(document.as_bytes()).unwrap().text, text);
    }
}
