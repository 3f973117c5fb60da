//! Entries of CSV and JSON Lines, whose fields have the same names.

use haul_plan::DigestAlgorithm;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::ListEntry;
use super::{entry_urls, fields};

/// The meaning of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListField {
    /// The field `url`.
    Url,
    /// The field `path`.
    Path,
    /// The field `size`.
    Size,
    /// The field `checksum`: an algorithm and a digest.
    Checksum,
    /// A field with the name of an algorithm: a digest alone.
    Digest(DigestAlgorithm),
}

impl ListField {
    /// The field with this name in a header; case does not matter.
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

/// The entry of a record that begins in this line. Empty values are ignored.
pub(super) fn entry_of_record<'a>(
    line: u64,
    urls: impl Iterator<Item = &'a str>,
    values: impl Iterator<Item = (ListField, &'a str)>,
) -> Result<ListEntry, LineError> {
    let mut entry = entry_urls::entry_of_urls(line, urls)?;
    for (name, text) in values {
        // Blanks around a path belong to it.
        let text = if name == ListField::Path {
            text
        } else {
            text.trim()
        };
        if !text.trim().is_empty() {
            let applied = apply(name, text, &mut entry);
            applied.map_err(|problem| LineError::new(line, text, problem))?;
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
