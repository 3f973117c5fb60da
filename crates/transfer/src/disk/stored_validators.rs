//! The validators stored with a finished file: its time, and in an extended attribute the resource that it is from and the
//! entity tag.
//!
//! The time is Last-Modified, as wget and `curl -R` set it. For an S3 object that was uploaded from a file, it is the time of that file.
//! The attribute `user.haul.from` begins with a digest of the URL: haul notices if a list gives the same name to another URL. The size
//! and time of the file follow, and the entity tag, if there was one. The tag no longer applies once the file is edited. Setting the
//! attribute takes 3 µs, a sixteenth of the time for a small file.

use std::fmt;
use std::fs::{File, FileTimes, Metadata};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use haul_plan::{ResourceVersion, UnixTime};
use url::Url;

use super::file_notes::{read_note, write_note};
use super::permissions::FilePermissions;
use super::storage::StorageWrapping;
use crate::layout::ResourceId;
use crate::listed_version::NotedVersion;

const ATTRIBUTE: &str = "user.haul.from";

/// The validators of a file, for the conditional request of `--update`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredValidators {
    /// The entity tag, if the file was not edited.
    pub(crate) etag: Option<String>,
    /// When the file was last modified.
    pub(crate) modified: SystemTime,
    /// Whether its size and time are those that haul stored.
    pub(crate) is_unedited: bool,
}

impl StoredValidators {
    /// The same with this entity tag, if there is none.
    pub(crate) fn or_etag(self, etag: Option<String>) -> Self {
        Self {
            etag: self.etag.or(etag),
            ..self
        }
    }
}

/// What a file system keeps of a finished file beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptMetadata {
    /// Whether it has the time that it should have.
    pub(crate) time: bool,
    /// Whether it has the attribute.
    pub(crate) attribute: bool,
}

/// The text of a finished file's attribute, without the size and time, which are known when it is written.
#[derive(Debug)]
pub(crate) struct FileNote {
    resource: ResourceId,
    etag: Option<String>,
    /// The time that the file should have, if its file system did not take it.
    lost_time: Option<UnixTime>,
    /// Whether there is anything to compare the file with.
    has_validator: bool,
    pub(crate) kept: KeptMetadata,
}

impl FileNote {
    /// Writes it into `directory`, if the attribute could not be written. That fails silently: then the file is fetched again.
    pub(crate) fn write_beside(&self, file: &File, path: &Path, directory: Option<&Path>) {
        if let Some(directory) = directory.filter(|_| !self.kept.attribute && self.has_validator) {
            let _ = write_note(directory, path, &self.text(SizeAndTime::of_file(file)));
        }
    }

    fn text(&self, file: Option<SizeAndTime>) -> String {
        let mut text = self.resource.to_string();
        if let Some(size_and_time) = file.filter(|_| self.has_validator) {
            text = format!("{text} {size_and_time}");
            if let Some(time) = self.lost_time {
                text = format!("{text}:{}", time.nanoseconds());
            }
            if let Some(etag) = &self.etag {
                text = format!("{text} {etag}");
            }
        }
        text
    }
}

/// Whether a file system is known to keep times of whole seconds: one of its files kept a time whose seconds are odd, and some file
/// systems have steps of two.
#[derive(Debug, Default)]
pub(crate) struct KeptSeconds(AtomicBool);

/// What is known of a file without a look at it, which takes a fiftieth of the time for a small file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownLength<'a> {
    pub(crate) length: u64,
    pub(crate) seconds: &'a KeptSeconds,
}

impl KnownLength<'_> {
    /// The size and time to trust for a file whose time was set to `modified`.
    fn trusted(self, modified: UnixTime) -> Option<SizeAndTime> {
        self.seconds
            .0
            .load(Ordering::Relaxed)
            .then_some(SizeAndTime {
                length: self.length,
                modified: Some(modified).filter(|time| is_whole_second(*time))?,
            })
    }

    fn note_kept(self, modified: UnixTime) {
        if is_whole_second(modified) && modified.whole_seconds() % 2 != 0 {
            self.seconds.0.store(true, Ordering::Relaxed);
        }
    }
}

fn is_whole_second(time: UnixTime) -> bool {
    time.nanoseconds() % 1_000_000_000 == 0
}

/// Stores the validators of a finished file, downloaded from `url`. `storage` may refuse to keep them, as some file systems do.
///
/// An object of S3 may know the time and the permissions of the file that it was uploaded from: the file gets them. Without the
/// attribute the time of the object is better, since a sync compares it.
pub(crate) fn store_validators(
    file: &File,
    version: &ResourceVersion,
    url: &Url,
    storage: &StorageWrapping,
    known: Option<KnownLength<'_>>,
) -> FileNote {
    let last_modified = version
        .last_modified
        .as_deref()
        .and_then(|date| httpdate::parse_http_date(date).ok());
    let original = version.original.as_deref().filter(|_| url.scheme() == "s3");
    if let Some(permissions) = original.and_then(|original| original.permissions) {
        FilePermissions::apply_original(file, permissions);
    }
    let original_time = original.and_then(|original| original.modified);
    let keeps = !storage.lacks_metadata();
    let store = |modified| store_time_and_tag(file, version, url, keeps, known, modified);
    let note = store(original_time.or(last_modified));
    if !note.kept.attribute && original_time.is_some() {
        store(last_modified)
    } else {
        note
    }
}

/// Sets the time, and writes the attribute.
fn store_time_and_tag(
    file: &File,
    version: &ResourceVersion,
    url: &Url,
    keeps: bool,
    known: Option<KnownLength<'_>>,
    modified: Option<SystemTime>,
) -> FileNote {
    let set = |modified| file.set_times(FileTimes::new().set_modified(modified));
    let is_set = keeps && modified.is_some_and(|modified| set(modified).is_ok());
    let wanted = modified.map(UnixTime::from);
    let has_validator = modified.is_some() || version.etag.is_some();
    // Some file systems round times, or refuse them silently.
    let trusted = || known?.trusted(wanted.filter(|_| is_set)?);
    let found = if has_validator {
        trusted().or_else(|| SizeAndTime::of_file(file))
    } else {
        None
    };
    let lost_time = wanted.filter(|wanted| found.map(|found| found.modified) != Some(*wanted));
    if let (Some(known), Some(kept), None) = (known, wanted, lost_time) {
        known.note_kept(kept);
    }
    let mut note = FileNote {
        resource: ResourceId::from_url(url),
        etag: version.etag_text(),
        lost_time,
        has_validator,
        kept: KeptMetadata {
            time: lost_time.is_none(),
            attribute: false,
        },
    };
    note.kept.attribute = keeps && write_attribute(file, &note.text(found));
    note
}

/// The validators of the file at `path`, for a request for `resource`. `None` if there is no file, or it is from another
/// resource: its time and tag say nothing about this one.
///
/// `notes` is the directory of notes about files whose file system has no attributes.
pub(crate) fn load_validators(
    path: &Path,
    resource: ResourceId,
    notes: Option<&Path>,
) -> Option<StoredValidators> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let modified = metadata.modified().ok()?;
    let value = read_attribute(&file)
        .or_else(|| read_note(notes?, path))
        .unwrap_or_default();
    let mut fields = value.splitn(3, ' ');
    let stored_resource = fields.next().and_then(ResourceId::parse);
    if stored_resource.is_some_and(|stored_resource| stored_resource != resource) {
        return None;
    }
    let stored = fields.next().map(StoredTime::parse);
    let is_unedited = stored
        .as_ref()
        .is_some_and(|stored| SizeAndTime::is_noted(&metadata, stored.size_and_time));
    let lost_time = stored.and_then(|stored| stored.lost_time);
    let etag = fields.next().filter(|_| is_unedited);
    Some(StoredValidators {
        etag: etag.map(str::to_owned),
        modified: lost_time.filter(|_| is_unedited).unwrap_or(modified),
        is_unedited,
    })
}

/// What is noted of a file, if it was downloaded from `resource`. `metadata` is that of the file. Takes one system call.
pub(crate) fn noted_download(
    path: &Path,
    metadata: &Metadata,
    resource: ResourceId,
) -> Option<NotedVersion> {
    let mut value = [0; 4096];
    let length = rustix::fs::getxattr(path, ATTRIBUTE, &mut value[..]).ok()?;
    let mut fields = str::from_utf8(value.get(..length)?).ok()?.splitn(3, ' ');
    if fields.next().and_then(ResourceId::parse) != Some(resource) {
        return None;
    }
    Some(NotedVersion {
        size: metadata.len(),
        modified: metadata.modified().ok(),
        is_unedited_download: fields.next().is_some_and(|stored| {
            SizeAndTime::is_noted(metadata, StoredTime::parse(stored).size_and_time)
        }),
        entity_tag: fields.next().map(str::to_owned),
    })
}

/// The entity tag without its quotes of a file that was downloaded from `resource` and has not been edited since.
pub(crate) fn stored_entity_tag(
    path: &Path,
    metadata: &Metadata,
    resource: ResourceId,
) -> Option<String> {
    let noted = noted_download(path, metadata, resource)?;
    let tag = noted.entity_tag.filter(|_| noted.is_unedited_download)?;
    Some(tag.trim_matches('"').to_owned())
}

/// The resource that a file was downloaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// There is no file at the path.
    NoFile,
    /// Nothing is known about the file.
    Unknown,
    /// Downloaded from this resource.
    Resource(ResourceId),
}

/// Finds the owner of the file at a path. It takes one system call if there is no file, or a file with the attribute.
pub(crate) fn file_owner(path: &Path) -> FileOwner {
    use rustix::fs::{getxattr, lgetxattr};
    let mut value = [0; 4096];
    let mut length = lgetxattr(path, ATTRIBUTE, &mut value[..]);
    if length == Err(rustix::io::Errno::NOENT) {
        return FileOwner::NoFile;
    }
    if length.is_err() {
        // A link has no attribute; its target may have one.
        length = getxattr(path, ATTRIBUTE, &mut value[..]);
    }
    let value = length.ok().and_then(|length| value.get(..length));
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    let resource_text = value.and_then(|value| value.split(' ').next());
    resource_text
        .and_then(ResourceId::parse)
        .map_or(FileOwner::Unknown, FileOwner::Resource)
}

/// Returns whether the file system has such attributes.
fn write_attribute(file: &File, value: &str) -> bool {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(file, ATTRIBUTE, value.as_bytes(), flags).is_ok()
}

fn read_attribute(file: &File) -> Option<String> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::fgetxattr(file, ATTRIBUTE, value.as_mut_slice()).ok()?;
    value.truncate(length);
    String::from_utf8(value).ok()
}

/// The second word of the attribute.
struct StoredTime<'a> {
    /// What the file had then.
    size_and_time: &'a str,
    /// The time that it should have had.
    lost_time: Option<SystemTime>,
}

impl<'a> StoredTime<'a> {
    fn parse(word: &'a str) -> Self {
        let lost = word.match_indices(':').nth(1).map(|(at, _)| at);
        let lost_time = lost.and_then(|at| {
            let nanoseconds: i128 = word[at + 1..].parse().ok()?;
            UnixTime::from_nanoseconds(nanoseconds).to_system_time()
        });
        Self {
            size_and_time: &word[..lost.unwrap_or(word.len())],
            lost_time,
        }
    }
}

/// The size and time of a file. Printed, they are one word.
#[derive(Debug, Clone, Copy)]
struct SizeAndTime {
    length: u64,
    modified: UnixTime,
}

impl SizeAndTime {
    fn of(metadata: &Metadata) -> Option<Self> {
        Some(Self {
            length: metadata.len(),
            modified: metadata.modified().ok()?.into(),
        })
    }

    fn of_file(file: &File) -> Option<Self> {
        Self::of(&file.metadata().ok()?)
    }

    /// Whether this word is what was noted of a file that has not been edited since.
    fn is_noted(metadata: &Metadata, word: &str) -> bool {
        Self::of(metadata).is_some_and(|now| now.to_string() == word)
    }
}

impl fmt::Display for SizeAndTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.length, self.modified.nanoseconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::{Duration, UNIX_EPOCH};

    fn resource_id(url: &str) -> ResourceId {
        ResourceId::from_url(&url.parse().unwrap())
    }

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn version(etag: &str) -> ResourceVersion {
        ResourceVersion {
            etag: etag.parse().ok(),
            last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            ..ResourceVersion::default()
        }
    }

    #[test]
    fn b11_files_are_looked_at_until_one_has_kept_an_odd_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"abc").unwrap();
        let seconds = KeptSeconds::default();
        let address = "http://h.test/f";
        let is_looked_at = |last_modified: &str| {
            let version = ResourceVersion {
                last_modified: Some(last_modified.into()),
                ..ResourceVersion::default()
            };
            // Who looks at the file finds another length.
            let known = KnownLength {
                length: 999,
                seconds: &seconds,
            };
            let storage = StorageWrapping::default();
            store_validators(&file, &version, &url(address), &storage, Some(known));
            load_validators(&path, resource_id(address), None).map(|found| found.is_unedited)
        };
        let (even, odd) = (
            "Sun, 06 Nov 1994 08:49:36 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT",
        );
        if is_looked_at(even) == Some(false) {
            // This file system has no attributes.
            return;
        }
        let looked_at = [even, odd, odd, even].map(|time| is_looked_at(time) == Some(true));
        assert_eq!(looked_at, [true, true, false, false]);
    }

    #[test]
    fn b6_stored_time_and_tag_are_loaded_until_the_file_is_edited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"abc").unwrap();
        let (resource, other_resource) = (
            resource_id("http://h.test/f"),
            resource_id("http://h.test/g"),
        );
        store_validators(
            &file,
            &version("\"v1\""),
            &url("http://h.test/f"),
            &StorageWrapping::default(),
            None,
        );
        let found = load_validators(&path, resource, None).unwrap();
        assert_eq!(
            found.modified,
            UNIX_EPOCH + Duration::from_secs(784_111_777)
        );
        // Not every file system has attributes.
        assert!(found.etag.is_none() || found.etag.as_deref() == Some("\"v1\""));
        assert_eq!(found.is_unedited, found.etag.is_some());
        file.write_all(b"d").unwrap();
        let edited = load_validators(&path, resource, None).unwrap();
        assert_eq!((edited.etag, edited.is_unedited), (None, false));
        assert_eq!(
            load_validators(&dir.path().join("none"), resource, None),
            None
        );
        if file_owner(&path) != FileOwner::Unknown {
            assert_eq!(load_validators(&path, other_resource, None), None);
        }
    }

    #[test]
    fn c4_the_owner_of_a_file_is_known_from_its_attribute_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(file_owner(&path), FileOwner::NoFile);
        let file = File::create(&path).unwrap();
        assert_eq!(file_owner(&path), FileOwner::Unknown);
        let resource = resource_id("http://h.test/f");
        for version in [ResourceVersion::default(), version("W/\"v 1\"")] {
            store_validators(
                &file,
                &version,
                &url("http://h.test/f"),
                &StorageWrapping::default(),
                None,
            );
            // This file system has no attributes.
            if file_owner(&path) == FileOwner::Unknown {
                return;
            }
            assert_eq!(file_owner(&path), FileOwner::Resource(resource));
            let tag = load_validators(&path, resource, None).unwrap().etag;
            assert_eq!(tag, version.etag_text());
        }
        std::os::unix::fs::symlink("f", dir.path().join("link")).unwrap();
        assert_eq!(
            file_owner(&dir.path().join("link")),
            FileOwner::Resource(resource)
        );
        std::os::unix::fs::symlink("none", dir.path().join("lost")).unwrap();
        assert_eq!(file_owner(&dir.path().join("lost")), FileOwner::Unknown);
    }

    #[test]
    fn an_object_gives_back_the_time_and_permissions_of_its_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let written = UNIX_EPOCH + Duration::new(1_000_000_000, 5_000_000);
        let version = ResourceVersion {
            original: Some(Box::new(haul_plan::OriginalFile {
                modified: Some(written),
                permissions: Some(0o777),
            })),
            ..version("\"v1\"")
        };
        for (address, is_object) in [("http://h.test/f", false), ("s3://bucket/f", true)] {
            let file = File::create(&path).unwrap();
            file.set_permissions(std::fs::Permissions::from_mode(0o640))
                .unwrap();
            store_validators(
                &file,
                &version,
                &url(address),
                &StorageWrapping::default(),
                None,
            );
            let metadata = file.metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            let expected = if is_object { 0o750 } else { 0o640 };
            assert_eq!(mode, expected, "{address}");
            let resource = resource_id(address);
            let tag = stored_entity_tag(&path, &metadata, resource);
            // Not every file system has attributes: then the time is that of the object.
            let is_original = metadata.modified().unwrap() == written;
            assert_eq!(is_original, is_object && tag.is_some(), "{address}");
            assert!(tag.is_none() || tag.as_deref() == Some("v1"));
            let other = resource_id("s3://bucket/g");
            assert_eq!(stored_entity_tag(&path, &metadata, other), None);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
