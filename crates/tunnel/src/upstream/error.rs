//! Why a target was not reached, and what that says about other routes.

use std::fmt;

use haul_net::{Connector, Error, Kind, Proxy, ProxyRefusal, TlsConfigError};

use super::routes::RouteFailure;

/// The most routes that the alternatives of a chain may make.
pub(super) const MAX_ROUTES: usize = 16;

/// Why the options cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamConfigError {
    /// Alternatives of several places multiply.
    #[error("these alternatives make more than {MAX_ROUTES} routes")]
    TooManyRoutes,
    /// Certificates or keys that cannot be used.
    #[error(transparent)]
    Certificates(#[from] TlsConfigError),
}

/// A target was not reached: the error of each route that was tried, in their order.
#[derive(Debug, Clone)]
pub struct UpstreamConnectError(Vec<Error>);

impl UpstreamConnectError {
    pub(super) fn new(errors: Vec<Error>) -> Self {
        Self(errors)
    }

    /// The error of each route that was tried. There is none if the target is not a host.
    #[must_use]
    pub fn errors(&self) -> &[Error] {
        &self.0
    }

    /// Whether the peer closed the connection instead of a response.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.0.as_slice(), [error] if *error.kind() == Kind::Closed)
    }

    /// The same for an exchange with a proxy, which may have closed the connection because of its login.
    pub(crate) fn of_proxy(self, connector: &Connector, proxy: &Proxy) -> Self {
        let errors = self.0.into_iter();
        let explained = errors.map(|error| connector.explain_close(proxy, error));
        Self(explained.collect())
    }

    /// Whether a proxy has refused our login.
    pub(crate) fn is_login_refused(&self) -> bool {
        let is_refused = |error: &Error| matches!(error.kind(), Kind::ProxyAuth(_));
        self.0.iter().any(is_refused)
    }
}

impl From<Error> for UpstreamConnectError {
    /// The error of the only route that was tried.
    fn from(error: Error) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for UpstreamConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("this is not a host name");
        }
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; then ")?;
            }
            write!(f, "{error}")?;
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                write!(f, ": {cause}")?;
                source = cause.source();
            }
        }
        Ok(())
    }
}

impl std::error::Error for UpstreamConnectError {}

/// What an error on one route means for the others.
pub(super) fn route_failure(error: &Error) -> RouteFailure {
    // This machine has no descriptor or port left: another route needs one as well.
    if error.is_descriptor_limit() {
        return RouteFailure::Refused;
    }
    if error.is_proxy_unreachable() {
        return RouteFailure::ProxyUnreachable;
    }
    match (error.kind(), error.proxy_refusal()) {
        // Something listens at the proxy's address, but it is no proxy, or not the right one.
        (Kind::NotSocks | Kind::Protocol, _) => RouteFailure::ProxyUnreachable,
        (Kind::Tls(_), _) if error.proxy().is_some() => RouteFailure::ProxyUnreachable,
        (Kind::ConnectTimeout(_) | Kind::Closed, _) => RouteFailure::NoAnswer,
        (Kind::ProxyAuth(_), _) | (_, Some(ProxyRefusal::NotAllowed)) => RouteFailure::Refused,
        (Kind::ProxyRefused(Some(status)), _) if !status.is_server_error() => RouteFailure::Refused,
        _ => RouteFailure::TargetUnreachable,
    }
}
