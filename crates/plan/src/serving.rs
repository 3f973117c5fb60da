//! What a file server decides about a request, whatever its dialect.
//!
//! [`RequestConditions`] decide whether the request proceeds, once the current representation is known. For a GET,
//! [`RequestConditions::range_applies`] decides whether to obey its Range, and [`select_ranges`] which bytes to send.
//!
//! The server itself makes the responses.

mod byte_ranges;
mod conditions;

pub use byte_ranges::{RangeLimits, RangeSelection, select_ranges, select_ranges_of_value};
pub use conditions::{ConditionOutcome, CurrentRepresentation, RequestConditions};
