//! The names of a download, and the rename from the temporary to the final one.
//!
//! `NAME` is always a complete file. While a download runs or waits to be resumed, `NAME.haul-part` (the bytes) and
//! `NAME.haul-journal` (which of them are on disk) are next to it. All three are in one directory, so that the last step is
//! a rename within one file system: atomic, and without copying.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::planted_file::is_planted_link;

/// The longest file name, in bytes (`NAME_MAX` on Linux, macOS and Windows alike).
const NAME_MAX: usize = 255;

/// The names that one download uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadPaths {
    /// The name the user requested.
    path: PathBuf,
}

impl DownloadPaths {
    /// Names for a download to `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Names for a download that replaces the file at `path`. If that is a symbolic link, the download replaces the link's
    /// target, which need not exist yet, and the link stays, as with every tool that writes in place.
    #[must_use]
    pub fn following_links(path: PathBuf) -> Self {
        let mut at = path.clone();
        // The kernel follows as many.
        for _ in 0..40 {
            match std::fs::read_link(&at) {
                // The kernel may be set up not to follow it (`fs.protected_symlinks`); haul resolves links itself.
                Ok(_) if is_planted_link(&at) => return Self::new(at),
                Ok(to) => at = at.parent().unwrap_or_else(|| Path::new("")).join(to),
                Err(_) => return Self::new(at),
            }
        }
        // The links form a loop.
        Self::new(path)
    }

    /// The final name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The temporary name of the file.
    #[must_use]
    pub fn partial(&self) -> PathBuf {
        self.with_suffix(".haul-part")
    }

    /// The journal's name.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.with_suffix(".haul-journal")
    }

    /// The name for bytes with a wrong checksum (row B9).
    #[must_use]
    pub fn bad_checksum(&self) -> PathBuf {
        self.with_suffix(".haul-bad-checksum")
    }

    /// The temporary name of a file that replaces another, for the moment before the rename.
    #[must_use]
    pub fn replacement(&self) -> PathBuf {
        self.with_suffix(".haul-fresh")
    }

    /// The directory that holds all of them.
    #[must_use]
    pub fn directory(&self) -> &Path {
        directory_of(&self.path)
    }

    /// Gives the partial file its final name. [`DownloadPaths::sync_directory`] then makes the name survive a power cut.
    ///
    /// If `replace` is false, a file that has appeared meanwhile is kept, atomically where the system can.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name exists and `replace` is false; else the error of the system.
    pub fn publish(&self, replace: bool) -> io::Result<()> {
        let partial = self.partial();
        if replace {
            std::fs::rename(&partial, &self.path)
        } else {
            rename_no_replace(&partial, &self.path)
        }
    }

    /// Makes renames and removals in the directory durable, among them the rename of `file`. File systems that cannot sync a
    /// directory order these operations themselves, so their refusal is not an error.
    pub(crate) fn sync_directory(&self, file: &File) -> io::Result<()> {
        sync_directory(self.directory(), Some(file))
    }

    /// The ancestors of that directory, which may be as new as the file is.
    pub(crate) fn parent_directories(&self) -> impl Iterator<Item = &Path> {
        self.directory()
            .ancestors()
            .skip(1)
            .map(or_current_directory)
    }

    /// `NAME` with a suffix. If that is too long for a file name, a digest replaces `NAME`.
    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = self
            .path
            .file_name()
            .map_or_else(OsString::new, OsString::from);
        if name.len() + suffix.len() > NAME_MAX {
            let digest = blake3::hash(name.as_encoded_bytes()).to_hex();
            name = OsString::from(&digest[..32]);
        }
        name.push(suffix);
        self.path.with_file_name(name)
    }
}

pub(crate) fn directory_of(path: &Path) -> &Path {
    or_current_directory(path.parent().unwrap_or_else(|| Path::new("")))
}

/// A relative path without a directory is in the working directory, `.`.
pub(crate) fn or_current_directory(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    }
}

/// Removes a file that may be gone already.
pub(crate) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes the names in a directory durable. If it cannot be opened, syncs the file system of `file` instead.
pub(crate) fn sync_directory(directory: &Path, file: Option<&File>) -> io::Result<()> {
    match (File::open(directory), file) {
        (Ok(directory), _) => match directory.sync_all() {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            other => other,
        },
        (Err(_), Some(file)) => sync_file_system(file),
        (Err(error), None) => Err(error),
    }
}

/// For a directory that may be written but not read, or when no descriptor is left to open it: syncs the whole file system
/// of an open file. The bytes are complete, and must not be lost because no descriptor is left.
fn sync_file_system(file: &File) -> io::Result<()> {
    rustix::fs::syncfs(file)?;
    file.sync_all()
}

/// Renames in one system call that fails if the new name exists.
fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems do not support this flag.
        Err(Errno::INVAL | Errno::NOSYS) => link_no_replace(from, to),
        other => Ok(other?),
    }
}

/// A hard link fails when the name exists. Where hard links are not supported either, a check and a rename must do.
fn link_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(e),
        Err(_) if to.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::rename(from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_in_the_directory_of_the_final_name() {
        let target = DownloadPaths::new("some/dir/file.iso".into());
        assert_eq!(target.partial(), Path::new("some/dir/file.iso.haul-part"));
        assert_eq!(
            target.journal(),
            Path::new("some/dir/file.iso.haul-journal")
        );
        assert_eq!(target.directory(), Path::new("some/dir"));
        assert_eq!(
            DownloadPaths::new("bare".into()).directory(),
            Path::new(".")
        );
    }

    #[test]
    fn temporary_names_of_a_name_of_full_length_are_not_too_long() {
        let target = DownloadPaths::new(PathBuf::from("d").join("n".repeat(255)));
        for path in [target.partial(), target.journal(), target.bad_checksum()] {
            assert!(path.file_name().unwrap().len() <= NAME_MAX);
        }
        assert_ne!(
            target.partial(),
            DownloadPaths::new(PathBuf::from("d").join("m".repeat(255))).partial()
        );
    }

    #[test]
    fn a_link_is_followed_to_its_target_and_a_loop_of_links_is_not() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        symlink("sub/second", at("first")).unwrap();
        symlink(at("sub/file"), at("sub/second")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for (path, target) in [("first", "sub/file"), ("plain", "plain"), ("loop", "loop")] {
            assert_eq!(DownloadPaths::following_links(at(path)).path(), at(target));
        }
    }

    #[test]
    fn publishing_without_replace_keeps_an_existing_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = DownloadPaths::new(dir.path().join("f"));
        std::fs::write(target.partial(), "new").unwrap();
        std::fs::write(target.path(), "theirs").unwrap();
        let file = File::open(target.partial()).unwrap();
        let kind = target.publish(false).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(target.path()).unwrap(), b"theirs");
        target.publish(true).unwrap();
        target.sync_directory(&file).unwrap();
        assert_eq!(std::fs::read(target.path()).unwrap(), b"new");
        assert!(!target.partial().exists());
    }

    #[test]
    fn the_fallback_without_renameat2_keeps_an_existing_file() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&from, "new").unwrap();
        std::fs::write(&to, "theirs").unwrap();
        assert_eq!(
            link_no_replace(&from, &to).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        std::fs::remove_file(&to).unwrap();
        link_no_replace(&from, &to).unwrap();
        assert!(!from.exists() && std::fs::read(&to).unwrap() == b"new");
    }
}
