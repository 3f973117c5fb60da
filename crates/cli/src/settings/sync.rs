//! Turns the arguments of `haul sync` into its two sides and the settings of the engine.

use haul_s3::{S3Address, S3AddressError};
use haul_transfer::put::ObjectHeaders;
use haul_transfer::sync::{
    SyncComparison, SyncOptions, SyncPlace, SyncPlaceError, SyncSettings, check_sync_places,
};

use super::SettingError;
use super::object_headers::storage_headers;
use crate::args::SyncArgs;

/// Both sides, of which one is a bucket and none is part of the other.
///
/// # Errors
/// The words name no such sides.
pub(crate) fn sync_places(args: &SyncArgs) -> Result<(SyncPlace, SyncPlace), SettingError> {
    let (source, destination) = (sync_place(&args.source)?, sync_place(&args.destination)?);
    check_sync_places(&source, &destination).map_err(|error| match error {
        SyncPlaceError::TwoFolders => {
            SettingError::new("one side of haul sync must be s3://BUCKET/PREFIX/, and neither is")
                .with_hint("use rsync for two folders")
        }
        SyncPlaceError::NotAFolder(_) => {
            SettingError::new(error.to_string()).with_hint("haul put uploads single files")
        }
        SyncPlaceError::Pattern(_) => {
            SettingError::new(error.to_string()).with_hint("--include chooses files of a folder")
        }
        SyncPlaceError::Overlap(..) => SettingError::new(error.to_string()),
    })?;
    Ok((source, destination))
}

/// A text that begins as an address must be one.
fn sync_place(text: &str) -> Result<SyncPlace, SettingError> {
    // Of other schemes, too: a folder `file:` is not what anybody wants.
    let is_address = |(scheme, _): (&str, &str)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if !text.split_once("://").is_some_and(is_address) {
        return Ok(SyncPlace::Folder(text.into()));
    }
    let address: S3Address = text.parse().map_err(|error: S3AddressError| {
        SettingError::new(error.to_string())
            .with_hint("an address is s3://BUCKET/PREFIX/, and a folder has a path")
    })?;
    Ok(SyncPlace::Bucket(address.into_folder()))
}

/// The settings of the engine.
///
/// # Errors
/// Flags that mean nothing for this sync, or make no request.
pub(crate) fn sync_settings(
    args: &SyncArgs,
    destination: &SyncPlace,
) -> Result<SyncSettings, SettingError> {
    let common = storage_headers(&args.storage)?;
    match destination {
        SyncPlace::Bucket(_) if args.limits.is_given() => {
            let text = "--min-rate and --max-time are for downloads, and this sync has none";
            return Err(SettingError::new(text));
        }
        SyncPlace::Folder(_) if !common.is_empty() => {
            let text = "files of a folder have no storage class, ACL or encryption of S3";
            return Err(SettingError::new(text));
        }
        _ => {}
    }
    Ok(SyncSettings {
        options: SyncOptions {
            comparison: if args.checksum {
                SyncComparison::Content
            } else {
                SyncComparison::SizeAndTime
            },
            max_deletes: args.delete.then_some(args.max_delete.unwrap_or(u64::MAX)),
            existing_only: args.existing,
            ignore_existing: args.ignore_existing,
            keep_newer: args.update,
        },
        filter: args.filter.filter.clone(),
        follows_links: args.follow_links,
        headers: ObjectHeaders {
            common,
            keeps_attributes: true,
        },
        allows_empty_source: args.max_delete.is_some(),
    })
}
