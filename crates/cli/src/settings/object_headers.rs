//! The header fields that flags give to objects.

use haul_transfer::put::ObjectHeaders;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::SettingError;
use crate::args::{ObjectArgs, StorageArgs};

/// The fields of files that are uploaded. Only objects keep the time and mode of a file.
///
/// # Errors
/// A value that no header field can carry.
pub(crate) fn object_headers(
    args: &ObjectArgs,
    is_object: bool,
) -> Result<ObjectHeaders, SettingError> {
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
        let field: HeaderName = format!("x-amz-meta-{}", name.to_ascii_lowercase())
            .parse()
            .map_err(|_| SettingError::new(format!("{name:?} cannot be the name of metadata")))?;
        // A value that is not ASCII cannot be signed.
        if !value.is_ascii() {
            let text =
                format!("--metadata {name}: the value is not ASCII, and S3 accepts only ASCII");
            return Err(SettingError::new(text));
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
    Ok(ObjectHeaders {
        common,
        keeps_attributes: is_object && !args.no_preserve,
    })
}

/// The fields of `--storage-class`, `--acl` and `--sse`.
///
/// # Errors
/// A value that no header field can carry.
pub(crate) fn storage_headers(args: &StorageArgs) -> Result<HeaderMap, SettingError> {
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
) -> Result<(), SettingError> {
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
pub(crate) fn field_value(name: &str, value: &str) -> Result<HeaderValue, SettingError> {
    HeaderValue::from_str(value).map_err(|_| {
        SettingError::new(format!(
            "the value of {name} cannot be sent in a header field"
        ))
    })
}
