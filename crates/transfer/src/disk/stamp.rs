//! What a finished file remembers of the origin: its time, and its entity tag where the file system has attributes.
//!
//! The time is Last-Modified, as wget and `curl -R` set it. The tag lies in the attribute `user.haul.etag` together with
//! the size and time that the file had then: a file that was edited since no longer has that tag.

use std::fs::{File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_plan::Version;

/// The attribute's name.
#[cfg(unix)]
const ATTRIBUTE: &str = "user.haul.etag";

/// What `--update` can ask about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// The entity tag, if the file is still the one that had it.
    pub(crate) etag: Option<String>,
    /// When the file was last modified.
    pub(crate) modified: SystemTime,
}

/// Marks a finished file of this many bytes. A file system that cannot hold the marks costs `--update` a download, nothing else: no
/// error.
pub(crate) fn stamp(file: &File, version: &Version, length: u64) {
    let modified = version
        .last_modified
        .as_deref()
        .and_then(|date| httpdate::parse_http_date(date).ok());
    let set = modified.filter(|modified| {
        let times = FileTimes::new().set_modified(*modified);
        file.set_times(times).is_ok()
    });
    #[cfg(unix)]
    if let Some(etag) = &version.etag
        && let Some(state) = set.map_or_else(|| state(file), |set| Some(state_of(length, set)))
    {
        let value = format!("{state} {etag}");
        let _ = rustix::fs::fsetxattr(
            file,
            ATTRIBUTE,
            value.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        );
    }
}

/// What is known about a file; `None` if there is none.
pub(crate) fn remembered(path: &Path) -> Option<Remembered> {
    let file = File::open(path).ok()?;
    let modified = file.metadata().ok()?.modified().ok()?;
    Some(Remembered {
        etag: etag(&file),
        modified,
    })
}

#[cfg(unix)]
fn etag(file: &File) -> Option<String> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::fgetxattr(file, ATTRIBUTE, value.as_mut_slice()).ok()?;
    let value = std::str::from_utf8(value.get(..length)?).ok()?;
    let (then, etag) = value.split_once(' ')?;
    (then == state(file)?).then(|| etag.to_owned())
}

#[cfg(not(unix))]
fn etag(_file: &File) -> Option<String> {
    None
}

/// Size and time, as one word.
#[cfg(unix)]
fn state(file: &File) -> Option<String> {
    let metadata = file.metadata().ok()?;
    Some(state_of(metadata.len(), metadata.modified().ok()?))
}

#[cfg(unix)]
fn state_of(length: u64, modified: SystemTime) -> String {
    let since = modified
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    format!("{length}:{}", since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn version(etag: &str) -> Version {
        Version {
            etag: etag.parse().ok(),
            last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            ..Version::default()
        }
    }

    #[test]
    fn b6_a_stamped_file_remembers_time_and_tag_until_it_is_edited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"abc").unwrap();
        stamp(&file, &version("\"v1\""), 3);
        let found = remembered(&path).unwrap();
        assert_eq!(
            found.modified,
            UNIX_EPOCH + Duration::from_secs(784_111_777)
        );
        // Attributes are the file system's gift; where there are none, none is remembered.
        assert!(found.etag.is_none() || found.etag.as_deref() == Some("\"v1\""));
        file.write_all(b"d").unwrap();
        assert_eq!(remembered(&path).unwrap().etag, None);
        assert_eq!(remembered(&dir.path().join("none")), None);
    }
}
