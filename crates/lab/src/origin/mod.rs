//! An origin under a script: conforming unless told otherwise, and then as wrong as told.
//!
//! A [`OriginResource`] has content, validators and a list of rules: *when* a request is like this, change the [`OriginResponse`] like that.
//! Rules are plain functions, so that a test can break what nobody thought of; the common ones are in [`breakage`].
//! What was asked is recorded, so that a test can say what must not have been.
//!
//! The way of a request: `serve` reads its head, `state` records it, makes the conforming reply and applies the rules, `write`
//! puts the reply on the wire as it says, and tells what is to become of the connection. A proxy goes the same way, and then
//! passes on what its rules left alone.

mod builder;
mod conforming;
mod connection;
pub mod faults;
mod request;
pub(crate) mod request_log;
mod request_matcher;
mod resource;
mod response;
pub(crate) mod response_writer;
mod running;
mod state;

pub use builder::OriginBuilder;
pub(crate) use connection::ClientStream;
pub use request::RecordedRequest;
pub use request_matcher::RequestMatcher;
pub use resource::OriginResource;
pub(crate) use resource::ResponseRule;
pub use response::{OriginResponse, OriginResponseBody, OriginResponseFraming};
pub use running::Origin;
pub(crate) use state::{OriginState, ServerRole};
