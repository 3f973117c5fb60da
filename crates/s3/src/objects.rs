//! Operations on one object: put, head, delete, copy.

use haul_net::RequestBody;
use haul_plan::Checksum;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, Method};
use url::form_urlencoded;

use crate::address::{S3Address, escaped_key};
use crate::checksums::checksums_in_headers;
use crate::client::{S3Client, S3Request};
use crate::error::{S3Error, S3ErrorKind};
use crate::xml::XmlNode;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectMetadata {
    /// Bytes of the object.
    pub size: u64,
    /// The entity tag without its quotes.
    pub etag: String,
    /// The modification date as HTTP writes it.
    pub last_modified: Option<String>,
    pub content_type: Option<String>,
    /// Checksums of all its bytes that the store knows.
    pub checksums: Vec<Checksum>,
    /// The storage class; empty is the standard one.
    pub storage_class: String,
    /// The version of the object in a bucket that keeps versions.
    pub version_id: Option<String>,
    /// All fields of the response, the user's metadata (`x-amz-meta-...`) among them.
    pub headers: HeaderMap,
}

/// What a store says about an object that it has just stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredObject {
    /// The entity tag without its quotes.
    pub etag: String,
    /// Checksums of all its bytes, as the store computed them.
    pub checksums: Vec<Checksum>,
    /// Its version in a bucket that keeps versions.
    pub version_id: Option<String>,
}

#[derive(Debug, Clone)]
pub struct CopySource<'a> {
    pub address: &'a S3Address,
    /// The entity tag that it must have: else it has changed (row F14).
    pub if_match: Option<&'a str>,
}

impl CopySource<'_> {
    pub(crate) fn add_to<'a>(&self, request: S3Request<'a>) -> S3Request<'a> {
        let S3Address { bucket, key, .. } = self.address;
        let source = format!("/{bucket}/{}", escaped_key(key));
        let request = request.header("x-amz-copy-source", &source);
        match self.if_match {
            None => request,
            Some(etag) => request.header("x-amz-copy-source-if-match", &format!("\"{etag}\"")),
        }
    }
}

impl S3Client {
    /// PutObject: stores an object with one request. `headers` say what it is: type, metadata, checksums, conditions.
    ///
    /// # Errors
    /// Those of the request and of S3. The key then has its old object, unless the connection broke when the request had been sent.
    pub async fn put_object(
        &self,
        address: &S3Address,
        body: RequestBody,
        headers: HeaderMap,
    ) -> Result<StoredObject, S3Error> {
        let request = S3Request::new("PutObject", Method::PUT, address)
            .headers(headers)
            .body(body);
        let headers = self.send_for_headers(&request).await?;
        let stored = stored_object(&headers);
        if stored.etag.is_empty() {
            // Something between here and the store may have put an error into a 200.

            let text = "an object that was stored has no entity tag".to_owned();
            Err(request.failed(S3ErrorKind::Response(text)))
        } else {
            Ok(stored)
        }
    }

    /// HeadObject: an object's metadata, with its checksums.
    ///
    /// # Errors
    /// Those of the request and of S3; one of S3 has the reason, although a HEAD has no body.
    pub async fn head_object(&self, address: &S3Address) -> Result<ObjectMetadata, S3Error> {
        let mut request = S3Request::new("HeadObject", Method::HEAD, address);
        if address.origin_text().is_some() {
            // It tells the server that the request is S3's, as AWS's own clients do.
            request = request.query("x-id", "HeadObject");
        }
        let headers = self.send_for_headers(&request).await?;
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let owned = |name: &str| text(name).map(str::to_owned);
        Ok(ObjectMetadata {
            size: text(CONTENT_LENGTH.as_str())
                .and_then(|length| length.parse().ok())
                .unwrap_or_default(),
            etag: unquoted(text(ETAG.as_str()).unwrap_or_default()),
            last_modified: owned(LAST_MODIFIED.as_str()),
            content_type: owned(CONTENT_TYPE.as_str()),
            checksums: checksums_in_headers(&headers),
            storage_class: owned("x-amz-storage-class").unwrap_or_default(),
            version_id: owned("x-amz-version-id"),
            headers,
        })
    }

    /// GetObjectTagging: the tags of an object, in the form of `x-amz-tagging`.
    ///
    /// # Errors
    /// Those of the request and of S3.
    pub async fn object_tagging(&self, address: &S3Address) -> Result<String, S3Error> {
        let request = S3Request::new("GetObjectTagging", Method::GET, address).query("tagging", "");
        let (_, root) = self.send_for_document(&request).await?;
        let tags = root.child("TagSet").into_iter();
        let pairs = tags.flat_map(|tags| {
            let pair = |tag: &XmlNode| {
                (
                    tag.text_of("Key").to_owned(),
                    tag.text_of("Value").to_owned(),
                )
            };
            tags.all("Tag").map(pair).collect::<Vec<_>>()
        });
        let mut text = form_urlencoded::Serializer::new(String::new());
        Ok(text.extend_pairs(pairs).finish())
    }

    /// DeleteObject. An object that does not exist is deleted, too.
    ///
    /// # Errors
    /// Those of the request and of S3.
    pub async fn delete_object(&self, address: &S3Address) -> Result<(), S3Error> {
        let request = S3Request::new("DeleteObject", Method::DELETE, address);
        self.send_for_headers(&request).await.map(drop)
    }

    /// CopyObject: copies up to 5 GiB inside the store. `headers` may replace metadata (`x-amz-metadata-directive`).
    ///
    /// # Errors
    /// Those of the request and of S3, also where they come in a response that began with 200 (row F1).
    pub async fn copy_object(
        &self,
        source: CopySource<'_>,
        target: &S3Address,
        headers: HeaderMap,
    ) -> Result<StoredObject, S3Error> {
        let request = S3Request::new("CopyObject", Method::PUT, target).headers(headers);
        let request = source.add_to(request);
        let (headers, root) = self.send_for_document(&request).await?;
        Ok(StoredObject {
            etag: required_etag(&request, &root)?,
            checksums: crate::checksums::checksums_in_element(&root),
            ..stored_object(&headers)
        })
    }
}

fn stored_object(headers: &HeaderMap) -> StoredObject {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    StoredObject {
        etag: unquoted(text(ETAG.as_str()).unwrap_or_default()),
        checksums: checksums_in_headers(headers),
        version_id: text("x-amz-version-id").map(str::to_owned),
    }
}

/// An entity tag without its quotes.
pub(crate) fn unquoted(etag: &str) -> String {
    etag.trim().trim_matches('"').to_owned()
}

/// The entity tag in the document of what was stored: another document is an error. Stores differ in its name.
///
/// # Errors
/// There is none.
pub(crate) fn required_etag(request: &S3Request<'_>, root: &XmlNode) -> Result<String, S3Error> {
    match unquoted(root.text_of("ETag")) {
        none if none.is_empty() => {
            let text = "it has no entity tag".to_owned();
            Err(request.failed(S3ErrorKind::Response(text)))
        }
        etag => Ok(etag),
    }
}
