//! Why an exchange with a peer stopped, in the words of the libraries below, and what that means.

use crate::error::{Error, Kind, TlsProblem};
use crate::http2::h2_kind;
use crate::tls::is_certificate_refused;
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
