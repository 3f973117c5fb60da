//! Tries the proxies of a tunnel once: at the start for a warning, and for `--check`. Otherwise a wrong login would show when the first
//! client connects, in its own program and without the reason.

use std::sync::Arc;

use haul_net::{Kind, Target};
use haul_tunnel::{StreamPurpose, UpstreamConnectError};

use crate::commands::service::command_error::CommandError;
use crate::exit::ExitReason;
use crate::message::{self, print_in_background, print_line, sanitize, tunnel_hint, warning_text};
use crate::settings::{PlannedTunnel, TunnelSettings, TunnelUpstream};

/// Prints a warning for each proxy that cannot be reached or refuses the login. Each is tried with the target of the first tunnel that
/// uses it; clients of SOCKS and HTTP listeners name targets that are not known yet.
pub(super) async fn warn_of_failing_proxies(tunnels: &[PlannedTunnel]) {
    let mut tried: Vec<&TunnelUpstream> = Vec::new();
    for (tunnel, target) in with_targets(tunnels) {
        let is_tried =
            |other: &&TunnelUpstream| Arc::ptr_eq(&other.upstream, &tunnel.upstream.upstream);
        // The first connection of a warm pool is such a try, and reports its error.
        if tunnel.warm.is_some()
            || !tunnel.upstream.uses_proxy(target)
            || tried.iter().any(is_tried)
        {
            continue;
        }
        tried.push(&tunnel.upstream);
        if let Err(error) = connect(tunnel, target).await
            && error.errors().iter().all(is_of_proxy)
        {
            let text = format!(
                "{} will fail: {error}",
                tunnel.upstream.route_text(Some(target))
            );
            let warning = warning_text(&sanitize(&text));
            let hint = error.errors().last().and_then(tunnel_hint);
            print_in_background(match hint {
                Some(hint) => format!("{warning}\nhint: {hint}"),
                None => warning,
            });
        }
    }
}

/// Connects to the target of each tunnel, and prints whether that works.
pub(super) async fn check(settings: &TunnelSettings) -> Result<ExitReason, CommandError> {
    let mut exit = ExitReason::Done;
    let mut count = 0;
    for (tunnel, target) in with_targets(&settings.tunnels) {
        count += 1;
        match connect(tunnel, target).await {
            Ok(()) => print_line(&sanitize(&format!(
                "haul: {target} can be reached {}",
                tunnel.upstream.route_text(Some(target))
            ))),
            Err(error) => {
                exit = ExitReason::Network;
                let hint = error.errors().last().and_then(tunnel_hint);
                message::print_error(
                    &sanitize(&format!("cannot reach {target}: {error}")),
                    hint.as_deref(),
                );
            }
        }
    }
    match count {
        0 => Err(CommandError::usage("--check has no target to connect to")
            .with_hint("clients of --socks and --http name their targets: add a SPEC")),
        _ => Ok(exit),
    }
}

fn with_targets(tunnels: &[PlannedTunnel]) -> impl Iterator<Item = (&PlannedTunnel, &Target)> {
    tunnels
        .iter()
        .filter_map(|tunnel| Some((tunnel, tunnel.target()?)))
}

async fn connect(tunnel: &PlannedTunnel, target: &Target) -> Result<(), UpstreamConnectError> {
    let connecting = tunnel
        .upstream
        .upstream
        .connect(target, StreamPurpose::Tunnel);
    connecting.await.map(drop)
}

/// Whether the proxy cannot be reached or refuses the login. A target that is down may be up when a client comes.
fn is_of_proxy(error: &haul_net::Error) -> bool {
    error.is_proxy_unreachable() || matches!(error.kind(), Kind::ProxyAuth(_))
}
