//! JSON lines: an object a line, with the names of tables' columns, `mirrors` and `headers`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use haul_plan::Algorithm;
use serde::Deserialize;
use serde_json::error::Category;

use super::bad::{Bad, Problem};
use super::entry::Entry;
use super::front::is_content;
use super::lines::{Got, Lines};
use super::record::{self, Name};
use super::value;

/// A list of JSON lines.
pub(super) struct Json {
    lines: Lines,
}

/// One line. Names that are not here are passed over.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
    #[serde(default)]
    size: Option<Size>,
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
    #[serde(default)]
    mirrors: Option<Vec<String>>,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
}

/// A size as a number, or in quotes as tables turned into JSON have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Number(serde_json::Number),
    Text(String),
}

impl Json {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines }
    }

    pub(super) fn next(&mut self) -> Option<Result<Entry, Bad>> {
        loop {
            let got = self.lines.advance();
            let line = self.lines.number();
            return Some(match got {
                Err(error) => Err(Bad::read(line, error)),
                Ok(Got::End) => return None,
                Ok(Got::TooLong) => Err(Bad::new(line, "", Problem::TooLong)),
                Ok(Got::Line) if !is_content(self.lines.text()) => continue,
                Ok(Got::Line) => entry(line, self.lines.text()),
            });
        }
    }
}

fn entry(line: u64, text: &[u8]) -> Result<Entry, Bad> {
    // An array of values in the right order would be taken for an object.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(Bad::new(line, "", Problem::Json { at: 1 }));
    }
    // Neither the line nor what the parser says of it is shown: there may be secrets among the header fields.
    let object: Object<'_> =
        serde_json::from_slice(text).map_err(|error| Bad::new(line, "", problem(&error)))?;
    // An object of which only mirrors are known has no first URL, which is what names the file.
    let url = object.url.as_deref().filter(|url| !url.trim().is_empty());
    let url = url.ok_or_else(|| Bad::new(line, "", Problem::NoUrl))?;
    let mirrors = object.mirrors.iter().flatten().map(String::as_str);
    let size = object.size.as_ref().map(|size| match size {
        Size::Number(number) => number.to_string(),
        Size::Text(text) => text.clone(),
    });
    let digests = [
        (Algorithm::Sha256, &object.sha256),
        (Algorithm::Sha512, &object.sha512),
        (Algorithm::Sha1, &object.sha1),
        (Algorithm::Md5, &object.md5),
        (Algorithm::Blake3, &object.blake3),
        (Algorithm::Crc32c, &object.crc32c),
    ];
    let digests = digests.map(|(algorithm, hex)| (Name::Digest(algorithm), hex.as_deref()));
    let others = [
        (Name::Path, object.path.as_deref()),
        (Name::Size, size.as_deref()),
        (Name::Checksum, object.checksum.as_deref()),
    ];
    let values = others.into_iter().chain(digests);
    let values = values.filter_map(|(name, text)| Some((name, text?)));
    let mut entry = record::entry(line, std::iter::once(url).chain(mirrors), values)?;
    for (name, text) in object.headers.iter().flatten() {
        let added = value::header(&mut entry.headers, name, text);
        added.map_err(|problem| Bad::new(line, name, problem))?;
    }
    Ok(entry)
}

fn problem(error: &serde_json::Error) -> Problem {
    let at = error.column();
    match error.classify() {
        Category::Data => Problem::JsonType { at },
        Category::Io | Category::Syntax | Category::Eof => Problem::Json { at },
    }
}
