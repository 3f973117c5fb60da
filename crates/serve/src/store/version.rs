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
//!
//! # Upload timestamps
//!
//! A file system's clock ticks some hundred times a second, and an inode number is reused as soon
//! as it is free. So two uploads of one key within a tick could look the same. Each upload
//! therefore gets a time to the nanosecond, later than that of the one before.
//!
//! The nanoseconds also say whether a digest or attributes ([`attribute_records`](super::attribute_records)) are
//! stored with the file. Reading a file's attributes
//! may read a block of the disk, while its times come with its length: if the time has no mark, the
//! attributes are not read. One in a thousand files of other programs has the mark by chance;
//! reading its attributes then finds nothing.
//!
//! # Stored digests
//!
//! If a client sends a digest and the body matches it, the digest is kept: later responses carry
//! it, and the entity tag can be derived from it. It is an extended attribute of the file, so it
//! moves and disappears with the file. It names the version that it belongs to, so a file that
//! another program wrote to afterwards has none. File systems without extended attributes store no
//! digests.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use haul_plan::{Checksum, EntityTag, UnixTime};
use rustix::fs::{Stat, Timespec, Timestamps, UTIME_OMIT, XattrFlags};

use super::StoreError;
use super::attributes::ObjectAttributes;

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMetadata {
    /// Length in bytes.
    pub len: u64,
    pub modified: SystemTime,
    /// A strong entity tag.
    pub etag: EntityTag,
    /// The digest of its bytes, if the upload was checked against one.
    pub digest: Option<Checksum>,
    /// What the upload said about the object, if it came by S3.
    pub attributes: Option<Arc<ObjectAttributes>>,
}

impl FileVersionId {
    /// Takes the identity from a file's `stat`.
    pub(super) fn from_stat(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: u64| {
            let rest = i64::try_from(rest).unwrap_or_default();
            UnixTime::from_stat(seconds, rest).nanoseconds()
        };
        #[expect(clippy::cast_sign_loss, reason = "no file's length is negative")]
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: stat.st_size as u64,
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether it is the same file with the same bytes; its attributes may differ.
    pub(super) fn is_same_content(&self, other: &Self) -> bool {
        (self.inode, self.len, self.modified) == (other.inode, other.len, other.modified)
    }

    /// The number of the file in its file system.
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether a digest or attributes may be stored with the file.
    pub(super) fn may_have_digest(&self) -> bool {
        has_digest_mark(self.modified)
    }

    /// The text that binds a stored digest to this version. The ctime is not part of it: storing
    /// the digest changes that.
    pub(super) fn digest_binding(&self) -> String {
        format!("{} {} {}", self.inode, self.len, self.modified)
    }
}

impl FileMetadata {
    pub(super) fn new(
        identity: &FileVersionId,
        digest: Option<Checksum>,
        attributes: Option<Arc<ObjectAttributes>>,
    ) -> Self {
        Self {
            len: identity.len,
            modified: UnixTime::from_nanoseconds(identity.modified)
                .to_system_time()
                .unwrap_or(UNIX_EPOCH),
            etag: entity_tag(identity, digest.as_ref()),
            digest,
            attributes,
        }
    }
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

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// The mark: the nanoseconds modulo 1024 of files with a digest.
const DIGEST_REMAINDER: i64 = 517;

/// Whether an upload's time has the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestTimestampMark {
    /// No digest is stored.
    Absent,
    /// A digest is stored.
    Present,
}

/// Hands out times.
#[derive(Debug, Default)]
pub(super) struct UploadTimestamps {
    /// The last time, in nanoseconds since 1970: good until 2262.
    last: AtomicI64,
}

impl UploadTimestamps {
    /// The current time, or soon after: later than the last one.
    pub(super) fn next(&self, mark: DigestTimestampMark) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX - 1);
        let later = |last: i64| {
            let from = now.max(last + 1);
            (from..).find(|time| is_marked(*time) == (mark == DigestTimestampMark::Present))
        };
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let next = last.ok().and_then(later).unwrap_or(now);
        Timespec {
            tv_sec: next / NANOS_PER_SECOND,
            tv_nsec: next % NANOS_PER_SECOND,
        }
    }
}

/// Whether a modification time, in nanoseconds since 1970, has the mark.
pub(super) fn has_digest_mark(modified: i128) -> bool {
    let nanoseconds = modified.rem_euclid(i128::from(NANOS_PER_SECOND));
    nanoseconds % 1024 == i128::from(DIGEST_REMAINDER)
}

fn is_marked(time: i64) -> bool {
    has_digest_mark(time.into())
}

const DIGEST_ATTRIBUTE: &str = "user.haul.digest";

/// Maximum bytes of its value: a version and a SHA-512.
const MAX_ATTRIBUTE_BYTES: usize = 400;

/// The stored digest, if it belongs to this version of the file.
pub(super) fn read_stored_digest(file: impl AsFd, version: &FileVersionId) -> Option<Checksum> {
    let mut buffer = [0; MAX_ATTRIBUTE_BYTES];
    let length = rustix::fs::fgetxattr(file, DIGEST_ATTRIBUTE, &mut buffer).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    let (of, checksum) = text.split_once(';')?;
    let checksum: Checksum = checksum.parse().ok()?;
    (of == version.digest_binding() && checksum.digest.is_some()).then_some(checksum)
}

/// Stores a digest for this version. Failures are ignored: the digest is not part of the file.
pub(super) fn store_digest(file: impl AsFd, version: &FileVersionId, checksum: &Checksum) {
    let hex = checksum.digest.as_deref().map(haul_digest::hex);
    let Some(hex) = hex else { return };
    let text = format!("{};{}:{hex}", version.digest_binding(), checksum.algorithm);
    if let Err(error) =
        rustix::fs::fsetxattr(file, DIGEST_ATTRIBUTE, text.as_bytes(), XattrFlags::empty())
    {
        tracing::debug!(%error, "a digest could not be stored");
    }
}

/// Sets a file's modification time.
pub(super) fn set_modified(file: &File, modified: Timespec) -> Result<(), StoreError> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: modified,
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;

    fn version(path: &std::path::Path) -> FileVersionId {
        let file = File::open(path).expect("a file");
        FileVersionId::from_stat(&rustix::fs::fstat(file).expect("a look"))
    }

    fn meta(path: &std::path::Path) -> FileMetadata {
        FileMetadata::new(&version(path), None, None)
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

    proptest! {
        #[test]
        fn only_times_with_digests_are_marked(
            last in 0..NANOS_PER_SECOND * 3,
            marks in proptest::collection::vec(any::<bool>(), 1..50),
        ) {
            // Far ahead of the clock, so that the last time counts; the range crosses a second.
            let start = 4_000_000_000 * NANOS_PER_SECOND + last;
            let timestamps = UploadTimestamps { last: AtomicI64::new(start) };
            let mut before = start;
            for with_digest in marks {
                let time = timestamps.next(if with_digest { DigestTimestampMark::Present } else { DigestTimestampMark::Absent });
                let now = time.tv_sec * NANOS_PER_SECOND + time.tv_nsec;
                prop_assert!(before < now && now - before < 3000);
                prop_assert_eq!(is_marked(now), with_digest);
                before = now;
            }
        }
    }

    #[test]
    fn timestamps_are_unique_and_current() {
        let timestamps = UploadTimestamps::default();
        let all: Vec<_> = (0..1000)
            .map(|_| timestamps.next(DigestTimestampMark::Absent))
            .map(|time| (time.tv_sec, time.tv_nsec))
            .collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        assert!(all[0].0.unsigned_abs().abs_diff(now.as_secs()) < 100);
    }
}
