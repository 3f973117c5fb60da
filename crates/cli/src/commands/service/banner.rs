//! The message that a server prints when it starts: where it listens, then warnings.

use haul_service::listen::BoundAddress;

use super::addresses::{is_public, urls};
use crate::message::{print_in_background, sanitize, warning_text};

#[derive(Debug, Default)]
pub(crate) struct Banner {
    pub(crate) lines: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Banner {
    /// Adds the URLs of the admin endpoint, with a warning if others can reach it.
    pub(crate) fn add_admin(&mut self, addresses: &[BoundAddress]) {
        for url in addresses.iter().flat_map(|address| urls(address, false)) {
            let path = if url.ends_with('/') { "metrics" } else { "" };
            self.lines.push(format!("metrics at {url}{path}"));
        }
        if addresses.iter().any(is_public) {
            let text = "--admin is reachable from other machines and has no logins";
            self.warnings.push(text.to_owned());
        }
    }

    /// Adds a warning about inherited sockets that nothing listens on; `usage` does.
    pub(crate) fn add_unused_sockets(&mut self, names: &[String], usage: &str) {
        if !names.is_empty() {
            let names = names.join(", ");
            let text = format!("unused inherited sockets ({names}): listen on them with {usage}");
            self.warnings.push(text);
        }
    }

    pub(crate) fn print(&self) {
        for line in &self.lines {
            print_in_background(format!("haul: {}", sanitize(line)));
        }
        for warning in &self.warnings {
            print_in_background(warning_text(&sanitize(warning)));
        }
    }
}
