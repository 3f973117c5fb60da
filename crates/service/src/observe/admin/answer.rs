//! What the endpoint answers: how the server is, its numbers, and its owner's pages.
//!
//! It has no logins. On loopback it trusts whoever runs a program on this machine, and refuses what may come of a stranger's page whose name was
//! led here (see [`ServerNames`]): that would read what is told here, and nobody who is meant to asks by such a name.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tokio_util::sync::CancellationToken;

use super::super::{MetricSource, render};
use super::listener::AdminPeer;
use crate::ServerNames;

const PLAIN: &str = "text/plain; charset=utf-8";

/// Where it is told how the server is.
const HEALTH: &str = "/healthz";

/// A page that the endpoint's owner has for whoever watches.
pub trait AdminPage: Send + Sync {
    /// Where it is, as `/tunnels`: none of the endpoint's own two, and of no other page.
    fn path(&self) -> &'static str;

    /// What it is, as Content-Type says it.
    fn content_type(&self) -> &'static str;

    /// The page as it is now. It may take a lock or look into `/proc`, so it is not called on a reactor.
    fn render(&self) -> Vec<u8>;
}

/// What the endpoint tells.
pub struct AdminEndpoint {
    /// Numbers, and what its owner adds.
    pages: Vec<Arc<dyn AdminPage>>,
    /// Cancelled when the server takes no new connections any more: it is not healthy then, though it still answers.
    draining: CancellationToken,
}

/// Whose numbers, in the order of their telling.
struct MetricSources(Vec<Arc<dyn MetricSource>>);

impl AdminEndpoint {
    /// Tells of these sources, and whether `draining` was cancelled.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn MetricSource>>, draining: CancellationToken) -> Self {
        Self {
            pages: vec![Arc::new(MetricSources(sources))],
            draining,
        }
    }

    /// With one page more.
    #[must_use]
    pub fn page(mut self, page: Arc<dyn AdminPage>) -> Self {
        self.pages.push(page);
        self
    }

    pub(super) async fn answer<B>(
        self: Arc<Self>,
        way: AdminPeer,
        request: Request<B>,
    ) -> Response<Full<Bytes>> {
        if way == AdminPeer::Loopback
            && !ServerNames::loopback().admit(request.headers(), request.uri())
        {
            return misled();
        }
        let path = request.uri().path();
        let page = self.pages.iter().find(|page| page.path() == path);
        if page.is_none() && path != HEALTH {
            return response(StatusCode::NOT_FOUND, PLAIN, self.what_there_is());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed();
        }
        match page {
            Some(page) => rendered(Arc::clone(page)).await,
            None if self.draining.is_cancelled() => {
                response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "draining\n")
            }
            None => response(StatusCode::OK, PLAIN, "ok\n"),
        }
    }

    fn what_there_is(&self) -> String {
        let mut text = format!("there is {HEALTH}");
        for (left, page) in (0..self.pages.len()).rev().zip(&self.pages) {
            text.push_str(if left == 0 { " and " } else { ", " });
            text.push_str(page.path());
        }
        text.push('\n');
        text
    }
}

impl fmt::Debug for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages: Vec<_> = self.pages.iter().map(|page| page.path()).collect();
        f.debug_struct("Admin")
            .field("pages", &pages)
            .field("draining", &self.draining.is_cancelled())
            .finish()
    }
}

impl AdminPage for MetricSources {
    fn path(&self) -> &'static str {
        "/metrics"
    }

    fn content_type(&self) -> &'static str {
        "text/plain; version=0.0.4; charset=utf-8"
    }

    fn render(&self) -> Vec<u8> {
        render(&self.0).into_bytes()
    }
}

/// A page, made on a thread that may wait: this may be a reactor that serves requests.
async fn rendered(page: Arc<dyn AdminPage>) -> Response<Full<Bytes>> {
    let kind = page.content_type();
    match tokio::task::spawn_blocking(move || page.render()).await {
        Ok(body) => response(StatusCode::OK, kind, body),
        Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "a source broke\n"),
    }
}

fn not_allowed() -> Response<Full<Bytes>> {
    let code = StatusCode::METHOD_NOT_ALLOWED;
    let mut refused = response(code, PLAIN, "GET and HEAD only\n");
    let allowed = HeaderValue::from_static("GET, HEAD");
    refused.headers_mut().insert(ALLOW, allowed);
    refused
}

/// To whoever asks by a name that a stranger may have led here.
fn misled() -> Response<Full<Bytes>> {
    let text = "this endpoint is for its own machine, and Host has neither an IP address nor localhost: \
        a page of a stranger may have been led here\n";
    response(StatusCode::FORBIDDEN, PLAIN, text)
}

fn response(code: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
