//! The start message of `haul tunnel`: listeners, their targets and routes, and warnings.

use haul_service::listen::BoundAddress;
use haul_tunnel::TunnelListenerSet;

use super::listeners::{TunnelDescription, banner_lines};
use crate::commands::service::addresses::is_public;
use crate::commands::service::banner::Banner;
use crate::settings::{PlannedTunnel, TunnelSettings};

pub(super) fn banner(
    settings: &TunnelSettings,
    listeners: &TunnelListenerSet,
    admin: &[BoundAddress],
) -> Banner {
    let all = settings.tunnels.iter().zip(listeners.addresses());
    let listening = all
        .clone()
        .flat_map(|(planned, addresses)| banner_lines(planned, addresses));
    let mut banner = Banner {
        lines: listening
            .map(|line| format!("listening on {line}"))
            .collect(),
        warnings: settings.warnings.clone(),
    };
    let descriptors = settings.descriptor_warning(&settings.process);
    banner.warnings.extend(descriptors);
    let public = all.flat_map(|(planned, addresses)| public_warnings(planned, addresses));
    banner.warnings.extend(public);
    banner.add_admin(admin);
    banner.add_unused_sockets(&listeners.unused_sockets(), "systemd:HOST:PORT");
    banner
}

/// Warnings about what others on the network can do: listeners have no logins.
pub(super) fn public_warnings(planned: &PlannedTunnel, addresses: &[BoundAddress]) -> Vec<String> {
    let description = TunnelDescription::new(planned);
    let public = addresses.iter().filter(|local| is_public(local));
    let warnings = public.map(|local| {
        if description.is_proxy {
            format!(
                "everybody who can reach {local} can use this proxy in your name: it has no logins"
            )
        } else {
            format!(
                "everybody who can reach {local} can connect{}: it has no logins",
                description.to.replace(" -> ", " to ")
            )
        }
    });
    warnings.collect()
}
