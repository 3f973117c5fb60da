//! The header fields of requests that store a file: those of all files, and what follows from the name and the file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use haul_plan::UnixTime;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// The fields of requests that store files.
#[derive(Debug, Clone, Default)]
pub struct ObjectHeaders {
    /// For all files. Without a Content-Type each has that of its name.
    pub common: HeaderMap,
    /// Whether the time and mode of a file are kept in the metadata, as rclone and s3cmd do.
    pub keeps_attributes: bool,
}

impl ObjectHeaders {
    /// The fields of a file with this name.
    pub(crate) fn for_file(&self, name: &Path, metadata: Option<&Metadata>) -> HeaderMap {
        let mut headers = self.common.clone();
        if !headers.contains_key(CONTENT_TYPE) {
            let guessed = mime_guess::from_path(name)
                .first_raw()
                .unwrap_or("application/octet-stream");
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(guessed));
        }
        if let Some(metadata) = metadata.filter(|_| self.keeps_attributes) {
            let seconds = metadata.mtime();
            let time = UnixTime::from_stat(seconds, metadata.mtime_nsec());
            let attributes = format!("mode:{}/mtime:{seconds}", metadata.mode());
            for (name, value) in [
                ("x-amz-meta-mtime", time.to_string()),
                ("x-amz-meta-s3cmd-attrs", attributes),
            ] {
                let name = HeaderName::from_static(name);
                // What the user says goes before it. Numbers can always be sent.
                if !headers.contains_key(&name)
                    && let Ok(value) = HeaderValue::from_str(&value)
                {
                    headers.insert(name, value);
                }
            }
        }
        headers
    }
}
