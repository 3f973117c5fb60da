//! The listeners of `haul tunnel` as people read them, and why they cannot be opened.

use haul_service::listen::{BoundAddress, ListenError};
use haul_tunnel::{AddressHolder, ListenerChanges, ListenerSetError, TunnelListenerSet};

use crate::args::Sourced;
use crate::commands::service::addresses::used_twice_error;
use crate::commands::service::command_error::CommandError;
use crate::message;
use crate::settings::PlannedTunnel;

/// A tunnel as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TunnelDescription {
    /// The target, after the address: ` -> host:port`, ` -> host:port (TLS)`, ` (SOCKS5)`.
    pub(super) to: String,
    /// `via proxy:3128`, `directly`.
    pub(super) route: String,
    /// Whether clients name their targets.
    pub(super) is_proxy: bool,
}

impl TunnelDescription {
    pub(super) fn new(planned: &PlannedTunnel) -> Self {
        let target = planned.target();
        let has_tls = planned.upstream.upstream.has_target_tls();
        Self {
            to: match (target, has_tls) {
                (Some(target), false) => format!(" -> {target}"),
                (Some(target), true) => format!(" -> {target} (TLS)"),
                (None, false) => format!(" ({})", planned.kind),
                (None, true) => format!(" ({}, TLS with targets)", planned.kind),
            },
            route: planned.upstream.route_text(target),
            is_proxy: target.is_none(),
        }
    }
}

/// `127.0.0.1:9993 -> imap.example.com:993 via proxy:3128`, for each address.
pub(super) fn banner_lines(planned: &PlannedTunnel, addresses: &[BoundAddress]) -> Vec<String> {
    let TunnelDescription { to, route, .. } = TunnelDescription::new(planned);
    addresses
        .iter()
        .map(|address| format!("{address}{to} {route}"))
        .collect()
}

/// Opens and closes listeners.
pub(super) fn apply(
    listeners: &mut TunnelListenerSet,
    planned: &[PlannedTunnel],
) -> Result<ListenerChanges, CommandError> {
    let settings: Vec<_> = planned.iter().map(PlannedTunnel::listener).collect();
    listeners
        .apply(&settings)
        .map_err(|error| command_error(error, planned))
}

fn command_error(error: ListenerSetError, planned: &[PlannedTunnel]) -> CommandError {
    let (index, holder, source) = match error {
        ListenerSetError::NotInherited(error) => return listen_error(error),
        ListenerSetError::Accept(_) => return CommandError::local(message::chain_text(&error)),
        ListenerSetError::Bind {
            index,
            holder,
            source,
        } => (index, holder, source),
    };
    let Sourced {
        value,
        source: given,
    } = &planned[index].listen;
    let used_twice =
        |before| used_twice_error("", value, before, "every interface includes this one");
    let error = match holder {
        Some(AddressHolder::OpenListener) => used_twice("tunnel")
            .with_hint("restart haul to replace a listener by one that it overlaps"),
        Some(AddressHolder::NewListener) => used_twice("tunnel"),
        Some(AddressHolder::OtherEndpoint) => used_twice("--admin"),
        None => listen_error(source),
    };
    error.at_source(given)
}

/// The error about an address that haul cannot listen on.
fn listen_error(error: ListenError) -> CommandError {
    let is_nothing =
        matches!(&error, ListenError::NotInherited { others, .. } if others.is_empty());
    let command_error = CommandError::from(error);
    if is_nothing {
        command_error.with_hint(
            "systemd needs a .socket unit; to try it: systemd-socket-activate -l 9993 haul tunnel ... systemd:HOST:PORT",
        )
    } else {
        command_error
    }
}
