//! How a store is opened.

use std::str::FromStr;

/// Options of a store.
#[derive(Debug, Clone)]
pub struct FileStoreOptions {
    /// Whether anything may be changed. A store for reading makes nothing, not even its own room.
    pub writable: bool,
    /// Whether links that stay beneath the root are followed. Where rights are of a part of the store, they must not be: a key
    /// in that part would be a way out of it.
    pub follow_links: bool,
    /// What an acknowledged upload has survived.
    pub durability: UploadDurability,
    /// Bytes that all files together may have; `None`: what the disk has.
    pub quota: Option<u64>,
    /// Files that are kept open between requests.
    pub max_open_files: usize,
    /// Whether uploads are thrown away instead of written: to measure everything but the disk.
    pub discard_uploads: bool,
}

impl Default for FileStoreOptions {
    fn default() -> Self {
        Self {
            writable: false,
            follow_links: true,
            durability: UploadDurability::default(),
            quota: None,
            // A hundredth of what common systems let a process open. They are kept in shards, some of which are full before all are: of a
            // thousand files in room for 1024, one request in twenty found its file closed.
            max_open_files: 4096,
            discard_uploads: false,
        }
    }
}

/// What has happened to an upload's bytes when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UploadDurability {
    /// They are with the system: a crash of this program loses nothing, a power cut may.
    None,
    /// They are on the disk (`fdatasync`). A power cut leaves the old version or the new one, each whole.
    #[default]
    File,
    /// The name is, too (`fsync` of the folder): a power cut leaves the new one.
    Full,
}

/// Not a durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("durability is none, file or full")]
pub struct UploadDurabilityError;

impl FromStr for UploadDurability {
    type Err = UploadDurabilityError;

    fn from_str(text: &str) -> Result<Self, UploadDurabilityError> {
        match text {
            "none" => Ok(Self::None),
            "file" => Ok(Self::File),
            "full" => Ok(Self::Full),
            _ => Err(UploadDurabilityError),
        }
    }
}
