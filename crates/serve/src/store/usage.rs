//! What a tree holds: the lengths of its files, each name counted.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// Folders within folders that are looked into: each holds a descriptor open.
const DEEPEST: usize = 256;

/// Bytes in all files beneath a folder. What cannot be looked at counts nothing.
pub(super) fn of(folder: impl AsFd) -> u64 {
    beneath(folder, DEEPEST)
}

fn beneath(folder: impl AsFd, depth: usize) -> u64 {
    let folder = folder.as_fd();
    let Ok(entries) = Dir::read_from(folder) else {
        return 0;
    };
    let mut sum = 0_u64;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let more = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => stat.st_size.try_into().unwrap_or(0),
            FileType::Directory if depth > 0 => {
                open(folder, name).map_or(0, |inner| beneath(&inner, depth - 1))
            }
            _ => 0,
        };
        sum = sum.saturating_add(more);
    }
    sum
}

fn open(folder: impl AsFd, name: &std::ffi::CStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).ok()
}
