//! The responses of the admin endpoint: health, metrics, and the pages of its server.
//!
//! It has no logins. On loopback it trusts the programs of this machine, and refuses requests that may come from the page of another site whose
//! name was rebound to this address (see [`ServerNames`]): such a page could read the responses.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use tokio_util::sync::CancellationToken;

use super::super::{MetricSource, render};
use crate::ServerNames;

const PLAIN: &str = "text/plain; charset=utf-8";

/// The path of the health check.
const HEALTH: &str = "/healthz";

/// A page that a server adds to its admin endpoint.
pub trait AdminPage: Send + Sync {
    /// Its path, for example `/tunnels`; unique, and not one of the endpoint's own two.
    fn path(&self) -> &'static str;

    fn content_type(&self) -> &'static str;

    /// Its current content. This may take a lock or read `/proc`, so it is called on a blocking thread.
    fn render(&self) -> Vec<u8>;
}

/// The pages of the admin endpoint, and its health.
pub struct AdminEndpoint {
    /// Metrics first, then the pages of the server.
    pages: Vec<Arc<dyn AdminPage>>,
    /// Cancelled when the server accepts no more connections: it still responds then, but is not healthy.
    draining: CancellationToken,
}

/// The sources of metrics, in the order of their output.
struct MetricSources(Vec<Arc<dyn MetricSource>>);

impl AdminEndpoint {
    /// An endpoint with the metrics of these sources, unhealthy once `draining` is cancelled.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn MetricSource>>, draining: CancellationToken) -> Self {
        Self {
            pages: vec![Arc::new(MetricSources(sources))],
            draining,
        }
    }

    #[must_use]
    pub fn page(mut self, page: Arc<dyn AdminPage>) -> Self {
        self.pages.push(page);
        self
    }

    pub(super) async fn respond<B>(
        self: Arc<Self>,
        is_loopback: bool,
        request: Request<B>,
    ) -> Response<Full<Bytes>> {
        if is_loopback && !ServerNames::loopback().allows(request.headers(), request.uri()) {
            return foreign_name();
        }
        let path = request.uri().path();
        let page = self.pages.iter().find(|page| page.path() == path);
        if page.is_none() && path != HEALTH {
            return response(StatusCode::NOT_FOUND, PLAIN, self.index());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return method_not_allowed();
        }
        match page {
            Some(page) => rendered(Arc::clone(page)).await,
            None if self.draining.is_cancelled() => {
                response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "draining\n")
            }
            None => response(StatusCode::OK, PLAIN, "ok\n"),
        }
    }

    fn index(&self) -> String {
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
        f.debug_struct("AdminEndpoint")
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

/// A page, rendered on a blocking thread.
async fn rendered(page: Arc<dyn AdminPage>) -> Response<Full<Bytes>> {
    let kind = page.content_type();
    match tokio::task::spawn_blocking(move || page.render()).await {
        Ok(body) => response(StatusCode::OK, kind, body),
        Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "a source broke\n"),
    }
}

fn method_not_allowed() -> Response<Full<Bytes>> {
    let code = StatusCode::METHOD_NOT_ALLOWED;
    let mut refused = response(code, PLAIN, "GET and HEAD only\n");
    let allowed = HeaderValue::from_static("GET, HEAD");
    refused.headers_mut().insert(ALLOW, allowed);
    refused
}

/// The response to a host name that an attacker may have rebound to this address.
fn foreign_name() -> Response<Full<Bytes>> {
    let text = "this endpoint is for programs of this machine, and Host is neither an IP address nor localhost: \
        the request may come from the page of another site\n";
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
