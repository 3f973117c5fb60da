//! The folders of uploads in parts, in `.haul/multipart`: their names, and how they are removed.
//!
//! A kill leaves an upload or none. A folder gets the name that is the identifier when it has its
//! description, and loses it, in one step, before anything in it is removed: a repeated request
//! never finds some files of an upload that has ended. The next start removes folders of other names.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::StoreError;
use super::root::unlink;
use super::stored_upload::DATA;

/// The folder of uploads, in the store's own.
pub(super) const FOLDER: &str = "multipart";

/// The beginning of a folder's name that is not an upload yet, or no longer.
pub(super) const UNNAMED: &str = ".";

pub(super) const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes uploads that had ended or not begun when their process was killed. Returns their number.
/// `room` is the store's own folder. No other process may use it.
pub(super) fn remove_ended(room: &OwnedFd) -> Result<usize, StoreError> {
    let all = match rustix::fs::openat(room, FOLDER, FOLDER_FLAGS, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(0),
        other => other?,
    };
    let mut removed = 0;
    for name in file_names(&all)? {
        let name = name.to_string_lossy();
        let data = rustix::fs::statat(&all, format!("{name}/{DATA}"), AtFlags::SYMLINK_NOFOLLOW);
        let is_complete = data.is_ok_and(|data| data.st_nlink > 1);
        if name.starts_with(UNNAMED) || is_complete {
            remove_upload(&all, &name)?;
            removed += 1;
        }
    }
    Ok(removed)
}

pub(super) fn remove_upload(all: &OwnedFd, name: &str) -> Result<(), StoreError> {
    let unnamed = format!("{UNNAMED}{}", name.trim_start_matches(UNNAMED));
    rustix::fs::renameat(all, name, all, unnamed.as_str())?;
    let folder = rustix::fs::openat(all, unnamed.as_str(), FOLDER_FLAGS, Mode::empty())?;
    for name in file_names(&folder)? {
        unlink(&folder, name.to_bytes(), AtFlags::empty())?;
    }
    Ok(unlink(all, unnamed.as_bytes(), AtFlags::REMOVEDIR)?)
}

/// The names in a folder, read before it is changed.
fn file_names(folder: &OwnedFd) -> Result<Vec<CString>, StoreError> {
    let entries = Dir::read_from(folder)?.filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_owned());
    Ok(names
        .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
        .collect())
}

/// Whether a folder's name is the identifier of an upload.
pub(super) fn is_upload_id(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
