//! What may change under a running server: certificates, and the file of the access log.
//!
//! Both look at a disk, so [`CertificateReloader::reload_if_changed`] and [`CertificateReloader::reload_certificates`] are for threads that may wait for one. What came of it is told
//! by the one loop that tells everything.

use std::sync::Arc;
use std::time::SystemTime;

use haul_serve::tls::{CertificateError, CertificateNotValid, CertificateReload, CertificateStore};
use haul_service::observe::LineLog;

use crate::message::{self, print_line, warning_text};

/// What may change.
#[derive(Debug, Clone)]
pub(super) struct CertificateReloader {
    /// What clients are shown, where it comes from files.
    pub(super) certificates: Option<Arc<CertificateStore>>,
    /// Where requests are told.
    pub(super) log: Option<Arc<LineLog>>,
}

/// What came of a look at the certificates, and those whose time is not now.
pub(super) type CertificateCheck =
    Option<Result<(CertificateReload, Vec<CertificateNotValid>), CertificateError>>;

impl CertificateReloader {
    /// Reads certificates again if their files have changed. Blocks.
    pub(super) fn reload_if_changed(&self) -> CertificateCheck {
        let certificates = self.certificates.as_ref()?;
        certificates
            .has_changed()
            .then(|| reload_certificates(certificates))
    }

    /// Reads certificates again and has a new log begun, changed or not. Blocks.
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
    let reloaded = certificates.reload()?;
    Ok((reloaded, certificates.not_valid_at(SystemTime::now())))
}

/// Tells what came of it.
pub(super) fn print_check(looked: &CertificateCheck, is_quiet: bool) {
    match looked {
        None => {}
        Some(Ok((reloaded, out_of_date))) => {
            if *reloaded == CertificateReload::Replaced && !is_quiet {
                print_line("haul: new connections are met with the new certificate");
            }
            for one in out_of_date {
                print_line(&warning_text(&message::sanitize(&one.to_string())));
            }
        }
        // Wanted or not: whoever replaced a file must learn that it is not in use.
        Some(Err(error)) => {
            let text = message::chain_text(error);
            print_line(&warning_text(&format!(
                "the certificate stays as it was: {text}"
            )));
            if let Some(hint) = error.hint() {
                print_line(&message::sanitize(&format!("hint: {hint}")));
            }
        }
    }
}
