//! The header fields of requests that store an object: what the flags say, and what follows from the file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use haul_plan::UnixTime;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::jobs::BadInput;
use crate::args::{ObjectArgs, StorageArgs};

/// The fields of requests that store an object.
pub(crate) struct ObjectHeaders {
    /// For all objects.
    common: HeaderMap,
    has_content_type: bool,
    preserves: bool,
}

impl ObjectHeaders {
    /// # Errors
    /// A value that no header field can carry.
    pub(crate) fn new(args: &ObjectArgs) -> Result<Self, BadInput> {
        let mut common = storage_headers(&args.storage)?;
        let fields = [
            ("content-type", &args.content_type),
            ("cache-control", &args.cache_control),
            ("content-disposition", &args.content_disposition),
            ("content-encoding", &args.content_encoding),
            ("content-language", &args.content_language),
        ];
        add_fields(&mut common, fields)?;
        for (name, value) in &args.metadata {
            let field = format!("x-amz-meta-{}", name.to_ascii_lowercase());
            let field: HeaderName = field
                .parse()
                .map_err(|_| BadInput::new(format!("{name:?} cannot be the name of metadata")))?;
            // What is beyond ASCII cannot be signed.
            if !value.is_ascii() {
                let text =
                    format!("--metadata {name}: the value is not ASCII, and S3 takes no other");
                return Err(BadInput::new(text));
            }
            common.insert(field, field_value(name, value)?);
        }
        if !args.tag.is_empty() {
            let pairs = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(&args.tag)
                .finish();
            common.insert(
                HeaderName::from_static("x-amz-tagging"),
                field_value("--tag", &pairs)?,
            );
        }
        Ok(Self {
            common,
            has_content_type: args.content_type.is_some(),
            preserves: !args.no_preserve,
        })
    }

    /// The same without the time and mode of files.
    pub(crate) fn without_file_attributes(self) -> Self {
        Self {
            preserves: false,
            ..self
        }
    }

    /// The fields of a file with this name.
    ///
    /// # Errors
    /// A value that no header field can carry.
    pub(crate) fn of(
        &self,
        name: &Path,
        metadata: Option<&Metadata>,
    ) -> Result<HeaderMap, BadInput> {
        let mut headers = self.common.clone();
        if !self.has_content_type {
            let guessed = mime_guess::from_path(name).first_raw();
            let guessed = guessed.unwrap_or("application/octet-stream");
            headers.insert(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static(guessed),
            );
        }
        if let Some(metadata) = metadata.filter(|_| self.preserves) {
            let seconds = metadata.mtime();
            let time = UnixTime::from_stat(seconds, metadata.mtime_nsec());
            let fields = [
                ("x-amz-meta-mtime", time.to_string()),
                (
                    "x-amz-meta-s3cmd-attrs",
                    format!("mode:{}/mtime:{seconds}", metadata.mode()),
                ),
            ];
            for (name, value) in fields {
                let name = HeaderName::from_static(name);
                // What the user says goes before it.
                if !headers.contains_key(&name) {
                    let value = field_value(name.as_str(), &value)?;
                    headers.insert(name, value);
                }
            }
        }
        Ok(headers)
    }
}

/// The fields of `--storage-class`, `--acl` and `--sse`.
///
/// # Errors
/// A value that no header field can carry.
pub(crate) fn storage_headers(args: &StorageArgs) -> Result<HeaderMap, BadInput> {
    let mut headers = HeaderMap::new();
    let fields = [
        ("x-amz-storage-class", &args.storage_class),
        ("x-amz-acl", &args.acl),
        ("x-amz-server-side-encryption", &args.sse),
        (
            "x-amz-server-side-encryption-aws-kms-key-id",
            &args.sse_kms_key_id,
        ),
    ];
    add_fields(&mut headers, fields)?;
    Ok(headers)
}

fn add_fields<'a>(
    headers: &mut HeaderMap,
    fields: impl IntoIterator<Item = (&'static str, &'a Option<String>)>,
) -> Result<(), BadInput> {
    for (name, value) in fields {
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), field_value(name, value)?);
        }
    }
    Ok(())
}

/// A value of a field, or why it cannot be one.
///
/// # Errors
/// The value has characters that no header field can carry.
pub(crate) fn field_value(name: &str, value: &str) -> Result<HeaderValue, BadInput> {
    HeaderValue::from_str(value).map_err(|_| {
        BadInput::new(format!(
            "the value of {name} cannot be sent in a header field"
        ))
    })
}
