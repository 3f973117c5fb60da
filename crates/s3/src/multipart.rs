//! Multipart uploads: begun, sent in parts, listed, completed or aborted.

use std::fmt::Write as _;

use haul_net::RequestBody;
use haul_plan::{Checksum, DigestAlgorithm};
use http::header::ETAG;
use http::{HeaderMap, Method};

use crate::address::S3Address;
use crate::buckets::{NO_TOKEN, SAME_TOKEN};
use crate::checksums::{
    checksum_element, checksum_field, checksums_in_element, checksums_in_headers,
};
use crate::client::{S3Client, S3Request};
use crate::error::{CREATE_MULTIPART_UPLOAD, S3Error, S3ErrorKind};
use crate::objects::{CopySource, StoredObject, required_etag, unquoted};
use crate::xml::{XmlNode, escaped_text};

/// The most parts of an upload, and of a page of them.
pub const MAX_PARTS: u32 = 10_000;

/// The most pages of a list that are read. Ten thousand parts have ten, or ten thousand where a store gives one a page.
const MAX_PAGES: usize = 20_000;

/// A part that the store has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadedPart {
    /// The number, from 1.
    pub number: u32,
    /// Bytes, where the store said so: not in the response to its upload.
    pub size: u64,
    /// The entity tag without its quotes.
    pub etag: String,
    /// Checksums that the store computed.
    pub checksums: Vec<Checksum>,
}

/// An upload that is neither complete nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUpload {
    /// The key that it will have.
    pub key: String,
    pub upload_id: String,
    /// When it was begun, in ISO 8601.
    pub initiated: String,
    pub storage_class: String,
}

/// An upload under way: which object it will be, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartUpload {
    pub address: S3Address,
    /// The id that the store gave.
    pub upload_id: String,
}

impl S3Client {
    /// CreateMultipartUpload. `headers` say what the object will be; `checksum` is the algorithm of its parts, which the store then
    /// computes of the whole object, too, where the algorithm allows that (CRCs).
    ///
    /// # Errors
    /// Those of the request and of S3. If the connection breaks, there may be an upload that nobody knows the id of.
    pub async fn create_multipart_upload(
        &self,
        address: &S3Address,
        checksum: Option<DigestAlgorithm>,
        headers: HeaderMap,
    ) -> Result<MultipartUpload, S3Error> {
        let mut request = S3Request::new(CREATE_MULTIPART_UPLOAD, Method::POST, address)
            .query("uploads", "")
            .headers(headers);
        if let Some(names) = checksum.and_then(DigestAlgorithm::s3) {
            let kind = if names.name.starts_with("CRC") {
                "FULL_OBJECT"
            } else {
                "COMPOSITE"
            };
            request = request
                .header("x-amz-checksum-algorithm", names.name)
                .header("x-amz-checksum-type", kind);
        }
        let (_, root) = self.send_for_document(&request).await?;
        let upload_id = root.text_of("UploadId");
        if upload_id.is_empty() {
            let text = "it has no upload id".to_owned();
            return Err(request.failed(S3ErrorKind::Response(text)));
        }
        Ok(MultipartUpload {
            address: address.clone(),
            upload_id: upload_id.to_owned(),
        })
    }

    /// UploadPart. `checksums` are those of the body; the store refuses other bytes.
    ///
    /// # Errors
    /// Those of the request and of S3.
    pub async fn upload_part(
        &self,
        upload: &MultipartUpload,
        number: u32,
        body: RequestBody,
        checksums: &[Checksum],
    ) -> Result<UploadedPart, S3Error> {
        let size = body.length().unwrap_or_default();
        let request = self.part_request("UploadPart", upload, number);
        let fields = checksums.iter().filter_map(checksum_field);
        let request = request.headers(fields.collect()).body(body);
        let headers = self.send_for_headers(&request).await?;
        let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok());
        let Some(etag) = etag else {
            let text = "a part has no entity tag".to_owned();
            return Err(request.failed(S3ErrorKind::Response(text)));
        };
        Ok(UploadedPart {
            number,
            size,
            etag: unquoted(etag),
            checksums: checksums_in_headers(&headers),
        })
    }

    /// UploadPartCopy: a part from a range of another object. The range is inclusive on the wire only.
    ///
    /// # Errors
    /// Those of the request and of S3, also where they come in a response that began with 200 (row F1).
    pub async fn upload_part_copy(
        &self,
        upload: &MultipartUpload,
        number: u32,
        source: CopySource<'_>,
        range: std::ops::Range<u64>,
    ) -> Result<UploadedPart, S3Error> {
        let request = self.part_request("UploadPartCopy", upload, number);
        let bytes = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let request = source
            .add_to(request)
            .header("x-amz-copy-source-range", &bytes);
        let (_, root) = self.send_for_document(&request).await?;
        Ok(UploadedPart {
            number,
            size: range.end - range.start,
            etag: required_etag(&request, &root)?,
            checksums: checksums_in_element(&root),
        })
    }

    fn part_request<'a>(
        &self,
        operation: &'static str,
        upload: &'a MultipartUpload,
        number: u32,
    ) -> S3Request<'a> {
        S3Request::new(operation, Method::PUT, &upload.address)
            .query("partNumber", number.to_string())
            .query("uploadId", &*upload.upload_id)
    }

    /// CompleteMultipartUpload: makes the parts an object. `headers` may carry conditions and the checksum of the whole.
    ///
    /// # Errors
    /// Those of the request and of S3, also where they come in a response that began with 200 (row F1). A repeat may be refused with
    /// `NoSuchUpload` although the first request did its work (row F2): then HeadObject tells.
    pub async fn complete_multipart_upload(
        &self,
        upload: &MultipartUpload,
        parts: &[UploadedPart],
        headers: HeaderMap,
    ) -> Result<StoredObject, S3Error> {
        let mut document = String::from(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
        );
        for part in parts {
            let etag = escaped_text(&part.etag);
            // Writing into a String cannot fail.
            let _ = write!(
                document,
                "<Part><PartNumber>{}</PartNumber><ETag>&quot;{etag}&quot;</ETag>",
                part.number
            );
            for (name, text) in part.checksums.iter().filter_map(checksum_element) {
                let _ = write!(document, "<{name}>{text}</{name}>");
            }
            document.push_str("</Part>");
        }
        document.push_str("</CompleteMultipartUpload>");
        let request = S3Request::new("CompleteMultipartUpload", Method::POST, &upload.address)
            .query("uploadId", &*upload.upload_id)
            .headers(headers)
            .header("content-type", "application/xml")
            .body(RequestBody::Bytes(document.into()));
        let (headers, root) = self.send_for_document(&request).await?;
        let version_id = headers.get("x-amz-version-id");
        Ok(StoredObject {
            etag: required_etag(&request, &root)?,
            checksums: checksums_in_element(&root),
            version_id: version_id.and_then(|id| Some(id.to_str().ok()?.to_owned())),
        })
    }

    /// AbortMultipartUpload: removes the parts that the store has. Parts that are still under way may arrive later (row F13).
    ///
    /// # Errors
    /// Those of the request and of S3; [`S3Error::is_not_found`] where there is no such upload any more.
    pub async fn abort_multipart_upload(&self, upload: &MultipartUpload) -> Result<(), S3Error> {
        let request = S3Request::new("AbortMultipartUpload", Method::DELETE, &upload.address)
            .query("uploadId", &*upload.upload_id);
        self.send_for_headers(&request).await.map(drop)
    }

    /// ListParts: all parts of an upload, from all pages (row F11).
    ///
    /// # Errors
    /// Those of the request and of S3; pages that do not advance.
    pub async fn list_parts(&self, upload: &MultipartUpload) -> Result<Vec<UploadedPart>, S3Error> {
        let mut parts: Vec<UploadedPart> = Vec::new();
        let mut marker = String::new();
        for _ in 0..MAX_PAGES {
            let request = S3Request::new("ListParts", Method::GET, &upload.address)
                .query("uploadId", &*upload.upload_id)
                .query_if("part-number-marker", &marker);
            let (_, root) = self.send_for_document(&request).await?;
            parts.extend(root.all("Part").map(listed_part));
            let next = root.text_of("NextPartNumberMarker");
            if !root.is_true("IsTruncated") {
                return Ok(parts);
            }
            if next.is_empty() {
                return Err(request.failed(S3ErrorKind::StuckList(NO_TOKEN)));
            }
            if next == marker {
                return Err(request.failed(S3ErrorKind::StuckList(SAME_TOKEN)));
            }
            next.clone_into(&mut marker);
        }
        let kind = S3ErrorKind::StuckList("there are too many pages of parts");
        Err(S3Error::new("ListParts", &upload.address, kind))
    }

    /// ListMultipartUploads: unfinished uploads of keys that begin with the address's key, in all pages.
    ///
    /// # Errors
    /// Those of the request and of S3; pages that do not advance.
    pub async fn list_multipart_uploads(
        &self,
        prefix: &S3Address,
    ) -> Result<Vec<PendingUpload>, S3Error> {
        let bucket = prefix.with_key("");
        let mut uploads = Vec::new();
        let (mut key_marker, mut id_marker) = (String::new(), String::new());
        for _ in 0..MAX_PAGES {
            let request = S3Request::new("ListMultipartUploads", Method::GET, &bucket)
                .query("uploads", "")
                .query_if("prefix", &prefix.key)
                .query_if("key-marker", &key_marker)
                .query_if("upload-id-marker", &id_marker);
            let (_, root) = self.send_for_document(&request).await?;
            let page: Vec<_> = root.all("Upload").map(pending_upload).collect();
            if page
                .iter()
                .any(|upload| !upload.key.starts_with(&prefix.key))
            {
                let text = "a key does not begin with the prefix".to_owned();
                return Err(request.failed(S3ErrorKind::Response(text)));
            }
            uploads.extend(page);
            let next = (
                root.text_of("NextKeyMarker"),
                root.text_of("NextUploadIdMarker"),
            );
            if !root.is_true("IsTruncated") {
                return Ok(uploads);
            }
            if next.0.is_empty() {
                return Err(request.failed(S3ErrorKind::StuckList(NO_TOKEN)));
            }
            if next == (&*key_marker, &*id_marker) {
                return Err(request.failed(S3ErrorKind::StuckList(SAME_TOKEN)));
            }
            (key_marker, id_marker) = (next.0.to_owned(), next.1.to_owned());
        }
        let kind = S3ErrorKind::StuckList("there are too many pages of uploads");
        Err(S3Error::new("ListMultipartUploads", &bucket, kind))
    }
}

fn listed_part(part: &XmlNode) -> UploadedPart {
    UploadedPart {
        number: part.text_of("PartNumber").parse().unwrap_or_default(),
        size: part.text_of("Size").parse().unwrap_or_default(),
        etag: unquoted(part.text_of("ETag")),
        checksums: checksums_in_element(part),
    }
}

fn pending_upload(upload: &XmlNode) -> PendingUpload {
    PendingUpload {
        key: upload.text_of("Key").to_owned(),
        upload_id: upload.text_of("UploadId").to_owned(),
        initiated: upload.text_of("Initiated").to_owned(),
        storage_class: upload.text_of("StorageClass").to_owned(),
    }
}
