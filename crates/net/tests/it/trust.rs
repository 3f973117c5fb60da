//! Certificates that are trusted by being named: authorities, and servers' own.

use std::path::PathBuf;

use haul_lab::{CertificateAuthority, IssuedCertificate, Origin, OriginResource, ResourceContent};
use haul_net::{ClientConfig, Kind, TlsOptions, TlsProblem, TrustedFiles};

use crate::{client, get};

const HERE: &[&str] = &["127.0.0.1"];

async fn serving(issued: &IssuedCertificate) -> Origin {
    Origin::builder()
        .tls(issued.server_config(None))
        .resource("/f", OriginResource::new(ResourceContent::random(1, 10)))
        .start()
        .await
}

/// What comes of a request to a server with this certificate, by one who trusts that PEM in either way.
async fn trusting(pem: &str, server: &IssuedCertificate) -> Vec<Option<Kind>> {
    let origin = serving(server).await;
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("trusted.pem");
    std::fs::write(&file, pem).unwrap();
    let given = TlsOptions {
        cacert: Some(pem.into()),
        ..TlsOptions::default()
    };
    let in_files = TlsOptions {
        trusted_files: Some(TrustedFiles {
            file: Some(file),
            directories: Vec::new(),
        }),
        ..TlsOptions::default()
    };
    let mut errors = Vec::new();
    for tls in [given, in_files] {
        let client = client(ClientConfig {
            tls,
            ..ClientConfig::default()
        });
        let got = get(&client, &origin.url("/f")).await;
        errors.push(got.err().map(|error| error.kind().clone()));
    }
    errors
}

fn refused(problem: TlsProblem) -> Vec<Option<Kind>> {
    vec![Some(Kind::Tls(problem)); 2]
}

#[tokio::test]
async fn a27_a_self_signed_certificate_is_trusted_if_it_is_named_and_valid() {
    let server = CertificateAuthority::self_signed_ca(HERE, false);
    let others = CertificateAuthority::self_signed_ca(HERE, false);
    let pem = &server.certificate_pem;
    assert_eq!(trusting(pem, &server).await, [None, None]);
    let among = format!("{}{pem}", others.certificate_pem);
    assert_eq!(trusting(&among, &server).await, [None, None]);
}

#[tokio::test]
async fn a27_a_self_signed_certificate_is_otherwise_never_trusted() {
    let server = CertificateAuthority::self_signed_ca(HERE, false);
    let other = CertificateAuthority::self_signed_ca(HERE, false);
    // Of the same name, with another key.
    assert_eq!(
        trusting(&other.certificate_pem, &server).await,
        refused(TlsProblem::SelfSigned)
    );
    let elsewhere = CertificateAuthority::self_signed_ca(&["other.test"], false);
    assert_eq!(
        trusting(&elsewhere.certificate_pem, &elsewhere).await,
        refused(TlsProblem::WrongHost)
    );
    let expired = CertificateAuthority::self_signed_ca(HERE, true);
    assert_eq!(
        trusting(&expired.certificate_pem, &expired).await,
        refused(TlsProblem::Expired)
    );
}

#[tokio::test]
async fn a27_authorities_in_files_are_trusted_too() {
    let (ours, theirs) = (CertificateAuthority::new(), CertificateAuthority::new());
    let server = ours.issue(HERE);
    assert_eq!(
        trusting(&ours.certificate_pem(), &server).await,
        [None, None]
    );
    assert_eq!(
        trusting(&theirs.certificate_pem(), &server).await,
        refused(TlsProblem::UnknownIssuer)
    );
}
