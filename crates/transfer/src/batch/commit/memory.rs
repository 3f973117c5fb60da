//! Gives the bytes of files to a function of the caller.
//!
//! A body is handed over as it comes, and its row is recorded after that. Nothing is synced and nothing gets a name. Large
//! files are read back from unnamed files, or from the staging directory, which they leave then.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;

use super::tar::remove_stale_staged;
use super::{BatchSink, FetchedFileContent, VerifiedFile};
use crate::batch::outcome::JobOutcome;
use crate::batch::output::{FetchedBody, MemoryOutput};
use crate::error::GetError;
use crate::get::UnnamedBody;

/// A sink that hands bodies over.
#[derive(Debug)]
pub(in crate::batch) struct MemorySink {
    output: MemoryOutput,
    /// Outcomes of files that were handed over since the last commit.
    group: Vec<JobOutcome>,
}

impl MemorySink {
    pub(in crate::batch) fn new(output: MemoryOutput) -> Self {
        Self {
            output,
            group: Vec::new(),
        }
    }

    /// Hands a body over. Its share of the memory for bodies is free when the function has returned.
    fn hand_over(&mut self, line: u64, content: FetchedFileContent, length: u64) -> io::Result<()> {
        let (pieces, _permit) = match content {
            FetchedFileContent::Unnamed(UnnamedBody::Memory(pieces, permit)) => {
                (pieces, Some(permit))
            }
            FetchedFileContent::Unnamed(UnnamedBody::File(file)) => {
                (vec![read_whole(&file.into_file(), length)?], None)
            }
            FetchedFileContent::Staged(staged) => (vec![take_staged(&staged, length)?], None),
        };
        (self.output.on_body)(line, FetchedBody { pieces });
        Ok(())
    }
}

impl BatchSink for MemorySink {
    fn add(
        &mut self,
        file: Box<VerifiedFile>,
        content: FetchedFileContent,
    ) -> Result<(), Box<JobOutcome>> {
        let VerifiedFile { job, row, .. } = *file;
        if let Err(error) = self.hand_over(job.line, content, row.bytes) {
            let error = GetError::io("read", job.path.clone(), error);
            return Err(Box::new(JobOutcome::failed(&job, error)));
        }
        self.group.push(JobOutcome::success(row));
        Ok(())
    }

    fn commit(&mut self) -> Vec<JobOutcome> {
        std::mem::take(&mut self.group)
    }
}

/// Reads a staged file and removes it, also if it cannot be read: it would only take space.
fn take_staged(staged: &Path, length: u64) -> io::Result<Bytes> {
    let bytes = File::open(staged).and_then(|file| read_whole(&file, length));
    remove_stale_staged(staged);
    bytes
}

/// Reads a file from its beginning. Memory that is not there is an error, since the length comes from an origin.
fn read_whole(file: &File, length: u64) -> io::Result<Bytes> {
    let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
    let capacity = usize::try_from(length).map_err(|_| out_of_memory())?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(capacity)
        .map_err(|_| out_of_memory())?;
    file.take(length).read_to_end(&mut bytes)?;
    if bytes.len() == capacity {
        Ok(bytes.into())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("staged");
        std::fs::write(&path, "content").unwrap();
        let file = File::open(&path).unwrap();
        let absurd = read_whole(&file, u64::MAX / 2).unwrap_err();
        assert_eq!(absurd.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(take_staged(&path, 7).unwrap(), "content");
        assert!(!path.exists());
        std::fs::write(&path, "content").unwrap();
        let short = take_staged(&path, 8).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!path.exists(), "a leftover would take space");
    }
}
