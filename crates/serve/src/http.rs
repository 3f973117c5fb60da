//! Handles requests and builds responses.
//!
//! hyper calls [`ConnectionService`] for each request of a connection. It authorizes the request
//! and passes it to `methods`. Those use `get` for files (`file_body` chooses how their bytes are
//! sent), `folder` for listings, and `put` and `form` for uploads, which read a `request_body`.
//! `login` responds to the page's login button. `browser_protection` has the fields that keep stored pages from running. `error_response` builds the responses that are neither.

mod browser_protection;
mod cache_control;
mod error_response;
mod file_body;
mod folder;
mod form;
mod get;
mod login;
mod methods;
mod put;
mod request_body;
mod request_digests;
mod server;
mod service;

pub use browser_protection::{forbid_sniffing, sandbox_active_content};
pub use error_response::{ServeResponse, empty_response};
pub use get::media_type;
pub use put::{ObjectUpload, UploadError, UploadRequest, UploadSource};
pub use request_body::{IncomingBody, RequestBodyError};
pub use server::{
    BoxedResponse, Dialect, DialectClaim, DialectRequest, DialectResponse, FileServer,
    FileServerOptions, RequestContext,
};
pub(crate) use service::ConnectionService;
