//! What each method does, once the request is authorized.

use std::sync::Arc;

use haul_plan::serving::RequestConditions;
use haul_plan::upload::HTTP_MULTIPART_HEADER;
use haul_service::request_host;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode, request};

use super::error_response::{
    self, ErrorResponse, ServeResponse, empty_response, store_error_response, text_response,
    unsupported_method_response,
};
use super::request_body::IncomingBody;
use super::service::{ConnectionService, ParsedRequest, RequestKind, ResponseFuture};
use super::{FileServer, folder, form, get, login, put};
use crate::access::{AccessRight, CrossSiteWrite, PermissionSource, Permissions, is_cross_site};
use crate::page::ListQuery;
use crate::store::{CachedLookup, FileMetadata, OpenObject, StoreError};
use crate::{ObjectKey, RequestPath};

impl ConnectionService {
    /// Handles an authorized request.
    pub(super) fn respond(
        &self,
        request: ParsedRequest,
        body: IncomingBody,
        permissions: Permissions,
    ) -> ResponseFuture {
        let is_writable = self.server().store.options().writable;
        let method = &request.head.method;
        match request.kind {
            RequestKind::Plain => {}
            RequestKind::Login => {
                let access = &self.server().options.access;
                let response = login::respond(access, &request.path, &permissions);
                return ResponseFuture::Now(response);
            }
            RequestKind::DialectUpload(dialect) => {
                let key = Some(request.path.key);
                let response = dialect.respond(self.dialect_request(request.head, body, key));
                return ResponseFuture::later(async move { response.await.response });
            }
        }
        match *method {
            Method::GET | Method::HEAD => self.get(request, &permissions),
            Method::OPTIONS => ResponseFuture::Now(self.options(&request)),
            Method::PUT | Method::DELETE | Method::POST if is_writable => {
                match self.check_cross_site(&request, &permissions) {
                    Ok(()) => self.modify(request, body, permissions),
                    Err(response) => ResponseFuture::Now(*response),
                }
            }
            _ => ResponseFuture::Now(unsupported_method_response(method, is_writable)),
        }
    }

    /// Refuses a write that a page of another site makes a browser send, unless that page may
    /// write.
    fn check_cross_site(
        &self,
        request: &ParsedRequest,
        permissions: &Permissions,
    ) -> Result<(), ErrorResponse> {
        let head = &request.head;
        let host = request_host(&head.headers, &head.uri).unwrap_or_default();
        let cors = self.server().options.cors.as_ref();
        if !is_cross_site(&head.headers, host, self.connection.is_tls) {
            return Ok(());
        }
        let write_policy = cors.map_or(CrossSiteWrite::Denied, |cors| {
            cors.cross_site_write(&head.headers, &head.method, permissions)
        });
        let why = match write_policy {
            CrossSiteWrite::Allowed => return Ok(()),
            CrossSiteWrite::NeedsCredentials => {
                "pages of other sites may write with a login only if this server's CORS settings name them and allow credentials, \
                 since browsers add logins by themselves; a token needs neither"
            }
            CrossSiteWrite::Denied => "pages of other sites may not change anything here",
        };
        Err(text_response(StatusCode::FORBIDDEN, why).into())
    }

    fn modify(
        &self,
        request: ParsedRequest,
        body: IncomingBody,
        permissions: Permissions,
    ) -> ResponseFuture {
        let ParsedRequest { head, path, .. } = request;
        if is_of_s3_upload(&head) {
            // A client that began the upload when this server spoke S3 means a part or the upload, and not the file.
            let text = "this server takes no S3 requests, so there is no such upload";
            return ResponseFuture::Now(text_response(StatusCode::NOT_FOUND, text));
        }
        match head.method {
            Method::PUT => self.put(&head, path, body),
            Method::DELETE => self.delete(&head, path),
            _ => self.post(&head, path, body, permissions),
        }
    }

    fn get(&self, request: ParsedRequest, permissions: &Permissions) -> ResponseFuture {
        if request.path.is_folder {
            return self.list(&request, permissions);
        }
        let (store, is_personal) = (&self.server().store, permissions.is_personal());
        match store.try_open_file(&request.path.key) {
            CachedLookup::Ready(result) => {
                ResponseFuture::Now(self.file_response(&request, is_personal, result))
            }
            CachedLookup::WouldBlock => {
                let (service, store) = (self.clone(), Arc::clone(store));
                ResponseFuture::later(async move {
                    let key = request.path.key.clone();
                    let result = service
                        .server()
                        .disk
                        .run(move || store.open_file(&key))
                        .await;
                    service.file_response(&request, is_personal, result)
                })
            }
        }
    }

    /// Responds with the file that a key leads to.
    fn file_response(
        &self,
        request: &ParsedRequest,
        is_personal: bool,
        result: Result<Arc<OpenObject>, StoreError>,
    ) -> ServeResponse {
        let key = &request.path.key;
        let file = get::FileRequest {
            method: &request.head.method,
            key,
            headers: &request.head.headers,
            is_personal,
        };
        match result {
            Ok(object) => {
                let mappings = self.connection.mappings_for(request.head.version);
                get::respond(self.server(), mappings, file, &object)
            }
            Err(StoreError::IsFolder) => redirect_to_folder(&request.head, key),
            Err(StoreError::NotFound) if key.as_bytes() == b"robots.txt" => robots_response(),
            // A parent in the path is a file, so there is nothing at this path.
            Err(StoreError::Conflict) => {
                store_error_response(self.server(), &StoreError::NotFound, key)
            }
            Err(error) => store_error_response(self.server(), &error, key),
        }
    }

    fn list(&self, request: &ParsedRequest, permissions: &Permissions) -> ResponseFuture {
        let (head, key) = (&request.head, &request.path.key);
        if !permissions.allows_listing(key) {
            return ResponseFuture::Now(text_response(
                StatusCode::FORBIDDEN,
                "you may not list this folder",
            ));
        }
        let query = crate::access::redact_signature(head.uri.query().unwrap_or_default());
        let query = match ListQuery::parse(&query) {
            Ok(query) => query,
            Err(error) => {
                return ResponseFuture::Now(text_response(
                    StatusCode::BAD_REQUEST,
                    error.to_string(),
                ));
            }
        };
        let is_writable = self.server().store.options().writable;
        ResponseFuture::later(folder::respond(
            Arc::clone(&self.connection.server),
            folder::FolderRequest {
                method: head.method.clone(),
                key: key.clone(),
                format: folder::requested_format(&query, &head.headers),
                origin: folder::request_origin(head, self.connection.is_tls),
                query,
                may_write: is_writable && permissions.allows(AccessRight::Write, key),
                user: permissions.user.as_deref().map(str::to_owned),
                may_log_in: permissions.source == PermissionSource::Anonymous
                    && self.server().options.access.login_challenge().is_some(),
            },
        ))
    }

    fn put(&self, head: &request::Parts, path: RequestPath, body: IncomingBody) -> ResponseFuture {
        if path.is_folder {
            let text =
                "a file's path does not end in a slash; folders are created with the files in them";
            return ResponseFuture::Now(text_response(StatusCode::BAD_REQUEST, text));
        }
        match put::UploadRequest::new(self.server(), path.key, &head.headers) {
            Ok(request) => {
                ResponseFuture::later(put::respond(Arc::clone(&self.connection), request, body))
            }
            Err(response) => ResponseFuture::Now(*response),
        }
    }

    fn post(
        &self,
        head: &request::Parts,
        path: RequestPath,
        body: IncomingBody,
        permissions: Permissions,
    ) -> ResponseFuture {
        if !path.is_folder {
            let text =
                "forms are posted to a folder, whose path ends in a slash; use PUT to send a file";
            return ResponseFuture::Now(error_response::method_not_allowed_response(
                text,
                error_response::FILE_METHODS,
            ));
        }
        let content_type = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|content_type| content_type.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let query = head.uri.query().unwrap_or_default();
        let request = form::FormRequest {
            folder: path.key,
            content_type,
            replace: query.split('&').any(|pair| pair == "replace=yes"),
        };
        ResponseFuture::later(form::respond(
            Arc::clone(&self.connection),
            request,
            body,
            permissions,
        ))
    }

    fn delete(&self, head: &request::Parts, path: RequestPath) -> ResponseFuture {
        if path.key.is_root() {
            let text =
                "this is the served folder itself: files in it can be deleted, but not the folder";
            return ResponseFuture::Now(text_response(StatusCode::FORBIDDEN, text));
        }
        let conditions = RequestConditions::parse(&head.headers);
        let server = Arc::clone(&self.connection.server);
        if conditions.is_empty()
            && let CachedLookup::Ready(deleted) = server.store.try_delete(&path)
        {
            return ResponseFuture::Now(delete_response(&server, deleted, &path));
        }
        ResponseFuture::later(async move {
            let (store, target) = (Arc::clone(&server.store), path.clone());
            let deleted = server.disk.write(move || {
                let check = |meta: Option<&FileMetadata>| put::conditions_hold(&conditions, meta);
                store.delete(&target, (!conditions.is_empty()).then_some(&check))
            });
            delete_response(&server, deleted.await, &path)
        })
    }

    /// Whether a file can be sent to this path in the parts of S3: it is below a folder, the bucket.
    fn takes_uploads_in_parts(&self, path: &RequestPath) -> bool {
        let dialect = self.server().options.dialect.as_ref();
        let is_object = !path.is_folder && path.key.segments().nth(1).is_some();
        is_object
            && self.server().store.options().writable
            && dialect.is_some_and(|dialect| dialect.takes_http_uploads())
    }

    fn options(&self, request: &ParsedRequest) -> ServeResponse {
        let mut response = empty_response(StatusCode::NO_CONTENT);
        let allow = error_response::allowed_methods(self.server().store.options().writable);
        response.headers_mut().insert(ALLOW, allow);
        if self.takes_uploads_in_parts(&request.path) {
            let field = HeaderName::from_static(HTTP_MULTIPART_HEADER);
            let max_bytes = self.server().options.max_body.unwrap_or(u64::MAX);
            response.headers_mut().insert(field, max_bytes.into());
        }
        let cors = self.server().options.cors.as_ref();
        if let Some(fields) = cors.and_then(|cors| cors.preflight_headers(&request.head.headers)) {
            response.headers_mut().extend(fields);
        }
        response
    }
}

/// Whether the query is that of an upload in S3's parts.
fn is_of_s3_upload(head: &request::Parts) -> bool {
    let mut parameters = head.uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter.split('=').next(), Some("uploads" | "uploadId")))
}

fn delete_response(
    server: &FileServer,
    deleted: Result<(), StoreError>,
    path: &RequestPath,
) -> ServeResponse {
    match deleted {
        Ok(()) => empty_response(StatusCode::NO_CONTENT),
        Err(StoreError::Conflict) if path.is_folder => {
            let text =
                "this path, or a part of it, is a file: a file's path does not end in a slash";
            text_response(StatusCode::CONFLICT, text)
        }
        Err(error) => store_error_response(server, &error, &path.key),
    }
}

/// The rules for crawlers, if the store has none: they may fetch files and pages, but no archive,
/// and no order of a listing but the first.
fn robots_response() -> ServeResponse {
    let rules = "User-agent: *\nDisallow: /*?*format=\nDisallow: /*?*sort=";
    text_response(StatusCode::OK, rules)
}

/// Redirects to the folder's path, which ends in a slash: links in its page are relative to that.
fn redirect_to_folder(head: &request::Parts, key: &ObjectKey) -> ServeResponse {
    let query = head
        .uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    let mut response = empty_response(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = HeaderValue::try_from(format!("{}/{query}", key.escaped())) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
