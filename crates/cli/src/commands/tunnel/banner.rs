//! The start message of `haul tunnel`: listeners, their targets and routes, and warnings.

use haul_service::listen::BoundAddress;

use super::listeners::{OpenTunnelListener, TunnelListenerSet};
use crate::commands::service::addresses::is_public;
use crate::commands::service::banner::Banner;
use crate::settings::TunnelSettings;

pub(super) fn banner(
    settings: &TunnelSettings,
    listeners: &TunnelListenerSet,
    admin: &[BoundAddress],
) -> Banner {
    let all = listeners.all().iter();
    let listening = all.clone().flat_map(OpenTunnelListener::banner_lines);
    let mut banner = Banner {
        lines: listening
            .map(|line| format!("listening on {line}"))
            .collect(),
        warnings: settings.warnings.clone(),
    };
    let descriptors = settings.descriptor_warning(&settings.process);
    banner.warnings.extend(descriptors);
    banner
        .warnings
        .extend(all.flat_map(public_listener_warnings));
    banner.add_admin(admin);
    banner.add_unused_sockets(&listeners.unused_sockets(), "systemd:HOST:PORT");
    banner
}

/// Warnings about what others on the network can do: listeners have no logins.
pub(super) fn public_listener_warnings(opened: &OpenTunnelListener) -> Vec<String> {
    let public = opened.addresses.iter().filter(|local| is_public(local));
    let warnings = public.map(|local| {
        if opened.description.is_proxy {
            format!(
                "everybody who can reach {local} can use this proxy in your name: it has no logins"
            )
        } else {
            format!(
                "everybody who can reach {local} can connect{}: it has no logins",
                opened.description.to.replace(" -> ", " to ")
            )
        }
    });
    warnings.collect()
}
