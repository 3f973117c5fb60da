//! Which version of a file it is that was opened.
//!
//! **Entity tags.** A tag must change when the bytes do, and must not when they do not. What the system tells of a file without
//! reading it is its inode, its length and two times. The time of its last change (`ctime`) can be set by nobody, so it betrays
//! programs that put the time of modification back. All four together, hashed so that they tell a client nothing about this machine,
//! are the tag; two changes of one file in place, within one tick of the file system's clock and to the same length, are the one thing that
//! they cannot tell apart (since Linux 6.13 ticks are as fine as needed). The store's own uploads are files of their own with a time of
//! their own, to the nanosecond, so those never meet. Where an upload's digest is known, the tag is made of that instead, and the
//! same bytes uploaded again keep their tag. A kept digest is bound to inode, length and time of modification alone, since keeping it
//! changes the time of change.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use haul_plan::{Checksum, EntityTag};
use rustix::fs::Stat;

use super::timestamps;

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileVersionId {
    device: u64,
    inode: u64,
    len: u64,
    /// Nanoseconds of the time of modification.
    modified: i128,
    /// Nanoseconds of the time of change.
    changed: i128,
}

/// What is known of a version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMetadata {
    /// Bytes.
    pub len: u64,
    /// When it was last written.
    pub modified: SystemTime,
    /// Strong.
    pub etag: EntityTag,
    /// A digest of its bytes, where one came with them and was compared.
    pub digest: Option<Checksum>,
}

impl FileVersionId {
    /// What the system tells of a file.
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

    /// Whether it may be worth asking for a digest that was kept.
    pub(super) fn may_have_digest(&self) -> bool {
        timestamps::has_digest_mark(self.modified)
    }

    /// What a digest that was kept beside a file must name to be this version's. The time of change is not among it: keeping the
    /// digest changes that.
    pub(super) fn digest_binding(&self) -> String {
        format!("{} {} {}", self.inode, self.len, self.modified)
    }
}

impl FileMetadata {
    /// What is known of a version.
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
    fn tags_change_with_bytes_even_where_the_time_is_put_back() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("f");
        fs::write(&path, "one").expect("a file");
        let before = version(&path);
        assert_eq!(version(&path), before);
        let time = meta(&path).modified;
        let tag = meta(&path).etag;
        assert!(tag.is_strong());
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
        let mut tags = vec![tag];
        for change in changes {
            let before = version(&path);
            // The file system's clock must have gone on, or nothing could tell.
            while before == version(&path) {
                change();
            }
            assert_eq!(meta(&path).modified, time);
            assert!(!tags.contains(&meta(&path).etag));
            tags.push(meta(&path).etag);
        }
    }
}
