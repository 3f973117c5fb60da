//! TLS as a server: certificates and settings.
//!
//! [`ServerTls`] is made once. Only the certificates in its [`CertificateStore`] may change later:
//! its owner calls [`has_changed`](CertificateStore::has_changed) every few seconds, or waits for a
//! signal, and calls [`reload`](CertificateStore::reload). Existing connections keep their
//! certificate, and so do resumed sessions, whose tickets live for half a day.

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

/// Maximum bytes of a file. A chain has a few thousand, a bundle of authorities some hundred
/// thousand.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Cached sessions of clients without tickets, which are few and old. Each takes some hundred
/// bytes.
const SESSION_CACHE_SIZE: usize = 4096;

/// A certificate and its key, in PEM files. They may be one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatePair {
    /// The server's certificate, followed by those that lead to an authority.
    pub certificate: PathBuf,
    /// The private key, not encrypted.
    pub key: PathBuf,
}

/// The TLS settings of a listener.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// For the acceptor of tokio-rustls. ALPN offers h2 and http/1.1.
    pub config: Arc<ServerConfig>,
    /// Its certificates, to be reloaded.
    pub certificates: Arc<CertificateStore>,
    /// The self-signed certificate as PEM, which a client must trust. `None` if the certificates
    /// are from files.
    pub self_signed_pem: Option<String>,
}

impl ServerTls {
    /// Uses certificates from files: the one for the name that a client asks for, and the first for
    /// all other names.
    ///
    /// # Errors
    /// When a file is missing, cannot be used or does not belong to its key.
    pub fn from_files(pairs: Vec<CertificatePair>) -> Result<Self, CertificateError> {
        let provider = Arc::new(crypto_provider());
        let certificates = Arc::new(CertificateStore::from_files(pairs, Arc::clone(&provider))?);
        Ok(Self {
            config: Arc::new(server_config(&certificates, provider)?),
            certificates,
            self_signed_pem: None,
        })
    }

    /// Uses a self-signed certificate for [these names and addresses](local_names). It exists in
    /// memory: the next start makes another one. Users compare [the
    /// fingerprint](CertificateStore::fingerprints).
    ///
    /// # Errors
    /// When a name is invalid, or the system has no randomness.
    pub fn self_signed(names: Vec<String>) -> Result<Self, CertificateError> {
        let provider = Arc::new(crypto_provider());
        let leaf = self_signed::self_sign(names, &provider)?;
        let certificates = Arc::new(CertificateStore::fixed(
            leaf.certified,
            Arc::clone(&provider),
        ));
        Ok(Self {
            config: Arc::new(server_config(&certificates, provider)?),
            certificates,
            self_signed_pem: Some(leaf.pem),
        })
    }
}

fn server_config(
    certificates: &Arc<CertificateStore>,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, CertificateError> {
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let resolver = Arc::clone(certificates);
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // OpenSSL's clients list AES-256 first by habit. The provider's order counts, as for haul's own
    // clients.
    config.ignore_client_order = true;
    // Stateless: the client holds the session ticket. Ticket keys change every six hours.
    config.ticketer = Ticketer::new()?;
    config.session_storage = ServerSessionMemoryCache::new(SESSION_CACHE_SIZE);
    Ok(config)
}
