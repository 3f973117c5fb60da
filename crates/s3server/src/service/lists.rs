//! Lists the objects of a bucket.

use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use haul_serve::ObjectKey;
use haul_serve::dialect::ServeResponse;
use haul_serve::store::{FileStore, KeyWalk, KeyWalkRequest, StoreError, WalkedKey, WalkedKind};

use super::S3Call;
use super::buckets::write_owner;
use super::object_headers::object_etag;
use super::responses::document_response;
use crate::xml::{KeyEncoding, XmlDocument};
use crate::{S3Failure, checksum_type, iso_time};

/// Maximum keys of a page, and how many it has if the client does not say.
const MAX_KEYS: usize = 1000;

/// A page that a client asks for.
#[derive(Debug, Clone)]
struct PageOfKeys {
    prefix: String,
    delimiter: Option<String>,
    max_keys: usize,
    start: PageOfKeysStart,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PageOfKeysStart {
    AfterKey(String),
    AfterPrefix(String),
}

#[derive(Debug, Default)]
struct ListedKeys {
    objects: Vec<WalkedKey>,
    /// Prefixes of keys up to the delimiter.
    prefixes: Vec<String>,
    /// Where the next page begins.
    next: Option<PageOfKeysStart>,
}

impl PageOfKeysStart {
    /// The token of V2: clients take it as it is.
    fn token(&self) -> String {
        let text = match self {
            Self::AfterKey(key) => format!("k{key}"),
            Self::AfterPrefix(prefix) => format!("p{prefix}"),
        };
        URL_SAFE_NO_PAD.encode(text)
    }

    fn from_token(token: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        match text.split_at_checked(1)? {
            ("k", key) => Some(Self::AfterKey(key.to_owned())),
            ("p", prefix) => Some(Self::AfterPrefix(prefix.to_owned())),
            _ => None,
        }
    }

    /// The marker of V1: it is the last key or prefix that was listed.
    fn from_marker(marker: &str, delimiter: Option<&str>) -> Self {
        match delimiter {
            Some(delimiter) if marker.ends_with(delimiter) => Self::AfterPrefix(marker.to_owned()),
            _ => Self::AfterKey(marker.to_owned()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::AfterKey(text) | Self::AfterPrefix(text) => text,
        }
    }
}

impl PageOfKeys {
    /// Lists a page. Blocks.
    fn list(&self, store: &Arc<FileStore>, bucket: &ObjectKey) -> Result<ListedKeys, StoreError> {
        let mut listed = ListedKeys::default();
        if self.max_keys == 0 {
            return Ok(listed);
        }
        let delimiter = self.delimiter.as_deref();
        let mut request = KeyWalkRequest {
            prefix: self.prefix.clone(),
            after: self.start.text().to_owned(),
            after_prefix: match &self.start {
                PageOfKeysStart::AfterPrefix(prefix) => Some(prefix.clone()),
                PageOfKeysStart::AfterKey(_) => None,
            },
            is_flat: delimiter == Some("/"),
        };
        let mut walk = KeyWalk::new(store, bucket, request.clone())?;
        let mut last = None;
        while let Some(found) = walk.next_key()? {
            if listed.objects.len() + listed.prefixes.len() == self.max_keys {
                listed.next = last;
                break;
            }
            let rest = found.key.get(self.prefix.len()..).unwrap_or_default();
            let end = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
            let Some(end) = end else {
                last = Some(PageOfKeysStart::AfterKey(found.key.clone()));
                listed.objects.push(found);
                continue;
            };
            let prefix = found.key[..self.prefix.len() + end].to_owned();
            last = Some(PageOfKeysStart::AfterPrefix(prefix.clone()));
            if !request.is_flat {
                // The walk goes on behind all keys with this prefix.
                request.after.clone_from(&found.key);
                request.after_prefix = Some(prefix.clone());
                walk = KeyWalk::new(store, bucket, request.clone())?;
            }
            listed.prefixes.push(prefix);
        }
        Ok(listed)
    }
}

impl S3Call {
    /// How many rows a page may have, by a parameter.
    pub(super) fn page_size(&self, parameter: &'static str) -> Result<usize, S3Failure> {
        let number = self.number_parameter(parameter)?;
        Ok(number.unwrap_or(MAX_KEYS).min(MAX_KEYS))
    }

    /// The number in a parameter; `None` if it is missing or empty.
    pub(super) fn number_parameter(
        &self,
        parameter: &'static str,
    ) -> Result<Option<usize>, S3Failure> {
        let Some(text) = self.query.get(parameter).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text.parse::<i32>().ok();
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.map(Some).ok_or_else(|| {
            let message = format!("Provided {parameter} not an integer or within integer range");
            S3Failure::invalid_argument(parameter, text, message)
        })
    }

    fn page_of_keys(&self, is_v2: bool) -> Result<PageOfKeys, S3Failure> {
        let query = &self.query;
        let max_keys = self.page_size("max-keys")?;
        let delimiter = query.get("delimiter").filter(|text| !text.is_empty());
        let start = match (is_v2, query.get("continuation-token")) {
            (true, Some(token)) => PageOfKeysStart::from_token(token).ok_or_else(|| {
                let message = "The continuation token provided is incorrect";
                S3Failure::invalid_argument("continuation-token", token, message)
            })?,
            (true, None) => {
                let after = query.get("start-after").unwrap_or_default();
                PageOfKeysStart::AfterKey(after.to_owned())
            }
            (false, _) => {
                let marker = query.get("marker").unwrap_or_default();
                PageOfKeysStart::from_marker(marker, delimiter)
            }
        };
        Ok(PageOfKeys {
            prefix: query.get("prefix").unwrap_or_default().to_owned(),
            delimiter: delimiter.map(str::to_owned),
            max_keys,
            start,
        })
    }

    pub(super) fn key_encoding(&self) -> Result<KeyEncoding, S3Failure> {
        match self.query.get("encoding-type") {
            None | Some("") => Ok(KeyEncoding::Plain),
            Some("url") => Ok(KeyEncoding::Url),
            Some(other) => {
                let message = "Invalid Encoding Method specified in Request";
                Err(S3Failure::invalid_argument("encoding-type", other, message))
            }
        }
    }

    pub(super) async fn list_objects(&self, is_v2: bool) -> Result<ServeResponse, S3Failure> {
        let (page, encoding) = (self.page_of_keys(is_v2)?, self.key_encoding()?);
        let bucket = self.existing_bucket().await?;
        let (store, request) = (Arc::clone(self.server().store()), page.clone());
        let listed = self
            .server()
            .disk()
            .run(move || store.retry_after_closing(|| request.list(&store, &bucket)))
            .await
            .map_err(|error| self.store_failure(&error))?;
        let mut document = XmlDocument::new("ListBucketResult");
        document.text("Name", self.bucket());
        document.key("Prefix", &page.prefix, encoding);
        if let Some(delimiter) = &page.delimiter {
            document.key("Delimiter", delimiter, encoding);
        }
        document.value("MaxKeys", page.max_keys);
        if encoding == KeyEncoding::Url {
            document.text("EncodingType", "url");
        }
        document.value("IsTruncated", listed.next.is_some());
        if is_v2 {
            self.write_v2_position(&mut document, &listed, encoding)
        } else {
            let marker = self.query.get("marker").unwrap_or_default();
            document.key("Marker", marker, encoding);
            // S3 has it with a delimiter alone; more does no harm.
            if let Some(next) = &listed.next {
                document.key("NextMarker", next.text(), encoding);
            }
        }
        let shows_owner = !is_v2 || self.query.get("fetch-owner") == Some("true");
        for object in &listed.objects {
            write_object(&mut document, object, encoding, shows_owner);
        }
        for prefix in &listed.prefixes {
            document.open("CommonPrefixes");
            document.key("Prefix", prefix, encoding);
            document.close();
        }
        Ok(document_response(document))
    }

    fn write_v2_position(
        &self,
        document: &mut XmlDocument,
        listed: &ListedKeys,
        encoding: KeyEncoding,
    ) {
        document.value("KeyCount", listed.objects.len() + listed.prefixes.len());
        document.optional("ContinuationToken", self.query.get("continuation-token"));
        if let Some(next) = &listed.next {
            document.text("NextContinuationToken", &next.token());
        }
        if let Some(after) = self.query.get("start-after") {
            document.key("StartAfter", after, encoding);
        }
    }
}

fn write_object(
    document: &mut XmlDocument,
    object: &WalkedKey,
    encoding: KeyEncoding,
    shows_owner: bool,
) {
    let (modified, etag, len): (SystemTime, String, u64) = match &object.kind {
        WalkedKind::File(metadata) => (metadata.modified, object_etag(metadata), metadata.len),
        WalkedKind::FolderObject(modified) => {
            (*modified, "d41d8cd98f00b204e9800998ecf8427e".to_owned(), 0)
        }
        // A flat walk's folders are prefixes.
        WalkedKind::Folder => return,
    };
    document.open("Contents");
    document.key("Key", &object.key, encoding);
    document.text("LastModified", &iso_time(modified).replace('Z', ".000Z"));
    document.text("ETag", &format!("\"{etag}\""));
    if let WalkedKind::File(metadata) = &object.kind
        && let Some(attributes) = &metadata.attributes
        && let Some(checksum) = &attributes.checksum
    {
        document.text("ChecksumAlgorithm", &checksum.algorithm);
        document.text("ChecksumType", checksum_type(checksum.is_composite));
    }
    document.value("Size", len);
    if shows_owner {
        write_owner(document, "Owner");
    }
    document.text("StorageClass", "STANDARD");
    document.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_serve::store::FileStoreOptions;

    fn page(prefix: &str, delimiter: Option<&str>, max_keys: usize) -> PageOfKeys {
        PageOfKeys {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            max_keys,
            start: PageOfKeysStart::AfterKey(String::new()),
        }
    }

    /// All pages of a list: keys, and prefixes with a `*` after them.
    fn all(store: &Arc<FileStore>, mut page: PageOfKeys) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let listed = page.list(store, &ObjectKey::root()).expect("a page");
            assert!(listed.objects.len() + listed.prefixes.len() <= page.max_keys);
            let keys = listed.objects.iter().map(|object| object.key.clone());
            found.extend(keys.chain(listed.prefixes.iter().map(|prefix| format!("{prefix}*"))));
            let Some(next) = listed.next else {
                found.sort();
                return found;
            };
            page.start = PageOfKeysStart::from_token(&next.token()).expect("a token");
            assert_eq!(page.start, next);
        }
    }

    #[test]
    fn g12_pages_of_any_size_have_the_same_keys_and_prefixes() {
        let folder = tempfile::tempdir().expect("a directory");
        for name in ["a/b", "a/c", "a-b", "a0", "d/e/f", "d/e/g", "x1y", "x1z"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, "x").expect("a file");
        }
        let store = FileStore::open(folder.path(), FileStoreOptions::default());
        let store = Arc::new(store.expect("a store"));
        for max_keys in 1..10 {
            let keys = |prefix, delimiter| all(&store, page(prefix, delimiter, max_keys));
            assert_eq!(
                keys("", Some("/")),
                ["a-b", "a/*", "a0", "d/*", "x1y", "x1z"]
            );
            assert_eq!(keys("d/", Some("/")), ["d/e/*"]);
            assert_eq!(
                keys("", Some("1")),
                ["a-b", "a/b", "a/c", "a0", "d/e/f", "d/e/g", "x1*"]
            );
            assert_eq!(keys("a", None), ["a-b", "a/b", "a/c", "a0"]);
        }
        let none = page("", None, 0).list(&store, &ObjectKey::root());
        assert!(none.expect("a page").next.is_none());
    }
}
