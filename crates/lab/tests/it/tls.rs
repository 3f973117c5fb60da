//! Certificates, verified by a client that trusts only the authority.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use haul_lab::{
    CertificateAuthority, IssuedCertificate, Origin, OriginResource, RequestMatcher, faults,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::raw::{ConnectionEnd, RawConnection, content, part};

/// Connects to `127.0.0.1`, trusting one authority, with an optional client certificate.
pub(crate) async fn handshake(
    address: SocketAddr,
    authority: &CertificateAuthority,
    own: Option<&IssuedCertificate>,
) -> io::Result<TlsStream<TcpStream>> {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate(&authority.certificate_pem()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate(&own.certificate_pem)], key)
                .unwrap()
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = address.ip().to_string().try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

async fn serve(issued: &IssuedCertificate, clients: Option<&CertificateAuthority>) -> Origin {
    let resource =
        OriginResource::new(content()).rule(RequestMatcher::nth(1), faults::reset_after(100));
    Origin::builder()
        .tls(issued.server_config(clients))
        .resource("/f.bin", resource)
        .start()
        .await
}

#[tokio::test]
async fn a_valid_certificate_is_accepted_and_tls_can_be_reset() {
    let authority = CertificateAuthority::new();
    let origin = serve(&authority.issue(&["127.0.0.1"]), None).await;
    assert!(origin.url("/f.bin").starts_with("https://127.0.0.1:"));
    let mut raw = RawConnection::over(handshake(origin.address(), &authority, None).await.unwrap());
    assert_eq!(
        raw.exchange("GET /f.bin", &["Range: bytes=5-9"]).await.body,
        part(5..10)
    );
    let response = raw.exchange("GET /f.bin", &[]).await;
    assert_eq!(
        (response.end, response.complete),
        (ConnectionEnd::Reset, false)
    );
}

#[tokio::test]
async fn a27_invalid_certificates_are_rejected() {
    let authority = CertificateAuthority::new();
    for (issued, words) in [
        (
            authority.issue_expired(&["127.0.0.1"]),
            "certificate expired",
        ),
        (authority.issue(&["other.test"]), "not valid for name"),
        (
            CertificateAuthority::self_signed(&["127.0.0.1"]),
            "UnknownIssuer",
        ),
        // Another authority with the same name.
        (
            CertificateAuthority::new().issue(&["127.0.0.1"]),
            "BadSignature",
        ),
    ] {
        let origin = serve(&issued, None).await;
        let error = handshake(origin.address(), &authority, None)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(origin.requests().is_empty());
    }
}

#[tokio::test]
async fn client_certificates_are_required() {
    let authority = CertificateAuthority::new();
    let origin = serve(&authority.issue(&["127.0.0.1"]), Some(&authority)).await;
    let me = authority.issue(&["me.test"]);
    let mut raw = RawConnection::over(
        handshake(origin.address(), &authority, Some(&me))
            .await
            .unwrap(),
    );
    assert!(raw.exchange("GET /f.bin", &[]).await.complete);
    for stranger in [None, Some(CertificateAuthority::new().issue(&["me.test"]))] {
        // In TLS 1.3 the client's handshake ends before the server has verified its certificate.
        let Ok(mut stream) = handshake(origin.address(), &authority, stranger.as_ref()).await
        else {
            continue;
        };
        let mut byte = [0];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await;
        assert!(read.is_err(), "{read:?}");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn certificate_files_exist_until_they_are_dropped() {
    let issued = CertificateAuthority::new().issue(&["127.0.0.1"]);
    let files = issued.write_files().unwrap();
    assert_eq!(
        std::fs::read_to_string(&files.certificate).unwrap(),
        issued.certificate_pem
    );
    assert_eq!(std::fs::read_to_string(&files.key).unwrap(), issued.key_pem);
    let key = files.key.clone();
    drop(files);
    assert!(!key.exists());
}
