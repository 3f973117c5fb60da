//! Reads and writes at an offset, for files that several workers use at once.

use std::fs::File;
use std::io::{self, IoSlice, Read as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

/// Writes the pieces with as few system calls as possible.
pub(super) fn write_all_at(file: &File, mut offset: u64, pieces: &[Bytes]) -> io::Result<()> {
    /// The kernel accepts 1024 slices in a call (`IOV_MAX`); fewer keep the array on the stack small.
    const SLICES: usize = 64;
    let mut rest = pieces;
    let mut skip = 0;
    while !rest.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = rest.len().min(SLICES);
        for (slot, piece) in slices.iter_mut().zip(rest) {
            *slot = IoSlice::new(piece);
        }
        slices[0] = IoSlice::new(&rest[0][skip..]);
        let mut written = match rustix::io::pwritev(file, &slices[..count], offset) {
            Ok(0) if slices[..count].iter().all(|s| s.is_empty()) => 0,
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        };
        offset += written as u64;
        written += skip;
        let mut whole = 0;
        while whole < count && written >= rest[whole].len() {
            written -= rest[whole].len();
            whole += 1;
        }
        rest = &rest[whole..];
        skip = written;
    }
    Ok(())
}

pub(super) fn read_some_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// The first bytes of a file, as many as it has; `None` if it cannot be read.
pub(crate) fn file_beginning(path: &Path, bytes: usize) -> Option<Vec<u8>> {
    let mut beginning = Vec::new();
    let mut file = File::open(path).ok()?.take(bytes as u64);
    file.read_to_end(&mut beginning).ok()?;
    Some(beginning)
}
