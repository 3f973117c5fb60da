//! A folder as an answer: a page, JSON, or an archive.

use std::io;
use std::sync::Arc;

use haul_net::is_descriptor_limit;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode};

use super::error_response::{ServeResponse, of_store, plain, short_of_descriptors};
use crate::body::{BodyProducer, ProducedBody, ServeBody};
use crate::connection::ConnectionState;
use crate::observe::{ConnectionFault, ServeMetrics};
use crate::page::tar::FolderTarError;
use crate::page::{
    FolderListing, HTML_LIMIT, JSON_LIMIT, ListQuery, ListingFormat, html, json, tar,
};
use crate::store::{OpenFolder, StoreError};
use crate::{ObjectKey, escaped_name};

/// What is asked for.
#[derive(Debug)]
pub(crate) struct FolderRequest {
    /// GET or HEAD.
    pub(crate) method: Method,
    /// The folder's key.
    pub(crate) key: ObjectKey,
    /// What its query says.
    pub(crate) query: ListQuery,
    /// In which form.
    pub(crate) format: ListingFormat,
    /// Whether whoever asks may change it.
    pub(crate) may_write: bool,
    /// Who that is.
    pub(crate) user: Option<String>,
}

/// In which form a folder is wanted.
pub(crate) fn format(query: &ListQuery, headers: &HeaderMap) -> ListingFormat {
    let accept = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    ListingFormat::negotiate(query.format, accept)
}

/// Answers with a folder.
pub(crate) async fn answer(line: Arc<ConnectionState>, asked: FolderRequest) -> ServeResponse {
    let (key, format) = (asked.key.clone(), asked.format);
    let is_head = asked.method == Method::HEAD;
    let store = Arc::clone(&line.server.store);
    let (disk, metrics) = (&line.server.disk, Arc::clone(&line.server.options.metrics));
    let threads = disk.clone();
    let made = disk.run(move || {
        let open = || OpenFolder::open(store.root(), asked.key.clone());
        if is_head {
            return store
                .retry_after_closing(open)
                .map(|_| Ok(ServeBody::Empty));
        }
        let maker = store.retry_after_closing(|| Ok(maker(open()?, &asked)?))?;
        let maker = watched(maker, asked.key, metrics);
        Ok::<_, StoreError>(
            begun(maker).map(|maker| ServeBody::Made(ProducedBody::new(maker, threads))),
        )
    });
    let body = match made.await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return broken(&error),
        // A folder's path that leads to a file.
        Err(StoreError::Conflict) => return plain(StatusCode::NOT_FOUND, "no folder is there"),
        Err(error) => return of_store(&line.server, &error, &key),
    };
    let mut answer = Response::new(body);
    describe(&key, format, answer.headers_mut());
    answer
}

fn describe(key: &ObjectKey, format: ListingFormat, headers: &mut HeaderMap) {
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    // Whatever is in a folder may change at any time, and nothing says that it has not.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    match format {
        ListingFormat::Html => {
            headers.insert(
                CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(html::content_security_policy()),
            );
            // Its own form says where it comes from, and nobody else learns of it.
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
}

/// What makes the rest, with its first piece made: what fails in that has a status of its own, as nothing is on its way yet.
fn begun(mut maker: BodyProducer) -> io::Result<BodyProducer> {
    let first = maker.next().transpose()?;
    Ok(Box::new(first.map(Ok).into_iter().chain(maker)))
}

/// Counts and tells what ends it early. That is once, since nothing comes behind it, and whoever asked learns no more than that something is
/// missing.
fn watched(maker: BodyProducer, key: ObjectKey, metrics: Arc<ServeMetrics>) -> BodyProducer {
    Box::new(maker.inspect(move |piece| {
        let Err(error) = piece else { return };
        if let Some(fault) = fault_of(error) {
            metrics.count_fault(fault);
        }
        let error = error as &dyn std::error::Error;
        tracing::warn!(folder = %key, error, "a folder cannot be sent whole");
    }))
}

/// The answer where not even a beginning could be made. What the system says may name what a client need not know.
fn broken(error: &io::Error) -> ServeResponse {
    match fault_of(error) {
        Some(ConnectionFault::Descriptors) => short_of_descriptors(),
        Some(ConnectionFault::Disk) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server's disk failed: its log says how",
        ),
        Some(ConnectionFault::ShortFile) => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "a file became shorter while it was read: try again",
        ),
        _ => plain(
            StatusCode::FORBIDDEN,
            "something in the folder cannot be sent, and nothing is sent without it: the server's log says what",
        ),
    }
}

/// What an operator would call it; nothing where it is the folder that is at fault.
fn fault_of(error: &io::Error) -> Option<ConnectionFault> {
    let of_tar = error.get_ref().and_then(|error| error.downcast_ref());
    let error = match of_tar {
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

/// Reads what must be read first, and gives what makes the rest.
fn maker(folder: OpenFolder, asked: &FolderRequest) -> io::Result<BodyProducer> {
    let listing = |limit: usize| -> io::Result<FolderListing> {
        let ask = asked.query.page_request(limit);
        Ok(FolderListing {
            key: asked.key.clone(),
            page: folder.page(&ask)?,
            request: ask,
        })
    };
    Ok(match asked.format {
        ListingFormat::Html => {
            let options = html::ListingPageOptions {
                may_write: asked.may_write,
                user: asked.user.clone(),
                ..html::ListingPageOptions::default()
            };
            Box::new(html::render(listing(HTML_LIMIT)?, options).map(Ok))
        }
        ListingFormat::Json => Box::new(json::render(listing(JSON_LIMIT)?).map(Ok)),
        ListingFormat::JsonLines => Box::new(json::JsonLines::new(folder.into_entries()?)),
        ListingFormat::Tar => {
            Box::new(tar::FolderTar::new(folder)?.map(|piece| piece.map_err(io::Error::other)))
        }
    })
}
