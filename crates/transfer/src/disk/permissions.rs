//! The permissions of a file that is replaced: the new file gets the same.
//!
//! A rename puts a new file in the place of the old one, with the permissions of the new one. Tools that write in place
//! (curl, aria2) keep those of the old file. So the permission bits are copied, and the owner where the system allows it.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// The permissions of a file that is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePermissions {
    /// Permission bits, without set-user-ID and set-group-ID: downloaded bytes must not run as the owner of the old file.
    mode: u32,
    /// Owner and group.
    owner: (u32, u32),
}

impl FilePermissions {
    /// The permissions of the regular file at this path, if there is one.
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

    /// Makes an unfinished file readable by its owner only: the file that it replaces may be private.
    pub(crate) fn restrict_to_owner(file: &File) {
        set_mode(file, 0o600);
    }

    /// Gives a new file these permission bits, as far as it would have got them from the process: the bits for reading and writing that
    /// it has not got are those that the umask takes, and nobody may execute what he may not read.
    pub(crate) fn apply_original(file: &File, permissions: u32) {
        let Ok(current) = file.metadata() else { return };
        let readable = current.mode() & 0o444;
        set_mode(file, permissions & (current.mode() | readable >> 2) & 0o777);
    }

    /// Gives a complete file these permissions. Where the system does not allow it, the new bits permit at most what the old
    /// ones did. A file system without permissions cannot lose any, so nothing here is an error.
    pub(crate) fn apply(self, file: &File) {
        let (uid, gid) = self.owner;
        let Ok(current) = file.metadata() else { return };
        let mut mode = self.mode;
        if (current.uid(), current.gid()) != self.owner
            && fchown(file, Some(uid), Some(gid)).is_err()
            && current.gid() != gid
            && fchown(file, None, Some(gid)).is_err()
        {
            // These bits are for the old file's group, and the new file has another one.
            mode &= !0o070;
        }
        set_mode(file, mode);
    }
}

fn set_mode(file: &File, mode: u32) {
    let _ = file.set_permissions(Permissions::from_mode(mode));
}
