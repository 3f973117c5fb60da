//! Prints the start message: listeners, their targets and routes, and warnings.

use haul_service::listen::BoundAddress;

use super::listeners::{OpenTunnelListener, TunnelListenerSet};
use crate::commands::service::addresses::{is_public, urls};
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::TunnelSettings;

/// The contents of the start message.
#[derive(Debug)]
pub(super) struct TunnelBanner {
    lines: Vec<String>,
    warnings: Vec<String>,
}

impl TunnelBanner {
    pub(super) fn new(listeners: &TunnelListenerSet, admin: Vec<BoundAddress>) -> Self {
        let all = listeners.all();
        let listening = all.iter().flat_map(OpenTunnelListener::banner_lines);
        let mut lines: Vec<String> = listening
            .map(|line| format!("listening on {line}"))
            .collect();
        for url in admin.iter().flat_map(|local| urls(local, false)) {
            let path = if url.ends_with('/') { "metrics" } else { "" };
            lines.push(format!("metrics at {url}{path}"));
        }
        let mut warnings: Vec<String> = all.iter().flat_map(public_listener_warnings).collect();
        if admin.iter().any(is_public) {
            warnings.push("--admin is reachable from other machines and has no logins".to_owned());
        }
        let left = listeners.unused_sockets();
        if !left.is_empty() {
            warnings.push(format!(
                "unused inherited sockets ({}): listen on them with systemd:HOST:PORT",
                left.join(", ")
            ));
        }
        Self { lines, warnings }
    }

    pub(super) fn print(&self, settings: &TunnelSettings) {
        if settings.process.quiet {
            return;
        }
        for line in &self.lines {
            print_line(&format!("haul: {}", sanitize(line)));
        }
        let descriptors = settings.descriptor_warning(&settings.process);
        let settings = settings.warnings.iter().chain(&descriptors);
        for warning in settings.chain(&self.warnings) {
            print_line(&warning_text(&sanitize(warning)));
        }
    }
}

/// Warnings about what others on the network can do: listeners have no logins.
pub(super) fn public_listener_warnings(opened: &OpenTunnelListener) -> Vec<String> {
    let public = opened.addresses.iter().filter(|local| is_public(local));
    let warnings = public.map(|local| match opened.description.is_proxy {
        true => format!(
            "everybody who can reach {local} can use this proxy in your name: it has no logins"
        ),
        false => format!(
            "everybody who can reach {local} can connect{}: it has no logins",
            opened.description.to.replace(" -> ", " to ")
        ),
    });
    warnings.collect()
}
