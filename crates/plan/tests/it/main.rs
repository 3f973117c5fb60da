//! Parsers of header fields, under fields that are nearly right.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod hostile_headers;
