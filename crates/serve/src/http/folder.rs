//! A folder as an answer: a page, JSON, or an archive.

use std::io;
use std::sync::Arc;

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode};

use super::answer::{Answer, of_store, plain};
use crate::body::{Body, Made, Maker};
use crate::conn::Line;
use crate::page::{Format, HTML_LIMIT, JSON_LIMIT, ListQuery, Listing, html, json, tar};
use crate::store::{Folder, StoreError};
use crate::{Key, escaped_name};

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// GET or HEAD.
    pub(crate) method: Method,
    /// The folder's key.
    pub(crate) key: Key,
    /// What its query says.
    pub(crate) query: ListQuery,
    /// In which form.
    pub(crate) format: Format,
    /// Whether whoever asks may change it.
    pub(crate) may_write: bool,
    /// Who that is.
    pub(crate) user: Option<String>,
}

/// In which form a folder is wanted.
pub(crate) fn format(query: &ListQuery, headers: &HeaderMap) -> Format {
    let accept = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    Format::negotiate(query.format, accept)
}

/// Answers with a folder.
pub(crate) async fn answer(line: Arc<Line>, asked: Asked) -> Answer {
    let (key, format) = (asked.key.clone(), asked.format);
    let is_head = asked.method == Method::HEAD;
    let root = Arc::clone(line.server.store.root());
    let disk = &line.server.disk;
    let made = disk.run(move || {
        let folder = Folder::open(&root, asked.key.clone())?;
        match is_head {
            true => Ok(None),
            false => maker(folder, &asked).map(Some).map_err(StoreError::from),
        }
    });
    let body = match made.await {
        Ok(Some(maker)) => Body::Made(Made::new(maker, disk.clone())),
        Ok(None) => Body::Empty,
        // A folder's path that leads to a file.
        Err(StoreError::Conflict) => return plain(StatusCode::NOT_FOUND, "no folder is there"),
        Err(error) => return of_store(&line.server, &error, &key),
    };
    let mut answer = Response::new(body);
    describe(&key, format, answer.headers_mut());
    answer
}

fn describe(key: &Key, format: Format, headers: &mut HeaderMap) {
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    // Whatever is in a folder may change at any time, and nothing says that it has not.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    match format {
        Format::Html => {
            headers.insert(
                CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(html::content_security_policy()),
            );
            // Its own form says where it comes from, and nobody else learns of it.
            headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        }
        Format::Tar => {
            let name = escaped_name(&tar::file_name(key));
            let text = format!("attachment; filename*=UTF-8''{name}");
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(CONTENT_DISPOSITION, value);
            }
        }
        Format::Json | Format::JsonLines => {}
    }
}

/// Reads what must be read first, and gives what makes the rest.
fn maker(folder: Folder, asked: &Asked) -> io::Result<Maker> {
    let listing = |limit: usize| -> io::Result<Listing> {
        let ask = asked.query.page(limit);
        Ok(Listing {
            key: asked.key.clone(),
            page: folder.page(&ask)?,
            ask,
        })
    };
    Ok(match asked.format {
        Format::Html => {
            let options = html::PageOptions {
                may_write: asked.may_write,
                user: asked.user.clone(),
                ..html::PageOptions::default()
            };
            Box::new(html::render(listing(HTML_LIMIT)?, options).map(Ok))
        }
        Format::Json => Box::new(json::render(listing(JSON_LIMIT)?).map(Ok)),
        Format::JsonLines => Box::new(json::Lines::new(folder.into_entries()?)),
        Format::Tar => {
            Box::new(tar::Tar::new(folder)?.map(|piece| piece.map_err(io::Error::other)))
        }
    })
}
