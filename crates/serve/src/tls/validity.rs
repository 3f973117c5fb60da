//! Finds certificates that have expired or are not valid yet, so that the operator learns of it
//! from the server and not from its clients.
//!
//! Such a certificate is used all the same. Some clients do not check, others can be told not to,
//! and a server that does not start helps neither.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// A certificate that clients refuse now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateNotValid {
    pub path: PathBuf,
    /// Which end of its validity is violated.
    pub bound: ValidityBound,
}

/// An end of a certificate's validity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidityBound {
    /// It was valid until then.
    Expired(SystemTime),
    /// It is valid from then on.
    NotBefore(SystemTime),
}

impl fmt::Display for CertificateNotValid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let date = |time| httpdate::fmt_http_date(time);
        match self.bound {
            ValidityBound::Expired(end) => write!(
                f,
                "the certificate in {path} expired on {}: clients refuse it until it is renewed",
                date(end)
            ),
            ValidityBound::NotBefore(begin) => write!(
                f,
                "the certificate in {path} is valid from {} on: clients refuse it until then; is this machine's clock right?",
                date(begin)
            ),
        }
    }
}

/// Checks the validity of a certificate at some time.
pub(super) fn check_validity(
    path: &Path,
    certificate: &CertificateDer<'_>,
    provider: &CryptoProvider,
    now: SystemTime,
) -> Option<CertificateNotValid> {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    // No authority is trusted here: the time is checked before the signature.
    let verified = verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &RootCertStore::empty(),
        &[],
        UnixTime::since_unix_epoch(since),
        provider.signature_verification_algorithms.all,
    );
    let time = |time: UnixTime| UNIX_EPOCH + Duration::from_secs(time.as_secs());
    let when = match verified {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            ValidityBound::Expired(time(not_after))
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => ValidityBound::NotBefore(time(not_before)),
        _ => return None,
    };
    Some(CertificateNotValid {
        path: path.to_owned(),
        bound: when,
    })
}
