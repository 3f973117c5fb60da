//! JSON Lines: one object a line, with the names of CSV columns, `mirrors` and `headers`.
//!
//! `haul serve` lists a folder in this form. A line for a folder in it has no URL, and is skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;

use haul_plan::DigestAlgorithm;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::{ListEntry, ListField};
use super::fields;
use super::lines::LineReader;

pub(super) struct JsonLinesList {
    lines: LineReader,
}

/// One line. Other keys are ignored.
#[derive(Deserialize)]
struct JsonListEntry<'a> {
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
    #[serde(default)]
    size: Option<JsonSize>,
    #[serde(borrow, default)]
    checksum: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sha256: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sha512: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    sha1: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    md5: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    blake3: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    crc32c: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow, default)]
    kind: Option<JsonEntryType<'a>>,
    #[serde(default)]
    mirrors: Option<Vec<String>>,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
}

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

impl JsonLinesList {
    pub(super) fn new(lines: LineReader) -> Self {
        Self { lines }
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
    let mirrors = object.mirrors.iter().flatten().map(String::as_str);
    let size = object.size.as_ref().map(|size| match size {
        JsonSize::Number(number) => number.to_string(),
        JsonSize::Text(text) => text.clone(),
    });
    let digests = [
        (DigestAlgorithm::Sha256, &object.sha256),
        (DigestAlgorithm::Sha512, &object.sha512),
        (DigestAlgorithm::Sha1, &object.sha1),
        (DigestAlgorithm::Md5, &object.md5),
        (DigestAlgorithm::Blake3, &object.blake3),
        (DigestAlgorithm::Crc32c, &object.crc32c),
    ];
    let digests = digests.map(|(algorithm, hex)| (ListField::Digest(algorithm), hex.as_deref()));
    let others = [
        (ListField::Path, object.path.as_deref()),
        (ListField::Size, size.as_deref()),
        (ListField::Checksum, object.checksum.as_deref()),
    ];
    let values = others.into_iter().chain(digests);
    let values = values.filter_map(|(name, text)| Some((name, text?)));
    let mut entry = ListEntry::from_record(line, std::iter::once(url).chain(mirrors), values)?;
    for (name, text) in object.headers.iter().flatten() {
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
