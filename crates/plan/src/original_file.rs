//! What the metadata of an object says about the file that it was uploaded from.
//!
//! rclone and haul write `x-amz-meta-mtime` with seconds and a fraction, s3cmd and haul `x-amz-meta-s3cmd-attrs` with fields such as
//! `mode:33188/mtime:1700000000`.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName};

use crate::unix_time::UnixTime;

/// The modification, in seconds since 1970.
const MODIFIED: HeaderName = HeaderName::from_static("x-amz-meta-mtime");

/// The fields of s3cmd.
const S3CMD_ATTRIBUTES: HeaderName = HeaderName::from_static("x-amz-meta-s3cmd-attrs");

/// The file that an object was uploaded from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginalFile {
    pub modified: Option<SystemTime>,
    /// Who might read, write and execute it: the last nine bits of its mode, and no others.
    pub permissions: Option<u32>,
}

impl OriginalFile {
    /// What the header fields of a response say; `None` if they say nothing.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        // Most responses have no metadata, which one look at the names shows.
        if !headers
            .keys()
            .any(|name| name.as_str().starts_with("x-amz-meta-"))
        {
            return None;
        }
        let text = |name: HeaderName| headers.get(name)?.to_str().ok();
        let attributes = text(S3CMD_ATTRIBUTES).unwrap_or_default();
        let attribute = |name: &str| {
            let mut fields = attributes
                .split('/')
                .filter_map(|field| field.split_once(':'));
            fields.find_map(|(found, value)| (found == name).then_some(value))
        };
        let time = text(MODIFIED).or_else(|| attribute("mtime"));
        let mode: Option<u32> = attribute("mode").and_then(|mode| mode.parse().ok());
        let original = Self {
            modified: time.and_then(|text| text.parse::<UnixTime>().ok()?.to_system_time()),
            permissions: mode.map(|mode| mode & 0o777),
        };
        (original.modified.is_some() || original.permissions.is_some()).then_some(original)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn original(fields: &[(&'static str, &str)]) -> Option<OriginalFile> {
        let field = |(name, value): &(&'static str, &str)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        };
        OriginalFile::from_headers(&fields.iter().map(field).collect())
    }

    #[test]
    fn the_fields_of_rclone_and_s3cmd_are_read() {
        let at = |seconds, nanos| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        let rclone = original(&[("x-amz-meta-mtime", "1700000000.123456789")]).unwrap();
        assert_eq!(rclone.modified, Some(at(1_700_000_000, 123_456_789)));
        assert_eq!(rclone.permissions, None);
        let attributes = "atime:1/mode:35309/mtime:1700000000/uid:0";
        let s3cmd = original(&[("x-amz-meta-s3cmd-attrs", attributes)]).unwrap();
        assert_eq!(s3cmd.modified, Some(at(1_700_000_000, 0)));
        assert_eq!(s3cmd.permissions, Some(0o755), "no set-user-ID");
        let before = original(&[("x-amz-meta-mtime", "-1.5")]).unwrap();
        let expected = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(before.modified, Some(expected));
        assert_eq!(original(&[("x-amz-meta-mtime", "yesterday")]), None);
        assert_eq!(
            original(&[("x-amz-meta-mtime", "99999999999999999999")]),
            None
        );
        assert_eq!(original(&[]), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(time in "[-0-9.+e]{0,24}", attributes in "[a-z:/0-9]{0,24}") {
            original(&[("x-amz-meta-mtime", &time), ("x-amz-meta-s3cmd-attrs", &attributes)]);
        }
    }
}
