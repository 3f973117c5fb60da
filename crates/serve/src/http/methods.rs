//! What each method means, once it is known who asks: which piece answers, and with what.

use std::sync::Arc;

use haul_plan::serving::RequestConditions;
use http::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::{Method, StatusCode, request};

use super::error_response::{
    self, ErrorResponse, ServeResponse, empty_response, store_error_response, text_response,
    unsupported_method_response,
};
use super::request_body::RequestBody;
use super::response_future::ResponseFuture;
use super::service::{ConnectionService, ParsedRequest};
use super::{folder, form, get, put};
use crate::access::{AccessRight, CrossSiteWrite, Permissions, is_cross_site};
use crate::connection::ConnectionState;
use crate::page::ListQuery;
use crate::store::{CachedLookup, FileMetadata, OpenObject, StoreError};
use crate::{ObjectKey, RequestPath};

impl ConnectionService {
    /// Does what was asked for by somebody who may.
    pub(super) fn respond(
        &self,
        asked: ParsedRequest,
        body: RequestBody,
        grant: Permissions,
    ) -> ResponseFuture {
        let is_writable = self.server().store.options().writable;
        let method = &asked.head.method;
        match *method {
            Method::GET | Method::HEAD => self.get(asked, &grant),
            Method::OPTIONS => ResponseFuture::Now(self.options(&asked)),
            Method::PUT | Method::DELETE | Method::POST if is_writable => {
                match self.check_cross_site(&asked, &grant) {
                    Ok(()) => self.modify(asked, body, grant),
                    Err(answer) => ResponseFuture::Now(*answer),
                }
            }
            _ => ResponseFuture::Now(unsupported_method_response(method, is_writable)),
        }
    }

    /// Whether a change was asked for by our own page, or by no page, or by one that may.
    fn check_cross_site(
        &self,
        asked: &ParsedRequest,
        grant: &Permissions,
    ) -> Result<(), ErrorResponse> {
        let head = &asked.head;
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host
            .or_else(|| head.uri.authority().map(http::uri::Authority::as_str))
            .unwrap_or_default();
        let cors = self.server().options.cors.as_ref();
        if !is_cross_site(&head.headers, host, self.connection.is_tls) {
            return Ok(());
        }
        let admitted = cors.map_or(CrossSiteWrite::Denied, |cors| {
            cors.cross_site_write(&head.headers, &head.method, grant)
        });
        let why = match admitted {
            CrossSiteWrite::Allowed => return Ok(()),
            CrossSiteWrite::NeedsCredentials => {
                "pages of other sites may write with a login only if --cors names them and --cors-credentials is given, \
                 since browsers add logins by themselves: a token needs no leave"
            }
            CrossSiteWrite::Denied => "pages of other sites may change nothing here",
        };
        Err(text_response(StatusCode::FORBIDDEN, why).into())
    }

    fn modify(
        &self,
        asked: ParsedRequest,
        body: RequestBody,
        grant: Permissions,
    ) -> ResponseFuture {
        let ParsedRequest { head, path: named } = asked;
        match head.method {
            Method::PUT => self.put(&head, named, body),
            Method::DELETE => self.delete(&head, named),
            _ => self.post(&head, named, body, grant),
        }
    }

    fn get(&self, asked: ParsedRequest, grant: &Permissions) -> ResponseFuture {
        if asked.path.is_folder {
            return self.list(&asked, grant);
        }
        let (store, is_personal) = (&self.server().store, grant.is_personal());
        match store.try_open_file(&asked.path.key) {
            CachedLookup::Ready(found) => {
                ResponseFuture::Now(self.file_response(&asked, is_personal, found))
            }
            CachedLookup::WouldBlock => {
                let (service, store) = (self.clone(), Arc::clone(store));
                ResponseFuture::later(async move {
                    let key = asked.path.key.clone();
                    let found = service
                        .server()
                        .disk
                        .run(move || store.open_file(&key))
                        .await;
                    service.file_response(&asked, is_personal, found)
                })
            }
        }
    }

    /// Answers with what a key led to.
    fn file_response(
        &self,
        asked: &ParsedRequest,
        is_personal: bool,
        found: Result<Arc<OpenObject>, StoreError>,
    ) -> ServeResponse {
        let key = &asked.path.key;
        let file = get::FileRequest {
            method: &asked.head.method,
            key,
            headers: &asked.head.headers,
            is_personal,
        };
        match found {
            Ok(object) => get::respond(&self.connection, file, &object),
            Err(StoreError::IsFolder) => redirect_to_folder(&asked.head, key),
            // A file where a folder should be on the way: nothing is there.
            Err(StoreError::Conflict) => {
                store_error_response(self.server(), &StoreError::NotFound, key)
            }
            Err(error) => store_error_response(self.server(), &error, key),
        }
    }

    fn list(&self, asked: &ParsedRequest, grant: &Permissions) -> ResponseFuture {
        let (head, key) = (&asked.head, &asked.path.key);
        if !grant.allows_listing(key) {
            return ResponseFuture::Now(text_response(
                StatusCode::FORBIDDEN,
                "that folder may not be listed",
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
            Arc::clone(&self.connection),
            folder::FolderRequest {
                method: head.method.clone(),
                key: key.clone(),
                format: folder::requested_format(&query, &head.headers),
                query,
                may_write: is_writable && grant.allows(AccessRight::Write, key),
                user: grant.user.as_deref().map(str::to_owned),
            },
        ))
    }

    fn put(&self, head: &request::Parts, named: RequestPath, body: RequestBody) -> ResponseFuture {
        if named.is_folder {
            let text =
                "a file's path does not end in a slash; folders are made with the files in them";
            return ResponseFuture::Now(text_response(StatusCode::BAD_REQUEST, text));
        }
        match put::UploadRequest::new(&self.connection, named.key, &head.headers) {
            Ok(asked) => {
                ResponseFuture::later(put::respond(Arc::clone(&self.connection), asked, body))
            }
            Err(answer) => ResponseFuture::Now(*answer),
        }
    }

    fn post(
        &self,
        head: &request::Parts,
        named: RequestPath,
        body: RequestBody,
        grant: Permissions,
    ) -> ResponseFuture {
        if !named.is_folder {
            let text =
                "a form is sent to a folder, whose path ends in a slash; a file is sent by PUT";
            return ResponseFuture::Now(error_response::method_not_allowed_response(
                text,
                error_response::FILE_METHODS,
            ));
        }
        let kind = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let query = head.uri.query().unwrap_or_default();
        let asked = form::FormRequest {
            folder: named.key,
            content_type: kind,
            replace: query.split('&').any(|pair| pair == "replace=yes"),
        };
        ResponseFuture::later(form::respond(
            Arc::clone(&self.connection),
            asked,
            body,
            grant,
        ))
    }

    fn delete(&self, head: &request::Parts, named: RequestPath) -> ResponseFuture {
        if named.key.is_root() {
            let text = "this is the folder that is served itself: what is in it can be deleted, and it cannot";
            return ResponseFuture::Now(text_response(StatusCode::FORBIDDEN, text));
        }
        let conditions = RequestConditions::parse(&head.headers);
        let line = Arc::clone(&self.connection);
        if conditions.is_empty()
            && let CachedLookup::Ready(deleted) = line.server.store.try_delete(&named)
        {
            return ResponseFuture::Now(delete_response(&line, deleted, &named));
        }
        ResponseFuture::later(async move {
            let (store, its) = (Arc::clone(&line.server.store), named.clone());
            let deleted = line.server.disk.write(move || {
                let check = |meta: Option<&FileMetadata>| put::conditions_hold(&conditions, meta);
                store.delete(&its, (!conditions.is_empty()).then_some(&check))
            });
            delete_response(&line, deleted.await, &named)
        })
    }

    fn options(&self, asked: &ParsedRequest) -> ServeResponse {
        let mut answer = empty_response(StatusCode::NO_CONTENT);
        let allow = error_response::allowed_methods(self.server().store.options().writable);
        answer.headers_mut().insert(ALLOW, allow);
        let cors = self.server().options.cors.as_ref();
        if let Some(fields) = cors.and_then(|cors| cors.preflight_headers(&asked.head.headers)) {
            answer.headers_mut().extend(fields);
        }
        answer
    }
}

/// What is said of a deletion.
fn delete_response(
    line: &ConnectionState,
    deleted: Result<(), StoreError>,
    named: &RequestPath,
) -> ServeResponse {
    match deleted {
        Ok(()) => empty_response(StatusCode::NO_CONTENT),
        Err(StoreError::Conflict) if named.is_folder => {
            let text = "what has that name, or a part of it, is no folder: a file's path does not end in a slash";
            text_response(StatusCode::CONFLICT, text)
        }
        Err(error) => store_error_response(&line.server, &error, &named.key),
    }
}

/// A folder's path ends in a slash: links in its page are relative to that.
fn redirect_to_folder(head: &request::Parts, key: &ObjectKey) -> ServeResponse {
    let query = head
        .uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    let mut answer = empty_response(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = HeaderValue::try_from(format!("{}/{query}", key.escaped())) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}
