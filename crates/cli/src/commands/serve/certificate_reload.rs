//! Reloads certificates and reopens the access log.
//!
//! Both wait for a disk, so [`CertificateReloader::reload_if_changed`] and [`CertificateReloader::reload`] are for blocking threads. The
//! supervisor prints the result.

use std::sync::Arc;
use std::time::SystemTime;

use haul_serve::tls::{CertificateError, CertificateNotValid, CertificateReload, CertificateStore};
use haul_service::observe::LineLog;

use crate::message::{self, print_line, warning_text};

/// What a reload changes.
#[derive(Debug, Clone)]
pub(super) struct CertificateReloader {
    /// The certificates, if they are from files.
    pub(super) certificates: Option<Arc<CertificateStore>>,
    pub(super) log: Option<Arc<LineLog>>,
}

/// The result of a check, and the certificates that are expired or not valid yet.
pub(super) type CertificateCheck =
    Option<Result<(CertificateReload, Vec<CertificateNotValid>), CertificateError>>;

impl CertificateReloader {
    /// Reloads certificates if their files have changed. Blocks.
    pub(super) fn reload_if_changed(&self) -> CertificateCheck {
        let certificates = self.certificates.as_ref()?;
        certificates
            .has_changed()
            .then(|| reload_certificates(certificates))
    }

    /// Reloads certificates and reopens the log, changed or not. Blocks.
    pub(super) fn reload(&self) -> CertificateCheck {
        if let Some(log) = &self.log {
            log.reopen();
        }
        Some(reload_certificates(self.certificates.as_ref()?))
    }
}

fn reload_certificates(
    certificates: &CertificateStore,
) -> Result<(CertificateReload, Vec<CertificateNotValid>), CertificateError> {
    let reload = certificates.reload()?;
    Ok((reload, certificates.not_valid_at(SystemTime::now())))
}

/// Prints the result of a check.
pub(super) fn print_check(check: &CertificateCheck, is_quiet: bool) {
    match check {
        None => {}
        Some(Ok((reload, invalid))) => {
            if *reload == CertificateReload::Replaced && !is_quiet {
                print_line("haul: new connections use the new certificate");
            }
            for one in invalid {
                print_line(&warning_text(&message::sanitize(&one.to_string())));
            }
        }
        // Also if quiet: somebody who replaced a file must learn that it is not used.
        Some(Err(error)) => {
            let text = message::chain_text(error);
            print_line(&warning_text(&format!(
                "the old certificate stays in use: {text}"
            )));
            if let Some(hint) = error.hint() {
                print_line(&message::sanitize(&format!("hint: {hint}")));
            }
        }
    }
}
