//! What is told at the start: where is listened, where that leads, and what is likely not meant.

use haul_service::listen::BoundAddress;

use super::listeners::{OpenTunnelListener, TunnelListenerSet};
use crate::commands::service::addresses::{is_public, urls};
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::TunnelSettings;

/// What was found out while it began.
#[derive(Debug)]
pub(super) struct TunnelBanner {
    lines: Vec<String>,
    warnings: Vec<String>,
}

impl TunnelBanner {
    /// Of doors that are open.
    pub(super) fn new(doors: &TunnelListenerSet, admin: Vec<BoundAddress>) -> Self {
        let all = doors.all();
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
            warnings.push("--admin is open to other machines, and has no logins".to_owned());
        }
        let left = doors.unused_sockets();
        if !left.is_empty() {
            warnings.push(format!(
                "sockets were handed over that nobody listens on ({}): systemd:HOST:PORT takes them",
                left.join(", ")
            ));
        }
        Self { lines, warnings }
    }

    /// Prints it.
    pub(super) fn print(&self, settings: &TunnelSettings) {
        if settings.running.quiet {
            return;
        }
        for line in &self.lines {
            print_line(&format!("haul: {}", sanitize(line)));
        }
        let room = settings.room(&settings.running);
        let settings = settings.warnings.iter().chain(&room);
        for warning in settings.chain(&self.warnings) {
            print_line(&warning_text(&sanitize(warning)));
        }
    }
}

/// What strangers on the network can do: there are no logins on listeners.
pub(super) fn public_listener_warnings(opened: &OpenTunnelListener) -> Vec<String> {
    let public = opened.addresses.iter().filter(|local| is_public(local));
    let told = public.map(|local| match opened.description.is_proxy {
        true => format!(
            "whoever reaches {local} goes anywhere by this proxy, as you: there are no logins on it"
        ),
        false => format!(
            "whoever reaches {local} is let through{}: there are no logins on it",
            opened.description.to.replace(" -> ", " to ")
        ),
    });
    told.collect()
}
