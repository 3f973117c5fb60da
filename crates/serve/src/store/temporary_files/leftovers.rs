//! Removes the temporary files of a process that was killed: in `.haul`, and in the folders that it
//! recorded.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};

use crate::store::StoreError;
use crate::store::root::{StoreRoot, unlink};
use crate::{ObjectKey, RESERVED_PREFIX};

/// Removes leftover temporary files. Returns their number.
pub(super) fn remove_leftovers(root: &StoreRoot, room: &OwnedFd) -> Result<usize, StoreError> {
    let mut removed = remove_temporaries(room)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(strays) = rustix::fs::openat(room, "strays", flags, Mode::empty()) else {
        return Ok(removed);
    };
    let mut all_done = true;
    for line in std::io::BufRead::lines(std::io::BufReader::new(File::from(strays))) {
        let Ok(line) = line else { break };
        // The line was cut off, or the folder is gone or not mounted now.
        let Ok(path) = ObjectKey::parse(&line) else {
            continue;
        };
        match root.open_folder(&path.key) {
            Ok(folder) => removed += remove_temporaries(&folder)?,
            Err(error) => {
                tracing::warn!(folder = %path.key, %error, "temporary files may be left in a folder");
                all_done = matches!(error, StoreError::NotFound | StoreError::Conflict) && all_done;
            }
        }
    }
    if all_done {
        unlink(room, b"strays", AtFlags::empty())?;
    }
    Ok(removed)
}

/// Removes temporary files from one folder.
fn remove_temporaries(folder: &OwnedFd) -> Result<usize, StoreError> {
    let mut removed = 0;
    // Collects the names first: reading a directory while it changes is not defined.
    let names: Vec<_> = Dir::read_from(folder)?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| name.to_bytes().starts_with(RESERVED_PREFIX.as_bytes()))
        .collect();
    for name in names {
        unlink(
            folder,
            OsStr::from_bytes(name.to_bytes()).as_bytes(),
            AtFlags::empty(),
        )?;
        removed += 1;
    }
    Ok(removed)
}
