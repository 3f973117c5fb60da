//! Entries as records have them: the same names in tables and in JSON lines.

use haul_plan::DigestAlgorithm;

use super::bad_line::{BadLineProblem, UnplacedBadLine};
use super::entry::ListEntry;
use super::{entry_urls, fields};

/// What a value of a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListField {
    /// `url`.
    Url,
    /// `parse_path`.
    Path,
    /// `parse_size`.
    Size,
    /// `parse_checksum`, with its algorithm in front.
    Checksum,
    /// The name of an algorithm: a digest alone.
    Digest(DigestAlgorithm),
}

impl ListField {
    /// A name as a header has it; case does not matter.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text.trim().to_ascii_lowercase().as_str() {
            "url" => Self::Url,
            "path" => Self::Path,
            "size" => Self::Size,
            "checksum" => Self::Checksum,
            other => Self::Digest(
                DigestAlgorithm::ALL
                    .into_iter()
                    .find(|algorithm| algorithm.name() == other)?,
            ),
        })
    }
}

/// An entry of the record that begins in a line, from its URLs and its other values. An empty value says nothing.
pub(super) fn entry_of_record<'a>(
    line: u64,
    urls: impl Iterator<Item = &'a str>,
    values: impl Iterator<Item = (ListField, &'a str)>,
) -> Result<ListEntry, UnplacedBadLine> {
    let mut entry = entry_urls::entry_of_urls(line, urls)?;
    for (name, text) in values {
        // Only of a path do blanks around it mean something.
        let text = if name == ListField::Path {
            text
        } else {
            text.trim()
        };
        if !text.trim().is_empty() {
            let applied = apply(name, text, &mut entry);
            applied.map_err(|problem| UnplacedBadLine::new(line, text, problem))?;
        }
    }
    Ok(entry)
}

fn apply(name: ListField, text: &str, entry: &mut ListEntry) -> Result<(), BadLineProblem> {
    match name {
        ListField::Url => {}
        ListField::Path => entry.path = Some(fields::parse_path(text)?),
        ListField::Size => entry.size = Some(fields::parse_size(text)?),
        ListField::Checksum => entry.checksums.push(fields::parse_checksum(text)?),
        ListField::Digest(algorithm) => {
            entry.checksums.push(fields::parse_digest(algorithm, text)?)
        }
    }
    Ok(())
}
