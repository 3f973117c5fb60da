//! The one call that maps a file.
#![expect(
    unsafe_code,
    reason = "a mapping of a file cannot be made otherwise; measured: a tenth of the CPU of reading and writing for large bodies"
)]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps all of a file, to be read.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: what lies in the mapping may change while it exists, and it may lose pages; so nothing may look at it as at memory that
    // stands still. Nothing does: only addresses within it are compared, and ranges of the file sent in its place.
    // See this module's parent.
    unsafe { Mmap::map(file) }
}
