//! What requests mean, and what is answered.
//!
//! [`ConnectionService`] is what hyper calls for each request of a connection. It finds out who asks and whether they may, and hands over to `methods`,
//! which ask `get` for files (with `multipart` for several ranges and `roads` for their bytes), `folder` for listings, `put` and `form` for what comes
//! in (an `inbound` body). What is no file is in `answer`; a `reply` is an answer, now or later.

mod coalesce;
mod error_response;
mod file_body;
mod folder;
mod form;
mod get;
mod methods;
mod multipart;
mod put;
mod request_body;
mod response_future;
mod server;
mod service;

pub use server::{FileServer, FileServerOptions};
pub(crate) use service::ConnectionService;
