//! Certificates that the user trusts explicitly: those of authorities, and servers' self-signed ones.

use std::path::PathBuf;

use haul_lab::{CertificateAuthority, IssuedCertificate, Origin, OriginResource, ResourceContent};
use haul_net::{
    ClientCertificate, ClientConfig, Kind, TlsConfigError, TlsOptions, TlsProblem, TrustedFiles,
};

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

#[test]
fn unusable_pem_is_reported_with_its_role() {
    let [issued, other] = [(); 2].map(|()| CertificateAuthority::new().issue(LOOPBACK));
    let error = |cacert: Option<&str>, client: Option<(&str, &str)>| {
        let tls = TlsOptions {
            cacert: cacert.map(Into::into),
            client_certificate: client.map(|(certificate, key)| ClientCertificate {
                certificates: certificate.into(),
                key: key.into(),
            }),
            ..TlsOptions::default()
        };
        tls.check().unwrap_err()
    };
    let (certificate, key) = (issued.certificate_pem.as_str(), issued.key_pem.as_str());
    // PEM, and no DER.
    let damaged = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    let damaged_key = "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n";
    for (error, message, has_source) in [
        (
            error(Some("junk"), None),
            "the PEM of the trusted certificates contains no usable certificate",
            false,
        ),
        (
            error(Some(damaged), None),
            "the PEM of the trusted certificates contains no usable certificate",
            true,
        ),
        (
            error(None, Some((key, key))),
            "the PEM of the client certificate contains no usable certificate",
            false,
        ),
        (
            error(None, Some((certificate, certificate))),
            "the PEM of the client key contains no usable private key",
            false,
        ),
        (
            error(None, Some((certificate, damaged_key))),
            "the PEM of the client key contains no usable private key",
            true,
        ),
        (
            error(None, Some((certificate, &other.key_pem))),
            "the private key of the client does not belong to its certificate",
            false,
        ),
    ] {
        assert_eq!(error.to_string(), message);
        let source = match &error {
            TlsConfigError::Pem { source, .. } => source.is_some(),
            _ => false,
        };
        assert_eq!(source, has_source, "{error:?}");
    }
}
