//! The tar header and padding around an entry's content.
//!
//! The header block comes from the `tar` crate. Its `Builder` is not used: dropping a `Builder` writes the end of an
//! archive, which an interrupted shard must not have, and a `Builder` cannot take back an entry that failed half way. A
//! name that does not fit into a plain header, or that is not ASCII, goes into a pax record (POSIX 2001) in front. GNU
//! tar, bsdtar, Python and Go read pax records, and names in them are UTF-8 by definition.

use std::path::{Component, Path};

use tar::{EntryType, Header};

use super::error::ArchiveError;

/// Everything in a tar file is a multiple of this many bytes.
pub(super) const BLOCK: usize = 512;

/// Two zero blocks end an archive.
pub(super) static END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// The longest name of an entry, in bytes: the longest path that Linux takes.
const MAX_NAME: usize = 4096;

/// The first size that does not fit into a plain header, which has eleven octal digits for it.
const MIN_PAX_SIZE: u64 = 1 << 33;

/// The zeros that follow content of this length.
pub(super) fn padding(length: u64) -> &'static [u8] {
    let over = usize::try_from(length % BLOCK as u64).unwrap_or_default();
    &END[..(BLOCK - over) % BLOCK]
}

/// Turns a path into the name of an entry.
///
/// # Errors
/// [`ArchiveError::InvalidName`] when some system could not unpack the entry below a directory.
pub(super) fn entry_name(path: &Path) -> Result<String, ArchiveError> {
    let refused = |what| ArchiveError::InvalidName {
        path: path.to_owned(),
        what,
    };
    let mut components = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                components.push(name.to_str().ok_or_else(|| refused("it is not UTF-8"))?)
            }
            Component::CurDir => {}
            _ => return Err(refused("it points outside the archive")),
        }
    }
    let name = components.join("/");
    match name.len() {
        0 => Err(refused("it is empty")),
        length if length > MAX_NAME => Err(refused("it is too long")),
        _ if name.contains('\0') => Err(refused("it contains a NUL byte")),
        _ => Ok(name),
    }
}

/// The header blocks in front of a file's content. `mtime` is in seconds since 1970.
pub(super) fn entry_header(name: &str, length: u64, mtime: u64) -> Vec<u8> {
    let mut header = ustar_header(EntryType::Regular, length, mtime);
    let fits = name.is_ascii() && header.set_path(name).is_ok();
    let mut records = String::new();
    if !fits {
        header = ustar_header(EntryType::Regular, length, mtime);
        set_truncated_name(&mut header, name);
        records.push_str(&pax_record("path", name));
    }
    if length >= MIN_PAX_SIZE {
        records.push_str(&pax_record("size", &length.to_string()));
    }
    header.set_cksum();
    let mut blocks = Vec::with_capacity(BLOCK);
    if !records.is_empty() {
        let length = records.len() as u64;
        let mut pax = ustar_header(EntryType::XHeader, length, mtime);
        set_truncated_name(&mut pax, "PaxHeader");
        pax.set_cksum();
        blocks.extend_from_slice(pax.as_bytes());
        blocks.extend_from_slice(records.as_bytes());
        blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
    }
    blocks.extend_from_slice(header.as_bytes());
    blocks
}

/// A plain header, still without a name.
fn ustar_header(kind: EntryType, length: u64, mtime: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(length);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(mtime);
    header
}

/// Puts as much of a name into the header as fits, for readers that ignore the pax record with the whole name.
fn set_truncated_name(header: &mut Header, name: &str) {
    let Some(header) = header.as_ustar_mut() else {
        return;
    };
    let front = &name[..name.floor_char_boundary(header.name.len())];
    let front = front.trim_end_matches('/').as_bytes();
    header.name[..front.len()].copy_from_slice(front);
}

/// One pax record: its own length in decimal digits, its key and its value.
fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + " =\n".len();
    let mut length = rest + digits(rest);
    // Adding the digits can make the length one digit longer.
    length = rest + digits(length);
    format!("{length} {key}={value}\n")
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_pax_record_includes_its_own_digits() {
        for length in 0..2000 {
            let record = pax_record("path", &"v".repeat(length));
            let stated: usize = record.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(stated, record.len());
        }
    }

    #[test]
    fn names_that_point_outside_are_refused() {
        for bad in ["", ".", "/etc/passwd", "../x", "a/../b", "a\0b"] {
            assert!(
                matches!(
                    entry_name(Path::new(bad)),
                    Err(ArchiveError::InvalidName { .. })
                ),
                "{bad:?}"
            );
        }
        assert!(entry_name(Path::new(&"n".repeat(4097))).is_err());
        assert_eq!(entry_name(Path::new("./a//b/./c")).unwrap(), "a/b/c");
        assert_eq!(
            entry_name(Path::new(&"n".repeat(4096))).unwrap().len(),
            4096
        );
    }

    #[test]
    fn a_plain_name_takes_one_block_and_other_names_a_pax_record() {
        let long = format!("{}/{}", "d".repeat(150), "f".repeat(100));
        assert_eq!(entry_header("a", 1, 2).len(), 512);
        assert_eq!(
            entry_header(&long, 1, 2).len(),
            512,
            "split into prefix and name"
        );
        assert_eq!(entry_header(&"f".repeat(101), 1, 2).len(), 3 * 512);
        assert_eq!(entry_header("ä", 1, 2).len(), 3 * 512);
        assert_eq!(entry_header("a", (1 << 33) - 1, 2).len(), 512);
        assert_eq!(entry_header("a", 1 << 33, 2).len(), 3 * 512);
    }

    /// No test disk has room for such an entry: this reads the header alone.
    #[test]
    fn a_size_above_eight_gibibytes_is_read_back() {
        let size = (1 << 33) + 7;
        let blocks = entry_header("large", size, 2);
        let mut archive = tar::Archive::new(&blocks[..]);
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.size(), size);
        assert_eq!(
            Header::from_byte_slice(&blocks[1024..])
                .entry_size()
                .unwrap(),
            size
        );
    }
}
