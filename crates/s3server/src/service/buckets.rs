//! Buckets: the folders at the top of the store.

use std::sync::Arc;

use haul_serve::RequestPath;
use haul_serve::access::AccessRight;
use haul_serve::dialect::{IncomingBody, ServeResponse, empty_response};
use haul_serve::store::StoreError;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION};

use super::body_source::S3BodySource;
use super::responses::document_response;
use super::{S3Call, bucket_key};
use crate::xml::{MAX_SMALL_DOCUMENT, XmlDocument, parse_create_bucket};
use crate::{BodyExpectations, BucketSetting, PayloadMode, S3ErrorCode, S3Failure, iso_time};

const BUCKET_REGION: HeaderName = HeaderName::from_static("x-amz-bucket-region");

/// Maximum buckets of a page.
const MAX_BUCKETS: usize = 10_000;

/// Who owns everything here.
pub(super) fn write_owner(document: &mut XmlDocument, name: &'static str) {
    document.open(name);
    document.text("ID", "haul");
    document.text("DisplayName", "haul");
    document.close();
}

impl S3Call {
    pub(super) async fn list_buckets(&self) -> Result<ServeResponse, S3Failure> {
        let store = Arc::clone(self.server().store());
        let folders = self
            .server()
            .disk()
            .run(move || store.root().top_folders())
            .await
            .map_err(|error| self.store_failure(&error.into()))?;
        let max = self.number_parameter("max-buckets")?;
        if max.is_some_and(|max| !(1..=MAX_BUCKETS).contains(&max)) {
            let message = "Argument max-buckets must be an integer between 1 and 10000";
            return Err(S3Failure::invalid_argument("max-buckets", "", message));
        }
        let prefix = self.query.get("prefix").unwrap_or_default();
        let after = self.query.get("continuation-token").unwrap_or_default();
        let mut found = folders.iter().filter(|(name, _)| {
            name.starts_with(prefix)
                && name.as_str() > after
                && self.permissions.allows(AccessRight::Read, name)
        });
        let page: Vec<_> = found.by_ref().take(max.unwrap_or(MAX_BUCKETS)).collect();
        let mut document = XmlDocument::new("ListAllMyBucketsResult");
        write_owner(&mut document, "Owner");
        document.open("Buckets");
        for (name, modified) in &page {
            document.open("Bucket");
            document.text("Name", name);
            document.text("CreationDate", &iso_time(*modified));
            document.close();
        }
        document.close();
        // The token is the last name.
        if let (Some((last, _)), Some(_)) = (page.last(), found.next()) {
            document.text("ContinuationToken", last);
        }
        document.optional("Prefix", self.query.get("prefix"));
        Ok(document_response(document))
    }

    pub(super) async fn create_bucket(
        &self,
        region: &str,
        payload: PayloadMode,
        body: IncomingBody,
    ) -> Result<ServeResponse, S3Failure> {
        if !is_bucket_name(self.bucket()) {
            return Err(S3ErrorCode::InvalidBucketName.into());
        }
        let expectations = BodyExpectations::parse(&self.headers, payload)?;
        let (source, _) = S3BodySource::new(body, expectations, []);
        let document = source.read_document(MAX_SMALL_DOCUMENT).await?;
        let wanted = parse_create_bucket(&document)?;
        if wanted.as_deref().is_some_and(|wanted| wanted != region) {
            let code = S3ErrorCode::IllegalLocationConstraintException;
            return Err(S3Failure::new(code));
        }
        let key = bucket_key(self.bucket())?;
        let store = Arc::clone(self.server().store());
        let created = self
            .server()
            .disk()
            .write(move || store.create_folder(&key));
        match created.await {
            Ok(true) => {
                let mut response = empty_response(StatusCode::OK);
                if let Ok(location) = HeaderValue::try_from(format!("/{}", self.bucket())) {
                    response.headers_mut().insert(LOCATION, location);
                }
                Ok(response)
            }
            Ok(false) => Err(S3Failure::new(S3ErrorCode::BucketAlreadyOwnedByYou)
                .element("BucketName", self.bucket())),
            Err(StoreError::Conflict) => Err(S3ErrorCode::BucketAlreadyExists.into()),
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    pub(super) async fn delete_bucket(&self) -> Result<ServeResponse, S3Failure> {
        let path = RequestPath {
            key: self.existing_bucket().await?,
            is_folder: true,
        };
        let (store, bucket) = (Arc::clone(self.server().store()), self.bucket().to_owned());
        let deleted = self.server().disk().write(move || {
            store.delete(&path, None)?;
            // A bucket that gets this name later has none of its uploads.
            store.abort_uploads_of(&bucket)
        });
        match deleted.await {
            Ok(()) => Ok(empty_response(StatusCode::NO_CONTENT)),
            Err(StoreError::NotEmpty) => Err(S3ErrorCode::BucketNotEmpty.into()),
            Err(StoreError::NotFound) => Err(self.no_such_bucket()),
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    pub(super) async fn head_bucket(&self, region: &str) -> Result<ServeResponse, S3Failure> {
        self.existing_bucket().await?;
        let mut response = empty_response(StatusCode::OK);
        if let Ok(region) = HeaderValue::try_from(region) {
            response.headers_mut().insert(BUCKET_REGION, region);
        }
        Ok(response)
    }

    pub(super) async fn bucket_location(&self, region: &str) -> Result<ServeResponse, S3Failure> {
        self.existing_bucket().await?;
        // The one region whose name S3 leaves out.
        let region = if region == "us-east-1" { "" } else { region };
        let root = "LocationConstraint";
        let text = XmlDocument::new(root)
            .finish()
            .replace(&format!("</{root}>"), &format!("{region}</{root}>"));
        Ok(super::responses::xml_response(StatusCode::OK, text))
    }

    pub(super) async fn bucket_setting(
        &self,
        setting: BucketSetting,
    ) -> Result<ServeResponse, S3Failure> {
        self.existing_bucket().await?;
        match setting {
            BucketSetting::Missing(code) => {
                Err(S3Failure::new(code).element("BucketName", self.bucket()))
            }
            BucketSetting::Document(root, name, value) => {
                let mut document = XmlDocument::new(root);
                if !name.is_empty() {
                    document.text(name, value);
                }
                Ok(document_response(document))
            }
        }
    }

    /// The access list that everything has: its owner may do everything.
    pub(super) async fn acl(&self) -> Result<ServeResponse, S3Failure> {
        match self.target.key {
            Some(_) => drop(self.open_object().await?),
            None => drop(self.existing_bucket().await?),
        }
        let text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
            <AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Owner><ID>haul</ID><DisplayName>haul</DisplayName></Owner><AccessControlList><Grant>\
            <Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\">\
            <ID>haul</ID><DisplayName>haul</DisplayName></Grantee><Permission>FULL_CONTROL</Permission>\
            </Grant></AccessControlList></AccessControlPolicy>";
        Ok(super::responses::xml_response(
            StatusCode::OK,
            text.to_owned(),
        ))
    }
}

/// What names of buckets do not begin and end with: S3 keeps these for others.
const RESERVED_STARTS: [&str; 2] = ["xn--", "sthree-"];
const RESERVED_ENDS: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/// Whether a new bucket may have this name (S3's user guide, "Bucket naming rules").
fn is_bucket_name(name: &str) -> bool {
    let is_end =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    let is_allowed =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte);
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(is_allowed)
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
        && !RESERVED_STARTS.iter().any(|start| name.starts_with(start))
        && !RESERVED_ENDS.iter().any(|end| name.ends_with(end))
        && name.parse::<std::net::Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_new_buckets_are_those_of_s3() {
        for name in ["abc", "a-b.c", "0a0", &"a".repeat(63)] {
            assert!(is_bucket_name(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in [
            "ab",
            "Abc",
            "a_b",
            "-ab",
            "ab.",
            "a..b",
            "192.168.0.1",
            ".haul",
            "xn--abc",
            "abc-s3alias",
            &long,
        ] {
            assert!(!is_bucket_name(name), "{name}");
        }
    }
}
