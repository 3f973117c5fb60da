//! Entries as records have them: the same names in tables and in JSON lines.

use haul_plan::Algorithm;

use super::bad::{Bad, Problem};
use super::entry::Entry;
use super::{source, value};

/// What a value of a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// `url`.
    Url,
    /// `path`.
    Path,
    /// `size`.
    Size,
    /// `checksum`, with its algorithm in front.
    Checksum,
    /// The name of an algorithm: a digest alone.
    Digest(Algorithm),
}

impl Name {
    /// A name as a header has it; case does not matter.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text.trim().to_ascii_lowercase().as_str() {
            "url" => Self::Url,
            "path" => Self::Path,
            "size" => Self::Size,
            "checksum" => Self::Checksum,
            other => Self::Digest(
                Algorithm::ALL
                    .into_iter()
                    .find(|algorithm| algorithm.name() == other)?,
            ),
        })
    }
}

/// An entry of the record that begins in a line, from its URLs and its other values. An empty value says nothing.
pub(super) fn entry<'a>(
    line: u64,
    urls: impl Iterator<Item = &'a str>,
    values: impl Iterator<Item = (Name, &'a str)>,
) -> Result<Entry, Bad> {
    let mut entry = source::entry(line, urls)?;
    for (name, text) in values {
        // Only of a path do blanks around it mean something.
        let text = if name == Name::Path {
            text
        } else {
            text.trim()
        };
        if !text.trim().is_empty() {
            let applied = apply(name, text, &mut entry);
            applied.map_err(|problem| Bad::new(line, text, problem))?;
        }
    }
    Ok(entry)
}

fn apply(name: Name, text: &str, entry: &mut Entry) -> Result<(), Problem> {
    match name {
        Name::Url => {}
        Name::Path => entry.path = Some(value::path(text)?),
        Name::Size => entry.size = Some(value::size(text)?),
        Name::Checksum => entry.checksums.push(value::checksum(text)?),
        Name::Digest(algorithm) => entry.checksums.push(value::digest(algorithm, text)?),
    }
    Ok(())
}
