//! Identifies versions of a file.
//!
//! **Entity tags.** A tag must change when the bytes do, and must not when they do not. Without
//! reading a file, the system reports its inode, its length and two times. Nothing can set the time
//! of its last change (`ctime`), so it reveals programs that reset the modification time. All of
//! these, hashed so that they tell a client nothing about this machine, are the tag. The only
//! changes that it cannot tell apart are two in place, within one tick of the file system's clock
//! and to the same length (since Linux 6.13 ticks are fine enough). The store's own uploads are new
//! files with unique times to the nanosecond, so they never collide. If an upload's digest is
//! known, the tag is derived from that instead, so that the same bytes uploaded again keep their
//! tag. A stored digest is bound to inode, length and modification time alone, since storing it
//! changes the ctime.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use haul_plan::{Checksum, EntityTag};
use rustix::fs::Stat;

use super::timestamps;

/// Distinguishes versions of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersionId {
    device: u64,
    inode: u64,
    len: u64,
    /// Modification time in nanoseconds.
    modified: i128,
    /// Time of change (ctime) in nanoseconds.
    changed: i128,
}

/// Metadata of a version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMetadata {
    /// Length in bytes.
    pub len: u64,
    /// Modification time.
    pub modified: SystemTime,
    /// A strong entity tag.
    pub etag: EntityTag,
    /// The digest of its bytes, if the upload was checked against one.
    pub digest: Option<Checksum>,
}

impl FileVersionId {
    /// Takes the identity from a file's `stat`.
    pub(super) fn from_stat(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: i128| i128::from(seconds) * 1_000_000_000 + rest;
        #[expect(clippy::cast_sign_loss, reason = "no file's length is negative")]
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: stat.st_size as u64,
            modified: nanoseconds(stat.st_mtime, i128::from(stat.st_mtime_nsec)),
            changed: nanoseconds(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
        }
    }

    /// Whether a digest may be stored with the file.
    pub(super) fn may_have_digest(&self) -> bool {
        timestamps::has_digest_mark(self.modified)
    }

    /// The text that binds a stored digest to this version. The ctime is not part of it: storing
    /// the digest changes that.
    pub(super) fn digest_binding(&self) -> String {
        format!("{} {} {}", self.inode, self.len, self.modified)
    }
}

impl FileMetadata {
    /// The metadata of a version.
    pub(super) fn new(identity: &FileVersionId, digest: Option<Checksum>) -> Self {
        Self {
            len: identity.len,
            modified: system_time(identity.modified),
            etag: entity_tag(identity, digest.as_ref()),
            digest,
        }
    }
}

/// Nanoseconds since 1970 as a time.
fn system_time(nanoseconds: i128) -> SystemTime {
    let size = Duration::from_nanos(u64::try_from(nanoseconds.unsigned_abs()).unwrap_or(u64::MAX));
    let time = if nanoseconds < 0 {
        UNIX_EPOCH.checked_sub(size)
    } else {
        UNIX_EPOCH.checked_add(size)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// The entity tag of a version: 16 bytes of a hash, without padding.
fn entity_tag(identity: &FileVersionId, digest: Option<&Checksum>) -> EntityTag {
    let mut hasher = blake3::Hasher::new();
    if let Some(digest) = digest {
        hasher.update(digest.algorithm.name().as_bytes());
        hasher.update(digest.digest.as_deref().unwrap_or_default());
    } else {
        hasher.update(&identity.device.to_le_bytes());
        hasher.update(&identity.inode.to_le_bytes());
        hasher.update(&identity.len.to_le_bytes());
        hasher.update(&identity.modified.to_le_bytes());
        hasher.update(&identity.changed.to_le_bytes());
    }
    let text = URL_SAFE_NO_PAD.encode(&hasher.finalize().as_bytes()[..16]);
    EntityTag::new_strong(text)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn version(path: &std::path::Path) -> FileVersionId {
        let file = File::open(path).expect("a file");
        FileVersionId::from_stat(&rustix::fs::fstat(file).expect("a look"))
    }

    fn meta(path: &std::path::Path) -> FileMetadata {
        FileMetadata::new(&version(path), None)
    }

    #[test]
    fn tags_change_with_the_bytes_even_if_the_time_is_reset() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("f");
        fs::write(&path, "one").expect("a file");
        let before = version(&path);
        assert_eq!(version(&path), before);
        let time = meta(&path).modified;
        let etag = meta(&path).etag;
        assert!(etag.is_strong());
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        let changes: [&dyn Fn(); 3] = [
            &|| {
                fs::write(&path, "two").expect("a change");
                let file = File::options().write(true).open(&path).expect("the file");
                file.set_modified(time).expect("its time put back");
            },
            &|| mode(0o600).expect("its rights"),
            &|| {
                let other = folder.path().join("g");
                let _ = fs::remove_file(&other);
                fs::hard_link(&path, other).expect("a second name");
            },
        ];
        let mut tags = vec![etag];
        for change in changes {
            let before = version(&path);
            // The file system's clock must have advanced, or nothing could tell the versions apart.
            while before == version(&path) {
                change();
            }
            assert_eq!(meta(&path).modified, time);
            assert!(!tags.contains(&meta(&path).etag));
            tags.push(meta(&path).etag);
        }
    }
}
