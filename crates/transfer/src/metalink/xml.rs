//! As much of XML as Metalink needs, with a limit on all of it: elements of one namespace, their text, their
//! attributes.
//!
//! No document types and so no entities beyond the five of XML; depth, texts and names are bounded. Elements
//! of other namespaces are skipped with all that is in them: an element counts as a Metalink element when it
//! has the prefix of the root (mostly none) and declares no other default namespace. Namespaces are not
//! resolved beyond that, since a resolver's work grows with the declarations of a document.

use std::cell::Cell;

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::error::{MetalinkError, MetalinkProblem};

/// The most levels of elements. Metalink has five.
const MAX_DEPTH: usize = 32;

/// The most bytes in the text of an element: a URL is the longest that there is.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The most attributes of an element that are read.
const MAX_ATTRIBUTES: usize = 64;

/// A document in parsing.
pub(super) struct XmlReader<'a> {
    /// Splits the text into events.
    reader: Reader<&'a [u8]>,
    /// The document, for line numbers.
    text: &'a str,
    /// Up to which byte lines were counted, and how many there were: each of many files may have an error
    /// with a line number.
    counted: Cell<(usize, u64)>,
    /// How many elements are open.
    depth: usize,
    /// The prefix of Metalink elements; empty for none.
    prefix: String,
    /// The namespace of Metalink elements.
    namespace: String,
}

/// The start of a Metalink element.
pub(super) struct XmlElement<'a>(BytesStart<'a>);

impl<'a> XmlElement<'a> {
    /// The name without a prefix.
    pub(super) fn name(&self) -> &str {
        local_name(self.0.name().0)
    }

    /// The value of an attribute, if there is one that can be parsed.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        attribute_value(&self.0, name)
    }
}

/// The name after the prefix, if there is one.
fn local_name(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, local)| local)
}

fn prefix(name: &str) -> &str {
    name.split_once(':').map_or("", |(prefix, _)| prefix)
}

fn attribute_value(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    // A check for duplicates takes the square of their number.
    attributes.with_checks(false);
    let attribute = attributes
        .take(MAX_ATTRIBUTES)
        .filter_map(Result::ok)
        .find(|attribute| attribute.key.0 == name)?;
    let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
    (value.len() <= MAX_TEXT_BYTES).then(|| value.into_owned())
}

impl<'a> XmlReader<'a> {
    /// Reads up to the root, which must be called `name`; the caller checks its namespace.
    pub(super) fn open(text: &'a str, name: &str) -> Result<Self, MetalinkError> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut xml = Self {
            reader,
            text,
            counted: Cell::new((0, 1)),
            depth: 0,
            prefix: String::new(),
            namespace: String::new(),
        };
        loop {
            match xml.next_event()? {
                Event::Start(root) if local_name(root.name().0) == name => {
                    prefix(root.name().0).clone_into(&mut xml.prefix);
                    let declared = match &xml.prefix[..] {
                        "" => attribute_value(&root, "xmlns"),
                        prefix => attribute_value(&root, &format!("xmlns:{prefix}")),
                    };
                    xml.namespace = declared.unwrap_or_default();
                    return Ok(xml);
                }
                Event::Start(_) | Event::Eof => return Err(xml.error(MetalinkProblem::NotMetalink)),
                _ => {}
            }
        }
    }

    /// The namespace of the root.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Calls `read_child` for every Metalink child of the element that was last opened, and reads to its end.
    /// `read_child` reads to the child's end, by this function, [`XmlReader::text`] or [`XmlReader::skip`].
    pub(super) fn children(
        &mut self,
        mut read_child: impl FnMut(&mut Self, XmlElement<'a>) -> Result<(), MetalinkError>,
    ) -> Result<(), MetalinkError> {
        loop {
            match self.next_event()? {
                Event::Start(child) if self.is_metalink_element(&child) => {
                    read_child(self, XmlElement(child))?
                }
                Event::Start(_) => self.skip()?,
                Event::End(_) => return Ok(()),
                Event::Eof => return Err(self.error(MetalinkProblem::Truncated)),
                _ => {}
            }
        }
    }

    /// The trimmed text of the element that was last opened; elements in it are skipped.
    pub(super) fn text(&mut self) -> Result<String, MetalinkError> {
        let mut text = String::new();
        loop {
            match self.next_event()? {
                Event::Text(piece) => text.push_str(&piece),
                Event::CData(piece) => text.push_str(&piece),
                Event::GeneralRef(reference) => {
                    let named = resolve_predefined_entity(&reference);
                    match (named, reference.resolve_char_ref()) {
                        (Some(plain), _) => text.push_str(plain),
                        (None, Ok(Some(c))) => text.push(c),
                        _ => return Err(self.error(MetalinkProblem::UnknownEntity)),
                    }
                }
                Event::Start(_) => self.skip()?,
                Event::End(_) => return Ok(text.trim().to_owned()),
                Event::Eof => return Err(self.error(MetalinkProblem::Truncated)),
                _ => {}
            }
            if text.len() > MAX_TEXT_BYTES {
                return Err(self.error(MetalinkProblem::TextTooLong));
            }
        }
    }

    /// Skips the rest of the element that was last opened.
    pub(super) fn skip(&mut self) -> Result<(), MetalinkError> {
        self.skip_to_end_of(self.depth)
    }

    /// How many elements are open: the argument of [`XmlReader::skip_to_end_of`] to leave the last of them.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Skips the rest of the `depth`-th open element, and its end.
    pub(super) fn skip_to_end_of(&mut self, depth: usize) -> Result<(), MetalinkError> {
        while self.depth >= depth {
            if let Event::Eof = self.next_event()? {
                return Err(self.error(MetalinkProblem::Truncated));
            }
        }
        Ok(())
    }

    /// An error at the present position.
    pub(super) fn error(&self, problem: MetalinkProblem) -> MetalinkError {
        let line = self.line();
        MetalinkError { line, problem }
    }

    /// The line of the present position, from 1 on.
    pub(super) fn line(&self) -> u64 {
        let (from, lines) = self.counted.get();
        let at = usize::try_from(self.reader.buffer_position())
            .unwrap_or(usize::MAX)
            .clamp(from, self.text.len());
        let passed = self.text.as_bytes()[from..at].iter();
        let line = lines + passed.filter(|byte| **byte == b'\n').count() as u64;
        self.counted.set((at, line));
        line
    }

    fn next_event(&mut self) -> Result<Event<'a>, MetalinkError> {
        match self.reader.read_event() {
            Ok(Event::DocType(_)) => Err(self.error(MetalinkProblem::DocumentType)),
            Ok(event) => {
                match event {
                    Event::Start(_) if self.depth >= MAX_DEPTH => {
                        return Err(self.error(MetalinkProblem::NestedTooDeeply));
                    }
                    Event::Start(_) => self.depth += 1,
                    Event::End(_) => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                Ok(event)
            }
            Err(error) => Err(self.error(MetalinkProblem::InvalidXml(error.to_string()))),
        }
    }

    fn is_metalink_element(&self, element: &BytesStart<'_>) -> bool {
        prefix(element.name().0) == self.prefix
            && (!self.prefix.is_empty()
                || attribute_value(element, "xmlns").is_none_or(|other| other == self.namespace))
    }
}
