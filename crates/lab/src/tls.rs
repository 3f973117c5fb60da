//! Certificates, valid and invalid, from an authority made for a test (row A27).
//!
//! For a wrong host there is a valid certificate for another name. Client certificates are issued like those of servers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;

#[derive(Debug)]
pub struct CertificateAuthority {
    /// The certificate that clients trust.
    certificate: Certificate,
    /// The key that signs.
    issuer: Issuer<'static, KeyPair>,
}

#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    pub certificate_pem: String,
    pub key_pem: String,
}

/// A certificate and its key as files, in a directory that is removed when this is dropped.
#[derive(Debug)]
pub struct CertificateFiles {
    /// Dropped with this.
    _directory: TempDir,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl CertificateAuthority {
    /// Makes a new authority.
    ///
    /// # Panics
    /// When the system gives no randomness.
    #[must_use]
    pub fn new() -> Self {
        let mut params =
            CertificateParams::new(Vec::new()).expect("an empty list of names is valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "haul lab");
        let key = KeyPair::generate().expect("randomness");
        let certificate = params.self_signed(&key).expect("own parameters");
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's own certificate, PEM, which clients must trust.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    /// A valid certificate for these names and addresses, of a server or a client.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> IssuedCertificate {
        self.sign(params(names))
    }

    #[must_use]
    pub fn issue_expired(&self, names: &[&str]) -> IssuedCertificate {
        let mut params = params(names);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    /// A self-signed certificate.
    ///
    /// # Panics
    /// When the system gives no randomness.
    #[must_use]
    pub fn self_signed(names: &[&str]) -> IssuedCertificate {
        let key = KeyPair::generate().expect("randomness");
        let certificate = params(names).self_signed(&key).expect("own parameters");
        IssuedCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    /// A self-signed certificate with the CA flag, as `openssl req -x509` makes them.
    ///
    /// # Panics
    /// When the system gives no randomness.
    #[must_use]
    pub fn self_signed_ca(names: &[&str], expired: bool) -> IssuedCertificate {
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = Vec::new();
        if expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().expect("randomness");
        let certificate = params.self_signed(&key).expect("own parameters");
        IssuedCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    fn sign(&self, params: CertificateParams) -> IssuedCertificate {
        let key = KeyPair::generate().expect("randomness");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("own parameters");
        IssuedCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("valid names");
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

impl IssuedCertificate {
    /// Writes both to files.
    ///
    /// # Errors
    /// When a temporary directory cannot be written to.
    pub fn write_files(&self) -> io::Result<CertificateFiles> {
        let directory = tempfile::tempdir()?;
        let (certificate, key) = (
            directory.path().join("certificate.pem"),
            directory.path().join("key.pem"),
        );
        std::fs::write(&certificate, &self.certificate_pem)?;
        std::fs::write(&key, &self.key_pem)?;
        Ok(CertificateFiles {
            _directory: directory,
            certificate,
            key,
        })
    }

    /// A server's TLS configuration with this certificate. With `clients`, only clients with a certificate of that authority may connect.
    ///
    /// # Panics
    /// For certificates that were not made here.
    #[must_use]
    pub fn server_config(&self, clients: Option<&CertificateAuthority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("default versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = rustls::RootCertStore::empty();
                roots
                    .add(authority.certificate.der().clone())
                    .expect("own certificate");
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().expect("own roots"))
            }
        };
        let certificate =
            CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).expect("own PEM");
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).expect("own PEM");
        Arc::new(
            builder
                .with_single_cert(vec![certificate], key)
                .expect("own certificate and key"),
        )
    }
}
