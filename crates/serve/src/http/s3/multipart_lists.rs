//! Lists uploads in parts, and the parts of one.

use std::sync::Arc;

use super::S3Call;
use super::buckets::write_owner;
use super::multipart::time;
use super::responses::document_response;
use crate::http::error_response::ServeResponse;
use crate::s3::xml::XmlDocument;
use crate::s3::{S3Failure, checksum_algorithm_of_name, checksum_element, iso_time};

impl S3Call {
    pub(super) async fn list_parts(&self) -> Result<ServeResponse, S3Failure> {
        let upload = self.stored_upload().await?;
        let of_upload = Arc::clone(&upload);
        let parts = self.server().disk.run(move || of_upload.parts()).await;
        let parts = parts.map_err(|error| self.part_failure(&error))?;
        let number = |name: &str| {
            self.query
                .get(name)
                .and_then(|text| text.parse::<usize>().ok())
        };
        let (after, max) = (
            number("part-number-marker").unwrap_or(0),
            number("max-parts").unwrap_or(1000).min(1000),
        );
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
        document.text("ChecksumAlgorithm", &upload.info().algorithm);
        for part in page {
            document.open("Part");
            document.value("PartNumber", part.number);
            document.text("LastModified", &iso_time(time(part.modified)));
            document.text("ETag", &format!("\"{}\"", part.etag));
            document.value("Size", part.len);
            let algorithm = checksum_algorithm_of_name(&upload.info().algorithm);
            if let Some(element) = algorithm.and_then(checksum_element) {
                document.text(element, &part.checksum);
            }
            document.close();
        }
        Ok(document_response(document))
    }

    pub(super) async fn list_multipart_uploads(&self) -> Result<ServeResponse, S3Failure> {
        self.existing_bucket().await?;
        let store = Arc::clone(&self.server().store);
        let found = self.server().disk.run(move || store.stored_uploads()).await;
        let mut uploads = found.map_err(|error| self.part_failure(&error))?;
        let prefix = self.query.get("prefix").unwrap_or_default();
        let marker = (
            self.query.get("key-marker").unwrap_or_default(),
            self.query.get("upload-id-marker").unwrap_or_default(),
        );
        uploads.retain(|(id, info)| {
            let is_after = match marker.1 {
                "" => info.key.as_str() > marker.0 || marker.0.is_empty(),
                _ => (info.key.as_str(), id.as_str()) > marker,
            };
            info.bucket == self.bucket() && info.key.starts_with(prefix) && is_after
        });
        uploads
            .sort_by(|(id, info), (other_id, other)| (&info.key, id).cmp(&(&other.key, other_id)));
        let max = self
            .query
            .get("max-uploads")
            .and_then(|text| text.parse().ok());
        let max = max.unwrap_or(1000_usize).min(1000);
        let is_truncated = uploads.len() > max;
        uploads.truncate(max);
        let mut document = XmlDocument::new("ListMultipartUploadsResult");
        document.text("Bucket", self.bucket());
        document.text("KeyMarker", marker.0);
        document.text("UploadIdMarker", marker.1);
        if let Some((id, info)) = uploads.last().filter(|_| is_truncated) {
            document.text("NextKeyMarker", &info.key);
            document.text("NextUploadIdMarker", id);
        }
        document.text("Prefix", prefix);
        document.value("MaxUploads", max);
        document.value("IsTruncated", is_truncated);
        for (id, info) in &uploads {
            document.open("Upload");
            document.text("Key", &info.key);
            document.text("UploadId", id);
            write_owner(&mut document, "Initiator");
            write_owner(&mut document, "Owner");
            document.text("StorageClass", "STANDARD");
            document.text("Initiated", &iso_time(time(info.initiated)));
            document.close();
        }
        Ok(document_response(document))
    }
}
