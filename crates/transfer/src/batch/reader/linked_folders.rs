//! Finds links among the folders that the files of a batch are to be written into.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::disk::directory_of;

/// The most folders that are remembered. Beyond that, all are forgotten and looked at again when needed.
const MAX_FOLDERS: usize = 4096;

/// Remembers the folders that are none, so that a batch does not look at them for every file.
#[derive(Debug, Default)]
pub(super) struct LinkedFolders {
    /// Folders that exist, and to which no link leads from the batch's directory.
    plain: HashSet<OsString>,
}

impl LinkedFolders {
    /// The first link on the way from the batch's directory to a file below it. The directory itself may be one: the user has named it.
    pub(super) fn find(&mut self, directory: &Path, file: &Path) -> Option<PathBuf> {
        let folder = directory_of(file);
        if folder == directory || self.plain.contains(folder.as_os_str()) {
            return None;
        }
        let mut at = directory.to_owned();
        for component in folder.strip_prefix(directory).ok()? {
            at.push(component);
            match at.symlink_metadata() {
                Ok(found) if found.is_symlink() => return Some(at),
                Ok(_) => {}
                // It will be created.
                Err(_) => return None,
            }
        }
        if self.plain.len() >= MAX_FOLDERS {
            self.plain.clear();
        }
        self.plain.insert(folder.into());
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_first_link_below_the_directory_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("plain/inner")).unwrap();
        symlink(dir.path(), top.join("plain/link")).unwrap();
        symlink("nowhere", top.join("dangling")).unwrap();
        symlink(&top, dir.path().join("linked-top")).unwrap();
        for directory in [top, dir.path().join("linked-top")] {
            let mut folders = LinkedFolders::default();
            let mut find = |path: &str| {
                let found = folders.find(&directory, &directory.join(path))?;
                Some(found.strip_prefix(&directory).unwrap().to_owned())
            };
            for path in ["f", "plain/f", "plain/inner/f", "new/inner/f"] {
                assert_eq!(find(path), None, "{path}");
            }
            for (path, link) in [
                ("plain/link/f", "plain/link"),
                ("plain/link/top/f", "plain/link"),
                ("dangling/f", "dangling"),
            ] {
                assert_eq!(find(path), Some(link.into()), "{path}");
            }
        }
    }

    #[test]
    fn the_working_directory_has_no_name() {
        let mut folders = LinkedFolders::default();
        assert_eq!(folders.find(Path::new(""), Path::new("f")), None);
        assert_eq!(folders.find(Path::new(""), Path::new("src/f")), None);
    }
}
