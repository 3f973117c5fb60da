//! Who may do what with a file that is replaced: its successor is for the same people.
//!
//! A rename puts another file in the place of the old one, with other rights. Tools that write in place (curl, aria2) keep
//! those; so they are copied here: permission bits, and the owner where the system lets us.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// The rights of a file that is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePermissions {
    /// Permission bits. Those that let a file run as its owner are not for bytes that come from elsewhere.
    mode: u32,
    /// Owner and group.
    owner: (u32, u32),
}

impl FilePermissions {
    /// Those of the regular file that is there, if any.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let found = path
            .symlink_metadata()
            .ok()
            .filter(|found| found.is_file())?;
        Some(Self {
            mode: found.mode() & 0o777,
            owner: (found.uid(), found.gid()),
        })
    }

    /// Keeps a file that is not whole to ourselves: what it replaces may be private.
    pub(crate) fn restrict_to_owner(file: &File) {
        set_mode(file, 0o600);
    }

    /// Gives these rights to a whole file. Where the system does not let us, its bits are at most as wide as the old file's; a
    /// file system that knows no rights has none to lose, so nothing here is an error.
    pub(crate) fn apply(self, file: &File) {
        let (uid, gid) = self.owner;
        let Ok(now) = file.metadata() else { return };
        let mut mode = self.mode;
        if (now.uid(), now.gid()) != self.owner
            && fchown(file, Some(uid), Some(gid)).is_err()
            && now.gid() != gid
            && fchown(file, None, Some(gid)).is_err()
        {
            // These bits were meant for another group than the file has.
            mode &= !0o070;
        }
        set_mode(file, mode);
    }
}

fn set_mode(file: &File, mode: u32) {
    let _ = file.set_permissions(Permissions::from_mode(mode));
}
