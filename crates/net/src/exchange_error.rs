//! Why an exchange with a peer stopped, what that means, and whether the request may be sent
//! again.

use std::io;

use h2::Reason;
use haul_plan::FramingError;
use url::Url;

use crate::error::{Error, Kind, TlsProblem};
use crate::http1::Http1Error;
use crate::transport::tls_error::is_certificate_refused;

/// The most interim responses (1xx) to one request. A peer that sends them faster than they are read would not let the timeout end it.
pub(crate) const MAX_INTERIM_RESPONSES: u32 = 1000;

/// Why there is no response head, or no more of a body.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The peer was silent for the stall timeout.
    Stalled,
    /// The head of the response did not come in time.
    NoResponse,
    /// Interim responses came over HTTP/2, more than any peer has reason to send, and no head of a final one.
    HeadTooLong,
    /// The body has another length than its head said, or no certain one.
    Framing(FramingError),
    /// What went wrong on an HTTP/1.1 connection.
    Http1(Http1Error),
    /// h2's error of a request, or of the HTTP/2 connection that carries it.
    Http2(h2::Error),
    /// The peer ended TLS because of the client certificate, after the handshake was over on our side. h2 reports that as a
    /// connection that was closed.
    CertificateRefused(h2::Error),
}

/// Whether a request over HTTP/2 that got no response head may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http2Retry {
    Never,
    /// The peer says that it never looked at the request, or it had closed a connection that was used before.
    Again,
    /// The peer wants HTTP/1.1, for this request and the next ones.
    OverHttp1,
}

impl ExchangeError {
    /// The error of a request for `url`.
    pub(crate) fn into_error(self, url: &Url) -> Error {
        match self {
            Self::Stalled => Error::new(Kind::Stall, url),
            Self::NoResponse => Error::new(Kind::ResponseTimeout, url),
            Self::HeadTooLong => {
                Error::new(Kind::Protocol, url).with_source(Http1Error::HeadTooLong)
            }
            Self::Framing(error) => Error::new(Kind::Framing(error), url),
            Self::Http1(error) => {
                let kind = http1_kind(&error);
                match error {
                    Http1Error::RequestBody(error) => Error::new(kind, url).with_source(error),
                    error => Error::new(kind, url).with_source(error),
                }
            }
            Self::Http2(error) => Error::new(http2_kind(&error), url).with_source(error),
            Self::CertificateRefused(error) => {
                let kind = Kind::Tls(TlsProblem::ClientCertificate);
                Error::new(kind, url).with_source(error)
            }
        }
    }

    /// Whether the request may be sent again; `is_reused` is whether the connection had been used before.
    pub(crate) fn http2_retry(&self, is_reused: bool) -> Http2Retry {
        let Self::Http2(error) = self else {
            return Http2Retry::Never;
        };
        match error.reason() {
            Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => Http2Retry::OverHttp1,
            _ if is_refused_stream(error) => Http2Retry::Again,
            // Only requests beyond the last one that the peer looked at end like this (RFC 9113 6.8).
            _ if error.is_remote() && error.is_go_away() => Http2Retry::Again,
            // As with HTTP/1.1: the peer closed the connection while the request was on its way. A GET may be sent twice.
            _ if error.is_io() && is_reused => Http2Retry::Again,
            _ => Http2Retry::Never,
        }
    }
}

impl From<FramingError> for ExchangeError {
    fn from(error: FramingError) -> Self {
        Self::Framing(error)
    }
}

/// Whether the peer refused a request without looking at it, since it has too many others.
pub(crate) fn is_refused_stream(error: &h2::Error) -> bool {
    error.reason() == Some(Reason::REFUSED_STREAM) && error.is_remote() && error.is_reset()
}

/// Whether the system gave the connection up, since the peer's system acknowledged nothing for too long (tcp(7)).
fn is_peer_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

fn http1_kind(error: &Http1Error) -> Kind {
    match error {
        Http1Error::Head(_) | Http1Error::HeadTooLong | Http1Error::Chunk(_) => Kind::Protocol,
        Http1Error::RequestBody(_) => Kind::RequestBody,
        Http1Error::Stream(error) if is_certificate_refused(error) => {
            Kind::Tls(TlsProblem::ClientCertificate)
        }
        Http1Error::Stream(error) if is_peer_gone(error) => Kind::Stall,
        Http1Error::Stream(_)
        | Http1Error::ClosedBeforeHead
        | Http1Error::ClosedInRequest
        | Http1Error::ClosedInBody
        | Http1Error::Unsent => Kind::Closed,
    }
}

/// A peer that resets a stream or goes away may do better next time, whatever reason it gives. A peer that breaks the rules is
/// found out by h2 on our side, which reports that as an error of the library.
pub(crate) fn http2_kind(error: &h2::Error) -> Kind {
    if error.is_remote() && error.reason() == Some(Reason::HTTP_1_1_REQUIRED) {
        Kind::Tls(TlsProblem::NoHttp2)
    } else if error.get_io().is_some_and(is_peer_gone) {
        Kind::Stall
    } else if error.is_remote() || error.is_io() {
        Kind::Closed
    } else if error.is_library() {
        Kind::Protocol
    } else if error.reason().is_some() {
        Kind::Closed
    } else {
        // h2 refused to send the request.
        Kind::InvalidRequest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_error_is_a_closed_connection_and_not_retried() {
        // h2's other errors cannot be constructed here; the tests with an origin produce them.
        let error = h2::Error::from(Reason::INTERNAL_ERROR);
        assert_eq!(http2_kind(&error), Kind::Closed);
        assert_eq!(
            ExchangeError::Http2(error).http2_retry(true),
            Http2Retry::Never
        );
    }
}
