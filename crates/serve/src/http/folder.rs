//! Responses for folders: an HTML page, JSON, or a tar archive.

use std::io;
use std::sync::Arc;

use haul_net::is_descriptor_limit;
use haul_plan::FOLDER_LISTING_LINK;
use haul_service::request_host;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, LINK, REFERRER_POLICY, VARY,
};
use http::{Method, Response, StatusCode, request};

use super::FileServer;
use super::browser_protection::forbid_sniffing;
use super::error_response::{
    ServeResponse, descriptors_exhausted_response, store_error_response, text_response,
};
use crate::body::{BodyProducer, ProducedBody, ServeBody};
use crate::observe::{ConnectionFault, ServeMetrics};
use crate::page::tar::FolderTarError;
use crate::page::{
    FolderListing, HTML_LIMIT, JSON_LIMIT, ListQuery, ListingFormat, html, json, tar,
};
use crate::store::{OpenFolder, StoreError};
use crate::{ObjectKey, escaped_name};

#[derive(Debug)]
pub(crate) struct FolderRequest {
    /// GET or HEAD.
    pub(crate) method: Method,
    pub(crate) key: ObjectKey,
    pub(crate) query: ListQuery,
    pub(crate) format: ListingFormat,
    /// Whether the user may change the folder; the page then has an upload form.
    pub(crate) may_write: bool,
    /// The user's name.
    pub(crate) user: Option<String>,
    /// Whether the page has a login button.
    pub(crate) may_log_in: bool,
    /// The scheme and host of absolute URLs, if known.
    pub(crate) origin: Option<String>,
}

pub(crate) fn requested_format(query: &ListQuery, headers: &HeaderMap) -> ListingFormat {
    let accept = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    ListingFormat::negotiate(query.format, accept)
}

/// The scheme and host of this server as the client knows it. A proxy that ends TLS may say so in
/// X-Forwarded-Proto. Any client may send that field, too, but its value only changes the URLs that
/// this client gets.
pub(crate) fn request_origin(head: &request::Parts, is_tls: bool) -> Option<String> {
    let host = request_host(&head.headers, &head.uri)?;
    let forwarded = head.headers.get("x-forwarded-proto");
    let is_https = is_tls || forwarded.is_some_and(|scheme| scheme == "https");
    let scheme = if is_https { "https" } else { "http" };
    (!host.is_empty()).then(|| format!("{scheme}://{host}"))
}

pub(crate) async fn respond(server: Arc<FileServer>, request: FolderRequest) -> ServeResponse {
    let (key, format) = (request.key.clone(), request.format);
    let is_format_requested = request.query.format.is_some();
    let is_head = request.method == Method::HEAD;
    let store = Arc::clone(&server.store);
    let (disk, metrics) = (&server.disk, Arc::clone(&server.options.metrics));
    let threads = disk.clone();
    let body = disk.run(move || {
        let open = || OpenFolder::open(store.root(), request.key.clone());
        if is_head {
            return store
                .retry_after_closing(open)
                .map(|_| Ok(ServeBody::empty()));
        }
        let producer = store.retry_after_closing(|| Ok(folder_producer(open()?, &request)?))?;
        let producer = log_failure(producer, request.key, metrics);
        Ok::<_, StoreError>(
            with_first_chunk(producer)
                .map(|producer| ServeBody::produced(ProducedBody::new(producer, threads))),
        )
    });
    let body = match body.await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return folder_error_response(&error),
        // The path has a slash at its end, but leads to a file.
        Err(StoreError::Conflict) => {
            return text_response(StatusCode::NOT_FOUND, "no such folder");
        }
        Err(error) => return store_error_response(&server, &error, &key),
    };
    let mut response = Response::new(body);
    insert_headers(&key, format, response.headers_mut());
    // So that downloaders can tell the page from a file. A client that requests a page gets one.
    if format == ListingFormat::Html && !is_format_requested {
        let link = HeaderValue::from_static(FOLDER_LISTING_LINK);
        response.headers_mut().insert(LINK, link);
    }
    response
}

fn insert_headers(key: &ObjectKey, format: ListingFormat, headers: &mut HeaderMap) {
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    forbid_sniffing(headers);
    headers.insert(VARY, HeaderValue::from_static("accept"));
    // A folder may change at any time, and has no validator that would show it.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    match format {
        ListingFormat::Html => {
            headers.insert(
                CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(html::content_security_policy()),
            );
            // The page's own form sends its origin to this server, and no other server learns it.
            headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        }
        ListingFormat::Tar => {
            let name = escaped_name(&tar::archive_name(key));
            let text = format!("attachment; filename*=UTF-8''{name}");
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(CONTENT_DISPOSITION, value);
            }
        }
        ListingFormat::Json | ListingFormat::JsonLines => {}
    }
    // The page alone is for readers of a search engine.
    if format != ListingFormat::Html {
        let name = HeaderName::from_static("x-robots-tag");
        headers.insert(name, HeaderValue::from_static("noindex"));
    }
}

/// Produces the first chunk now: an error in it gets a status of its own, as no part of the
/// response has been sent.
fn with_first_chunk(mut producer: BodyProducer) -> io::Result<BodyProducer> {
    let first = producer.next().transpose()?;
    Ok(Box::new(first.map(Ok).into_iter().chain(producer)))
}

/// Counts and logs the error that ends a response early. There is at most one, since nothing
/// follows it. The client only sees that the response is incomplete.
fn log_failure(producer: BodyProducer, key: ObjectKey, metrics: Arc<ServeMetrics>) -> BodyProducer {
    Box::new(producer.inspect(move |chunk| {
        let Err(error) = chunk else { return };
        if let Some(fault) = fault_for_error(error) {
            metrics.count_fault(fault);
        }
        let error = error as &dyn std::error::Error;
        tracing::warn!(folder = %key, error, "a folder could not be sent completely");
    }))
}

/// The response when not even the first chunk could be produced. The system's message may name
/// things that a client should not learn.
fn folder_error_response(error: &io::Error) -> ServeResponse {
    match fault_for_error(error) {
        Some(ConnectionFault::Descriptors) => descriptors_exhausted_response(),
        Some(ConnectionFault::Disk) => text_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server's disk failed: see its log",
        ),
        Some(ConnectionFault::ShortFile) => text_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "a file shrank while it was read: try again",
        ),
        _ => text_response(
            StatusCode::FORBIDDEN,
            "part of the folder cannot be read, and the server sends all of it or nothing: see its log",
        ),
    }
}

/// The fault to count; `None` when the folder and not the server is at fault.
fn fault_for_error(error: &io::Error) -> Option<ConnectionFault> {
    let tar_error = error.get_ref().and_then(|error| error.downcast_ref());
    let error = match tar_error {
        Some(FolderTarError::FileShrank { .. }) => return Some(ConnectionFault::ShortFile),
        Some(FolderTarError::TooDeep { .. }) => return None,
        Some(FolderTarError::Unreadable { source, .. }) => source,
        None => error,
    };
    match error.kind() {
        _ if is_descriptor_limit(error) => Some(ConnectionFault::Descriptors),
        io::ErrorKind::PermissionDenied => None,
        _ => Some(ConnectionFault::Disk),
    }
}

/// Reads what must be read first, and returns the producer of the response body.
fn folder_producer(folder: OpenFolder, request: &FolderRequest) -> io::Result<BodyProducer> {
    let listing = |limit: usize| -> io::Result<FolderListing> {
        let page_request = request.query.page_request(limit);
        Ok(FolderListing {
            key: request.key.clone(),
            page: folder.page(&page_request)?,
            request: page_request,
        })
    };
    Ok(match request.format {
        ListingFormat::Html => {
            let options = html::ListingPageOptions {
                may_write: request.may_write,
                user: request.user.clone(),
                may_log_in: request.may_log_in,
                ..html::ListingPageOptions::default()
            };
            Box::new(html::render(listing(HTML_LIMIT)?, options).map(Ok))
        }
        ListingFormat::Json => {
            Box::new(json::render(listing(JSON_LIMIT)?, request.origin.clone()).map(Ok))
        }
        ListingFormat::JsonLines => Box::new(json::JsonLines::new(
            folder.into_entries()?,
            request.origin.clone(),
        )),
        ListingFormat::Tar => {
            Box::new(tar::FolderTar::new(folder)?.map(|chunk| chunk.map_err(io::Error::other)))
        }
    })
}
