//! Wrong files, and the errors for them.

use std::path::Path;
use std::{fs, io};

use super::*;

#[test]
fn mistakes_are_found_at_start_and_told_apart() {
    let fixture = TestCertificate::new();
    let other = fixture.another(&["other"]);
    let CertificatePair { certificate, key } = fixture.pair();
    let start = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        server_tls(CertificatePair { certificate, key }).unwrap_err()
    };
    let error = start(&certificate, &other.key);
    assert!(
        matches!(error, CertificateError::KeyMismatch { .. }),
        "{error:?}"
    );
    let error = start(&key, &key);
    assert!(
        matches!(error, CertificateError::NoCertificate { has_key: true, .. }),
        "{error:?}"
    );
    let error = start(&certificate, &certificate);
    let CertificateError::NoKey {
        has_certificate, ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert!(has_certificate);
    let error = start(&fixture.directory.path().join("none"), &key);
    assert!(
        matches!(&error, CertificateError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound),
        "{error:?}"
    );
    let error = start(fixture.directory.path(), &key);
    assert!(
        matches!(error, CertificateError::NotAFile { .. }),
        "{error:?}"
    );
    let error = ServerTls::from_files(Vec::new()).unwrap_err();
    assert!(matches!(error, CertificateError::NoneGiven), "{error:?}");

    let large = fixture.directory.path().join("large");
    fs::write(&large, vec![b'a'; 1024 * 1024 + 1]).unwrap();
    let error = start(&large, &key);
    assert!(
        matches!(error, CertificateError::TooLarge { .. }),
        "{error:?}"
    );
    let pipe = fixture.directory.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    // Nobody writes to it, and the server does not wait.
    let error = start(&pipe, &key);
    assert!(
        matches!(error, CertificateError::NotAFile { .. }),
        "{error:?}"
    );
}

#[test]
fn encrypted_and_broken_keys_are_distinguished() {
    let fixture = TestCertificate::new();
    let pair = fixture.pair();
    for (text, encrypted) in [
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
            true,
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMA==\n-----END RSA PRIVATE KEY-----\n",
            true,
        ),
        ("-----BEGIN PRIVATE KEY-----\nMA==\n", false),
        ("\u{30}\u{82}", false),
    ] {
        fs::write(&pair.key, text).unwrap();
        let error = server_tls(pair.clone()).unwrap_err();
        let is_expected = match error {
            CertificateError::Encrypted { .. } => encrypted,
            CertificateError::NoKey {
                has_certificate, ..
            } => !encrypted && !has_certificate,
            _ => false,
        };
        assert!(is_expected, "{error:?}");
    }
    fs::write(
        &pair.key,
        "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let error = server_tls(pair).unwrap_err();
    assert!(
        matches!(error, CertificateError::Unusable { .. }),
        "{error:?}"
    );
}

#[test]
fn a_chain_in_the_wrong_order_is_reported() {
    let fixture = TestCertificate::new();
    let issued = fixture.authority.issue(&["localhost"]);
    fixture.write(&issued);
    let wrong = format!(
        "{}{}",
        fixture.authority.certificate_pem(),
        issued.certificate_pem
    );
    fs::write(fixture.pair().certificate, wrong).unwrap();
    let error = server_tls(fixture.pair()).unwrap_err();
    assert!(
        matches!(error, CertificateError::ChainOrder { .. }),
        "{error:?}"
    );
    // A single file with everything, as some users keep it, is fine.
    let all = format!(
        "{}{}{}",
        issued.key_pem,
        issued.certificate_pem,
        fixture.authority.certificate_pem()
    );
    let certificate = fixture.pair().certificate;
    fs::write(&certificate, all).unwrap();
    let key = certificate.clone();
    handshake(
        &server_tls(CertificatePair { certificate, key }).unwrap(),
        fixture.client(),
        "localhost",
    )
    .unwrap();
}
