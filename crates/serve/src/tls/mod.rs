//! TLS as a server: the certificate that is shown, and what is agreed on.
//!
//! [`ServerTls`] is made once. What may change while it is in use is the certificate alone, in [`CertificateStore`]: the owner asks
//! [`has_changed`](CertificateStore::has_changed) every few seconds, or is told by a signal, and calls
//! [`reload`](CertificateStore::reload). Connections that stand keep what they were met with; so do sessions that are resumed, whose
//! tickets live for half a day.

mod certificate_files;
mod certificates;
mod error;
mod self_signed;
#[cfg(test)]
mod tests;
mod validity;

use std::path::PathBuf;
use std::sync::Arc;

use haul_net::crypto_provider;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ServerSessionMemoryCache;

pub use certificates::{CertificateFingerprint, CertificateReload, CertificateStore};
pub use error::CertificateError;
pub use self_signed::local_names;
pub use validity::{CertificateNotValid, ValidityBound};

/// How many sessions are kept of clients that take no tickets, which are few and old. Each is some hundred bytes.
const SESSION_CACHE_SIZE: usize = 4096;

/// A certificate and its key, in PEM files. They may be one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePair {
    /// The server's certificate, and after it those that lead to an authority.
    pub certificate: PathBuf,
    /// The private key, not encrypted.
    pub key: PathBuf,
}

/// How connections are secured.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// For tokio-rustls' acceptor. h2 and http/1.1 are agreed on by ALPN.
    pub config: Arc<ServerConfig>,
    /// The certificates in it, to be read again.
    pub certificates: Arc<CertificateStore>,
    /// Of a self-signed certificate, PEM: what a client must trust. None when it came from files.
    pub self_signed_pem: Option<String>,
}

impl ServerTls {
    /// With certificates from files: the one for the name that a client asks for, and the first for all other names.
    ///
    /// # Errors
    /// When one of them is not there, cannot be used or does not belong to its key. [`CertificateError::hint`] says what to do.
    pub fn from_files(pairs: Vec<CertificatePair>) -> Result<Self, CertificateError> {
        let provider = Arc::new(crypto_provider());
        let certificates = Arc::new(CertificateStore::from_files(pairs, Arc::clone(&provider))?);
        Ok(Self {
            config: Arc::new(server_config(&certificates, provider)?),
            certificates,
            self_signed_pem: None,
        })
    }

    /// With a certificate that nobody but itself has signed, for [these names and addresses](own_names). It lives in memory:
    /// the next start makes another. Whoever connects compares [the fingerprint](CertificateStore::fingerprints).
    ///
    /// # Errors
    /// When a name cannot be one, or the system gives no randomness.
    pub fn self_signed(names: Vec<String>) -> Result<Self, CertificateError> {
        let provider = Arc::new(crypto_provider());
        let own = self_signed::self_sign(names, &provider)?;
        let certificates = Arc::new(CertificateStore::fixed(
            own.certified,
            Arc::clone(&provider),
        ));
        Ok(Self {
            config: Arc::new(server_config(&certificates, provider)?),
            certificates,
            self_signed_pem: Some(own.pem),
        })
    }
}

fn server_config(
    certificates: &Arc<CertificateStore>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, CertificateError> {
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?;
    let resolver = Arc::clone(certificates);
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // OpenSSL's clients list AES-256 first by habit. The order that counts is that of the provider, as it is for haul's own clients.
    config.ignore_client_order = true;
    // Stateless: what a client resumes with, it carries itself. Keys of tickets change every six hours.
    config.ticketer = Ticketer::new()?;
    config.session_storage = ServerSessionMemoryCache::new(SESSION_CACHE_SIZE);
    Ok(config)
}
