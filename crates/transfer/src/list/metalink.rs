//! A Metalink document as a list: an entry for each file in it, with its mirrors.
//!
//! The document is read and parsed as a whole, because nothing of an incomplete document may be used.
//! [`metalink::MAX_DOCUMENT_BYTES`] bounds it after decompression. An error in one file is a bad line, and so is a file
//! without an HTTP URL.

use std::io::Read;

use super::bad_line::{BadLineProblem, LineError};
use super::entry::ListEntry;
use crate::metalink;
use crate::metalink::{MetalinkError, MetalinkFile};

/// A document, which is read with its first entry.
pub(super) enum MetalinkList {
    /// Still to be read.
    Unread(Box<dyn Read + Send>),
    /// The files that are left.
    Files(std::vec::IntoIter<Result<MetalinkFile, MetalinkError>>),
}

impl MetalinkList {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self::Unread(source)
    }

    /// The next file or an error in it. An error of the document is the only item.
    pub(super) fn next(&mut self) -> Option<Result<ListEntry, LineError>> {
        if let Self::Unread(source) = self {
            match read(source) {
                Ok(files) => *self = Self::Files(files.into_iter()),
                Err(line_error) => {
                    *self = Self::Files(Vec::new().into_iter());
                    return Some(Err(line_error));
                }
            }
        }
        match self {
            Self::Files(files) => files.next().map(|file| entry(file.map_err(line_error)?)),
            Self::Unread(_) => None,
        }
    }
}

fn read(source: &mut dyn Read) -> Result<Vec<Result<MetalinkFile, MetalinkError>>, LineError> {
    let mut text = Vec::new();
    // One byte more than the parser accepts, so that the parser reports it.
    let most = metalink::MAX_DOCUMENT_BYTES as u64 + 1;
    let read = source.take(most).read_to_end(&mut text);
    read.map_err(|error| {
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        LineError::read(1 + lines as u64, error)
    })?;
    let document = metalink::parse(&text).map_err(line_error)?;
    Ok(document.files)
}

fn line_error(
    MetalinkError {
        line,
        problem: what,
    }: MetalinkError,
) -> LineError {
    LineError::new(line, "", BadLineProblem::Metalink(what))
}

/// A file as an entry. Its hosts are not trusted: the author of the document need not be the user.
fn entry(file: MetalinkFile) -> Result<ListEntry, LineError> {
    let mut urls = file.urls().cloned();
    let Some(url) = urls.next() else {
        let name = file.path.to_string_lossy();
        return Err(LineError::new(file.line, &name, BadLineProblem::NoHttpUrl));
    };
    Ok(ListEntry {
        mirrors: urls.collect(),
        path: Some(file.path),
        checksums: file.checksums,
        size: file.size,
        pieces: file.pieces,
        untrusted_hosts: true,
        ..ListEntry::new(file.line, url)
    })
}
