//! Certificates that the user trusts explicitly: those of authorities, and servers' self-signed ones.

use std::path::PathBuf;

use haul_lab::{CertificateAuthority, IssuedCertificate, Origin, OriginResource, ResourceContent};
use haul_net::{ClientConfig, Kind, TlsOptions, TlsProblem, TrustedFiles};

use crate::{client, get};

const LOOPBACK: &[&str] = &["127.0.0.1"];

async fn origin_with(issued: &IssuedCertificate) -> Origin {
    Origin::builder()
        .tls(issued.server_config(None))
        .resource("/f", OriginResource::new(ResourceContent::random(1, 10)))
        .start()
        .await
}

/// The errors of requests to a server with this certificate, by clients that trust `pem` as `cacert` and as a file.
async fn errors_when_trusting(pem: &str, server: &IssuedCertificate) -> Vec<Option<Kind>> {
    let origin = origin_with(server).await;
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("trusted.pem");
    std::fs::write(&file, pem).unwrap();
    let as_cacert = TlsOptions {
        cacert: Some(pem.into()),
        ..TlsOptions::default()
    };
    let as_file = TlsOptions {
        trusted_files: Some(TrustedFiles {
            file: Some(file),
            directories: Vec::new(),
        }),
        ..TlsOptions::default()
    };
    let mut errors = Vec::new();
    for tls in [as_cacert, as_file] {
        let client = client(ClientConfig {
            tls,
            ..ClientConfig::default()
        });
        let result = get(&client, &origin.url("/f")).await;
        errors.push(result.err().map(|error| error.kind().clone()));
    }
    errors
}

fn refused(problem: TlsProblem) -> Vec<Option<Kind>> {
    vec![Some(Kind::Tls(problem)); 2]
}

#[tokio::test]
async fn a27_a_valid_self_signed_certificate_is_trusted_if_it_is_configured() {
    let server = CertificateAuthority::self_signed_ca(LOOPBACK, false);
    let others = CertificateAuthority::self_signed_ca(LOOPBACK, false);
    let pem = &server.certificate_pem;
    assert_eq!(errors_when_trusting(pem, &server).await, [None, None]);
    let bundle = format!("{}{pem}", others.certificate_pem);
    assert_eq!(errors_when_trusting(&bundle, &server).await, [None, None]);
}

#[tokio::test]
async fn a27_a_self_signed_certificate_that_differs_or_is_invalid_is_refused() {
    let server = CertificateAuthority::self_signed_ca(LOOPBACK, false);
    let other = CertificateAuthority::self_signed_ca(LOOPBACK, false);
    // A certificate for the same name, with another key.
    assert_eq!(
        errors_when_trusting(&other.certificate_pem, &server).await,
        refused(TlsProblem::SelfSigned)
    );
    let wrong_host = CertificateAuthority::self_signed_ca(&["other.test"], false);
    assert_eq!(
        errors_when_trusting(&wrong_host.certificate_pem, &wrong_host).await,
        refused(TlsProblem::WrongHost)
    );
    let expired = CertificateAuthority::self_signed_ca(LOOPBACK, true);
    assert_eq!(
        errors_when_trusting(&expired.certificate_pem, &expired).await,
        refused(TlsProblem::Expired)
    );
}

#[tokio::test]
async fn a27_authorities_in_files_are_trusted_too() {
    let (ours, theirs) = (CertificateAuthority::new(), CertificateAuthority::new());
    let server = ours.issue(LOOPBACK);
    assert_eq!(
        errors_when_trusting(&ours.certificate_pem(), &server).await,
        [None, None]
    );
    assert_eq!(
        errors_when_trusting(&theirs.certificate_pem(), &server).await,
        refused(TlsProblem::UnknownIssuer)
    );
}
