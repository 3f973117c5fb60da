//! Why an exchange with a peer stopped, in the words of the libraries below, and what that means.

use crate::error::{Error, Kind, TlsProblem};
use crate::transport::tls_error::is_certificate_refused;
use h2::Reason;
use url::Url;

/// Why there is no head, or no more of a body.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// Silence for as long as the stall timeout.
    Stalled,
    /// What hyper says of an HTTP/1.1 connection.
    Http1(hyper::Error),
    /// What h2 says of a request, or of the HTTP/2 connection that it shares.
    Http2(h2::Error),
}

impl ExchangeError {
    /// As an error of a request for `url`.
    pub(crate) fn into_error(self, url: &Url) -> Error {
        match self {
            Self::Stalled => Error::new(Kind::Stall, url),
            Self::Http1(error) => Error::new(http1_kind(&error), url).with_source(error),
            Self::Http2(error) => Error::new(h2_kind(&error), url).with_source(error),
        }
    }
}

/// What an error of hyper's means.
fn http1_kind(error: &hyper::Error) -> Kind {
    if error.is_parse() || is_framing_error(error) {
        Kind::Protocol
    } else if is_certificate_refused(error) {
        Kind::Tls(TlsProblem::ClientCertificate)
    } else {
        Kind::Closed
    }
}

/// Whether chunks are none. Hyper says so by an I/O error of this kind, which no socket has.
fn is_framing_error(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|source| source.kind() == std::io::ErrorKind::InvalidInput)
}

/// What an error of h2's means. A peer that resets a stream or goes away may do better next time, whatever reason it gives; one
/// that breaks the rules is found out here, which h2 tells apart.
fn h2_kind(error: &h2::Error) -> Kind {
    if error.is_remote() && error.reason() == Some(Reason::HTTP_1_1_REQUIRED) {
        Kind::Tls(TlsProblem::NoHttp2)
    } else if error.is_remote() || error.is_io() {
        Kind::Closed
    } else if error.is_library() {
        Kind::Protocol
    } else if error.reason().is_some() {
        Kind::Closed
    } else {
        // We have said what cannot be said.
        Kind::InvalidRequest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_of_either_side_is_a_closed_connection() {
        let error = h2::Error::from(Reason::INTERNAL_ERROR);
        assert_eq!(h2_kind(&error), Kind::Closed);
    }
}
