//! What became of a request on a shared connection that brought no answer, and whether it may be sent again.

use h2::Reason;
use url::Url;

use super::slot::StreamLease;
use crate::broke::ExchangeError;
use crate::error::{Error, Kind, TlsProblem};

/// A request that brought no head.
#[derive(Debug)]
pub(crate) struct UnansweredRequest {
    /// As its caller is told.
    pub(crate) error: Error,
    /// What may be done about it here.
    pub(crate) remedy: UnansweredRetry,
}

/// What may be done about a request that brought no head, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnansweredRetry {
    /// Nothing here.
    None,
    /// It may be sent again: the peer says that it never looked at it, or had closed a connection that was used before.
    Again,
    /// The same, and the peer takes fewer at once than it said.
    AgainWithFewer,
    /// It may be sent again over HTTP/1.1, and so should the others.
    Separately,
}

impl UnansweredRequest {
    /// What a broken exchange comes to. `reused` tells whether the connection had been used before.
    pub(crate) fn new(
        (broke, mut slot): (ExchangeError, StreamLease),
        reused: bool,
        url: &Url,
    ) -> Self {
        let remedy = match &broke {
            ExchangeError::Http2(error) => remedy(error, reused),
            _ => UnansweredRetry::None,
        };
        if remedy == UnansweredRetry::AgainWithFewer {
            slot.refuse();
        }
        let error = broke.into_error(url);
        // The alert comes when the handshake is over on our side.
        if *error.kind() == Kind::Closed && slot.connection().gauge.is_refused() {
            let refused = Kind::Tls(TlsProblem::ClientCertificate);
            return Self::lasting(Error::new(refused, url).because(error));
        }
        Self { error, remedy }
    }

    /// One that nothing can be done about.
    pub(crate) fn lasting(error: Error) -> Self {
        Self {
            error,
            remedy: UnansweredRetry::None,
        }
    }
}

/// What an error of h2's means. A peer that resets a stream or goes away may do better next time, whatever reason it gives; one
/// that breaks the rules is found out here, which h2 tells apart.
pub(crate) fn h2_kind(error: &h2::Error) -> Kind {
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

fn remedy(error: &h2::Error, reused: bool) -> UnansweredRetry {
    match error.reason() {
        Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => UnansweredRetry::Separately,
        Some(Reason::REFUSED_STREAM) if error.is_remote() && error.is_reset() => {
            UnansweredRetry::AgainWithFewer
        }
        // Only requests beyond the last that the peer looked at end so (RFC 9113 6.8).
        _ if error.is_remote() && error.is_go_away() => UnansweredRetry::Again,
        // As with HTTP/1.1: the peer closed while the request was on its way. It is a GET, so nothing can have happened twice.
        _ if error.is_io() && reused => UnansweredRetry::Again,
        _ => UnansweredRetry::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_replaced_only_if_it_was_used_before() {
        // h2's other errors cannot be made here; the tests with an origin see them.
        let error = h2::Error::from(Reason::INTERNAL_ERROR);
        assert_eq!(h2_kind(&error), Kind::Closed);
        assert_eq!(remedy(&error, true), UnansweredRetry::None);
    }
}
