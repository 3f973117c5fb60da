//! Verifiers of server certificates, where the user names the trusted ones or turns the check off.
//!
//! The trusted certificates (`--cacert`, `SSL_CERT_FILE`) are authorities. One of them may also be the server's own certificate,
//! which then needs no signature. `openssl req -x509` makes such certificates, and marks them as authorities, for which the
//! verifier of webpki refuses them as a server's. So a server's certificate is accepted when it is byte for byte one of the
//! trusted ones, after webpki has found its dates right, and with its names compared here.

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
use rustls_native_certs::load_certs_from_paths;

use super::{PemRole, TlsConfigError};
use crate::transport::tls_error::is_ca_used_as_server;

/// Files with the trusted certificates, in place of the platform's, as `SSL_CERT_FILE` and `SSL_CERT_DIR` name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedFiles {
    /// A PEM file.
    pub file: Option<PathBuf>,
    /// Directories of PEM files, named as openssl-rehash(1) does it.
    pub directories: Vec<PathBuf>,
}

/// Trusts the certificates of a PEM file, each of which must be usable.
pub(super) fn verifier_for_pem(
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
    let role = PemRole::TrustedCertificates;
    let trusted = parse_certificates(pem, role)?;
    let mut roots = RootCertStore::empty();
    for certificate in &trusted {
        let added = roots.add(certificate.clone());
        added.map_err(|error| TlsConfigError::Pem {
            role,
            source: Some(error),
        })?;
    }
    Ok(Arc::new(PinnedOrIssuedVerifier::new(
        roots, trusted, provider,
    )?))
}

/// Trusts the certificates in these files. Unusable ones are left out, since the collections of systems contain some.
pub(super) fn verifier_for_files(
    files: &TrustedFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
    let mut trusted = load_certs_from_paths(files.file.as_deref(), None).certs;
    for directory in &files.directories {
        trusted.extend(load_certs_from_paths(None, Some(directory)).certs);
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    if roots.is_empty() {
        let paths: Vec<_> = files
            .file
            .iter()
            .chain(&files.directories)
            .map(|path| path.display().to_string())
            .collect();
        return Err(TlsConfigError::TrustedFiles(paths.join(", ")));
    }
    Ok(Arc::new(PinnedOrIssuedVerifier::new(
        roots, trusted, provider,
    )?))
}

/// Parses a PEM file with at least one certificate.
pub(super) fn parse_certificates(
    pem: &[u8],
    role: PemRole,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(TlsConfigError::Pem { role, source: None }),
    }
}

/// Accepts certificates that a trusted authority issued, and the trusted certificates themselves.
#[derive(Debug)]
struct PinnedOrIssuedVerifier {
    issued: Arc<WebPkiServerVerifier>,
    /// The trusted certificates.
    pinned: Vec<CertificateDer<'static>>,
}

impl PinnedOrIssuedVerifier {
    fn new(
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsConfigError> {
        let provider = Arc::clone(provider);
        let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
        Ok(Self {
            issued,
            pinned: trusted,
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
        let verified = self.issued.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // webpki checks the dates before this, so they are right. No signature is needed: this is the trusted certificate.
            Err(Error::InvalidCertificate(error))
                if is_ca_used_as_server(&error) && self.pinned.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
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

/// `--insecure`: checks that the peer holds the key of its certificate, and nothing about the certificate.
#[derive(Debug)]
pub(super) struct InsecureVerifier(Arc<CryptoProvider>);

impl InsecureVerifier {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }
}

impl ServerCertVerifier for InsecureVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
