//! What is told at the start: what is served, where, to whom, and what is likely not meant.

use std::path::Path;
use std::time::SystemTime;

use haul_serve::store::FileStore;
use haul_serve::tls::{CertificateNotValid, ServerTls};
use haul_service::listen::BoundAddress;

use super::listeners::ServeListeners;
use crate::commands::service::addresses::{is_public, urls};
use crate::message::{print_line, sanitize, warning_text};
use crate::settings::{AccessSummary, ServeSettings};

/// What was found out while the server began.
#[derive(Debug)]
pub(super) struct ServeBanner {
    /// Where it listens.
    pub(super) addresses: Vec<BoundAddress>,
    /// Whether all of it is encrypted.
    pub(super) is_secure: bool,
    /// Of a certificate that nobody knows.
    pub(super) fingerprint: Option<String>,
    /// Where /healthz and /metrics are.
    pub(super) admin: Vec<BoundAddress>,
    /// Unfinished uploads that were removed.
    pub(super) removed_uploads: usize,
    /// Sockets that were handed over in vain.
    pub(super) unused_sockets: Vec<String>,
    /// Certificates whose time is not now.
    pub(super) invalid_certificates: Vec<CertificateNotValid>,
}

impl ServeBanner {
    /// Of doors that were opened to a store.
    pub(super) fn new(doors: &ServeListeners, store: &FileStore, admin: Vec<BoundAddress>) -> Self {
        let own = |tls: &&ServerTls| tls.self_signed_pem.is_some();
        let files = doors.tls.as_ref().map(|tls| &tls.certificates);
        let fingerprints = doors.tls.as_ref().filter(own);
        let fingerprints = fingerprints.map(|tls| tls.certificates.fingerprints());
        Self {
            addresses: doors.addresses(),
            is_secure: doors.tls.is_some(),
            fingerprint: fingerprints.and_then(|all| Some(all.first()?.to_string())),
            admin,
            removed_uploads: store.removed_leftovers(),
            unused_sockets: doors.unused_sockets.clone(),
            invalid_certificates: files
                .map_or_else(Vec::new, |files| files.not_valid_at(SystemTime::now())),
        }
    }

    /// Prints it.
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
        let way = match settings.store.writable {
            true => "writable",
            false => "read-only",
        };
        let mut lines = vec![format!("serving {folder}, {way}, {}", settings.access)];
        if settings.store.discard_uploads {
            lines.push("uploads are thrown away (--sink null)".to_owned());
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

    /// What strangers on the network could do or see.
    fn warnings(&self, who: &AccessSummary, is_writable: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        let public: Vec<String> = self
            .addresses
            .iter()
            .filter(|local| is_public(local))
            .map(ToString::to_string)
            .collect();
        if !public.is_empty() {
            let public = public.join(", ");
            if is_writable && who.allows_anonymous_writes() {
                warnings.push(format!(
                    "whoever reaches {public} may put and delete files: --auth USER:PASSWORD:rw has them log in"
                ));
            }
            if who.has_secrets() && !self.is_secure {
                warnings.push(format!(
                    "passwords and tokens travel in clear to {public}: --cert and --key, or --self-signed, encrypt them"
                ));
            }
        }
        if self.admin.iter().any(is_public) {
            warnings.push("--admin is open to other machines, and has no logins".to_owned());
        }
        warnings.extend(self.invalid_certificates.iter().map(ToString::to_string));
        if !self.unused_sockets.is_empty() {
            warnings.push(format!(
                "sockets were handed over that nobody listens on ({}): -l systemd takes them",
                self.unused_sockets.join(", ")
            ));
        }
        warnings
    }
}

fn all_urls(locals: &[BoundAddress], is_secure: bool) -> impl Iterator<Item = String> {
    locals.iter().flat_map(move |local| urls(local, is_secure))
}

/// A path as it can be found from everywhere.
fn absolute(folder: &Path) -> String {
    let path = folder.canonicalize();
    path.as_deref().unwrap_or(folder).display().to_string()
}
