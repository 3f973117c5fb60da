//! The names of a download and the step from the temporary to the final one.
//!
//! `NAME` is only ever a whole file. Beside it, while a download runs or waits to be resumed, lie `NAME.haul-partial`
//! (the bytes) and `NAME.haul-journal` (which of them are on disk). All three are in one directory, so that the last
//! step is a rename within one file system: atomic, and without copying.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// What a file system takes as one name, in bytes (`NAME_MAX` on Linux, macOS and Windows alike).
const NAME_MAX: usize = 255;

/// The names that one download uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadPaths {
    /// The name the user requested.
    path: PathBuf,
}

impl DownloadPaths {
    /// Names for a download that shall end at `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Names for a download that shall replace what is at `path`: where that is a symbolic link, the file that it leads to,
    /// which may not be there yet. The link stays, as with every tool that writes in place.
    #[must_use]
    pub fn following_links(path: PathBuf) -> Self {
        let mut at = path.clone();
        // As many as the kernel follows.
        for _ in 0..40 {
            match std::fs::read_link(&at) {
                Ok(to) => at = at.parent().unwrap_or_else(|| Path::new("")).join(to),
                Err(_) => return Self::new(at),
            }
        }
        // A ring leads nowhere.
        Self::new(path)
    }

    /// The final name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The temporary name of the bytes.
    #[must_use]
    pub fn partial(&self) -> PathBuf {
        self.with_ending(".haul-part")
    }

    /// The journal's name.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.with_ending(".haul-journal")
    }

    /// Where bytes go that turned out not to be the file meant: a name that says so (row B9).
    #[must_use]
    pub fn bad_checksum(&self) -> PathBuf {
        self.with_ending(".haul-bad-checksum")
    }

    /// A name that a file which replaces another has for a moment.
    #[must_use]
    pub fn replacement(&self) -> PathBuf {
        self.with_ending(".haul-fresh")
    }

    /// The directory that holds all of them.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) => or_current_directory(parent),
            None => Path::new("."),
        }
    }

    /// Gives the partial file its final name, which [`DownloadPaths::sync_directory`] makes survive a power cut.
    ///
    /// With `replace` false a file that appeared meanwhile is kept, atomically where the system can.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name is taken; else what the system says.
    pub fn publish(&self, replace: bool) -> io::Result<()> {
        let part = self.partial();
        if replace {
            std::fs::rename(&part, &self.path)
        } else {
            rename_no_replace(&part, &self.path)
        }
    }

    /// Makes renames and removals in the directory durable, one of `file` among them. File systems that cannot sync a
    /// directory order these themselves, so their refusal is no error.
    pub(crate) fn sync_directory(&self, file: &File) -> io::Result<()> {
        sync_directory(self.directory(), Some(file))
    }

    /// The directories above that one, which may be as new as the file is.
    pub(crate) fn parent_directories(&self) -> impl Iterator<Item = &Path> {
        self.directory()
            .ancestors()
            .skip(1)
            .map(or_current_directory)
    }

    /// `NAME` with an ending; where that is too long for a name, a digest of `NAME` stands for it.
    fn with_ending(&self, ending: &str) -> PathBuf {
        let mut name = self
            .path
            .file_name()
            .map_or_else(OsString::new, OsString::from);
        if name.len() + ending.len() > NAME_MAX {
            let digest = blake3::hash(name.as_encoded_bytes()).to_hex();
            name = OsString::from(&digest[..32]);
        }
        name.push(ending);
        self.path.with_file_name(name)
    }
}

/// The working directory has no name in a relative path.
pub(crate) fn or_current_directory(directory: &Path) -> &Path {
    match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    }
}

/// Makes the names in a directory durable, by a file of its file system where it cannot be opened.
pub(crate) fn sync_directory(directory: &Path, file: Option<&File>) -> io::Result<()> {
    match (File::open(directory), file) {
        (Ok(directory), _) => match directory.sync_all() {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        },
        (Err(_), Some(file)) => sync_file_system(file),
        (Err(error), None) => Err(error),
    }
}

/// For a directory that may be written to but not read, or when there is no descriptor left for it: its whole file system by the
/// one that is open. The bytes are all there, and must not be lost for want of a descriptor.
fn sync_file_system(file: &File) -> io::Result<()> {
    rustix::fs::syncfs(file)?;
    file.sync_all()
}

/// Renames unless the new name is taken, in one step of the kernel's.
fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some network file systems have no such rename.
        Err(Errno::INVAL | Errno::NOSYS) => link_no_replace(from, to),
        other => Ok(other?),
    }
}

/// A hard link fails when the name is taken; where links are unknown, a check and a rename must do.
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
    fn names_lie_beside_the_final_one() {
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
    fn a_name_of_full_length_still_has_room_for_its_companions() {
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
    fn what_links_lead_to_is_replaced_and_a_ring_leads_nowhere() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        symlink("sub/second", at("first")).unwrap();
        symlink(at("sub/file"), at("sub/second")).unwrap();
        symlink("ring", at("ring")).unwrap();
        for (path, leads) in [("first", "sub/file"), ("plain", "plain"), ("ring", "ring")] {
            assert_eq!(DownloadPaths::following_links(at(path)).path(), at(leads));
        }
    }

    #[test]
    fn publishing_keeps_a_file_that_appeared_meanwhile() {
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
    fn the_plain_fallback_keeps_it_too() {
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
