//! What a file server decides about a request and about the peer that sends it.
//!
//! The server uses them in this order. [`Timeouts`] decide, from the first byte of a connection to its last, whether
//! to wait for the peer any longer. [`RequestConditions`] decide whether the request proceeds, once the current
//! representation is known. For a GET, [`RequestConditions::range_applies`] decides whether to obey its Range,
//! and [`select_ranges`] which bytes to send. For a PUT, [`request_digests()`] returns the digests that the body must
//! have.
//!
//! [`SmugglingGuard`] reads each head a second time, for parts that other programs could parse differently.
//! [`UploadFlushMethod`] selects how uploads are made durable, [`private_cache_control`] which caches may store a
//! response.
//!
//! The server itself makes the responses.

mod byte_ranges;
mod cache_control;
mod conditions;
mod flush;
mod request_digests;
mod request_head;
mod smuggling_guard;
mod timeouts;

pub use byte_ranges::{RangeLimits, RangeSelection, select_ranges, select_ranges_of_value};
pub use cache_control::private_cache_control;
pub use conditions::{ConditionOutcome, CurrentRepresentation, RequestConditions};
pub use flush::UploadFlushMethod;
pub use request_digests::{DigestFieldError, digest_field_value, request_digests};
pub use request_head::{AmbiguousHead, RequestBodyFraming, is_host};
pub use smuggling_guard::SmugglingGuard;
pub use timeouts::{TimeoutKind, TimeoutOptions, Timeouts};
