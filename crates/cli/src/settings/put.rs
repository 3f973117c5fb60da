//! Turns the arguments of `haul put` into what is uploaded, and to where.

use std::path::Path;

use haul_net::UserCredentials;
use haul_s3::{S3Address, S3AddressError};
use haul_transfer::put::{FileJobSettings, PathList, UploadInput, UploadTarget};
use http::{HeaderMap, HeaderValue};

use super::SettingError;
use super::credentials::complete_passwords;
use super::object_headers::{field_value, object_headers};
use crate::args::{ObjectArgs, PutArgs, PutConditionArgs, StorageArgs};
use crate::message;
use crate::sys::stdin_closed;

/// What is uploaded, and to where.
///
/// # Errors
/// Words that make no upload.
pub(crate) fn put_settings(args: &PutArgs) -> Result<FileJobSettings, SettingError> {
    let (target, inputs) = args
        .words
        .split_last()
        .ok_or_else(|| SettingError::new("there is nothing to upload"))?;
    let mut target = parse_target(target)?;
    check_flags(args, &target)?;
    if let UploadTarget::Url(url) = &mut target
        && !args.login.is_given()
    {
        complete_passwords([url].into_iter(), &UserCredentials::default())
            .map_err(|error| SettingError::new(message::chain_text(&error)))?;
    }
    if inputs.is_empty() && args.input.is_none() {
        return Err(SettingError::new("there is nothing to upload")
            .with_hint("haul put FILE... s3://BUCKET/PREFIX/"));
    }
    let has_several = inputs.len() > 1 || args.recursive || args.input.is_some();
    if has_several && !target.is_prefix() {
        add_slash(&mut target);
    }
    check_stdin(args, inputs, &target)?;
    let is_object = matches!(target, UploadTarget::Object(_));
    let input = |word: &String| match word.as_str() {
        "-" => UploadInput::Stdin,
        path => UploadInput::File(path.into()),
    };
    Ok(FileJobSettings {
        inputs: inputs.iter().map(input).collect(),
        headers: object_headers(&args.object, is_object)?,
        conditions: conditions(&args.conditions)?,
        list: args.input.as_deref().map(open_list).transpose()?,
        is_recursive: args.recursive,
        follows_links: args.follow_links,
        filter: args.filter.filter.clone(),
        target,
    })
}

/// Checks that standard input is used as it can be.
fn check_stdin(
    args: &PutArgs,
    inputs: &[String],
    target: &UploadTarget,
) -> Result<(), SettingError> {
    let is_input = inputs.iter().any(|word| word == "-");
    if is_input && target.is_prefix() {
        return Err(SettingError::new("standard input has no name")
            .with_hint("upload it alone, to s3://BUCKET/KEY"));
    }
    if args.expected_size.is_some() && !is_input {
        let text = "--expected-size is about standard input";
        return Err(SettingError::new(text).with_hint("haul put - s3://BUCKET/KEY"));
    }
    let is_list = args.input.as_deref().is_some_and(is_stdin);
    if (is_input || is_list) && stdin_closed() {
        Err(SettingError::new("standard input is closed"))
    } else {
        Ok(())
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn open_list(path: &Path) -> Result<PathList, SettingError> {
    if is_stdin(path) {
        return Ok(PathList::stdin());
    }
    let opened = PathList::open(path);
    opened.map_err(|error| {
        let text = format!("-i: cannot read {}", path.display());
        SettingError::new(text).caused_by(error)
    })
}

/// The conditions under which an object is published.
fn conditions(args: &PutConditionArgs) -> Result<HeaderMap, SettingError> {
    let mut conditions = HeaderMap::new();
    if args.if_none_match {
        conditions.insert(http::header::IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    if let Some(etag) = &args.if_match {
        let etag = format!("\"{}\"", etag.trim_matches('"'));
        conditions.insert(http::header::IF_MATCH, field_value("--if-match", &etag)?);
    }
    Ok(conditions)
}

/// Parses where files go.
fn parse_target(text: &str) -> Result<UploadTarget, SettingError> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        let address: Result<S3Address, _> = text.parse();
        return address.map(UploadTarget::Object).map_err(|error: S3AddressError| {
            SettingError::new(error.to_string()).with_hint(
                "the last argument is the target: s3://BUCKET/KEY, s3://BUCKET/PREFIX/ or https://HOST/PATH",
            )
        });
    }
    let url = haul_net::parse_url(text).map_err(|error| {
        SettingError::new(format!(
            "{} is not a URL: {error}",
            haul_net::redacted_text(text)
        ))
    })?;
    Ok(UploadTarget::Url(url))
}

/// Refuses flags that have no effect on this kind of target.
fn check_flags(args: &PutArgs, target: &UploadTarget) -> Result<(), SettingError> {
    if matches!(target, UploadTarget::Object(_)) {
        return if args.login.is_given() {
            Err(
                SettingError::new("-H, -u, --bearer and --netrc are for http:// and https:// URLs")
                    .with_hint("S3 has --metadata for objects, and --profile for credentials"),
            )
        } else {
            Ok(())
        };
    }
    let ObjectArgs {
        metadata,
        tag,
        storage,
        ..
    } = &args.object;
    let StorageArgs {
        storage_class,
        acl,
        sse,
        sse_kms_key_id: _,
    } = storage;
    let for_objects = [
        ("--metadata", !metadata.is_empty()),
        ("--tag", !tag.is_empty()),
        ("--storage-class", storage_class.is_some()),
        ("--acl", acl.is_some()),
        ("--sse", sse.is_some()),
        ("--checksum", args.conditions.checksum.is_some()),
        ("--no-preserve", args.object.no_preserve),
    ];
    match for_objects.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(SettingError::new(format!(
            "{flag} is for s3:// addresses, not for URLs"
        ))),
        None => Ok(()),
    }
}

fn add_slash(target: &mut UploadTarget) {
    match target {
        UploadTarget::Object(address) => address.key.push('/'),
        UploadTarget::Url(url) => url.set_path(&format!("{}/", url.path())),
    }
}
