//! The file of a Unix socket.
//!
//! A file is removed only if it is the one that was examined: same device, same inode, same creation time. A short time passes between
//! the two, since the system has no call that does both.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The file of a socket that was created here. Dropping this removes it, if it is still the same file.
#[derive(Debug)]
pub struct SocketFile {
    /// Absolute, since the working directory may change.
    path: PathBuf,
    identity: SocketFileIdentity,
}

impl SocketFile {
    /// The socket that was just bound to an absolute path.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let identity = SocketFileIdentity::of(&fs::symlink_metadata(&path)?);
        Ok(Self { path, identity })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = remove_if(&self.path, self.identity) {
            tracing::warn!(path = %self.path.display(), %error, "the file of a socket could not be removed");
        }
    }
}

/// Removes a file if it has this identity. A missing file is no error.
pub(super) fn remove_if(path: &Path, identity: SocketFileIdentity) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if SocketFileIdentity::of(&metadata) == identity => fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Distinguishes a file from another that got the same inode number. The mtime of a socket is its creation: nobody writes to it, and
/// changed permissions count as ctime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketFileIdentity {
    device: u64,
    inode: u64,
    created: (i64, i64),
}

impl SocketFileIdentity {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            created: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_file_with_a_reused_inode_number_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let file = SocketFile::new(path.clone()).unwrap();
        let mut other = file.identity;
        other.created.1 ^= 1;
        remove_if(&path, other).unwrap();
        assert!(path.exists());
        drop(file);
        assert!(!path.exists());
    }
}
