//! What a file server decides about a request and about the peer that sends it.
//!
//! The server asks in this order. [`Timeouts`] says, from the first byte of a connection to its last, whether the peer is still
//! worth waiting for. [`RequestConditions`] say whether the request may go on, once it is known what is there. For a GET,
//! [`RequestConditions::range_applies`] says whether its Range counts, and [`select`] which bytes that means. For a PUT,
//! [`sent_digests`] says which digests the body must have.
//!
//! [`HeadWatch`] looks at the bytes of each head once more, for what others could read otherwise. [`FlushMethod`] says how uploads are made
//! durable, [`for_one`] what caches are told.
//!
//! Nothing here answers: a status, a head and a body are made by the server, from what these return.

mod cache;
mod conditions;
mod digest_fields;
mod flush;
mod head;
mod head_watch;
mod least_rate;
mod limits;
mod patience;
mod range;
mod tags;

pub use cache::for_one;
pub use conditions::{ConditionOutcome, CurrentRepresentation, RequestConditions};
pub use digest_fields::{DigestFieldError, repr_digest, sent_digests};
pub use flush::FlushMethod;
pub use head::{AmbiguousHead, RequestBodyFraming};
pub use head_watch::HeadWatch;
pub use limits::{TimeoutKind, TimeoutOptions};
pub use patience::Timeouts;
pub use range::{RangeLimits, RangeSelection, select, select_value};
