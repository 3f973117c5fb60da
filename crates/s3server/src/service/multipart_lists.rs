//! Lists uploads in parts, and the parts of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use haul_serve::dialect::ServeResponse;
use haul_serve::store::{ObjectAttributes, StoredUploadInfo};

use super::S3Call;
use super::buckets::write_owner;
use super::multipart::time;
use super::responses::document_response;
use crate::xml::XmlDocument;
use crate::{
    S3Failure, S3Query, checksum_algorithm_of_name, checksum_element, checksum_type, iso_time,
};

/// Uploads and prefixes of keys, by their keys and identifiers. A prefix has no identifier.
type UploadRows = BTreeMap<(String, String), Option<StoredUploadInfo>>;

/// A page of uploads, chosen among all of a bucket in any order. It holds no more of them than the page has.
#[derive(Debug)]
struct UploadPage {
    /// Maximum rows.
    max: usize,
    prefix: String,
    delimiter: Option<String>,
    /// The key, or the prefix, and the identifier after which the page begins.
    after: (String, Option<String>),
    /// The first rows, and one more than the page has, if there is one.
    rows: UploadRows,
}

impl UploadPage {
    /// The page of at most `max` uploads and prefixes that a query asks for.
    fn new(query: &S3Query, max: usize) -> Self {
        let text = |name| query.get(name).unwrap_or_default().to_owned();
        let filled = |name| Some(text(name)).filter(|text| !text.is_empty());
        Self {
            max,
            prefix: text("prefix"),
            delimiter: filled("delimiter"),
            after: (text("key-marker"), filled("upload-id-marker")),
            rows: BTreeMap::new(),
        }
    }

    fn add(&mut self, id: String, mut info: StoredUploadInfo) {
        let key = info.key.as_str();
        let Some(rest) = key.strip_prefix(self.prefix.as_str()) else {
            return;
        };
        let (after, after_id) = (self.after.0.as_str(), self.after.1.as_deref());
        let is_after = match after_id {
            _ if after.is_empty() => true,
            Some(after_id) => (key, id.as_str()) > (after, after_id),
            None => key > after,
        };
        let delimiter = self.delimiter.as_deref();
        let end = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
        let group = end.map(|end| &key[..self.prefix.len() + end]);
        // The page before may have ended with the group.
        if !is_after || group == Some(after) {
            return;
        }
        let (name, row) = match group {
            Some(group) => ((group.to_owned(), String::new()), None),
            None => {
                info.attributes = ObjectAttributes::default();
                ((info.key.clone(), id), Some(info))
            }
        };
        self.rows.insert(name, row);
        if self.rows.len() > self.max + 1 {
            self.rows.pop_last();
        }
    }

    /// The rows, and the key or prefix and the identifier after which the next page begins, if there is one.
    fn finish(mut self) -> (UploadRows, Option<(String, String)>) {
        let is_truncated = self.rows.len() > self.max;
        if is_truncated {
            self.rows.pop_last();
        }
        let last = self.rows.last_key_value();
        let next = last.map(|(name, _)| name.clone()).filter(|_| is_truncated);
        (self.rows, next)
    }
}

impl S3Call {
    pub(super) async fn list_parts(&self) -> Result<ServeResponse, S3Failure> {
        let max = self.page_size("max-parts")?;
        let after = self.number_parameter("part-number-marker")?.unwrap_or(0);
        let upload = self.stored_upload().await?;
        let of_upload = Arc::clone(&upload);
        let parts = self
            .server()
            .disk()
            .run(move || of_upload.parts())
            .await
            .map_err(|error| self.part_failure(&error))?;
        let mut rest = parts
            .values()
            .filter(|part| usize::from(part.number) > after);
        let page: Vec<_> = rest.by_ref().take(max).collect();
        let is_truncated = max > 0 && rest.next().is_some();
        let mut document = XmlDocument::new("ListPartsResult");
        document.text("Bucket", self.bucket());
        document.text("Key", self.key());
        document.text("UploadId", upload.id());
        write_owner(&mut document, "Initiator");
        write_owner(&mut document, "Owner");
        document.text("StorageClass", "STANDARD");
        document.value("PartNumberMarker", after);
        if let Some(last) = page.last().filter(|_| is_truncated) {
            document.value("NextPartNumberMarker", last.number);
        }
        document.value("MaxParts", max);
        document.value("IsTruncated", is_truncated);
        write_upload_checksum(&mut document, upload.info());
        let element = checksum_algorithm_of_name(&upload.info().algorithm)
            .and_then(checksum_element)
            .filter(|_| !upload.info().has_default_checksum);
        for part in page {
            document.open("Part");
            document.value("PartNumber", part.number);
            document.text("LastModified", &iso_time(time(part.modified)));
            document.text("ETag", &format!("\"{}\"", part.etag));
            document.value("Size", part.len);
            if let Some(element) = element {
                document.text(element, &part.checksum);
            }
            document.close();
        }
        Ok(document_response(document))
    }

    pub(super) async fn list_multipart_uploads(&self) -> Result<ServeResponse, S3Failure> {
        let (max, encoding) = (self.page_size("max-uploads")?, self.key_encoding()?);
        self.existing_bucket().await?;
        let (store, bucket) = (Arc::clone(self.server().store()), self.bucket().to_owned());
        let mut page = UploadPage::new(&self.query, max);
        let found = self.server().disk().run(move || {
            let of_bucket = |id, info: StoredUploadInfo| {
                if info.bucket == bucket {
                    page.add(id, info);
                }
            };
            store.for_each_upload(of_bucket).map(|()| page.finish())
        });
        let (rows, next) = found.await.map_err(|error| self.part_failure(&error))?;
        let parameter = |name| self.query.get(name).unwrap_or_default();
        let mut document = XmlDocument::new("ListMultipartUploadsResult");
        document.text("Bucket", self.bucket());
        document.key("KeyMarker", parameter("key-marker"), encoding);
        document.text("UploadIdMarker", parameter("upload-id-marker"));
        if let Some((key, id)) = &next {
            document.key("NextKeyMarker", key, encoding);
            document.text("NextUploadIdMarker", id);
        }
        document.key("Prefix", parameter("prefix"), encoding);
        if !parameter("delimiter").is_empty() {
            document.key("Delimiter", parameter("delimiter"), encoding);
        }
        document.optional("EncodingType", self.query.get("encoding-type"));
        document.value("MaxUploads", max);
        document.value("IsTruncated", next.is_some());
        let uploads = rows
            .iter()
            .filter_map(|(name, info)| Some((name, info.as_ref()?)));
        for ((key, id), info) in uploads {
            document.open("Upload");
            document.key("Key", key, encoding);
            document.text("UploadId", id);
            write_owner(&mut document, "Initiator");
            write_owner(&mut document, "Owner");
            document.text("StorageClass", "STANDARD");
            document.text("Initiated", &iso_time(time(info.initiated)));
            write_upload_checksum(&mut document, info);
            document.close();
        }
        let prefixes = rows.iter().filter(|(_, info)| info.is_none());
        for ((prefix, _), _) in prefixes {
            document.open("CommonPrefixes");
            document.key("Prefix", prefix, encoding);
            document.close();
        }
        Ok(document_response(document))
    }
}

/// Writes the checksum that an upload was begun with.
fn write_upload_checksum(document: &mut XmlDocument, info: &StoredUploadInfo) {
    if !info.has_default_checksum {
        document.text("ChecksumAlgorithm", &info.algorithm);
        document.text("ChecksumType", checksum_type(info.is_composite));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uploads() -> Vec<(String, StoredUploadInfo)> {
        let rows = [
            ("b", "2"),
            ("a/x", "1"),
            ("a/y", "3"),
            ("b", "1"),
            ("c/z", "4"),
        ];
        let upload = |(key, id): (&str, &str)| {
            let info = serde_json::json!({
                "bucket": "", "key": key, "initiated": 0, "attributes": {"etag": ""},
                "algorithm": "CRC32", "is_composite": false,
            });
            let info = serde_json::from_value(info).expect("an upload");
            (id.to_owned(), info)
        };
        rows.into_iter().map(upload).collect()
    }

    fn page(query: &str, max: usize) -> UploadPage {
        let query = S3Query::parse(Some(query)).expect("a query");
        let mut page = UploadPage::new(&query, max);
        for (id, info) in uploads() {
            page.add(id, info);
            assert!(page.rows.len() <= max + 1, "no more than a page is held");
        }
        page
    }

    /// All pages of a list: keys with identifiers, and prefixes.
    fn all_pages(query: &str, max: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut marker = String::new();
        loop {
            let (rows, next) = page(&format!("{query}{marker}"), max).finish();
            assert!(rows.len() <= max);
            found.extend(rows.iter().map(|((key, id), info)| match info {
                Some(_) => format!("{key}:{id}"),
                None => key.clone(),
            }));
            let Some((key, id)) = next else {
                return found;
            };
            marker = format!("&key-marker={key}&upload-id-marker={id}");
        }
    }

    #[test]
    fn g12_pages_of_uploads_of_any_size_have_the_same_rows() {
        for max in 1..7 {
            let all = ["a/x:1", "a/y:3", "b:1", "b:2", "c/z:4"];
            assert_eq!(all_pages("uploads", max), all, "{max}");
            let grouped = ["a/", "b:1", "b:2", "c/"];
            assert_eq!(all_pages("delimiter=/", max), grouped, "{max}");
            let inside = ["a/x:1", "a/y:3"];
            assert_eq!(all_pages("prefix=a/&delimiter=/", max), inside, "{max}");
            assert_eq!(all_pages("key-marker=b", max), ["c/z:4"], "{max}");
        }
        let (none, next) = page("uploads", 0).finish();
        assert!(none.is_empty() && next.is_none());
    }
}
