//! Notes about finished files in a directory of haul's own, for file systems without extended attributes (row B11).
//!
//! A note has the text that the attribute would have, and its name is a digest of the file's path. It counts only while the file has the
//! size and time that it names, as the attribute does.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// No note is longer.
const MAX_NOTE: u64 = 8 << 10;

/// Writes the note about the file at `path`.
pub(crate) fn write_note(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    let note = note_path(directory, path)?;
    std::fs::create_dir_all(directory)?;
    // A reader gets the old note or the new one. Two writers of one note have the same file.
    let temporary = note.with_extension(std::process::id().to_string());
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, &note)
}

/// The note about the file at `path`, if there is one.
pub(crate) fn read_note(directory: &Path, path: &Path) -> Option<String> {
    let file = std::fs::File::open(note_path(directory, path).ok()?).ok()?;
    let mut text = String::new();
    file.take(MAX_NOTE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn note_path(directory: &Path, path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let digest = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    Ok(directory.join(&digest[..32]))
}
