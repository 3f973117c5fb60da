//! Options of a store.

use std::str::FromStr;

/// Options of a store.
#[derive(Debug, Clone)]
pub struct FileStoreOptions {
    /// Whether files may be changed. A read-only store creates nothing, not even its temporary
    /// folder.
    pub writable: bool,
    /// Whether links that stay beneath the root are followed. If users have rights to only a part
    /// of the store they must not be: a link in that part would lead out of it.
    pub follow_links: bool,
    /// What an acknowledged upload survives.
    pub durability: UploadDurability,
    /// Maximum bytes of all files together; `None` leaves it to the disk.
    pub quota: Option<u64>,
    /// Maximum files that stay open between requests.
    pub max_open_files: usize,
    /// Whether uploads are discarded instead of written: to measure everything but the disk.
    pub discard_uploads: bool,
}

impl Default for FileStoreOptions {
    fn default() -> Self {
        Self {
            writable: false,
            follow_links: true,
            durability: UploadDurability::default(),
            quota: None,
            // A hundredth of the descriptors that common systems allow a process. The cache has
            // shards, and some are full before all are: with 1024 entries for a thousand files, one
            // request in twenty found its file closed.
            max_open_files: 4096,
            discard_uploads: false,
        }
    }
}

/// How durable an upload is when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UploadDurability {
    /// The system has the bytes: a crash of this program loses nothing, a power cut may.
    None,
    /// The bytes are on the disk (`fdatasync`): a power cut leaves the old version or the new one,
    /// each whole.
    #[default]
    File,
    /// The name is durable too (`fsync` of the folder): a power cut leaves the new version.
    Full,
}

/// The text names no durability.
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
