//! Carries out S3's operations on the store.
//!
//! [`S3Dialect`] takes a request through the decisions of this crate: its signature, its operation, its rights. An
//! `S3Call` is what is left of it, for `buckets`, `lists`, `objects`, `uploads`, `multipart`, `complete`, `multipart_lists`,
//! `object_attributes`, `copies` and `tags`, each with the operations of its name. `object_headers` turns header fields into the
//! attributes that are stored with an object, and back; `body_source` is a request's body, decoded
//! and checked while an upload reads it; `responses` makes responses and errors.

mod body_source;
mod buckets;
mod complete;
mod copies;
mod lists;
mod multipart;
mod multipart_lists;
mod object_attributes;
mod object_headers;
mod objects;
mod responses;
mod tags;
mod uploads;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_serve::access::{AccessRight, is_cross_site};
use haul_serve::dialect::{
    BoxedResponse, Dialect, DialectClaim, DialectRequest, DialectResponse, IncomingBody,
    RequestContext, ServeResponse,
};
use haul_serve::{FileServer, ObjectKey, ObjectKeyError};
use haul_service::request_host;
use http::{HeaderMap, Method, request};

use self::responses::{ResponseContext, denied};
use crate::{
    PayloadMode, S3AuthRequest, S3Authentication, S3Authenticator, S3ErrorCode, S3Failure,
    S3Operation, S3Options, S3Permissions, S3Query, S3Target, check_supported,
};

/// Maximum bytes of a key.
const MAX_KEY: usize = 1024;

/// An authorized request.
#[derive(Debug)]
struct S3Call {
    context: RequestContext,
    method: Method,
    headers: HeaderMap,
    query: S3Query,
    target: S3Target,
    permissions: S3Permissions,
    is_signed: bool,
}

/// A request that was authorized, and how its body is signed.
#[derive(Debug)]
struct AuthorizedRequest {
    operation: S3Operation,
    payload: PayloadMode,
    body: IncomingBody,
    call: S3Call,
}

/// S3 as a dialect of a server ([`FileServerOptions::dialect`](haul_serve::FileServerOptions::dialect)).
#[derive(Debug)]
pub struct S3Dialect {
    options: S3Options,
}

impl S3Dialect {
    #[must_use]
    pub fn new(options: S3Options) -> Self {
        Self { options }
    }
}

impl Dialect for S3Dialect {
    fn claim(&self, head: &request::Parts) -> Option<DialectClaim> {
        let (method, headers, uri) = (&head.method, &head.headers, &head.uri);
        if self.options.is_http_upload(method, headers, uri) {
            return Some(DialectClaim::HttpUpload);
        }
        let claim = || DialectClaim::Request {
            is_signed: S3Authenticator::is_signed(headers, uri.query()),
        };
        self.options.serves(method, headers, uri).then(claim)
    }

    fn respond(self: Arc<Self>, request: DialectRequest) -> BoxedResponse<DialectResponse> {
        Box::pin(async move {
            let responses = ResponseContext::new(&request.head);
            let mut user = None;
            let result = match authorize(&self.options, request, &mut user) {
                Ok(request) => carry_out(request, &self.options).await,
                Err(failure) => Err(failure),
            };
            let response = responses.complete(result);
            DialectResponse { response, user }
        })
    }

    fn takes_http_uploads(&self) -> bool {
        self.options.is_http_on
    }

    fn upload_expiry(&self) -> Duration {
        self.options.upload_expiry
    }
}

/// Finds the sender and the operation of a request. `user` gets the access key if the signature is right.
fn authorize(
    options: &S3Options,
    request: DialectRequest,
    user: &mut Option<Arc<str>>,
) -> Result<AuthorizedRequest, S3Failure> {
    let DialectRequest {
        context,
        head,
        body,
        http_upload,
    } = request;
    let query = S3Query::parse(head.uri.query())?;
    let target = options.target(&head.headers, &head.uri)?;
    let (permissions, payload, is_signed) = match &http_upload {
        None => authenticate(options, &head, &query, user)?,
        Some(_) => {
            let payload = PayloadMode::anonymous(&head.headers)?;
            let permissions = S3Permissions::everywhere(AccessRight::Write);
            (permissions, payload, false)
        }
    };
    let headers = query.with_moved_fields(&head.headers);
    let headers = headers.unwrap_or(head.headers);
    let operation = S3Operation::parse(&head.method, &target, &query, &headers)?;
    check_supported(operation, &headers)?;
    // Only these operations, and only this key, as both dialects read the path.
    let is_permitted =
        |key: ObjectKey| operation.is_of_http_upload() && is_stored_at(&target, &key);
    if !http_upload.is_none_or(is_permitted) {
        return Err(S3ErrorCode::AccessDenied.into());
    }
    if let (Some(right), Some(bucket)) = (operation.needed_right(), &target.bucket) {
        if !permissions.allows(right, bucket) {
            return Err(S3ErrorCode::AccessDenied.into());
        }
        // A page of another site makes a browser send the request: it could do so in the name of everybody whose browser reaches this server.
        let host = request_host(&headers, &head.uri).unwrap_or_default();
        let is_write = right == AccessRight::Write;
        if is_write && !is_signed && is_cross_site(&headers, host, context.is_tls()) {
            return Err(denied("Pages of other sites may not change anything here."));
        }
        if is_write && !context.server().store().options().writable {
            return Err(denied("This server is read-only."));
        }
    }
    Ok(AuthorizedRequest {
        operation,
        payload,
        body,
        call: S3Call {
            context,
            method: head.method,
            headers,
            query,
            target,
            permissions,
            is_signed,
        },
    })
}

/// Finds who has signed a request, what that permits, and how the body is signed.
fn authenticate(
    options: &S3Options,
    head: &request::Parts,
    query: &S3Query,
    user: &mut Option<Arc<str>>,
) -> Result<(S3Permissions, PayloadMode, bool), S3Failure> {
    let authentication = options.authenticator.authenticate(&S3AuthRequest {
        method: &head.method,
        uri: &head.uri,
        headers: &head.headers,
        query,
        now: SystemTime::now(),
    })?;
    match authentication {
        S3Authentication::Signed(identity) => {
            *user = Some(identity.access_key.into());
            Ok((identity.permissions, identity.payload, true))
        }
        S3Authentication::Anonymous => {
            let right = options.anonymous.ok_or(S3ErrorCode::AccessDenied)?;
            let payload = PayloadMode::anonymous(&head.headers)?;
            Ok((S3Permissions::everywhere(right), payload, false))
        }
    }
}

/// Whether an object is the file of a key.
fn is_stored_at(target: &S3Target, key: &ObjectKey) -> bool {
    let (Some(bucket), Some(name)) = (&target.bucket, &target.key) else {
        return false;
    };
    StoredKey::new(bucket, name).is_ok_and(|stored| stored.key == *key)
}

async fn carry_out(
    request: AuthorizedRequest,
    options: &S3Options,
) -> Result<ServeResponse, S3Failure> {
    let AuthorizedRequest {
        operation,
        payload,
        body,
        call,
    } = request;
    match operation {
        S3Operation::ListBuckets => call.list_buckets().await,
        S3Operation::CreateBucket => {
            let region = options.authenticator.region();
            call.create_bucket(region, payload, body).await
        }
        S3Operation::DeleteBucket => call.delete_bucket().await,
        S3Operation::HeadBucket => call.head_bucket(options.authenticator.region()).await,
        S3Operation::GetBucketLocation => {
            call.bucket_location(options.authenticator.region()).await
        }
        S3Operation::GetBucketSetting(setting) => call.bucket_setting(setting).await,
        S3Operation::GetAcl => call.acl().await,
        S3Operation::ListObjects => call.list_objects(false).await,
        S3Operation::ListObjectsV2 => call.list_objects(true).await,
        S3Operation::DeleteObjects => call.delete_objects(payload, body).await,
        S3Operation::GetObject | S3Operation::HeadObject => call.get_object().await,
        S3Operation::GetObjectAttributes => call.object_attributes().await,
        S3Operation::PutObject => call.put_object(payload, body).await,
        S3Operation::CopyObject => call.copy_object().await,
        S3Operation::DeleteObject => call.delete_object().await,
        S3Operation::CreateMultipartUpload => call.create_multipart_upload().await,
        S3Operation::UploadPart => call.upload_part(payload, body).await,
        S3Operation::UploadPartCopy => call.upload_part_copy().await,
        S3Operation::CompleteMultipartUpload => call.complete_multipart_upload(payload, body).await,
        S3Operation::AbortMultipartUpload => call.abort_multipart_upload().await,
        S3Operation::ListParts => call.list_parts().await,
        S3Operation::ListMultipartUploads => call.list_multipart_uploads().await,
        S3Operation::GetObjectTagging => call.object_tags().await,
        S3Operation::PutObjectTagging => call.put_object_tags(payload, body).await,
        S3Operation::DeleteObjectTagging => call.delete_object_tags().await,
    }
}

/// The key of an object in the store.
#[derive(Debug, Clone)]
struct StoredKey {
    bucket: ObjectKey,
    key: ObjectKey,
    /// Whether S3's key ends in a slash.
    is_folder: bool,
}

impl StoredKey {
    /// The key of an object in a bucket.
    fn new(bucket: &str, key: &str) -> Result<Self, S3Failure> {
        if key.len() > MAX_KEY {
            return Err(S3ErrorCode::KeyTooLongError.into());
        }
        let bucket = bucket_key(bucket)?;
        let (path, is_folder) = match key.strip_suffix('/') {
            Some(path) => (path, true),
            None => (key, false),
        };
        let mut stored = bucket.clone();
        for segment in path.split('/') {
            stored = stored.child(segment.as_bytes()).map_err(|error| {
                let message = format!(
                    "Objects are files here, and this key is not the path of one: {error}."
                );
                match error {
                    ObjectKeyError::TooLong => {
                        S3Failure::with_message(S3ErrorCode::KeyTooLongError, message)
                    }
                    _ => S3Failure::invalid_argument("key", key, message),
                }
            })?;
        }
        Ok(Self {
            bucket,
            key: stored,
            is_folder,
        })
    }
}

/// The folder of a bucket.
fn bucket_key(bucket: &str) -> Result<ObjectKey, S3Failure> {
    let is_hidden = bucket.starts_with('.');
    let key = ObjectKey::root().child(bucket.as_bytes());
    key.ok()
        .filter(|_| !is_hidden)
        .ok_or_else(|| S3ErrorCode::InvalidBucketName.into())
}

impl S3Call {
    fn server(&self) -> &FileServer {
        self.context.server()
    }

    fn bucket(&self) -> &str {
        self.target.bucket.as_deref().unwrap_or_default()
    }

    /// The key of the request as S3 has it.
    fn key(&self) -> &str {
        self.target.key.as_deref().unwrap_or_default()
    }

    fn stored_key(&self) -> Result<StoredKey, S3Failure> {
        StoredKey::new(self.bucket(), self.key())
    }

    /// The folder of the bucket, if it is there.
    async fn existing_bucket(&self) -> Result<ObjectKey, S3Failure> {
        let key = bucket_key(self.bucket())?;
        let (store, folder) = (Arc::clone(self.server().store()), key.clone());
        let found = self
            .server()
            .disk()
            .run(move || store.root().open_folder(&folder).is_ok());
        if found.await {
            Ok(key)
        } else {
            Err(self.no_such_bucket())
        }
    }

    fn no_such_bucket(&self) -> S3Failure {
        S3Failure::new(S3ErrorCode::NoSuchBucket).element("BucketName", self.bucket())
    }
}
