//! How the files of a sync are copied, and the uploads that follow from what was found.

use std::path::{Path, PathBuf};

use haul_plan::sync::SyncEntry;
use haul_s3::S3Address;
use haul_transfer::put::{SourceObject, UploadInput, UploadJob};
use http::HeaderMap;

use super::super::uploads::{BadInput, FoundUpload, ObjectHeaders, storage_headers};
use super::place::SyncPlace;
use crate::args::{ObjectArgs, SyncArgs};

/// How files are copied.
pub(super) enum SyncTransfer {
    Download,
    /// From a folder, or inside the store.
    Upload(Box<UploadMaker>),
}

/// Makes uploads of what was found.
pub(super) enum UploadMaker {
    Files {
        root: PathBuf,
        target: S3Address,
        headers: ObjectHeaders,
    },
    Objects {
        source: S3Address,
        target: S3Address,
        headers: HeaderMap,
    },
}

impl SyncTransfer {
    /// # Errors
    /// The flags make no request.
    pub(super) fn new(
        args: &SyncArgs,
        source: &SyncPlace,
        destination: &SyncPlace,
    ) -> Result<Self, BadInput> {
        let storage = storage_headers(&args.storage)?;
        Ok(match (source, destination) {
            (_, SyncPlace::Bucket(_)) if args.limits.is_given() => {
                let text = "--min-rate and --max-time are for downloads, and this sync has none";
                return Err(BadInput::new(text));
            }
            (SyncPlace::Folder(root), SyncPlace::Bucket(target)) => {
                Self::Upload(Box::new(UploadMaker::Files {
                    root: root.clone(),
                    target: target.clone(),
                    headers: ObjectHeaders::new(&ObjectArgs {
                        storage: args.storage.clone(),
                        ..ObjectArgs::default()
                    })?,
                }))
            }
            (SyncPlace::Bucket(source), SyncPlace::Bucket(target)) => {
                Self::Upload(Box::new(UploadMaker::Objects {
                    source: source.clone(),
                    target: target.clone(),
                    headers: storage,
                }))
            }
            (_, SyncPlace::Folder(_)) if !storage.is_empty() => {
                let text = "files of a folder have no storage class, ACL or encryption of S3";
                return Err(BadInput::new(text));
            }
            (_, SyncPlace::Folder(_)) => Self::Download,
        })
    }
}

impl UploadMaker {
    pub(super) fn make(&self, entry: SyncEntry, id: u64) -> FoundUpload {
        let (input, target, headers) = match self {
            Self::Files {
                root,
                target,
                headers,
            } => {
                let path = root.join(&entry.key);
                let metadata = std::fs::metadata(&path).map_err(|error| {
                    BadInput::new(format!("cannot read {}: {error}", path.display()))
                })?;
                let headers = headers.of(Path::new(&entry.key), Some(&metadata))?;
                (UploadInput::File(path), target, headers)
            }
            Self::Objects {
                source,
                target,
                headers,
            } => {
                let object = SourceObject {
                    address: source.with_key(format!("{}{}", source.key, entry.key)),
                    size: entry.size,
                    etag: entry.entity_tag.unwrap_or_default(),
                };
                (UploadInput::Object(object), target, headers.clone())
            }
        };
        Ok(UploadJob {
            id,
            input,
            target: target
                .with_key(format!("{}{}", target.key, entry.key))
                .into(),
            headers,
            conditions: HeaderMap::new(),
        })
    }
}
