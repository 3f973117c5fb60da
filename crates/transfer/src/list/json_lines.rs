//! JSON Lines: one object a line, with the names of CSV columns, `mirrors` and `headers`.
//!
//! `haul serve` lists a folder in this form. A line for a folder in it has no URL, and is skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::{ListEntry, ListField};
use super::fields;
use super::lines::LineReader;

pub(super) struct JsonLinesList {
    lines: LineReader,
}

/// One line. Other keys are ignored.
#[derive(Default)]
struct JsonListEntry<'a> {
    url: Option<Cow<'a, str>>,
    /// The values of fields that tables have, too. Those of null are left out.
    values: Vec<(ListField, Cow<'a, str>)>,
    kind: Option<JsonEntryType<'a>>,
    mirrors: Vec<String>,
    headers: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for JsonListEntry<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(JsonListEntryVisitor)
    }
}

/// Reads the object of a line. Its keys are the columns of a table, and more.
struct JsonListEntryVisitor;

impl<'de> Visitor<'de> for JsonListEntryVisitor {
    type Value = JsonListEntry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entry = JsonListEntry::default();
        while let Some(JsonText(key)) = map.next_key()? {
            match &*key {
                "type" => entry.kind = map.next_value()?,
                "mirrors" => {
                    entry.mirrors = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                "headers" => {
                    entry.headers = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                "url" => entry.set_url(map.next_value()?)?,
                key => match ListField::of_key(key) {
                    Some(field) => entry.add(field, &mut map)?,
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        Ok(entry)
    }
}

impl<'de> JsonListEntry<'de> {
    /// Sets the URL. Programs differ in which of two counts, so there may be one.
    fn set_url<E: serde::de::Error>(&mut self, url: Option<JsonText<'de>>) -> Result<(), E> {
        if self.url.is_some() {
            return Err(E::duplicate_field("url"));
        }
        self.url = url.map(|JsonText(url)| url);
        Ok(())
    }

    /// Adds the next value.
    fn add<A: MapAccess<'de>>(&mut self, field: ListField, map: &mut A) -> Result<(), A::Error> {
        let value = match &field {
            ListField::Size => map
                .next_value::<Option<JsonSize>>()?
                .map(JsonSize::into_text),
            // Whatever it is, nothing can be compared with it.
            ListField::UnknownDigest(_) => {
                let value = map.next_value::<Option<IgnoredAny>>()?;
                value.map(|IgnoredAny| Cow::Borrowed("?"))
            }
            _ => map
                .next_value::<Option<JsonText<'de>>>()?
                .map(|JsonText(text)| text),
        };
        let Some(value) = value else {
            return Ok(());
        };
        let is_single = matches!(field, ListField::Path | ListField::Size);
        if is_single && self.values.iter().any(|(known, _)| *known == field) {
            return Err(A::Error::custom("a key is there twice"));
        }
        self.values.push((field, value));
        Ok(())
    }
}

/// A string, which is borrowed unless it has escapes.
#[derive(Deserialize)]
struct JsonText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The kind of an entry in a listing of `haul serve`. Other lists may have other types.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonEntryType<'a> {
    Name(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

impl JsonEntryType<'_> {
    /// Whether it is none that can be downloaded.
    fn is_no_file(&self) -> bool {
        matches!(self, Self::Name(name) if name == "folder" || name == "other")
    }
}

/// A size as a number, or as a string, as in converted CSV.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonSize {
    Number(serde_json::Number),
    Text(String),
}

impl JsonSize {
    fn into_text(self) -> Cow<'static, str> {
        Cow::Owned(match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        })
    }
}

impl JsonLinesList {
    pub(super) fn new(lines: LineReader) -> Self {
        Self { lines }
    }

    /// Whether the next line does not come within a moment.
    pub(super) fn is_idle(&mut self) -> bool {
        self.lines.is_idle()
    }

    pub(super) fn next(&mut self) -> Option<Result<ListEntry, LineError>> {
        loop {
            let line = self.lines.next_content()?;
            let entry = line.and_then(|line| entry(line, self.lines.line()));
            if let Some(entry) = entry.transpose() {
                return Some(entry);
            }
        }
    }
}

/// Parses a line; `None` if it lists no file.
fn entry(line: u64, text: &[u8]) -> Result<Option<ListEntry>, LineError> {
    // serde would accept an array with the values in the right order.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(LineError::new(
            line,
            "",
            BadLineProblem::InvalidJson { column: 1 },
        ));
    }
    // Neither the line nor the parser's message is shown: header fields may be secret.
    let object: JsonListEntry<'_> =
        serde_json::from_slice(text).map_err(|error| LineError::new(line, "", problem(&error)))?;
    // Mirrors are not enough: the first URL names the file.
    let url = object.url.as_deref().filter(|url| !url.trim().is_empty());
    if url.is_none() && object.kind.as_ref().is_some_and(JsonEntryType::is_no_file) {
        return Ok(None);
    }
    let url = url.ok_or_else(|| LineError::new(line, "", BadLineProblem::NoUrl))?;
    let mirrors = object.mirrors.iter().map(String::as_str);
    let values = object
        .values
        .iter()
        .map(|(field, text)| (field.clone(), &**text));
    let mut entry = ListEntry::from_record(line, std::iter::once(url).chain(mirrors), values)?;
    for (name, text) in &object.headers {
        let added = fields::add_header(&mut entry.headers, name, text);
        added.map_err(|problem| LineError::new(line, name, problem))?;
    }
    Ok(Some(entry))
}

fn problem(error: &serde_json::Error) -> BadLineProblem {
    let column = error.column();
    match error.classify() {
        Category::Data => BadLineProblem::InvalidJsonType { column },
        Category::Io | Category::Syntax | Category::Eof => BadLineProblem::InvalidJson { column },
    }
}
