//! What a command did with a file: the same keys in the objects of all commands.
//!
//! `action` says what was done, or would be done (`dry_run`), or failed (`error`). `url` is the remote end, in the form that the list of
//! `get -i` takes; `path` the local one; `source` the object that a store copied.

use haul_transfer::put::{UploadInput, UploadTarget};
use serde_json::{Map, Value};

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAction {
    Download,
    Upload,
    Copy,
    Delete,
    /// Nothing: the file is there already.
    Skip,
}

impl FileAction {
    /// The value of `action`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Copy => "copy",
            Self::Delete => "delete",
            Self::Skip => "skip",
        }
    }

    pub(crate) fn object(self, keys: &[(&str, &str)]) -> Map<String, Value> {
        let keys = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
        keys.chain([("action".to_owned(), self.name().into())])
            .collect()
    }
}

/// The object of an upload, or of a copy inside a store.
pub(crate) fn upload_object(input: &UploadInput, target: &UploadTarget) -> Map<String, Value> {
    let (from, url) = (input.to_string(), target.to_string());
    match input {
        UploadInput::File(_) => FileAction::Upload.object(&[("path", &from), ("url", &url)]),
        UploadInput::Stdin => FileAction::Upload.object(&[("url", &url)]),
        UploadInput::Object(_) => FileAction::Copy.object(&[("source", &from), ("url", &url)]),
    }
}

/// An entity tag as HTTP writes it, with its quotes; null if there is none.
pub(crate) fn etag_value(etag: &str) -> Value {
    match etag {
        "" => Value::Null,
        tag if tag.ends_with('"') => tag.into(),
        tag => format!("\"{tag}\"").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_have_quotes_whatever_the_store_sent() {
        for (tag, expected) in [
            ("", Value::Null),
            ("a-1", "\"a-1\"".into()),
            ("\"a\"", "\"a\"".into()),
            ("W/\"a\"", "W/\"a\"".into()),
        ] {
            assert_eq!(etag_value(tag), expected);
        }
    }
}
