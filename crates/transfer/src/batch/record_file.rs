//! Records in an unnamed file, for what a batch of millions cannot keep in memory.
//!
//! The file is written and read in blocks of many records: the newest records are in memory until they fill a block, and
//! a read takes the records behind the wanted one along. Where the file system has no unnamed files, all records stay in
//! memory.

use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::disk::{UnnamedFile, or_current_directory};

/// Bytes that are written and read at once: some 200 records.
const BLOCK: usize = 64 << 10;

/// Offset of the first record. It is not 0, so that users may let 0 mean "no record".
const FIRST_RECORD: u64 = 8;

/// Records, each known by its offset.
#[derive(Debug)]
pub(super) struct RecordFile {
    /// `None` where the file system has no unnamed files.
    file: Option<UnnamedFile>,
    /// Bytes in the file, and the offset of the first of the newest records.
    written: u64,
    /// The newest records, which are not in the file yet.
    newest: Vec<u8>,
    /// A copy of a part of the file, for the next reads.
    read_block: RecordFileBlock,
}

/// A copy of a part of the file.
#[derive(Debug, Default)]
struct RecordFileBlock {
    offset: u64,
    bytes: Vec<u8>,
}

impl RecordFileBlock {
    /// The bytes at this offset of the file, if all of them are here.
    fn get(&self, at: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(length)?)
    }

    /// Reads at least `length` bytes at this offset, and up to a block if the file goes to `end`.
    fn load(&mut self, file: &UnnamedFile, at: u64, length: usize, end: u64) -> io::Result<()> {
        let rest = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        self.bytes.clear();
        self.bytes.resize(rest.min(BLOCK).max(length), 0);
        self.offset = at;
        let read = read_exact_at(file, at, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}

impl RecordFile {
    /// A file in the file system of this directory.
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            file: UnnamedFile::create_in(or_current_directory(directory)).ok(),
            written: FIRST_RECORD,
            newest: Vec::new(),
            read_block: RecordFileBlock::default(),
        }
    }

    /// Whether more records than a block go to the disk.
    pub(super) fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// The offset for the next record.
    pub(super) fn end(&self) -> u64 {
        self.written + self.newest.len() as u64
    }

    /// Appends a record that consists of these parts, and returns its offset.
    ///
    /// # Errors
    /// Errors of the file system. The record is then not there, and the others still are.
    pub(super) fn append(&mut self, parts: &[&[u8]]) -> io::Result<u64> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.newest.len() + length > BLOCK {
            self.write_newest()?;
        }
        let at = self.end();
        for part in parts {
            self.newest.extend_from_slice(part);
        }
        Ok(at)
    }

    /// Bytes at an offset, from memory or from the file.
    pub(super) fn read(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        if let Some(start) = at.checked_sub(self.written) {
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            let rest = self.newest.get(start..).unwrap_or_default();
            return rest
                .get(..length)
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        }
        if self.read_block.get(at, length).is_none() {
            let file = self.file.as_ref().ok_or(io::ErrorKind::Unsupported)?;
            self.read_block.load(file, at, length, self.written)?;
        }
        let bytes = self.read_block.get(at, length);
        bytes.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Writes the newest records to the file, if there is one.
    fn write_newest(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        file.write_at(self.written, &[Bytes::copy_from_slice(&self.newest)])?;
        self.written += self.newest.len() as u64;
        self.newest.clear();
        Ok(())
    }
}

fn read_exact_at(file: &UnnamedFile, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = file.read_at(at, buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += read as u64;
        buffer = &mut buffer[read..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_records_share_a_write_and_a_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = RecordFile::new(dir.path());
        if !file.is_on_disk() {
            return;
        }
        let records: Vec<Vec<u8>> = (0..2_000u32)
            .map(|number| number.to_le_bytes().repeat(50))
            .collect();
        let (mut offsets, mut writes) = (Vec::new(), 0);
        for record in &records {
            let written = file.written;
            offsets.push(file.append(&[&record[..9], &record[9..]]).unwrap());
            writes += u32::from(file.written != written);
            assert!(file.newest.len() <= BLOCK);
        }
        let mut reads = 0;
        for (at, record) in offsets.iter().zip(&records) {
            let block = file.read_block.offset;
            assert_eq!(file.read(*at, record.len()).unwrap(), record);
            reads += u32::from(file.read_block.offset != block);
            assert!(file.read_block.bytes.len() <= BLOCK);
        }
        assert!(writes <= 7 && reads <= 8, "{writes} writes, {reads} reads");
    }

    #[test]
    fn without_a_file_all_records_stay_in_memory() {
        let mut file = RecordFile::new(Path::new("/dev/null/none"));
        assert!(!file.is_on_disk());
        let offsets: Vec<_> = (0..3_u8)
            .map(|number| file.append(&[&vec![number; BLOCK]]).unwrap())
            .collect();
        assert_eq!(file.read(offsets[1], BLOCK).unwrap(), vec![1; BLOCK]);
    }
}
