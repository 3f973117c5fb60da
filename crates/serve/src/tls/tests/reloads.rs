//! Files that change under a server.

use std::fs;
use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::*;

#[test]
fn new_handshakes_use_the_new_certificate() {
    let fixture = TestCertificate::new();
    let tls = server_tls(fixture.pair()).unwrap();
    let previous = tls.certificates.fingerprints();
    assert!(!tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Unchanged
    );

    let issued = fixture.authority.issue(&["localhost"]);
    fixture.write(&issued);
    assert!(tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Replaced
    );
    assert!(!tls.certificates.has_changed());
    assert_ne!(tls.certificates.fingerprints(), previous);
    let result = handshake(&tls, fixture.client(), "localhost").unwrap();
    let loaded = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
    assert_eq!(result.certificate, loaded);
}

#[test]
fn a_failed_reload_keeps_the_old_certificate_and_is_reported_once() {
    let fixture = TestCertificate::new();
    let tls = server_tls(fixture.pair()).unwrap();
    let previous = handshake(&tls, fixture.client(), "localhost")
        .unwrap()
        .certificate;
    let issued = fixture.authority.issue(&["localhost"]);
    let half = &issued.certificate_pem[..issued.certificate_pem.len() / 2];
    let pair = fixture.pair();
    // Half a file; a whole one without its key; an empty one; none.
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
        let result = handshake(&tls, fixture.client(), "localhost").unwrap();
        assert_eq!(result.certificate, previous, "{step}");
    }
    fixture.write(&issued);
    assert!(tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Replaced
    );
    assert_ne!(
        handshake(&tls, fixture.client(), "localhost")
            .unwrap()
            .certificate,
        previous
    );
}

#[test]
fn a_swapped_link_counts_as_a_change() {
    let fixture = TestCertificate::new();
    let (first, second) = (fixture.another(&["a"]), fixture.another(&["b"]));
    let link = |name: &str| fixture.directory.path().join(name);
    let point = |name: &str, to: &Path| {
        let loaded = link("new");
        std::os::unix::fs::symlink(to, &loaded).unwrap();
        fs::rename(loaded, link(name)).unwrap();
    };
    point("c", &first.certificate);
    point("k", &first.key);
    let tls = server_tls(CertificatePair {
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
    handshake(&tls, fixture.client(), "b").unwrap();
}

#[test]
fn one_bad_pair_of_several_replaces_none() {
    let fixture = TestCertificate::new();
    let (first, second) = (fixture.another(&["a.test"]), fixture.another(&["b.test"]));
    let tls = ServerTls::from_files(vec![first, second.clone()]).unwrap();
    let previous = tls.certificates.fingerprints();
    fixture.another(&["a.test"]);
    fs::write(&second.key, "").unwrap();
    assert!(matches!(
        tls.certificates.reload(),
        Err(CertificateError::NoKey { .. })
    ));
    assert_eq!(tls.certificates.fingerprints(), previous);
}
