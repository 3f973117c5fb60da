//! What a file server decides about a request and about the peer that sends it.
//!
//! The server asks in this order. [`Timeouts`] says, from the first byte of a connection to its last, whether the peer is still
//! worth waiting for. [`RequestConditions`] say whether the request may go on, once it is known what is there. For a GET,
//! [`RequestConditions::range_applies`] says whether its Range counts, and [`select_ranges`] which bytes that means. For a PUT,
//! [`request_digests`] says which digests the body must have.
//!
//! [`SmugglingGuard`] looks at the bytes of each head once more, for what others could read otherwise. [`FlushMethod`] says how uploads are made
//! durable, [`private_cache_control`] what caches are told.
//!
//! Nothing here answers: a status, a head and a body are made by the server, from what these return.

mod byte_ranges;
mod cache_control;
mod conditions;
mod entity_tag_list;
mod flush;
mod minimum_rate;
mod request_digests;
mod request_head;
mod smuggling_guard;
mod timeout_options;
mod timeouts;

pub use byte_ranges::{RangeLimits, RangeSelection, select_ranges, select_ranges_of_value};
pub use cache_control::private_cache_control;
pub use conditions::{ConditionOutcome, CurrentRepresentation, RequestConditions};
pub use flush::FlushMethod;
pub use request_digests::{DigestFieldError, digest_field_value, request_digests};
pub use request_head::{AmbiguousHead, RequestBodyFraming};
pub use smuggling_guard::SmugglingGuard;
pub use timeout_options::{TimeoutKind, TimeoutOptions};
pub use timeouts::Timeouts;
