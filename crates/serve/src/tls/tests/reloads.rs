//! Files that change under a server.

use std::fs;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::*;

#[test]
fn a_new_certificate_is_met_by_new_handshakes() {
    let shown = TestCertificate::new();
    let tls = made(shown.pair()).unwrap();
    let old = tls.certificates.fingerprints();
    assert!(!tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Unchanged
    );

    let issued = shown.authority.issue(&["localhost"]);
    shown.write(&issued);
    assert!(tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Replaced
    );
    assert!(!tls.certificates.has_changed());
    assert_ne!(tls.certificates.fingerprints(), old);
    let met = meet(&tls, shown.client(), "localhost").unwrap();
    let new = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
    assert_eq!(met.certificate, new);
}

#[test]
fn a_reload_that_fails_keeps_the_old_and_is_reported_once() {
    let shown = TestCertificate::new();
    let tls = made(shown.pair()).unwrap();
    let old = meet(&tls, shown.client(), "localhost").unwrap().certificate;
    let issued = shown.authority.issue(&["localhost"]);
    let half = &issued.certificate_pem[..issued.certificate_pem.len() / 2];
    let pair = shown.pair();
    // Half a file, the whole but not its key, nothing.
    for (step, certificate) in [Some(half), Some(&issued.certificate_pem), Some(""), None]
        .iter()
        .enumerate()
    {
        match certificate {
            Some(text) => fs::write(&pair.certificate, text).unwrap(),
            None => fs::remove_file(&pair.certificate).unwrap(),
        }
        assert!(tls.certificates.has_changed(), "{step}");
        let error = tls.certificates.reload().unwrap_err();
        match step {
            0 | 2 => assert!(
                matches!(
                    error,
                    CertificateError::NoCertificate { has_key: false, .. }
                ),
                "{error:?}"
            ),
            1 => assert!(
                matches!(error, CertificateError::KeyMismatch { .. }),
                "{error:?}"
            ),
            _ => assert!(matches!(error, CertificateError::Read { .. }), "{error:?}"),
        }
        assert!(!tls.certificates.has_changed(), "{step}");
        let met = meet(&tls, shown.client(), "localhost").unwrap();
        assert_eq!(met.certificate, old, "{step}");
    }
    shown.write(&issued);
    assert!(tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Replaced
    );
    assert_ne!(
        meet(&tls, shown.client(), "localhost").unwrap().certificate,
        old
    );
}

#[test]
fn a_link_that_is_swapped_is_a_change() {
    let shown = TestCertificate::new();
    let (first, second) = (shown.another(&["a"]), shown.another(&["b"]));
    let link = |name: &str| shown.directory.path().join(name);
    let point = |name: &str, to: &Path| {
        let new = link("new");
        std::os::unix::fs::symlink(to, &new).unwrap();
        fs::rename(new, link(name)).unwrap();
    };
    point("c", &first.certificate);
    point("k", &first.key);
    let tls = made(CertificatePair {
        certificate: link("c"),
        key: link("k"),
    })
    .unwrap();
    point("c", &second.certificate);
    assert!(tls.certificates.has_changed());
    assert!(tls.certificates.reload().is_err());
    point("k", &second.key);
    assert!(tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Replaced
    );
    meet(&tls, shown.client(), "b").unwrap();
}

#[test]
fn one_bad_pair_of_several_replaces_none() {
    let shown = TestCertificate::new();
    let (first, second) = (shown.another(&["a.test"]), shown.another(&["b.test"]));
    let tls = ServerTls::from_files(vec![first, second.clone()]).unwrap();
    let old = tls.certificates.fingerprints();
    shown.another(&["a.test"]);
    fs::write(&second.key, "").unwrap();
    assert!(matches!(
        tls.certificates.reload(),
        Err(CertificateError::NoKey { .. })
    ));
    assert_eq!(tls.certificates.fingerprints(), old);
}
