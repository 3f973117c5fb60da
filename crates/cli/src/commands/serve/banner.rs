//! Prints the start message: the folder, the addresses, access, and warnings.

use std::path::Path;
use std::time::SystemTime;

use haul_serve::store::FileStore;
use haul_serve::tls::{CertificateNotValid, ServerTls};
use haul_service::listen::BoundAddress;

use super::listeners::ServeListeners;
use crate::commands::service::addresses::{is_public, urls};
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::{AccessSummary, ServeSettings};

/// The contents of the start message.
#[derive(Debug)]
pub(super) struct ServeBanner {
    pub(super) addresses: Vec<BoundAddress>,
    pub(super) is_secure: bool,
    /// The fingerprint of a self-signed certificate.
    pub(super) fingerprint: Option<String>,
    pub(super) admin: Vec<BoundAddress>,
    /// Unfinished uploads that were removed.
    pub(super) removed_uploads: usize,
    /// Inherited sockets that nothing listens on.
    pub(super) unused_sockets: Vec<String>,
    /// Certificates that are expired or not valid yet.
    pub(super) invalid_certificates: Vec<CertificateNotValid>,
}

impl ServeBanner {
    pub(super) fn new(
        listeners: &ServeListeners,
        store: &FileStore,
        admin: Vec<BoundAddress>,
    ) -> Self {
        let is_self_signed = |tls: &&ServerTls| tls.self_signed_pem.is_some();
        let files = listeners.tls.as_ref().map(|tls| &tls.certificates);
        let fingerprints = listeners.tls.as_ref().filter(is_self_signed);
        let fingerprints = fingerprints.map(|tls| tls.certificates.fingerprints());
        Self {
            addresses: listeners.addresses(),
            is_secure: listeners.tls.is_some(),
            fingerprint: fingerprints.and_then(|all| Some(all.first()?.to_string())),
            admin,
            removed_uploads: store.removed_leftovers(),
            unused_sockets: listeners.unused_sockets.clone(),
            invalid_certificates: files
                .map_or_else(Vec::new, |files| files.not_valid_at(SystemTime::now())),
        }
    }

    pub(super) fn print(&self, settings: &ServeSettings) {
        if settings.quiet {
            return;
        }
        for line in self.lines(settings) {
            print_line(&format!("haul: {}", sanitize(&line)));
        }
        let warnings = self.warnings(&settings.access, settings.store.writable);
        for warning in settings.warnings.iter().chain(&warnings) {
            print_line(&warning_text(&sanitize(warning)));
        }
    }

    fn lines(&self, settings: &ServeSettings) -> Vec<String> {
        let folder = absolute(&settings.folder);
        let mode = match settings.store.writable {
            true => "writable",
            false => "read-only",
        };
        let mut lines = vec![format!("serving {folder}, {mode}, {}", settings.access)];
        if settings.store.discard_uploads {
            lines.push("uploads are discarded (--sink null)".to_owned());
        }
        for url in all_urls(&self.addresses, self.is_secure) {
            lines.push(format!("listening on {url}"));
        }
        if let Some(fingerprint) = &self.fingerprint {
            lines.push(format!("certificate's SHA-256 fingerprint {fingerprint}"));
        }
        for url in all_urls(&self.admin, false) {
            let path = if url.ends_with('/') { "metrics" } else { "" };
            lines.push(format!("metrics at {url}{path}"));
        }
        if self.removed_uploads > 0 {
            let plural = if self.removed_uploads == 1 { "" } else { "s" };
            let cleaned = self.removed_uploads;
            lines.push(format!(
                "removed {cleaned} unfinished upload{plural} of an earlier run"
            ));
        }
        lines
    }

    /// Warnings about what others on the network could do or see.
    fn warnings(&self, access: &AccessSummary, is_writable: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let public: Vec<String> = self
            .addresses
            .iter()
            .filter(|local| is_public(local))
            .map(ToString::to_string)
            .collect();
        if !public.is_empty() {
            let public = public.join(", ");
            if is_writable && access.allows_anonymous_writes() {
                warnings.push(format!(
                    "everybody who can reach {public} can upload and delete files: require a login with --auth USER:PASSWORD:rw"
                ));
            }
            if access.has_secrets() && !self.is_secure {
                warnings.push(format!(
                    "passwords and tokens are sent unencrypted to {public}: use TLS with --cert and --key, or --self-signed"
                ));
            }
        }
        if self.admin.iter().any(is_public) {
            warnings.push("--admin is reachable from other machines and has no logins".to_owned());
        }
        warnings.extend(self.invalid_certificates.iter().map(ToString::to_string));
        if !self.unused_sockets.is_empty() {
            warnings.push(format!(
                "unused inherited sockets ({}): listen on them with -l systemd",
                self.unused_sockets.join(", ")
            ));
        }
        warnings
    }
}

fn all_urls(locals: &[BoundAddress], is_secure: bool) -> impl Iterator<Item = String> {
    locals.iter().flat_map(move |local| urls(local, is_secure))
}

/// The absolute path.
fn absolute(folder: &Path) -> String {
    let path = folder.canonicalize();
    path.as_deref().unwrap_or(folder).display().to_string()
}
