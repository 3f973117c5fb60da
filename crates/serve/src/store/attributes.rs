//! What an upload says about its object beside the bytes: S3's entity tag, checksums, header fields
//! and tags. [`attribute_records`](super::attribute_records) stores them.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectAttributes {
    /// S3's entity tag, without quotes.
    pub etag: String,
    /// Header fields that come back with the object: names in lower case, and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The checksum of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<ObjectChecksum>,
    /// Tags, keys and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
    /// The parts that the object was uploaded in, if in several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ObjectPart>,
    /// The multipart upload that made the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectChecksum {
    /// S3's name of the algorithm.
    pub algorithm: String,
    /// In base64; of a composite one with `-` and the number of parts after it.
    pub value: String,
    /// Whether it is the checksum of the parts' checksums, and not of the bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_composite: bool,
}

/// A part of an object that was uploaded in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectPart {
    /// The number that the client gave it.
    pub number: u16,
    /// Bytes.
    pub len: u64,
    /// Its checksum in base64, of the object's algorithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}
