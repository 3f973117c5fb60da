//! The S3 dialect over real sockets, in this process. Test names begin with their row in section G of `docs/corner-cases.md`.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod s3_requests;

/// What starts a server, and its clients: those of the tests of `serve`.
#[path = "../../../serve/tests/it"]
#[expect(dead_code, reason = "the tests of plain HTTP need more")]
mod serve_tests {
    pub(crate) mod client;
    pub(crate) mod harness;
    pub(crate) mod http2;
}

use serve_tests::{client, harness, http2};
