//! Tags of objects.

use std::sync::Arc;

use haul_serve::dialect::{IncomingBody, ServeResponse, empty_response};
use http::StatusCode;

use super::S3Call;
use super::responses::document_response;
use crate::xml::{MAX_SMALL_DOCUMENT, XmlDocument, parse_tagging};
use crate::{PayloadMode, S3Failure};

impl S3Call {
    pub(super) async fn object_tags(&self) -> Result<ServeResponse, S3Failure> {
        let object = self.open_object().await?;
        let mut document = XmlDocument::new("Tagging");
        document.open("TagSet");
        let attributes = object.metadata().attributes.as_deref();
        for (key, value) in attributes.map_or(&[][..], |found| &found.tags) {
            document.open("Tag");
            document.text("Key", key);
            document.text("Value", value);
            document.close();
        }
        Ok(document_response(document))
    }

    pub(super) async fn put_object_tags(
        &self,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        let document = self
            .read_document(payload, body, MAX_SMALL_DOCUMENT)
            .await?;
        let tags = parse_tagging(&document)?
            .into_iter()
            .map(|tag| (tag.key, tag.value))
            .collect();
        self.set_object_tags(tags).await?;
        Ok(empty_response(StatusCode::OK))
    }

    pub(super) async fn delete_object_tags(&self) -> Result<ServeResponse, S3Failure> {
        self.set_object_tags(Vec::new()).await?;
        Ok(empty_response(StatusCode::NO_CONTENT))
    }

    async fn set_object_tags(&self, tags: Vec<(String, String)>) -> Result<(), S3Failure> {
        let object = self.open_object().await?;
        let (store, key) = (Arc::clone(self.server().store()), self.stored_key()?.key);
        let etag = super::object_headers::object_etag(object.metadata());
        let set = self.server().disk().write(move || {
            store.set_attributes(&key, &object, |attributes| {
                attributes.tags = tags;
                if attributes.etag.is_empty() {
                    attributes.etag = etag;
                }
            })
        });
        set.await.map_err(|error| self.store_failure(&error))
    }
}
