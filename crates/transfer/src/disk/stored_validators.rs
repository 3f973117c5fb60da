//! What a finished file remembers of the origin: its time, and where the file system has attributes, whose it is and its entity tag.
//!
//! The time is Last-Modified, as wget and `curl -R` set it. The attribute `user.haul.from` begins with a digest of the URL: under a
//! name that another list gives another URL, the file still is that of this one. The size and time that the file had then follow, and the
//! tag, if there was one: a file that was edited since no longer has that tag. The attribute costs 3 µs, a sixteenth
//! of the time for a small file.

use std::fs::{File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_plan::{ResourceId, ResourceVersion};

/// The attribute's name.
const ATTRIBUTE: &str = "user.haul.from";

/// What `--update` can ask about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredValidators {
    /// The entity tag, if the file is still the one that had it.
    pub(crate) etag: Option<String>,
    /// When the file was last modified.
    pub(crate) modified: SystemTime,
    /// Whether size and time are those that haul left.
    pub(crate) is_unedited: bool,
}

/// Marks a finished file of this many bytes, which `from` brought. A file system that cannot hold the marks costs `--update` a download, nothing else: no
/// error.
pub(crate) fn store_validators(
    file: &File,
    version: &ResourceVersion,
    length: u64,
    from: ResourceId,
) {
    let modified = version
        .last_modified
        .as_deref()
        .and_then(|date| httpdate::parse_http_date(date).ok());
    let set = modified.filter(|modified| {
        let times = FileTimes::new().set_modified(*modified);
        file.set_times(times).is_ok()
    });
    let mut value = from.to_string();
    let state = match set {
        Some(set) => Some(format_size_and_time(length, set)),
        None => version.etag.as_ref().and_then(|_| size_and_time(file)),
    };
    if let Some(state) = state {
        value = format!("{value} {state}");
        if let Some(etag) = &version.etag {
            value = format!("{value} {etag}");
        }
    }
    write_attribute(file, &value);
}

/// What is known about a file that is to be asked about at `from`; `NoFile` if there is none, or it is another URL's, of which that
/// one's time and tag say nothing.
pub(crate) fn load_validators(path: &Path, from: ResourceId) -> Option<StoredValidators> {
    let file = File::open(path).ok()?;
    let modified = file.metadata().ok()?.modified().ok()?;
    let value = read_attribute(&file).unwrap_or_default();
    let mut words = value.splitn(3, ' ');
    let whose = words.next().and_then(ResourceId::parse);
    if whose.is_some_and(|whose| whose != from) {
        return None;
    }
    let state = words.next();
    let is_unedited = state.is_some_and(|then| size_and_time(&file).as_deref() == Some(then));
    let etag = words.next().filter(|_| is_unedited);
    Some(StoredValidators {
        etag: etag.map(str::to_owned),
        modified,
        is_unedited,
    })
}

/// The owner of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// There is no file, or a link to nothing.
    NoFile,
    /// Something of which nothing is known.
    Unknown,
    /// What came from there.
    Resource(ResourceId),
}

/// Finds the owner of the file at a path: one call where there is none, or a marked one.
pub(crate) fn file_owner(path: &Path) -> FileOwner {
    use rustix::fs::{getxattr, lgetxattr};
    let mut value = [0; 4096];
    let mut length = lgetxattr(path, ATTRIBUTE, &mut value[..]);
    if length == Err(rustix::io::Errno::NOENT) {
        return FileOwner::NoFile;
    }
    if length.is_err() {
        // A link has no mark; what it leads to may have one.
        length = getxattr(path, ATTRIBUTE, &mut value[..]);
    }
    let value = length.ok().and_then(|length| value.get(..length));
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    let word = value.and_then(|value| value.split(' ').next());
    word.and_then(ResourceId::parse)
        .map_or(FileOwner::Unknown, FileOwner::Resource)
}

fn write_attribute(file: &File, value: &str) {
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::fsetxattr(file, ATTRIBUTE, value.as_bytes(), flags);
}

fn read_attribute(file: &File) -> Option<String> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::fgetxattr(file, ATTRIBUTE, value.as_mut_slice()).ok()?;
    value.truncate(length);
    String::from_utf8(value).ok()
}

/// Size and time, as one word.
fn size_and_time(file: &File) -> Option<String> {
    let metadata = file.metadata().ok()?;
    Some(format_size_and_time(
        metadata.len(),
        metadata.modified().ok()?,
    ))
}

fn format_size_and_time(length: u64, modified: SystemTime) -> String {
    let since = modified
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    format!("{length}:{}", since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn from(url: &str) -> ResourceId {
        ResourceId::from_url(&url.parse().unwrap())
    }

    fn version(etag: &str) -> ResourceVersion {
        ResourceVersion {
            etag: etag.parse().ok(),
            last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            ..ResourceVersion::default()
        }
    }

    #[test]
    fn b6_a_stamped_file_remembers_time_and_tag_until_it_is_edited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"abc").unwrap();
        let (here, there) = (from("http://h.test/f"), from("http://h.test/g"));
        store_validators(&file, &version("\"v1\""), 3, here);
        let found = load_validators(&path, here).unwrap();
        assert_eq!(
            found.modified,
            UNIX_EPOCH + Duration::from_secs(784_111_777)
        );
        // Attributes are the file system's gift; where there are none, none is remembered.
        assert!(found.etag.is_none() || found.etag.as_deref() == Some("\"v1\""));
        assert_eq!(found.is_unedited, found.etag.is_some());
        file.write_all(b"d").unwrap();
        let edited = load_validators(&path, here).unwrap();
        assert_eq!((edited.etag, edited.is_unedited), (None, false));
        assert_eq!(load_validators(&dir.path().join("none"), here), None);
        if file_owner(&path) != FileOwner::Unknown {
            assert_eq!(load_validators(&path, there), None);
        }
    }

    #[test]
    fn c4_a_stamped_file_says_whose_it_is_and_others_say_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(file_owner(&path), FileOwner::NoFile);
        let file = File::create(&path).unwrap();
        assert_eq!(file_owner(&path), FileOwner::Unknown);
        let here = from("http://h.test/f");
        for version in [ResourceVersion::default(), version("W/\"v 1\"")] {
            store_validators(&file, &version, 0, here);
            // Attributes are the file system's gift.
            if file_owner(&path) == FileOwner::Unknown {
                return;
            }
            assert_eq!(file_owner(&path), FileOwner::Resource(here));
            let tag = load_validators(&path, here).unwrap().etag;
            assert_eq!(tag, version.etag.as_ref().map(ToString::to_string));
        }
        std::os::unix::fs::symlink("f", dir.path().join("link")).unwrap();
        assert_eq!(
            file_owner(&dir.path().join("link")),
            FileOwner::Resource(here)
        );
        std::os::unix::fs::symlink("none", dir.path().join("lost")).unwrap();
        assert_eq!(file_owner(&dir.path().join("lost")), FileOwner::Unknown);
    }
}
