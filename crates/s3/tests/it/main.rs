//! The client against a server whose responses are a script: what its requests are on the wire, what refusals say, and where signatures go. Test names begin with the row
//! of `docs/corner-cases.md` that they cover.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod refusals;
mod requests;
mod script;
