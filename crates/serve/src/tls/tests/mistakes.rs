//! Files that are wrong, and what is said of them.

use std::fs;
use std::path::Path;

use super::*;

#[test]
fn mistakes_are_found_at_the_start_and_say_what_to_do() {
    let shown = TestCertificate::new();
    let other = shown.another(&["other"]);
    let CertificatePair { certificate, key } = shown.pair();
    let start = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        made(CertificatePair { certificate, key }).unwrap_err()
    };
    let error = start(&certificate, &other.key);
    assert!(
        matches!(error, CertificateError::KeyMismatch { .. }),
        "{error:?}"
    );
    let error = start(&key, &key);
    assert!(
        error.hint().unwrap().contains("wrong way round"),
        "{error:?}"
    );
    let error = start(&certificate, &certificate);
    assert!(
        error.hint().unwrap().contains("wrong way round"),
        "{error:?}"
    );
    let error = start(&shown.directory.path().join("none"), &key);
    assert!(error.hint().unwrap().contains("--self-signed"), "{error:?}");
    let error = start(shown.directory.path(), &key);
    assert!(
        matches!(error, CertificateError::NotAFile { .. }),
        "{error:?}"
    );
    let error = ServerTls::from_files(Vec::new()).unwrap_err();
    assert!(matches!(error, CertificateError::NoneGiven), "{error:?}");

    let large = shown.directory.path().join("large");
    fs::write(&large, vec![b'a'; 1024 * 1024 + 1]).unwrap();
    let error = start(&large, &key);
    assert!(
        matches!(error, CertificateError::TooLarge { .. }),
        "{error:?}"
    );
    let pipe = shown.directory.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    // Nobody writes to it, and nobody waits for that.
    let error = start(&pipe, &key);
    assert!(
        matches!(error, CertificateError::NotAFile { .. }),
        "{error:?}"
    );
}

#[test]
fn an_encrypted_key_is_told_from_a_broken_one() {
    let shown = TestCertificate::new();
    let pair = shown.pair();
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
        let error = made(pair.clone()).unwrap_err();
        assert_eq!(
            matches!(error, CertificateError::Encrypted { .. }),
            encrypted,
            "{error:?}"
        );
        assert!(error.hint().unwrap().contains("openssl pkey"), "{error:?}");
    }
    fs::write(
        &pair.key,
        "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let error = made(pair).unwrap_err();
    assert!(
        matches!(error, CertificateError::Unusable { .. }),
        "{error:?}"
    );
}

#[test]
fn a_chain_in_the_wrong_order_is_told() {
    let shown = TestCertificate::new();
    let issued = shown.authority.issue(&["localhost"]);
    shown.write(&issued);
    let wrong = format!(
        "{}{}",
        shown.authority.certificate_pem(),
        issued.certificate_pem
    );
    fs::write(shown.pair().certificate, wrong).unwrap();
    let error = made(shown.pair()).unwrap_err();
    assert!(
        matches!(error, CertificateError::ChainOrder { .. }),
        "{error:?}"
    );
    // One file with all of it, as some keep them, is fine.
    let all = format!(
        "{}{}{}",
        issued.key_pem,
        issued.certificate_pem,
        shown.authority.certificate_pem()
    );
    let certificate = shown.pair().certificate;
    fs::write(&certificate, all).unwrap();
    let key = certificate.clone();
    meet(
        &made(CertificatePair { certificate, key }).unwrap(),
        shown.client(),
        "localhost",
    )
    .unwrap();
}
