//! What an error on one way says about the others.

use haul_net::{Error, Kind, Refusal};
use haul_plan::tunnel::Setback;

/// What kept a way from leading to the target.
pub(super) fn setback(error: &Error) -> Setback {
    // It is this machine that has nothing left to connect with: another way needs the same.
    if error.is_shortage() {
        return Setback::Refused;
    }
    if error.is_of_proxy() {
        return Setback::Away;
    }
    match (error.kind(), error.refusal()) {
        // Something answers there, and it is no proxy, or not the one that is meant.
        (Kind::NotSocks | Kind::Protocol, _) => Setback::Away,
        (Kind::Tls(_), _) if error.proxy().is_some() => Setback::Away,
        (Kind::ConnectTimeout(_) | Kind::Closed, _) => Setback::Slow,
        (Kind::ProxyAuth(_), _) | (_, Some(Refusal::NotAllowed)) => Setback::Refused,
        (Kind::ProxyRefused(Some(status)), _) if !status.is_server_error() => Setback::Refused,
        _ => Setback::Unreachable,
    }
}
