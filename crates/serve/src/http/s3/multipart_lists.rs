//! Lists uploads in parts, and the parts of one.

use std::sync::Arc;

use super::S3Call;
use super::buckets::write_owner;
use super::multipart::time;
use super::responses::document_response;
use crate::http::error_response::ServeResponse;
use crate::s3::xml::XmlDocument;
use crate::s3::{
    S3Failure, S3Query, checksum_algorithm_of_name, checksum_element, checksum_type, iso_time,
};
use crate::store::StoredUploadInfo;

/// The identifier of an upload, and what it is of.
type IdentifiedUpload = (String, StoredUploadInfo);

/// A page of uploads.
#[derive(Debug, Default)]
struct ListedUploads<'a> {
    uploads: Vec<&'a IdentifiedUpload>,
    /// Prefixes of keys up to the delimiter.
    prefixes: Vec<&'a str>,
    /// The key, or the prefix, and the identifier after which the next page begins.
    next: Option<(&'a str, &'a str)>,
}

impl<'a> ListedUploads<'a> {
    /// The page of at most `max` uploads and prefixes that a query asks for.
    fn new(all: &'a mut [IdentifiedUpload], query: &S3Query, max: usize) -> Self {
        all.sort_by(|(id, info), (other_id, other)| (&info.key, id).cmp(&(&other.key, other_id)));
        let prefix = query.get("prefix").unwrap_or_default();
        let delimiter = query.get("delimiter").filter(|text| !text.is_empty());
        let after = query.get("key-marker").unwrap_or_default();
        let after_id = query.get("upload-id-marker").filter(|id| !id.is_empty());
        let mut listed = Self::default();
        let mut last = None;
        for upload in &*all {
            let (id, key) = (upload.0.as_str(), upload.1.key.as_str());
            let Some(rest) = key.strip_prefix(prefix) else {
                continue;
            };
            let is_after = match after_id {
                _ if after.is_empty() => true,
                Some(after_id) => (key, id) > (after, after_id),
                None => key > after,
            };
            let end = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
            let group = end.map(|end| &key[..prefix.len() + end]);
            let is_listed = group.is_some()
                && (group == Some(after) || group == listed.prefixes.last().copied());
            if !is_after || is_listed {
                continue;
            }
            if listed.uploads.len() + listed.prefixes.len() == max {
                listed.next = last;
                break;
            }
            match group {
                Some(group) => listed.prefixes.push(group),
                None => listed.uploads.push(upload),
            }
            last = Some(group.map_or((key, id), |group| (group, "")));
        }
        listed
    }
}

impl S3Call {
    pub(super) async fn list_parts(&self) -> Result<ServeResponse, S3Failure> {
        let max = self.page_size("max-parts")?;
        let after = self.number_parameter("part-number-marker")?.unwrap_or(0);
        let upload = self.stored_upload().await?;
        let of_upload = Arc::clone(&upload);
        let parts = self.server().disk.run(move || of_upload.parts()).await;
        let parts = parts.map_err(|error| self.part_failure(&error))?;
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
        let store = Arc::clone(&self.server().store);
        let found = self.server().disk.run(move || store.stored_uploads()).await;
        let mut uploads = found.map_err(|error| self.part_failure(&error))?;
        uploads.retain(|(_, info)| info.bucket == self.bucket());
        let listed = ListedUploads::new(&mut uploads, &self.query, max);
        let parameter = |name| self.query.get(name).unwrap_or_default();
        let mut document = XmlDocument::new("ListMultipartUploadsResult");
        document.text("Bucket", self.bucket());
        document.key("KeyMarker", parameter("key-marker"), encoding);
        document.text("UploadIdMarker", parameter("upload-id-marker"));
        if let Some((key, id)) = listed.next {
            document.key("NextKeyMarker", key, encoding);
            document.text("NextUploadIdMarker", id);
        }
        document.key("Prefix", parameter("prefix"), encoding);
        if !parameter("delimiter").is_empty() {
            document.key("Delimiter", parameter("delimiter"), encoding);
        }
        document.optional("EncodingType", self.query.get("encoding-type"));
        document.value("MaxUploads", max);
        document.value("IsTruncated", listed.next.is_some());
        for (id, info) in listed.uploads {
            document.open("Upload");
            document.key("Key", &info.key, encoding);
            document.text("UploadId", id);
            write_owner(&mut document, "Initiator");
            write_owner(&mut document, "Owner");
            document.text("StorageClass", "STANDARD");
            document.text("Initiated", &iso_time(time(info.initiated)));
            write_upload_checksum(&mut document, info);
            document.close();
        }
        for prefix in listed.prefixes {
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

    fn uploads() -> Vec<IdentifiedUpload> {
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

    /// All pages of a list: keys with identifiers, and prefixes.
    fn all_pages(query: &str, max: usize) -> Vec<String> {
        let mut uploads = uploads();
        let mut found = Vec::new();
        let mut marker = String::new();
        loop {
            let query = S3Query::parse(Some(&format!("{query}{marker}"))).expect("a query");
            let page = ListedUploads::new(&mut uploads, &query, max);
            assert!(page.uploads.len() + page.prefixes.len() <= max);
            let keys = page
                .uploads
                .iter()
                .map(|(id, info)| format!("{}:{id}", info.key));
            found.extend(keys.chain(page.prefixes.iter().map(ToString::to_string)));
            let Some((key, id)) = page.next else {
                found.sort();
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
        let (mut uploads, query) = (uploads(), S3Query::default());
        let none = ListedUploads::new(&mut uploads, &query, 0);
        assert!(none.uploads.is_empty() && none.next.is_none());
    }
}
