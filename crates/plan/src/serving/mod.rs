//! What a file server decides about a request and about the peer that sends it.
//!
//! The server asks in this order. [`Patience`] says, from the first byte of a connection to its last, whether the peer is still
//! worth waiting for. [`Conditions`] say whether the request may go on, once it is known what is there. For a GET,
//! [`Conditions::range_applies`] says whether its Range counts, and [`select`] which bytes that means. For a PUT,
//! [`sent_digests`] says which digests the body must have.
//!
//! [`HeadWatch`] looks at the bytes of each head once more, for what others could read otherwise. [`Flush`] says how uploads are made
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
pub use conditions::{Conditions, Current, Outcome};
pub use digest_fields::{DigestFieldError, repr_digest, sent_digests};
pub use flush::Flush;
pub use head::{Ambiguous, Follows};
pub use head_watch::HeadWatch;
pub use limits::{PatienceOptions, Tired};
pub use patience::Patience;
pub use range::{RangeLimits, Selection, select, select_value};
