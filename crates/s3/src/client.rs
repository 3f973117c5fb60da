//! Requests of the S3 operations: built, sent, and their responses read.
//!
//! Nothing here retries: [`S3Error::is_transient`](crate::S3Error::is_transient) says what may be sent again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_net::{Client, FetchRequest, FetchResponse, RequestBody, SignerError};
use haul_plan::requested_wait;
use http::header::{CONTENT_LENGTH, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use crate::address::{S3Address, escaped_query};
use crate::error::{S3Error, S3ErrorKind, ServiceError};
use crate::signer::S3Signer;
use crate::xml::XmlNode;

/// The longest response that is read: a list of ten thousand parts, or of a thousand long keys.
const MAX_RESPONSE: usize = 16 << 20;

/// The longest error response.
const MAX_ERROR: usize = 64 << 10;

/// Requests to a store. Cloning is cheap and shares connections, credentials and what refusals said of regions and clocks.
#[derive(Debug, Clone)]
pub struct S3Client {
    http: Client,
    signer: Arc<S3Signer>,
}

/// A request of one operation.
#[derive(Debug)]
pub(crate) struct S3Request<'a> {
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) address: &'a S3Address,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: RequestBody,
}

impl<'a> S3Request<'a> {
    pub(crate) fn new(operation: &'static str, method: Method, address: &'a S3Address) -> Self {
        Self {
            operation,
            method,
            address,
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: RequestBody::Empty,
        }
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// A parameter that is left out when it is empty.
    pub(crate) fn query_if(self, name: &'static str, value: &str) -> Self {
        if value.is_empty() {
            self
        } else {
            self.query(name, value)
        }
    }

    pub(crate) fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// A field. One that no header can carry is left out; callers check what a user gave.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    pub(crate) fn body(mut self, body: RequestBody) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn failed(&self, kind: impl Into<S3ErrorKind>) -> S3Error {
        S3Error::new(self.operation, self.address, kind)
    }

    fn url(&self) -> Result<Url, S3Error> {
        let mut url = self.address.to_url().map_err(|error| self.failed(error))?;
        if !self.query.is_empty() {
            let pairs = self.query.iter().map(|(name, value)| {
                if value.is_empty() {
                    escaped_query(name) + "="
                } else {
                    format!("{}={}", escaped_query(name), escaped_query(value))
                }
            });
            url.set_query(Some(&pairs.collect::<Vec<_>>().join("&")));
        }
        Ok(url)
    }
}

impl S3Client {
    pub(crate) fn new(http: Client, signer: Arc<S3Signer>) -> Self {
        Self { http, signer }
    }

    /// The client that sends the requests. Its `s3://` URLs are those of this store, so that `get` can use it.
    #[must_use]
    pub fn http(&self) -> &Client {
        &self.http
    }

    /// Whether the sources of bodies have to know their SHA-256 ([`haul_net::BodySource::sha256`]), which signatures cover where no TLS
    /// protects the bytes.
    #[must_use]
    pub fn signs_bodies(&self) -> bool {
        self.signer.signs_bodies()
    }

    /// By how many seconds the store's clock is ahead of ours, if signatures needed that.
    #[must_use]
    pub fn clock_offset(&self) -> Option<i64> {
        self.signer.clock_offset()
    }

    /// What tells an object from those of other stores: the endpoint and the address, whatever region the bucket turns out to be in.
    #[must_use]
    pub fn object_name(&self, address: &S3Address) -> String {
        let origin = address.origin_text();
        let endpoint = origin
            .as_deref()
            .or_else(|| Some(self.signer.endpoint_url()?.as_str()))
            .unwrap_or_default();
        format!("{endpoint}\0{}\0{}", address.bucket, address.key)
    }

    /// A URL for GET, PUT or HEAD of an object that needs no credentials until it expires. Makes no request to the store.
    ///
    /// # Errors
    /// There are no credentials, or no URL can name the key.
    pub async fn presign(
        &self,
        method: &Method,
        address: &S3Address,
        expires_in: Duration,
    ) -> Result<Url, SignerError> {
        let url = address.to_url()?;
        self.signer.presigned(method, &url, expires_in).await
    }

    /// Sends a request. A response with another status than success is an error.
    pub(crate) async fn send(&self, request: &S3Request<'_>) -> Result<FetchResponse, S3Error> {
        let response = self.send_unchecked(request).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        Err(self.refusal(request, response).await)
    }

    /// Sends a request and reads its document.
    ///
    /// # Errors
    /// Also where the document is an error, is empty or cut short (row F1).
    pub(crate) async fn send_for_document(
        &self,
        request: &S3Request<'_>,
    ) -> Result<(HeaderMap, XmlNode), S3Error> {
        let mut response = self.send(request).await?;
        let (status, headers) = (response.status, response.headers.clone());
        let body = read_body(&mut response, MAX_RESPONSE)
            .await
            .map_err(|error| self.failed(request, error))?;
        let secrets = response.request_secrets();
        response.recycle();
        let root = XmlNode::parse(&body).map_err(|error| self.failed(request, error))?;
        if root.name == "Error" {
            return Err(self.failed(request, ServiceError::from_xml(status, &root, &secrets)));
        }
        Ok((headers, root))
    }

    /// Sends a request whose response has nothing to read.
    pub(crate) async fn send_for_headers(
        &self,
        request: &S3Request<'_>,
    ) -> Result<HeaderMap, S3Error> {
        let response = self.send(request).await?;
        let headers = response.headers.clone();
        response.discard().await;
        Ok(headers)
    }

    async fn send_unchecked(&self, request: &S3Request<'_>) -> Result<FetchResponse, S3Error> {
        let url = request.url()?;
        let fetch = FetchRequest {
            method: request.method.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            ..FetchRequest::get(&url)
        };
        // The future of a request is large.
        let response = Box::pin(self.http.fetch(fetch)).await;
        response.map_err(|error| self.failed(request, error))
    }

    fn failed(&self, request: &S3Request<'_>, kind: impl Into<S3ErrorKind>) -> S3Error {
        let endpoint = match request.address.origin_text() {
            Some(_) => None,
            None => self.signer.endpoint_text(),
        };
        S3Error {
            endpoint,
            ..request.failed(kind)
        }
    }

    /// The error of a response. A HEAD says nothing, so the reason is asked for by a GET of one byte (row F18).
    async fn refusal(&self, request: &S3Request<'_>, mut response: FetchResponse) -> S3Error {
        if request.method == Method::HEAD
            && response.status == StatusCode::FORBIDDEN
            && !request.address.key.is_empty()
        {
            let get = S3Request {
                method: Method::GET,
                headers: [(RANGE, HeaderValue::from_static("bytes=0-0"))]
                    .into_iter()
                    .collect(),
                query: request.query.clone(),
                body: RequestBody::Empty,
                ..*request
            };
            match Box::pin(self.send_unchecked(&get)).await {
                Ok(explained) if !explained.status.is_success() => response = explained,
                _ => {}
            }
        }
        let retry_after = requested_wait(response.status, &response.headers, SystemTime::now());
        let body = read_body(&mut response, MAX_ERROR)
            .await
            .unwrap_or_default();
        let root = XmlNode::parse(&body).unwrap_or_default();
        let mut error = ServiceError::from_xml(response.status, &root, &response.request_secrets());
        error.retry_after = retry_after;
        if error.request_id.is_none() {
            let id = response.headers.get("x-amz-request-id");
            error.request_id = id.and_then(|id| Some(id.to_str().ok()?.to_owned()));
        }
        response.recycle();
        self.failed(request, error)
    }
}

/// Reads a body of limited length. One that its head says is longer is not begun.
async fn read_body(response: &mut FetchResponse, limit: usize) -> Result<Vec<u8>, S3ErrorKind> {
    let too_long = || S3ErrorKind::Response("it is too long".to_owned());
    let announced = response
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_long());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Err(too_long());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
