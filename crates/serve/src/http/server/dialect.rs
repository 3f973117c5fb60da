//! How another crate answers requests in a dialect of its own, on the store of this server.
//!
//! [`Dialect::claim`] looks at the head of each request. One that the dialect claims leaves the service as a [`DialectRequest`]: its head, its
//! body, and a [`RequestContext`], which is all that a dialect knows of the server and the connection.
//! Checks of framing and host, CORS, the log and the counting of bytes stay with the service.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Version, request};

use super::FileServer;
use crate::ObjectKey;
use crate::body::ServeBody;
use crate::connection::{ConnectionState, TimeoutPause};
use crate::http::error_response::ServeResponse;
use crate::http::file_body::FileBody;
use crate::http::put::{UploadError, UploadRequest, UploadSource, store_upload};
use crate::http::request_body::IncomingBody;
use crate::store::{CommittedUpload, OpenObject};

pub type BoxedResponse<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A dialect that a server speaks beside plain HTTP.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// Whether a request is of this dialect; `None` for one of plain HTTP.
    fn claim(&self, head: &request::Parts) -> Option<DialectClaim>;

    /// Responds to a request that the dialect has claimed.
    fn respond(self: Arc<Self>, request: DialectRequest) -> BoxedResponse<DialectResponse>;

    /// Whether plain URLs take uploads in the dialect's parts ([`DialectClaim::HttpUpload`]).
    fn takes_http_uploads(&self) -> bool;

    /// How long an unfinished upload in parts is kept after its last part.
    fn upload_expiry(&self) -> Duration;
}

/// Whose rules a request follows that a dialect has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialectClaim {
    /// Those of the dialect, which finds out who sent it.
    Request {
        /// Whether it is signed. The signature covers the Host field, so any host is accepted.
        is_signed: bool,
    },
    /// Those of plain HTTP: it is one of an upload in the dialect's parts to a plain URL.
    HttpUpload,
}

#[derive(Debug)]
pub struct DialectRequest {
    /// The server and the connection.
    pub context: RequestContext,
    pub head: request::Parts,
    /// The body, unread.
    pub body: IncomingBody,
    /// The key to which the rules of plain HTTP permit an upload; `None` if the dialect's own rules count.
    pub http_upload: Option<ObjectKey>,
}

#[derive(Debug)]
pub struct DialectResponse {
    pub response: ServeResponse,
    /// Who sent the request, for the log.
    pub user: Option<Arc<str>>,
}

/// The server and the connection of a request.
#[derive(Debug, Clone)]
pub struct RequestContext {
    connection: Arc<ConnectionState>,
    version: Version,
}

impl RequestContext {
    pub(crate) fn new(connection: Arc<ConnectionState>, version: Version) -> Self {
        Self {
            connection,
            version,
        }
    }

    #[must_use]
    pub fn server(&self) -> &FileServer {
        &self.connection.server
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.connection.is_tls
    }

    /// Stops the timeouts of the request while its client waits for the disk.
    #[must_use]
    pub fn pause_timeouts(&self) -> TimeoutPause {
        self.connection.timeouts.pause()
    }

    /// A range of a file as a body: sent by the kernel, where it can.
    #[must_use]
    pub fn file_body(&self, object: &Arc<OpenObject>, range: Range<u64>) -> ServeBody {
        let mappings = self.connection.mappings_for(self.version);
        let length = range.end - range.start;
        FileBody::new(self.server().disk(), mappings, object, length).single(range)
    }

    /// Stores what a source gives. An upload that is dropped is discarded.
    ///
    /// # Errors
    /// The store's, or the source's.
    pub async fn store_upload(
        &self,
        request: UploadRequest,
        source: impl UploadSource,
    ) -> Result<CommittedUpload, UploadError> {
        store_upload(&self.connection, request, source).await
    }
}
