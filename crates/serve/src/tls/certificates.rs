//! The certificates in use, and how they are exchanged for newer ones.
//!
//! Each handshake takes what is current under a lock that is held for the clone of an `Arc`. [`CertificateStore::reload`] reads and
//! checks everything first and changes nothing unless all of it is good: between the two writes of a certificate and of its key
//! they do not match, and then the old pair goes on until the next look.

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

/// What clients are shown. One at least.
type CurrentCertificates = Arc<[Arc<CertifiedKey>]>;

/// The certificates in use.
pub struct CertificateStore {
    /// Where they come from; none for those that live in memory alone.
    pairs: Vec<CertificatePair>,
    /// What was seen when they were last read, well or not: a mistake is reported once and not at every look.
    stamps: Mutex<Vec<FileStamp>>,
    /// What handshakes take.
    current: RwLock<CurrentCertificates>,
    /// Understands keys.
    provider: Arc<CryptoProvider>,
}

/// What came of reading certificates again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateReload {
    /// The same ones, or there are no files to read.
    Unchanged,
    /// New handshakes are met with others.
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

    /// One that is not in a file, and never changes.
    pub(super) fn fixed(certified: CertifiedKey, provider: Arc<CryptoProvider>) -> Self {
        Self {
            pairs: Vec::new(),
            stamps: Mutex::default(),
            current: RwLock::new([Arc::new(certified)].into()),
            provider,
        }
    }

    /// Whether a file is another than when it was last read. Two system calls for each pair, which a network's disk may hold up.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        *self.stamps.lock().unwrap_or_else(PoisonError::into_inner) != stamps(&self.pairs)
    }

    /// Reads the files again, all of them. It blocks as reading does.
    ///
    /// # Errors
    /// When one of them cannot be used. Then all stay as they were.
    pub fn reload(&self) -> Result<CertificateReload, CertificateError> {
        // Held to the end, so that of two at once the later does not put back what the earlier read.
        let mut seen = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        // Before they are read: what is written meanwhile is a change.
        *seen = stamps(&self.pairs);
        if self.pairs.is_empty() {
            return Ok(CertificateReload::Unchanged);
        }
        let new = load_pairs(&self.pairs, &self.provider)?;
        let old = self.current();
        if chains(&new).eq(chains(&old)) {
            return Ok(CertificateReload::Unchanged);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(CertificateReload::Replaced)
    }

    /// Of each certificate in use, the default first.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<CertificateFingerprint> {
        let current = self.current();
        let own = current
            .iter()
            .filter_map(|certified| certified.cert.first());
        own.map(|certificate| CertificateFingerprint(Sha256::digest(certificate).into()))
            .collect()
    }

    /// Those in use whose time is over by now, or has not come.
    #[must_use]
    pub fn not_valid_at(&self, now: SystemTime) -> Vec<CertificateNotValid> {
        let current = self.current();
        let both = self.pairs.iter().zip(&*current);
        let found = both.filter_map(|(pair, certified)| {
            let own = certified.cert.first()?;
            validity::check_validity(&pair.certificate, own, &self.provider, now)
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
        // Of most servers the only one: nothing to choose, nothing to parse.
        if let [only] = &*current {
            return Some(Arc::clone(only));
        }
        let name = hello.server_name();
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        choose_certificate(&current, name.as_ref(), hello.signature_schemes()).cloned()
    }
}

/// The first that has the name and a key that the client understands (RSA and ECDSA may be had for one name); failing that, the
/// first that has the name, the first that is understood, the first.
fn choose_certificate<'a>(
    certificates: &'a [Arc<CertifiedKey>],
    name: Option<&ServerName<'_>>,
    schemes: &[SignatureScheme],
) -> Option<&'a Arc<CertifiedKey>> {
    // Of equals it is the first that `min_by_key` takes.
    certificates.iter().min_by_key(|certified| {
        let named = name.is_some_and(|name| is_for(certified, name));
        let understood = certified.key.choose_scheme(schemes).is_some();
        (!named, !understood)
    })
}

fn is_for(certified: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let own = certified.end_entity_cert();
    own.and_then(ParsedCertificate::try_from)
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
    fn the_name_counts_first_and_then_what_the_client_understands() {
        let certificates = [
            certified("a.test", &PKCS_ED25519),
            certified("b.test", &PKCS_ED25519),
            certified("b.test", &PKCS_ECDSA_P256_SHA256),
            certified("b.test", &PKCS_ECDSA_P256_SHA256),
        ];
        let old = &[SignatureScheme::ECDSA_NISTP256_SHA256][..];
        let new = &[
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
        ][..];
        for (name, schemes, at) in [
            (Some("a.test"), new, 0),
            (Some("a.test"), old, 0),
            (Some("b.test"), new, 1),
            (Some("b.test"), old, 2),
            (Some("c.test"), new, 0),
            (Some("c.test"), old, 2),
            (None, new, 0),
            (None, old, 2),
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
