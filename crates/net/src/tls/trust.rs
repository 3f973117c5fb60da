//! Whom to trust: certificates that the user names, or the platform's.
//!
//! Named ones (`--cacert`, `SSL_CERT_FILE`) are authorities. One of them may also be a server's own certificate, shown as it
//! is: then nobody need have signed it. That is what `openssl req -x509` makes, and it says of itself that it is an authority,
//! which the verifier takes for a reason to refuse it as a server's. So such a certificate is let through when it is, byte for
//! byte, one of those named - after the verifier found its dates right, and with its names compared here.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TlsConfigError;
use crate::transport::tls_error::is_ca_used_as_server;

/// Where trusted certificates are in place of the platform's, as `SSL_CERT_FILE` and `SSL_CERT_DIR` say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedFiles {
    /// PEM.
    pub file: Option<PathBuf>,
    /// Of PEM files, named as openssl-rehash(1) does.
    pub directories: Vec<PathBuf>,
}

/// One who trusts the certificates of this PEM file, each of which must be usable.
pub(crate) fn verifier_for_pem(
    pem: &[u8],
    what: &str,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
    let known = parse_certificates(pem, what)?;
    let mut roots = RootCertStore::empty();
    for certificate in &known {
        roots.add(certificate.clone())?;
    }
    Ok(Arc::new(PinnedOrIssuedVerifier::new(
        roots, known, provider,
    )?))
}

/// One who trusts the certificates in these places; those that cannot be used are left out, as systems' collections have some.
pub(crate) fn verifier_for_files(
    files: &TrustedFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
    let places = files.file.iter().map(|file| (Some(file), None));
    let directories = files.directories.iter().map(|place| (None, Some(place)));
    let known: Vec<_> = places
        .chain(directories)
        .flat_map(|(file, directory)| {
            let (file, directory) = (file.map(PathBuf::as_path), directory.map(PathBuf::as_path));
            rustls_native_certs::load_certs_from_paths(file, directory).certs
        })
        .collect();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(known.iter().cloned());
    if roots.is_empty() {
        let places = files.file.iter().chain(&files.directories);
        let places: Vec<_> = places.map(|place| place.display().to_string()).collect();
        return Err(TlsConfigError::Pem {
            what: places.join(", "),
            wanted: "certificate",
        });
    }
    Ok(Arc::new(PinnedOrIssuedVerifier::new(
        roots, known, provider,
    )?))
}

/// The certificates of a PEM file, one at least.
pub(crate) fn parse_certificates(
    pem: &[u8],
    what: &str,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(TlsConfigError::Pem {
            what: what.to_owned(),
            wanted: "certificate",
        }),
    }
}

/// Trusts what named authorities signed, and the named certificates themselves.
#[derive(Debug)]
struct PinnedOrIssuedVerifier {
    issued: Arc<WebPkiServerVerifier>,
    /// The named ones.
    pinned: Vec<CertificateDer<'static>>,
}

impl PinnedOrIssuedVerifier {
    fn new(
        roots: RootCertStore,
        known: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsConfigError> {
        let provider = Arc::clone(provider);
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let signed = signed.map_err(|e| Error::General(e.to_string()))?;
        Ok(Self {
            issued: signed,
            pinned: known,
        })
    }
}

impl ServerCertVerifier for PinnedOrIssuedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let signed = self.issued.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match signed {
            // It looks at the dates first, so these are right. That it signed itself need not be asked: it is the one meant.
            Err(Error::InvalidCertificate(error))
                if is_ca_used_as_server(&error) && self.pinned.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            done => done,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}
