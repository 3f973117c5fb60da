//! An origin under a script: conforming unless told otherwise, and then as wrong as told.
//!
//! A [`OriginResource`] has content, validators and a list of rules: *when* a request is like this, change the [`OriginReply`] like that.
//! Rules are plain functions, so that a test can break what nobody thought of; the common ones are in [`breakage`].
//! What was asked is recorded, so that a test can say what must not have been.
//!
//! The way of a request: `serve` reads its head, `state` records it, makes the conforming reply and applies the rules, `write`
//! puts the reply on the wire as it says, and tells what is to become of the connection. A proxy goes the same way, and then
//! passes on what its rules left alone.

pub mod breakage;
mod builder;
mod conforming;
pub(crate) mod log;
mod reply;
mod request;
mod resource;
mod running;
mod serve;
mod state;
mod when;
pub(crate) mod write;

pub use builder::OriginBuilder;
pub use reply::{OriginReply, ReplyBody, ReplyFraming};
pub use request::RecordedRequest;
pub use resource::OriginResource;
pub(crate) use resource::ReplyRule;
pub use running::Origin;
pub(crate) use serve::OriginStream;
pub(crate) use state::{OriginState, ServerRole};
pub use when::RequestMatcher;
