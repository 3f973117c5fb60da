//! What each method means, once it is known who asks: which piece answers, and with what.

use std::sync::Arc;

use haul_plan::serving::RequestConditions;
use http::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::{Method, StatusCode, request};

use super::error_response::{
    self, ErrorResponse, ServeResponse, bare, not_allowed, of_store, plain,
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
    pub(super) fn answer(
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
                match self.is_ours(&asked, &grant) {
                    Ok(()) => self.change(asked, body, grant),
                    Err(answer) => ResponseFuture::Now(*answer),
                }
            }
            _ => ResponseFuture::Now(not_allowed(method, is_writable)),
        }
    }

    /// Whether a change was asked for by our own page, or by no page, or by one that may.
    fn is_ours(&self, asked: &ParsedRequest, grant: &Permissions) -> Result<(), ErrorResponse> {
        let head = &asked.head;
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host
            .or_else(|| head.uri.authority().map(http::uri::Authority::as_str))
            .unwrap_or_default();
        let cors = self.server().options.cors.as_ref();
        if !is_cross_site(&head.headers, host, self.line.is_tls) {
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
        Err(plain(StatusCode::FORBIDDEN, why).into())
    }

    fn change(
        &self,
        asked: ParsedRequest,
        body: RequestBody,
        grant: Permissions,
    ) -> ResponseFuture {
        let ParsedRequest { head, named } = asked;
        match head.method {
            Method::PUT => self.put(&head, named, body),
            Method::DELETE => self.delete(&head, named),
            _ => self.post(&head, named, body, grant),
        }
    }

    fn get(&self, asked: ParsedRequest, grant: &Permissions) -> ResponseFuture {
        if asked.named.is_folder {
            return self.list(&asked, grant);
        }
        let (store, is_personal) = (&self.server().store, grant.is_personal());
        match store.try_open_file(&asked.named.key) {
            CachedLookup::Ready(found) => {
                ResponseFuture::Now(self.found(&asked, is_personal, found))
            }
            CachedLookup::WouldBlock => {
                let (service, store) = (self.clone(), Arc::clone(store));
                ResponseFuture::later(async move {
                    let key = asked.named.key.clone();
                    let found = service
                        .server()
                        .disk
                        .run(move || store.open_file(&key))
                        .await;
                    service.found(&asked, is_personal, found)
                })
            }
        }
    }

    /// Answers with what a key led to.
    fn found(
        &self,
        asked: &ParsedRequest,
        is_personal: bool,
        found: Result<Arc<OpenObject>, StoreError>,
    ) -> ServeResponse {
        let key = &asked.named.key;
        let file = get::FileRequest {
            method: &asked.head.method,
            key,
            headers: &asked.head.headers,
            is_personal,
        };
        match found {
            Ok(object) => get::answer(&self.line, file, &object),
            Err(StoreError::IsFolder) => to_folder(&asked.head, key),
            // A file where a folder should be on the way: nothing is there.
            Err(StoreError::Conflict) => of_store(self.server(), &StoreError::NotFound, key),
            Err(error) => of_store(self.server(), &error, key),
        }
    }

    fn list(&self, asked: &ParsedRequest, grant: &Permissions) -> ResponseFuture {
        let (head, key) = (&asked.head, &asked.named.key);
        if !grant.allows_listing(key) {
            return ResponseFuture::Now(plain(
                StatusCode::FORBIDDEN,
                "that folder may not be listed",
            ));
        }
        let query = crate::access::redact_signature(head.uri.query().unwrap_or_default());
        let query = match ListQuery::parse(&query) {
            Ok(query) => query,
            Err(error) => {
                return ResponseFuture::Now(plain(StatusCode::BAD_REQUEST, error.to_string()));
            }
        };
        let is_writable = self.server().store.options().writable;
        ResponseFuture::later(folder::answer(
            Arc::clone(&self.line),
            folder::FolderRequest {
                method: head.method.clone(),
                key: key.clone(),
                format: folder::format(&query, &head.headers),
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
            return ResponseFuture::Now(plain(StatusCode::BAD_REQUEST, text));
        }
        match put::UploadRequest::new(&self.line, named.key, &head.headers) {
            Ok(asked) => ResponseFuture::later(put::answer(Arc::clone(&self.line), asked, body)),
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
            return ResponseFuture::Now(error_response::only(text, error_response::FILE));
        }
        let kind = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let query = head.uri.query().unwrap_or_default();
        let asked = form::FormRequest {
            folder: named.key,
            kind,
            replaces: query.split('&').any(|pair| pair == "replace=yes"),
        };
        ResponseFuture::later(form::answer(Arc::clone(&self.line), asked, body, grant))
    }

    fn delete(&self, head: &request::Parts, named: RequestPath) -> ResponseFuture {
        if named.key.is_root() {
            let text = "this is the folder that is served itself: what is in it can be deleted, and it cannot";
            return ResponseFuture::Now(plain(StatusCode::FORBIDDEN, text));
        }
        let conditions = RequestConditions::parse(&head.headers);
        let line = Arc::clone(&self.line);
        if conditions.is_empty()
            && let CachedLookup::Ready(deleted) = line.server.store.try_delete(&named)
        {
            return ResponseFuture::Now(gone(&line, deleted, &named));
        }
        ResponseFuture::later(async move {
            let (store, its) = (Arc::clone(&line.server.store), named.clone());
            let deleted = line.server.disk.write(move || {
                let check = |meta: Option<&FileMetadata>| put::holds(&conditions, meta);
                store.delete(&its, (!conditions.is_empty()).then_some(&check))
            });
            gone(&line, deleted.await, &named)
        })
    }

    fn options(&self, asked: &ParsedRequest) -> ServeResponse {
        let mut answer = bare(StatusCode::NO_CONTENT);
        let allow = error_response::allow(self.server().store.options().writable);
        answer.headers_mut().insert(ALLOW, allow);
        let cors = self.server().options.cors.as_ref();
        if let Some(fields) = cors.and_then(|cors| cors.preflight_headers(&asked.head.headers)) {
            answer.headers_mut().extend(fields);
        }
        answer
    }
}

/// What is said of a deletion.
fn gone(
    line: &ConnectionState,
    deleted: Result<(), StoreError>,
    named: &RequestPath,
) -> ServeResponse {
    match deleted {
        Ok(()) => bare(StatusCode::NO_CONTENT),
        Err(StoreError::Conflict) if named.is_folder => {
            let text = "what has that name, or a part of it, is no folder: a file's path does not end in a slash";
            plain(StatusCode::CONFLICT, text)
        }
        Err(error) => of_store(&line.server, &error, &named.key),
    }
}

/// A folder's path ends in a slash: links in its page are relative to that.
fn to_folder(head: &request::Parts, key: &ObjectKey) -> ServeResponse {
    let query = head
        .uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    let mut answer = bare(StatusCode::MOVED_PERMANENTLY);
    if let Ok(location) = HeaderValue::try_from(format!("{}/{query}", key.escaped())) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}
