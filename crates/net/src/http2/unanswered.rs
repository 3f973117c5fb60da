//! What became of a request on a shared connection that brought no answer, and whether it may be sent again.

use h2::Reason;
use url::Url;

use super::host::StreamLease;
use crate::error::{Error, Kind, TlsProblem};
use crate::exchange_error::ExchangeError;

/// A request that brought no head.
#[derive(Debug)]
pub(crate) struct UnansweredRequest {
    /// As its caller is told.
    pub(crate) error: Error,
    /// What may be done about it here.
    pub(crate) retry: UnansweredRetry,
}

/// What may be done about a request that brought no head, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnansweredRetry {
    /// Nothing here.
    Never,
    /// It may be sent again: the peer says that it never looked at it, or had closed a connection that was used before.
    Again,
    /// The same, and the peer takes fewer at once than it said.
    AgainWithFewerStreams,
    /// It may be sent again over HTTP/1.1, and so should the others.
    OverHttp1,
}

impl UnansweredRequest {
    /// What a broken exchange comes to. `reused` tells whether the connection had been used before.
    pub(crate) fn new(
        (broke, mut slot): (ExchangeError, StreamLease),
        reused: bool,
        url: &Url,
    ) -> Self {
        let remedy = match &broke {
            ExchangeError::Http2(error) => retry(error, reused),
            _ => UnansweredRetry::Never,
        };
        if remedy == UnansweredRetry::AgainWithFewerStreams {
            slot.record_refusal();
        }
        let error = broke.into_error(url);
        // The alert comes when the handshake is over on our side.
        if *error.kind() == Kind::Closed && slot.connection().socket_state.is_certificate_refused()
        {
            let refused = Kind::Tls(TlsProblem::ClientCertificate);
            return Self::permanent(Error::new(refused, url).with_source(error));
        }
        Self {
            error,
            retry: remedy,
        }
    }

    /// One that nothing can be done about.
    pub(crate) fn permanent(error: Error) -> Self {
        Self {
            error,
            retry: UnansweredRetry::Never,
        }
    }
}

fn retry(error: &h2::Error, reused: bool) -> UnansweredRetry {
    match error.reason() {
        Some(Reason::HTTP_1_1_REQUIRED) if error.is_remote() => UnansweredRetry::OverHttp1,
        Some(Reason::REFUSED_STREAM) if error.is_remote() && error.is_reset() => {
            UnansweredRetry::AgainWithFewerStreams
        }
        // Only requests beyond the last that the peer looked at end so (RFC 9113 6.8).
        _ if error.is_remote() && error.is_go_away() => UnansweredRetry::Again,
        // As with HTTP/1.1: the peer closed while the request was on its way. It is a GET, so nothing can have happened twice.
        _ if error.is_io() && reused => UnansweredRetry::Again,
        _ => UnansweredRetry::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_replaced_only_if_it_was_used_before() {
        // h2's other errors cannot be made here; the tests with an origin see them.
        let error = h2::Error::from(Reason::INTERNAL_ERROR);
        assert_eq!(retry(&error, true), UnansweredRetry::Never);
    }
}
