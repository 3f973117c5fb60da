//! TLS as a client: which peers are trusted, which certificate the client shows, and what is wrong when a handshake fails.
//!
//! The platform's root certificates are loaded at the first https connection and not before: reading them takes ten milliseconds
//! that a plain download need not spend.

mod trust;

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use haul_plan::AlpnOffer;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, InconsistentKeys, InvalidMessage,
};
use tokio_rustls::TlsConnector;
use url::Url;

use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind, TlsProblem};
use crate::transport::tls_error::{handshake_error, is_ca_used_as_server, is_certificate_alert};
use crate::transport::{TlsReadBuffer, TransportStream};
use crate::zone::without_zone;
pub use trust::TrustedFiles;
use trust::{InsecureVerifier, parse_certificates};

/// The user's TLS settings.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// PEM of the only trusted authorities, in place of the platform's.
    pub cacert: Option<Vec<u8>>,
    /// The same, in files that are read when they are needed.
    pub trusted_files: Option<TrustedFiles>,
    /// Accept every certificate.
    pub insecure: bool,
    /// The certificate for the origin that the user named. No other peer sees it, since it says who the user is.
    pub client_certificate: Option<ClientCertificate>,
}

#[derive(Clone)]
pub struct ClientCertificate {
    /// PEM of the certificate and its chain.
    pub certificates: Vec<u8>,
    /// PEM of its private key.
    pub key: Vec<u8>,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificate(***)")
    }
}

/// What a PEM file of the user is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PemRole {
    TrustedCertificates,
    ClientCertificate,
    /// It has the private key of the client certificate.
    ClientKey,
}

impl PemRole {
    /// What such a file must contain.
    #[must_use]
    pub fn content(self) -> &'static str {
        match self {
            Self::TrustedCertificates | Self::ClientCertificate => "certificate",
            Self::ClientKey => "private key",
        }
    }
}

impl fmt::Display for PemRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TrustedCertificates => "trusted certificates",
            Self::ClientCertificate => "client certificate",
            Self::ClientKey => "client key",
        })
    }
}

/// Settings that cannot work, found before the first connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// PEM that holds no certificate, or no private key.
    #[error("the PEM of the {role} contains no usable {}", role.content())]
    Pem {
        role: PemRole,
        /// Why rustls refuses what it holds.
        source: Option<rustls::Error>,
    },
    /// None of the files and directories in [`TrustedFiles`] holds a certificate.
    #[error("{0} contains no usable certificate")]
    TrustedFiles(String),
    /// The client's private key belongs to another certificate.
    #[error("the private key of the client does not belong to its certificate")]
    KeyMismatch,
    /// rustls refuses the settings.
    #[error("the TLS settings cannot be used")]
    Tls(#[from] rustls::Error),
}

impl TlsOptions {
    /// Checks the user's PEM, as a client does that is made with these options, without loading the platform's roots.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn check(&self) -> Result<(), TlsConfigError> {
        let provider = Arc::new(crypto_provider());
        if let Some(pem) = self.cacert.as_ref().filter(|_| !self.insecure) {
            trust::verifier_for_pem(pem, &provider)?;
        }
        if let Some(certificate) = &self.client_certificate {
            certified_key(certificate, &provider)?;
        }
        Ok(())
    }

    /// Settings of rustls for connections that this crate does not make: those of a load generator, which counts handshakes.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used, or a system without trusted certificates.
    pub fn client_config(self) -> Result<Arc<ClientConfig>, TlsConfigError> {
        let tls = TlsClient::new(self)?;
        let (_, certificate) = tls.config_for(CredentialScope::UserOrigin);
        tls.build_config(certificate).map(Arc::new)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct TlsPeer<'a> {
    /// The name that its certificate must be for.
    pub host: &'a str,
    /// Whether it sees the client certificate.
    pub scope: CredentialScope,
    /// The protocols that are offered to it.
    pub alpn: AlpnOffer,
}

/// The TLS settings for a proxy: its own authorities, and a client certificate for it alone. Clones share one client.
#[derive(Debug, Clone)]
pub struct ProxyTls(Arc<TlsClient>);

impl ProxyTls {
    /// Settings for a proxy.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(options: TlsOptions) -> Result<Self, TlsConfigError> {
        TlsClient::new(options).map(|tls| Self(Arc::new(tls)))
    }

    /// TLS with the proxy of this name.
    pub(crate) async fn connect(
        &self,
        stream: TransportStream,
        host: &str,
        url: &Url,
    ) -> Result<TransportStream, Error> {
        let peer = TlsPeer {
            host,
            // The user gave the certificate for this proxy.
            scope: CredentialScope::UserOrigin,
            alpn: AlpnOffer::Http1,
        };
        self.0.connect(stream, peer, url).await
    }
}

impl PartialEq for ProxyTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProxyTls {}

/// A configuration that is made when first needed.
type LazyTlsConfig = OnceLock<Result<Arc<ClientConfig>, rustls::Error>>;

/// Makes TLS connections. The user's settings are checked at once, the platform's roots loaded when first needed.
#[derive(Debug)]
pub(crate) struct TlsClient {
    provider: Arc<CryptoProvider>,
    options: TlsOptions,
    without_certificate: LazyTlsConfig,
    /// Apart from the other one, so that no session is resumed across the two.
    with_certificate: LazyTlsConfig,
}

impl TlsClient {
    pub(crate) fn new(options: TlsOptions) -> Result<Self, TlsConfigError> {
        let tls = Self {
            provider: Arc::new(crypto_provider()),
            options,
            without_certificate: OnceLock::new(),
            with_certificate: OnceLock::new(),
        };
        // The user's files are read now, so that a wrong one is reported before a byte is sent.
        if tls.options.cacert.is_some() || tls.options.client_certificate.is_some() {
            let (lazy_config, certificate) = tls.config_for(CredentialScope::UserOrigin);
            let config = tls.build_config(certificate)?;
            let _ = lazy_config.set(Ok(Arc::new(config)));
        }
        Ok(tls)
    }

    /// TLS with a peer over a stream.
    pub(crate) async fn connect(
        &self,
        stream: TransportStream,
        peer: TlsPeer<'_>,
        url: &Url,
    ) -> Result<TransportStream, Error> {
        let tls_error = |problem| Error::new(Kind::Tls(problem), url);
        let (lazy_config, certificate) = self.config_for(peer.scope);
        let config = lazy_config
            .get_or_init(|| match self.build_config(certificate) {
                Ok(config) => Ok(Arc::new(config)),
                Err(TlsConfigError::Tls(error)) => Err(error),
                Err(other) => Err(rustls::Error::General(other.to_string())),
            })
            .as_ref()
            .map_err(|e| tls_error(TlsProblem::RootsUnavailable).with_source(e.clone()))?;
        let name = ServerName::try_from(without_zone(peer.host).into_owned())
            .map_err(|e| tls_error(TlsProblem::WrongHost).with_source(e))?;
        let handshake = TlsConnector::from(Arc::clone(config))
            .with_alpn(alpn_protocols(peer.alpn))
            .connect(name, TlsReadBuffer::new(stream));
        match handshake.into_fallible().await {
            Ok(stream) => {
                let stream = TransportStream::Tls(Box::new(stream));
                if peer.alpn == AlpnOffer::Http2 && !stream.is_http2() {
                    return Err(tls_error(TlsProblem::NoHttp2));
                }
                Ok(stream)
            }
            Err((error, stream)) => Err(match handshake_error_kind(&error, peer.alpn) {
                Kind::Tls(TlsProblem::NotTls) if stream.is_http() => {
                    tls_error(TlsProblem::PlainHttp)
                }
                // The kind says it all; rustls adds only how it looks from inside.
                kind @ Kind::Tls(TlsProblem::NotTls | TlsProblem::NoHttp2) => Error::new(kind, url),
                kind => match handshake_error(error) {
                    Some(message) => Error::new(kind, url).with_source(message),
                    None => Error::new(kind, url),
                },
            }),
        }
    }

    /// The configuration for a peer, and the certificate that the peer sees.
    fn config_for(&self, scope: CredentialScope) -> (&LazyTlsConfig, Option<&ClientCertificate>) {
        match (&self.options.client_certificate, scope) {
            (Some(certificate), CredentialScope::UserOrigin) => {
                (&self.with_certificate, Some(certificate))
            }
            _ => (&self.without_certificate, None),
        }
    }

    fn build_config(
        &self,
        certificate: Option<&ClientCertificate>,
    ) -> Result<ClientConfig, TlsConfigError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier()?);
        let Some(certificate) = certificate else {
            return Ok(builder.with_no_client_auth());
        };
        let certified = certified_key(certificate, &self.provider)?;
        Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
        let provider = &self.provider;
        if self.options.insecure {
            return Ok(Arc::new(InsecureVerifier::new(Arc::clone(provider))));
        }
        match (&self.options.cacert, &self.options.trusted_files) {
            (Some(pem), _) => trust::verifier_for_pem(pem, provider),
            (None, Some(files)) => trust::verifier_for_files(files, provider),
            (None, None) => {
                let verifier = rustls_platform_verifier::Verifier::new(Arc::clone(provider))?;
                Ok(Arc::new(verifier))
            }
        }
    }
}

/// HTTP/1.1 is named explicitly: if h2 were offered as well, many segments would silently share one connection and its limits.
/// A server of mail or of a database may know none of these names, and refuse a client that sends one.
fn alpn_protocols(offer: AlpnOffer) -> Vec<Vec<u8>> {
    let names: &[&[u8]] = match offer {
        AlpnOffer::Http1 => &[b"http/1.1"],
        AlpnOffer::Http2OrHttp1 => &[b"h2", b"http/1.1"],
        AlpnOffer::Http2 => &[b"h2"],
        AlpnOffer::None => &[],
    };
    names.iter().map(|name| name.to_vec()).collect()
}

/// A certificate chain with its key. The chain is not checked further, which is the peer's affair: some certificates are so
/// old in form that a verifier here would not read them, and still are the ones that the peer wants.
fn certified_key(
    certificate: &ClientCertificate,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsConfigError> {
    let chain = parse_certificates(&certificate.certificates, PemRole::ClientCertificate)?;
    let unusable = |source| TlsConfigError::Pem {
        role: PemRole::ClientKey,
        source,
    };
    let key = PrivateKeyDer::from_pem_slice(&certificate.key).map_err(|_| unusable(None))?;
    let key = provider.key_provider.load_private_key(key);
    let certified = CertifiedKey::new(chain, key.map_err(|error| unusable(Some(error)))?);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(TlsConfigError::KeyMismatch)
        }
        _ => Ok(certified),
    }
}

/// aws-lc's algorithms for clients and servers, AES-128-GCM first as in browsers: a block takes ten rounds on both sides and not
/// fourteen, and every peer must support it (RFC 8446 section 9.1).
#[must_use]
pub fn crypto_provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let aes_128 = [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    // The sort is stable: TLS 1.3 stays before 1.2, and the other suites in their order.
    provider.cipher_suites.sort_by_key(|suite| {
        let is_tls12 = suite.tls13().is_none();
        (is_tls12, !aes_128.contains(&suite.suite()))
    });
    provider
}

/// What a failed handshake means. rustls' own errors are wrapped in those of the stream.
fn handshake_error_kind(error: &io::Error, alpn: AlpnOffer) -> Kind {
    let rustls_error = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let problem = match rustls_error {
        Some(rustls::Error::InvalidCertificate(certificate)) => certificate_problem(certificate),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            TlsProblem::NotTls
        }
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol))
            if alpn == AlpnOffer::Http2 =>
        {
            TlsProblem::NoHttp2
        }
        Some(rustls::Error::AlertReceived(alert)) if is_certificate_alert(*alert) => {
            TlsProblem::ClientCertificate
        }
        Some(_) => TlsProblem::Other,
        // The connection broke, which is the fault of the network and may heal.
        None => return Kind::Closed,
    };
    Kind::Tls(problem)
}

fn certificate_problem(error: &CertificateError) -> TlsProblem {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } | E::NotValidYet | E::NotValidYetContext { .. } => {
            TlsProblem::Expired
        }
        E::NotValidForName | E::NotValidForNameContext { .. } => TlsProblem::WrongHost,
        // An authority of the same name with another key looks like a bad signature.
        E::UnknownIssuer | E::BadSignature => TlsProblem::UnknownIssuer,
        E::Revoked => TlsProblem::Revoked,
        other if is_ca_used_as_server(other) => TlsProblem::SelfSigned,
        _ => TlsProblem::Other,
    }
}
