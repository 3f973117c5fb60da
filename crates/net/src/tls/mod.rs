//! TLS as a client: whom to trust, who we are, and what is wrong when it fails.
//!
//! The platform's roots are loaded at the first https connection and not before: reading them takes ten milliseconds that
//! a plain download should not pay.

mod alpn;
mod trust;

use std::io;
use std::sync::{Arc, OnceLock};

use haul_plan::AlpnOffer;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct,
    InconsistentKeys, InvalidMessage, SignatureScheme,
};
use tokio_rustls::TlsConnector;
use url::Url;

use crate::credential_scope::CredentialScope;
use crate::error::{Error, Kind, TlsProblem};
use crate::transport::TlsReadBuffer;
use crate::transport::TransportStream;
use crate::transport::tls_error::{handshake_error, is_ca_used_as_server, is_certificate_alert};
use alpn::AlpnConfigs;
pub use alpn::TlsPeer;
pub use trust::TrustedFiles;
use trust::parse_certificates;

/// What a user says about TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// PEM of the only authorities to trust, in place of the platform's.
    pub cacert: Option<Vec<u8>>,
    /// The same, in files that are read when they are needed.
    pub trusted_files: Option<TrustedFiles>,
    /// Trust any certificate whatever.
    pub insecure: bool,
    /// The certificate that we show to the origin that the user named, and to nobody else: it says who the user is.
    pub client_certificate: Option<ClientCertificate>,
    /// What the flags that said so begin with, for messages: `--` if nothing else is told.
    pub flag_prefix: Option<&'static str>,
}

impl TlsOptions {
    /// A flag as it was typed.
    fn flag(&self, name: &str) -> String {
        format!("{}{name}", self.flag_prefix.unwrap_or("--"))
    }
}

/// A client certificate.
#[derive(Clone)]
pub struct ClientCertificate {
    /// PEM of the certificate and its chain.
    pub certificates: Vec<u8>,
    /// PEM of its private key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(***)")
    }
}

/// How TLS with a proxy is made: its own authorities, and the certificate that is for it alone. Clones are the same.
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
            // The certificate was given for it.
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

/// Settings in rustls' own form, made when first needed.
type LazyTlsConfigs = OnceLock<Result<AlpnConfigs, rustls::Error>>;

/// Makes TLS connections. The settings are checked at once, the platform's roots loaded when first needed.
#[derive(Debug)]
pub(crate) struct TlsClient {
    provider: Arc<CryptoProvider>,
    options: TlsOptions,
    /// For peers that see no certificate of ours.
    without_certificate: LazyTlsConfigs,
    /// With our certificate. Apart, so that sessions are not resumed across either.
    with_certificate: LazyTlsConfigs,
}

impl TlsClient {
    pub(crate) fn new(options: TlsOptions) -> Result<Self, TlsConfigError> {
        let provider = Arc::new(crypto_provider());
        let tls = Self {
            provider,
            options,
            without_certificate: OnceLock::new(),
            with_certificate: OnceLock::new(),
        };
        // What the user gave is read now, so that a wrong file is told before a byte is sent.
        if tls.options.cacert.is_some() || tls.options.client_certificate.is_some() {
            let config = tls.build_config(tls.options.client_certificate.as_ref())?;
            let (slot, _) = tls.configs_for(CredentialScope::UserOrigin);
            let _ = slot.set(Ok(AlpnConfigs::new(&config)));
        }
        Ok(tls)
    }

    /// TLS with a host over a stream.
    pub(crate) async fn connect(
        &self,
        stream: TransportStream,
        peer: TlsPeer<'_>,
        url: &Url,
    ) -> Result<TransportStream, Error> {
        let (slot, identity) = self.configs_for(peer.scope);
        let config = slot.get_or_init(|| match self.build_config(identity) {
            Ok(config) => Ok(AlpnConfigs::new(&config)),
            Err(TlsConfigError::Tls(error)) => Err(error),
            Err(other) => Err(rustls::Error::General(other.to_string())),
        });
        let configs = config.as_ref().map_err(|e| {
            Error::new(Kind::Tls(TlsProblem::RootsUnavailable), url).with_source(e.clone())
        })?;
        let config = Arc::clone(configs.config(peer.alpn));
        let name = ServerName::try_from(peer.host.to_owned());
        let name =
            name.map_err(|e| Error::new(Kind::Tls(TlsProblem::WrongHost), url).with_source(e))?;
        match TlsConnector::from(config)
            .connect(name, TlsReadBuffer::new(stream))
            .await
        {
            Ok(stream) => Some(TransportStream::Tls(Box::new(stream)))
                .filter(|stream| peer.alpn != AlpnOffer::Http2 || stream.is_http2())
                .ok_or_else(|| Error::new(Kind::Tls(TlsProblem::NoHttp2), url)),
            Err(error) => Err(match handshake_error_kind(&error, peer.alpn) {
                // All that rustls adds is how that looks from within.
                kind @ Kind::Tls(TlsProblem::NotTls | TlsProblem::NoHttp2) => Error::new(kind, url),
                kind => match handshake_error(error) {
                    Some(words) => Error::new(kind, url).with_source(words),
                    None => Error::new(kind, url),
                },
            }),
        }
    }

    /// The settings for a peer, and what is shown to it.
    fn configs_for(
        &self,
        standing: CredentialScope,
    ) -> (&LazyTlsConfigs, Option<&ClientCertificate>) {
        match (&self.options.client_certificate, standing) {
            (Some(identity), CredentialScope::UserOrigin) => {
                (&self.with_certificate, Some(identity))
            }
            _ => (&self.without_certificate, None),
        }
    }

    fn build_config(
        &self,
        identity: Option<&ClientCertificate>,
    ) -> Result<ClientConfig, TlsConfigError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?;
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(self.verifier()?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificates =
                    parse_certificates(&identity.certificates, &self.options.flag("cert"))?;
                let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| {
                    TlsConfigError::Pem {
                        what: self.options.flag("key"),
                        wanted: "private key",
                    }
                })?;
                let other = || TlsConfigError::KeyMismatch {
                    key: self.options.flag("key"),
                    cert: self.options.flag("cert"),
                };
                let certified =
                    certified_key(certificates, key, &self.provider)?.ok_or_else(other)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        Ok(config)
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
        if self.options.insecure {
            return Ok(Arc::new(InsecureVerifier(Arc::clone(&self.provider))));
        }
        match (&self.options.cacert, &self.options.trusted_files) {
            (Some(pem), _) => {
                trust::verifier_for_pem(pem, &self.options.flag("cacert"), &self.provider)
            }
            (None, Some(files)) => trust::verifier_for_files(files, &self.provider),
            (None, None) => Ok(Arc::new(rustls_platform_verifier::Verifier::new(
                Arc::clone(&self.provider),
            )?)),
        }
    }
}

/// The certificate that we show, and the proof that it is ours. What the certificate says is the peer's to judge: some are so
/// old in form that a verifier here would not read them, and yet are what the peer wants. `None` if it is another's.
fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Option<CertifiedKey>, TlsConfigError> {
    let key = provider.key_provider.load_private_key(key)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Ok(None),
        _ => Ok(Some(certified)),
    }
}

/// aws-lc's algorithms, AES-128-GCM first as browsers have it: ten rounds a block for both sides in place of fourteen, and it is
/// the one that everybody must have (RFC 8446 section 9.1). For clients, and for servers of ours.
#[must_use]
pub fn crypto_provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let aes_128 = [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    // Stable: TLS 1.3 stays before 1.2, and the rest in its order.
    provider.cipher_suites.sort_by_key(|suite| {
        let tls12 = suite.tls13().is_none();
        (tls12, !aes_128.contains(&suite.suite()))
    });
    provider
}

/// What a failed handshake means. rustls' own errors come wrapped in the stream's.
fn handshake_error_kind(error: &io::Error, offer: AlpnOffer) -> Kind {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let problem = match inner {
        Some(rustls::Error::InvalidCertificate(certificate)) => certificate_problem(certificate),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            TlsProblem::NotTls
        }
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol))
            if offer == AlpnOffer::Http2 =>
        {
            TlsProblem::NoHttp2
        }
        Some(rustls::Error::AlertReceived(alert)) if is_certificate_alert(*alert) => {
            TlsProblem::ClientCertificate
        }
        Some(_) => TlsProblem::Other,
        // No word from rustls: the connection broke, which is the link's fault and may heal.
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
        // A bad signature is what an authority of the same name but another key looks like.
        E::UnknownIssuer | E::BadSignature => TlsProblem::UnknownIssuer,
        E::Revoked => TlsProblem::Revoked,
        // An authority's own certificate used as a server's: what self-signed certificates usually are.
        other if is_ca_used_as_server(other) => TlsProblem::UnknownIssuer,
        _ => TlsProblem::Other,
    }
}

/// `--insecure`: checks that the peer holds its certificate's key, and nothing about the certificate.
#[derive(Debug)]
struct InsecureVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for InsecureVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Settings that cannot work, found before the first connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// A certificate or key file is not what it should be.
    #[error("{what} contains no usable {wanted}")]
    Pem {
        /// Which file or flag.
        what: String,
        /// "certificate" or "private key".
        wanted: &'static str,
    },
    /// A private key that is of another certificate.
    #[error("the private key of {key} is not that of the certificate of {cert}")]
    KeyMismatch {
        /// The flag that named the key.
        key: String,
        /// The flag that named the certificate.
        cert: String,
    },
    /// TLS refuses the settings.
    #[error("the TLS settings cannot be used")]
    Tls(#[from] rustls::Error),
}
