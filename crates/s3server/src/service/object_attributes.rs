//! GetObjectAttributes: what is known of an object, and of the parts that it was uploaded in.

use haul_serve::dialect::ServeResponse;
use haul_serve::store::ObjectAttributes;
use http::HeaderMap;

use super::S3Call;
use super::object_headers::{object_etag, write_checksum};
use super::objects::insert_modified;
use super::responses::document_response;
use crate::xml::XmlDocument;
use crate::{S3ErrorCode, S3Failure, checksum_algorithm_of_name, checksum_element};

/// Parts of a page.
const MAX_PARTS: usize = 1000;

/// What can be asked for.
const ATTRIBUTES: [&str; 5] = [
    "ETag",
    "Checksum",
    "ObjectParts",
    "StorageClass",
    "ObjectSize",
];

/// The attributes that a request asks for.
fn wanted_attributes(headers: &HeaderMap) -> Result<Vec<&str>, S3Failure> {
    let values = headers.get_all("x-amz-object-attributes").iter();
    let wanted: Vec<&str> = values
        .flat_map(|value| value.to_str().unwrap_or("?").split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    if wanted.is_empty() {
        let message = "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing \
            or empty";
        return Err(S3Failure::with_message(
            S3ErrorCode::InvalidRequest,
            message,
        ));
    }
    match wanted.iter().find(|name| !ATTRIBUTES.contains(name)) {
        Some(unknown) => {
            let message = "Invalid attribute name specified.";
            Err(S3Failure::invalid_argument(
                "x-amz-object-attributes",
                *unknown,
                message,
            ))
        }
        None => Ok(wanted),
    }
}

impl S3Call {
    pub(super) async fn object_attributes(&self) -> Result<ServeResponse, S3Failure> {
        let wanted = match wanted_attributes(&self.headers) {
            Ok(wanted) => wanted,
            Err(failure) => {
                self.existing_bucket().await?;
                return Err(failure);
            }
        };
        let object = self.open_object().await?;
        let metadata = object.metadata();
        let has = |name: &str| wanted.contains(&name);
        let mut document = XmlDocument::new("GetObjectAttributesResponse");
        if has("ETag") {
            document.text("ETag", &object_etag(metadata));
        }
        let attributes = metadata.attributes.as_deref();
        if let Some(attributes) = attributes.filter(|found| found.checksum.is_some())
            && has("Checksum")
        {
            document.open("Checksum");
            write_checksum(&mut document, attributes);
            document.close();
        }
        if let Some(attributes) = attributes.filter(|found| !found.parts.is_empty())
            && has("ObjectParts")
        {
            self.write_parts(&mut document, attributes)?;
        }
        if has("StorageClass") {
            document.text("StorageClass", "STANDARD");
        }
        if has("ObjectSize") {
            document.value("ObjectSize", metadata.len);
        }
        let mut response = document_response(document);
        insert_modified(response.headers_mut(), metadata);
        Ok(response)
    }

    /// A page of parts. Their numbers count from 1, as those of GetObject do, whatever the client numbered them.
    fn write_parts(
        &self,
        document: &mut XmlDocument,
        attributes: &ObjectAttributes,
    ) -> Result<(), S3Failure> {
        let max = self.number_of("x-amz-max-parts")?.unwrap_or(MAX_PARTS);
        let after = self.number_of("x-amz-part-number-marker")?.unwrap_or(0);
        let max = max.min(MAX_PARTS);
        let checksum = attributes.checksum.as_ref();
        let element = checksum
            .and_then(|checksum| checksum_algorithm_of_name(&checksum.algorithm))
            .and_then(checksum_element);
        let parts = attributes.parts.iter().zip(1_usize..).skip(after);
        document.open("ObjectParts");
        document.value("PartsCount", attributes.parts.len());
        document.value("PartNumberMarker", after);
        document.value("MaxParts", max);
        let last = after.saturating_add(max).min(attributes.parts.len());
        document.value("NextPartNumberMarker", last);
        document.value("IsTruncated", last < attributes.parts.len());
        for (part, number) in parts.take(max) {
            document.open("Part");
            document.value("PartNumber", number);
            document.value("Size", part.len);
            if let (Some(element), Some(checksum)) = (element, &part.checksum) {
                document.text(element, checksum);
            }
            document.close();
        }
        document.close();
        Ok(())
    }

    /// The number in a header field.
    fn number_of(&self, name: &'static str) -> Result<Option<usize>, S3Failure> {
        let Some(value) = self.headers.get(name) else {
            return Ok(None);
        };
        let text = value.to_str().unwrap_or_default();
        let number = text.parse().map_err(|_| {
            let message = "Provided value is not a number of parts.";
            S3Failure::invalid_argument(name, text, message)
        });
        number.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn attributes_are_named_and_known() {
        let wanted = |value| {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-object-attributes", HeaderValue::from_static(value));
            wanted_attributes(&headers)
                .map(|wanted| wanted.len())
                .map_err(|failure| failure.code)
        };
        assert_eq!(wanted("ETag, ObjectSize"), Ok(2));
        assert_eq!(wanted(""), Err(S3ErrorCode::InvalidRequest));
        assert_eq!(wanted("ETag,Nothing"), Err(S3ErrorCode::InvalidArgument));
        let none = wanted_attributes(&HeaderMap::new()).expect_err("no field");
        assert_eq!(none.code, S3ErrorCode::InvalidRequest);
    }
}
