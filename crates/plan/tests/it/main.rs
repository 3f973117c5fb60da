//! The plan as a whole: properties of the segment map under any order of events, and downloads in simulated time.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod hostile_headers;
mod hostile_names;
