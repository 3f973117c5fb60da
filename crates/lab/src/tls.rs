//! Certificates, good and bad, from an authority made for a test (row A27).
//!
//! A wrong host is a good certificate for another name; a client's certificate is one like any other, shown instead of served.

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

/// An authority that signs certificates.
#[derive(Debug)]
pub struct CertificateAuthority {
    /// What clients trust.
    certificate: Certificate,
    /// What signs.
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Its key, PEM.
    pub key_pem: String,
}

/// A certificate and its key as files, in a directory that goes when this is dropped.
#[derive(Debug)]
pub struct CertificateFiles {
    /// Removed with this.
    _directory: TempDir,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl CertificateAuthority {
    /// A new authority.
    ///
    /// # Panics
    /// When the system gives no randomness.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are always fine");
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

    /// The authority's own certificate, PEM: what a client must trust.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    /// A good certificate for these names and addresses, to serve or to show.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> IssuedCertificate {
        self.sign(params(names))
    }

    /// One whose time is over.
    #[must_use]
    pub fn issue_expired(&self, names: &[&str]) -> IssuedCertificate {
        let mut params = params(names);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    /// One that nobody but itself has signed.
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

    /// One that nobody but itself has signed and that says of itself that it is an authority, as `openssl req -x509` makes them;
    /// with `expired` its time is over.
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
    let mut params = CertificateParams::new(names).expect("names a test gave");
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

impl IssuedCertificate {
    /// Both as files, for what takes paths.
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

    /// A server's settings with this certificate; with `clients`, only those signed by it may connect.
    ///
    /// # Panics
    /// For certificates that did not come from here.
    #[must_use]
    pub fn server_config(&self, clients: Option<&CertificateAuthority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder
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
