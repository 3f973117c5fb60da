//! A Metalink document as a list: an entry for each file that it names, with its mirrors.
//!
//! It is read as a whole and parsed at once, since what is cut off in it must not be used; [`metalink::MAX_DOCUMENT_BYTES`] bounds that, whatever
//! it is unpacked from. What is wrong with one file is a bad line, and so is a file that cannot be had over HTTP.

use std::io::Read;

use haul_plan::metalink::{self, MetalinkError, MetalinkFile};

use super::bad_line::{BadLineProblem, UnplacedBadLine};
use super::entry::ListEntry;

/// A document, read with its first entry.
pub(super) enum MetalinkList {
    /// Its text, still to be read.
    Unread(Box<dyn Read + Send>),
    /// What it names.
    Files(std::vec::IntoIter<Result<MetalinkFile, MetalinkError>>),
}

impl MetalinkList {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Self {
        Self::Unread(source)
    }

    /// The next file, or what is wrong with it; what is wrong with the document comes first, and alone.
    pub(super) fn next(&mut self) -> Option<Result<ListEntry, UnplacedBadLine>> {
        if let Self::Unread(source) = self {
            match read(source) {
                Ok(files) => *self = Self::Files(files.into_iter()),
                Err(bad) => {
                    *self = Self::Files(Vec::new().into_iter());
                    return Some(Err(bad));
                }
            }
        }
        match self {
            Self::Files(files) => files.next().map(|file| entry(file.map_err(bad)?)),
            Self::Unread(_) => None,
        }
    }
}

fn read(
    source: &mut dyn Read,
) -> Result<Vec<Result<MetalinkFile, MetalinkError>>, UnplacedBadLine> {
    let mut text = Vec::new();
    // One more than the parser takes, so that it says so.
    let most = metalink::MAX_DOCUMENT_BYTES as u64 + 1;
    let came = source.take(most).read_to_end(&mut text);
    came.map_err(|error| {
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        UnplacedBadLine::read(1 + lines as u64, error)
    })?;
    let document = metalink::parse(&text).map_err(bad)?;
    Ok(document.files)
}

fn bad(
    MetalinkError {
        line,
        problem: what,
    }: MetalinkError,
) -> UnplacedBadLine {
    UnplacedBadLine::new(line, "", BadLineProblem::Metalink(what))
}

/// A file as an entry. Whoever wrote the document is not who runs this: its hosts are strangers.
fn entry(file: MetalinkFile) -> Result<ListEntry, UnplacedBadLine> {
    let mut urls = file.urls().cloned();
    let Some(url) = urls.next() else {
        let name = file.path.to_string_lossy();
        return Err(UnplacedBadLine::new(
            file.line,
            &name,
            BadLineProblem::NoHttpUrl,
        ));
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
