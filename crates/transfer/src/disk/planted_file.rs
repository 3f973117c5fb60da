//! Refuses files that another user may have planted.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use haul_plan::may_be_planted;

/// Refuses an open file that [may be planted](may_be_planted).
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] with the reason; the error of the system.
pub(crate) fn refuse_planted(file: &File, path: &Path) -> io::Result<()> {
    if is_planted(file.metadata()?.uid(), path)? {
        Err(refusal())
    } else {
        Ok(())
    }
}

/// Refuses a folder that haul has made for itself, or found under the name, where it is a link or may be planted.
///
/// # Errors
/// Those of [`refuse_planted`].
pub fn refuse_planted_folder(path: &Path) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    if !found.is_dir() || is_planted(found.uid(), path)? {
        Err(refusal())
    } else {
        Ok(())
    }
}

/// Whether a link may be planted: one that the kernel would not follow with `fs.protected_symlinks`.
pub(super) fn is_planted_link(path: &Path) -> bool {
    let owner = path.symlink_metadata().map(|link| link.uid());
    owner.is_ok_and(|owner| is_planted(owner, path).unwrap_or(true))
}

fn refusal() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "it belongs to another user, and others may write to its folder",
    )
}

/// Whether what belongs to `owner` may be planted, or is in a folder of his that may be.
fn is_planted(owner: u32, path: &Path) -> io::Result<bool> {
    let user = rustix::process::geteuid().as_raw();
    if owner == user {
        return Ok(false);
    }
    let path = std::path::absolute(path)?;
    for folder in path.ancestors().skip(1) {
        let folder = std::fs::metadata(folder)?;
        if may_be_planted(owner, user, folder.uid(), folder.mode()) {
            return Ok(true);
        }
        if folder.uid() != owner {
            break;
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use url::Url;

    use super::*;
    use crate::disk::{DownloadPaths, PartialFile};
    use crate::journal::{UnusableJournal, load_journal};

    const OTHER: u32 = 12_345;

    /// A folder in which everybody may create files, and only owners remove them. `None` without the right to give files away.
    fn shared_folder() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let probe = dir.path().join("probe");
        std::fs::write(&probe, "").unwrap();
        chown(&probe, Some(OTHER), None).is_ok().then_some(dir)
    }

    #[test]
    fn files_in_a_folder_of_another_user_are_refused_where_he_may_have_planted_it() {
        let Some(dir) = shared_folder() else {
            return;
        };
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("f.part");
        std::fs::write(&path, "planted").unwrap();
        for path in [&path, &folder] {
            chown(path, Some(OTHER), None).unwrap();
        }
        assert!(PartialFile::open(&path).is_err());
        assert!(refuse_planted_folder(&folder).is_err());
        let own = dir.path().join("own");
        std::fs::create_dir(&own).unwrap();
        refuse_planted_folder(&own).unwrap();
        symlink(&own, dir.path().join("link")).unwrap();
        assert!(refuse_planted_folder(&dir.path().join("link")).is_err());
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_where_he_may_have_planted_it() {
        let Some(dir) = shared_folder() else {
            return;
        };
        let link = dir.path().join("link");
        symlink("target", &link).unwrap();
        let resolved = || DownloadPaths::following_links(link.clone());
        assert_eq!(resolved().path(), dir.path().join("target"));
        lchown(&link, Some(OTHER), None).unwrap();
        assert_eq!(resolved().path(), link);
    }

    #[test]
    fn files_of_another_user_are_refused_where_only_owners_remove() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.part");
        std::fs::write(&path, "planted").unwrap();
        if chown(&path, Some(OTHER), None).is_err() {
            // Only root may give files away.
            return;
        }
        for (mode, is_refused) in [(0o1777, true), (0o755, false)] {
            std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            let opened = PartialFile::open(&path).map(drop).map_err(|e| e.kind());
            let expected = if is_refused {
                Err(io::ErrorKind::PermissionDenied)
            } else {
                Ok(())
            };
            assert_eq!(opened, expected, "{mode:o}");
            let url = Url::parse("http://localhost/").unwrap();
            let unreadable = matches!(
                load_journal(&path, &url),
                Err(UnusableJournal::Unreadable(_))
            );
            assert_eq!(unreadable, is_refused, "{mode:o}");
        }
    }
}
