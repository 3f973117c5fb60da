//! An origin under a script: conforming unless its rules say otherwise.
//!
//! An [`OriginResource`] has content, validators and a list of rules: for *these* requests, change the [`OriginResponse`] like
//! *that*. Rules are plain functions, so that a test can break anything; the common ones are in [`faults`]. Requests are
//! recorded, so that a test can say which must not have been made.
//!
//! `connection` reads the head of a request, `state` records it, makes the conforming response and applies the rules,
//! `response_writer` writes the response as it is described, and says what becomes of the connection. An HTTP proxy goes
//! through the same, and then forwards the requests that its rules left alone.

mod client_stream;
mod conforming;
mod connection;
pub mod faults;
mod request;
pub(crate) mod request_log;
mod request_matcher;
mod resource;
mod response;
pub(crate) mod response_writer;
mod server;
mod state;

pub(crate) use client_stream::ClientStream;
pub(crate) use connection::read_head;
pub use request::RecordedRequest;
pub use request_matcher::RequestMatcher;
pub use resource::OriginResource;
pub(crate) use resource::ResponseRule;
pub use response::{OriginResponse, OriginResponseBody, OriginResponseFraming};
pub use server::{Origin, OriginBuilder};
pub(crate) use state::{OriginState, ServerRole};
