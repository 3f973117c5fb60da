//! The certificates in use, and their replacement.
//!
//! Each handshake takes the current certificates under a lock that is held for the clone of an
//! `Arc`. [`CertificateStore::reload`] reads and checks everything first, and changes nothing
//! unless all of it is valid: while a tool has written a new certificate but not its key, they do
//! not match, and the old pair stays until the next check.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, client::verify_server_name};
use sha2::{Digest as _, Sha256};

use super::certificate_files::{FileStamp, load_pair};
use super::validity::{self, CertificateNotValid};
use super::{CertificateError, CertificatePair};

/// The certificates for handshakes; at least one.
type CurrentCertificates = Arc<[Arc<CertifiedKey>]>;

/// The certificates in use.
pub struct CertificateStore {
    /// Their files; empty for a certificate that exists in memory alone.
    pairs: Vec<CertificatePair>,
    /// The state of the files when they were last read, whether that failed or not: a mistake is
    /// reported once, and not at every check.
    stamps: Mutex<Vec<FileStamp>>,
    /// The certificates for handshakes.
    current: RwLock<CurrentCertificates>,
    /// Parses keys.
    provider: Arc<CryptoProvider>,
}

/// The result of reading the certificates again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateReload {
    /// They are the same, or there are no files to read.
    Unchanged,
    /// New handshakes use other certificates.
    Replaced,
}

/// The SHA-256 of a certificate, shown as browsers and openssl show it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateFingerprint(pub [u8; 32]);

impl CertificateStore {
    pub(super) fn from_files(
        pairs: Vec<CertificatePair>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, CertificateError> {
        let seen = stamps(&pairs);
        let current = load_pairs(&pairs, &provider)?;
        if current.is_empty() {
            return Err(CertificateError::NoneGiven);
        }
        Ok(Self {
            stamps: Mutex::new(seen),
            current: RwLock::new(current),
            pairs,
            provider,
        })
    }

    /// A store with one certificate that is not in a file and never changes.
    pub(super) fn fixed(certified: CertifiedKey, provider: Arc<CryptoProvider>) -> Self {
        Self {
            pairs: Vec::new(),
            stamps: Mutex::default(),
            current: RwLock::new([Arc::new(certified)].into()),
            provider,
        }
    }

    /// Whether a file has changed since it was last read. Two system calls for each pair, which a
    /// network file system may delay.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) != stamps(&self.pairs)
    }

    /// Reads all files again. Blocks.
    ///
    /// # Errors
    /// When one of them cannot be used. Then all certificates stay.
    pub fn reload(&self) -> Result<CertificateReload, CertificateError> {
        // Held to the end, so that of two reloads the later one does not restore what the earlier
        // one read.
        let mut seen = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the files are read: what is written meanwhile counts as a change.
        *seen = stamps(&self.pairs);
        if self.pairs.is_empty() {
            return Ok(CertificateReload::Unchanged);
        }
        let loaded = load_pairs(&self.pairs, &self.provider)?;
        let previous = self.current();
        if chains(&loaded).eq(chains(&previous)) {
            return Ok(CertificateReload::Unchanged);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(CertificateReload::Replaced)
    }

    /// The fingerprint of each certificate in use, the default first.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<CertificateFingerprint> {
        let current = self.current();
        let leaf = current
            .iter()
            .filter_map(|certified| certified.cert.first());
        leaf.map(|certificate| CertificateFingerprint(Sha256::digest(certificate).into()))
            .collect()
    }

    /// The certificates in use that have expired, or are not valid yet.
    #[must_use]
    pub fn not_valid_at(&self, now: SystemTime) -> Vec<CertificateNotValid> {
        let current = self.current();
        let pairs = self.pairs.iter().zip(&*current);
        let found = pairs.filter_map(|(pair, certified)| {
            let leaf = certified.cert.first()?;
            validity::check_validity(&pair.certificate, leaf, &self.provider, now)
        });
        found.collect()
    }

    fn current(&self) -> CurrentCertificates {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn stamps(pairs: &[CertificatePair]) -> Vec<FileStamp> {
    let files = pairs.iter().flat_map(|pair| [&pair.certificate, &pair.key]);
    files.map(|path| FileStamp::read(path)).collect()
}

fn load_pairs(
    pairs: &[CertificatePair],
    provider: &CryptoProvider,
) -> Result<CurrentCertificates, CertificateError> {
    pairs.iter().map(|pair| load_pair(pair, provider)).collect()
}

fn chains(
    certificates: &CurrentCertificates,
) -> impl Iterator<Item = &[rustls::pki_types::CertificateDer<'static>]> {
    certificates.iter().map(|certified| &*certified.cert)
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current();
        // Most servers have one certificate: nothing to choose, nothing to parse.
        if let [only] = &*current {
            return Some(Arc::clone(only));
        }
        let name = hello.server_name();
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        choose_certificate(&current, name.as_ref(), hello.signature_schemes()).cloned()
    }
}

/// The first certificate that has the name and whose key the client supports (one name may have an
/// RSA and an ECDSA certificate); failing that, the first that has the name, the first that is
/// supported, the first.
fn choose_certificate<'a>(
    certificates: &'a [Arc<CertifiedKey>],
    name: Option<&ServerName<'_>>,
    schemes: &[SignatureScheme],
) -> Option<&'a Arc<CertifiedKey>> {
    // Of equals, `min_by_key` takes the first.
    certificates.iter().min_by_key(|certified| {
        let named = name.is_some_and(|name| is_for(certified, name));
        let understood = certified.key.choose_scheme(schemes).is_some();
        (!named, !understood)
    })
}

fn is_for(certified: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let leaf = certified.end_entity_cert();
    leaf.and_then(ParsedCertificate::try_from)
        .and_then(|parsed| verify_server_name(&parsed, name))
        .is_ok()
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("pairs", &self.pairs)
            .field("fingerprints", &self.fingerprints())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let colon = if at == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm,
    };
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    fn certified(name: &str, algorithm: &'static SignatureAlgorithm) -> Arc<CertifiedKey> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let chain = vec![params.self_signed(&key).unwrap().der().clone()];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Arc::new(CertifiedKey::from_der(chain, key, &provider).unwrap())
    }

    #[test]
    fn certificates_are_chosen_by_name_and_then_by_signature_scheme() {
        let certificates = [
            certified("a.test", &PKCS_ED25519),
            certified("b.test", &PKCS_ED25519),
            certified("b.test", &PKCS_ECDSA_P256_SHA256),
            certified("b.test", &PKCS_ECDSA_P256_SHA256),
        ];
        let previous = &[SignatureScheme::ECDSA_NISTP256_SHA256][..];
        let loaded = &[
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
        ][..];
        for (name, schemes, at) in [
            (Some("a.test"), loaded, 0),
            (Some("a.test"), previous, 0),
            (Some("b.test"), loaded, 1),
            (Some("b.test"), previous, 2),
            (Some("c.test"), loaded, 0),
            (Some("c.test"), previous, 2),
            (None, loaded, 0),
            (None, previous, 2),
        ] {
            let name = name.map(|name| ServerName::try_from(name).unwrap());
            let chosen = choose_certificate(&certificates, name.as_ref(), schemes).unwrap();
            assert!(
                Arc::ptr_eq(chosen, &certificates[at]),
                "{name:?} {schemes:?}"
            );
        }
    }
}
