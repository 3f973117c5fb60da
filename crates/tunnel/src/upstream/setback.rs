//! What an error on one way says about the others.

use haul_net::{Error, Kind, ProxyRefusal};
use haul_plan::tunnel::RouteFailure;

/// What kept a way from leading to the target.
pub(super) fn setback(error: &Error) -> RouteFailure {
    // It is this machine that has nothing left to connect with: another way needs the same.
    if error.is_descriptor_limit() {
        return RouteFailure::Refused;
    }
    if error.is_proxy_unreachable() {
        return RouteFailure::ProxyUnreachable;
    }
    match (error.kind(), error.proxy_refusal()) {
        // Something answers there, and it is no proxy, or not the one that is meant.
        (Kind::NotSocks | Kind::Protocol, _) => RouteFailure::ProxyUnreachable,
        (Kind::Tls(_), _) if error.proxy().is_some() => RouteFailure::ProxyUnreachable,
        (Kind::ConnectTimeout(_) | Kind::Closed, _) => RouteFailure::NoAnswer,
        (Kind::ProxyAuth(_), _) | (_, Some(ProxyRefusal::NotAllowed)) => RouteFailure::Refused,
        (Kind::ProxyRefused(Some(status)), _) if !status.is_server_error() => RouteFailure::Refused,
        _ => RouteFailure::TargetUnreachable,
    }
}
