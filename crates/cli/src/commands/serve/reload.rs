//! What may change under a running server: certificates, and the file of the access log.
//!
//! Both look at a disk, so [`Reload::look`] and [`Reload::again`] are for threads that may wait for one. What came of it is told
//! by the one loop that tells everything.

use std::sync::Arc;
use std::time::SystemTime;

use haul_serve::tls::{Certificates, OutOfDate, Reloaded, TlsError};
use haul_service::observe::Log;

use crate::message::{self, note, warning_text};

/// What may change.
#[derive(Debug, Clone)]
pub(super) struct Reload {
    /// What clients are shown, where it comes from files.
    pub(super) certificates: Option<Arc<Certificates>>,
    /// Where requests are told.
    pub(super) log: Option<Arc<Log>>,
}

/// What came of a look at the certificates, and those whose time is not now.
pub(super) type Looked = Option<Result<(Reloaded, Vec<OutOfDate>), TlsError>>;

impl Reload {
    /// Reads certificates again if their files have changed. Blocks.
    pub(super) fn look(&self) -> Looked {
        let certificates = self.certificates.as_ref()?;
        certificates.has_changed().then(|| reload(certificates))
    }

    /// Reads certificates again and has a new log begun, changed or not. Blocks.
    pub(super) fn again(&self) -> Looked {
        if let Some(log) = &self.log {
            log.reopen();
        }
        Some(reload(self.certificates.as_ref()?))
    }
}

fn reload(certificates: &Certificates) -> Result<(Reloaded, Vec<OutOfDate>), TlsError> {
    let reloaded = certificates.reload()?;
    Ok((reloaded, certificates.out_of_date(SystemTime::now())))
}

/// Tells what came of it.
pub(super) fn tell(looked: &Looked, is_quiet: bool) {
    match looked {
        None => {}
        Some(Ok((reloaded, out_of_date))) => {
            if *reloaded == Reloaded::Replaced && !is_quiet {
                note("haul: new connections are met with the new certificate");
            }
            for one in out_of_date {
                note(&warning_text(&message::harmless(&one.to_string())));
            }
        }
        // Wanted or not: whoever replaced a file must learn that it is not in use.
        Some(Err(error)) => {
            let text = message::chain(error);
            note(&warning_text(&format!(
                "the certificate stays as it was: {text}"
            )));
            if let Some(hint) = error.hint() {
                note(&message::harmless(&format!("hint: {hint}")));
            }
        }
    }
}
