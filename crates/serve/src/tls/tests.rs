//! Handshakes in memory: what is agreed on, and which certificate is met.
//!
//! `reloads` has files that change under a server, `mistakes` those that are wrong from the start.

mod mistakes;
mod reloads;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use haul_lab::{CertificateAuthority, IssuedCertificate};
use haul_service::listen::BoundAddress;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConnection,
    SupportedProtocolVersion,
};
use sha2::Digest as _;
use tempfile::TempDir;

use super::*;

/// A certificate, its authority and the folder where both halves are.
struct TestCertificate {
    directory: TempDir,
    authority: CertificateAuthority,
}

impl TestCertificate {
    fn new() -> Self {
        let shown = Self {
            directory: tempfile::tempdir().unwrap(),
            authority: CertificateAuthority::new(),
        };
        shown.write(&shown.authority.issue(&["localhost"]));
        shown
    }

    fn pair(&self) -> CertificatePair {
        CertificatePair {
            certificate: self.directory.path().join("certificate.pem"),
            key: self.directory.path().join("key.pem"),
        }
    }

    fn write(&self, issued: &IssuedCertificate) {
        // As a careful tool does it: at no time is there half a file.
        let replace = |path: &Path, text: &str| {
            let new = path.with_extension("new");
            fs::write(&new, text).unwrap();
            fs::rename(new, path).unwrap();
        };
        replace(&self.pair().certificate, &issued.certificate_pem);
        replace(&self.pair().key, &issued.key_pem);
    }

    fn another(&self, names: &[&str]) -> CertificatePair {
        let name = names.join("-");
        let pair = CertificatePair {
            certificate: self.directory.path().join(format!("{name}.pem")),
            key: self.directory.path().join(format!("{name}.key")),
        };
        let issued = self.authority.issue(names);
        fs::write(&pair.certificate, &issued.certificate_pem).unwrap();
        fs::write(&pair.key, &issued.key_pem).unwrap();
        pair
    }

    fn client(&self) -> ClientConfig {
        client(&self.authority.certificate_pem())
    }
}

fn client(root: &str) -> ClientConfig {
    client_of(root, rustls::DEFAULT_VERSIONS)
}

fn client_of(root: &str, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).unwrap();
    builder.with_root_certificates(roots).with_no_client_auth()
}

/// What a client found out.
#[derive(Debug)]
struct HandshakeResult {
    certificate: CertificateDer<'static>,
    suite: CipherSuite,
    protocol: Option<Vec<u8>>,
    kind: HandshakeKind,
}

fn meet(
    tls: &ServerTls,
    client: ClientConfig,
    name: &str,
) -> Result<HandshakeResult, rustls::Error> {
    meet_again(tls, &Arc::new(client), name)
}

fn meet_again(
    tls: &ServerTls,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Result<HandshakeResult, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let mut server = ServerConnection::new(Arc::clone(&tls.config))?;
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut rest = &*wire;
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &*wire;
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(HandshakeResult {
        certificate: client.peer_certificates().unwrap()[0].clone().into_owned(),
        suite: client.negotiated_cipher_suite().unwrap().suite(),
        protocol: client.alpn_protocol().map(Into::into),
        kind: client.handshake_kind().unwrap(),
    })
}

fn made(pair: CertificatePair) -> Result<ServerTls, CertificateError> {
    ServerTls::from_files(vec![pair])
}

#[test]
fn a_handshake_agrees_on_the_cheap_cipher_and_on_http2() {
    let shown = TestCertificate::new();
    let tls = made(shown.pair()).unwrap();
    let mut both = shown.client();
    both.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let met = meet(&tls, both, "localhost").unwrap();
    // The client has AES-256 first.
    assert_eq!(met.suite, CipherSuite::TLS13_AES_128_GCM_SHA256);
    assert_eq!(met.protocol.unwrap(), b"h2");
    let old = client_of(
        &shown.authority.certificate_pem(),
        &[&rustls::version::TLS12],
    );
    let met = meet(&tls, old, "localhost").unwrap();
    assert_eq!(
        met.suite,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    );
    let mut one = shown.client();
    one.alpn_protocols = vec![b"http/1.1".to_vec()];
    assert_eq!(
        meet(&tls, one, "localhost").unwrap().protocol.unwrap(),
        b"http/1.1"
    );
    assert_eq!(
        meet(&tls, shown.client(), "localhost").unwrap().protocol,
        None
    );
}

#[test]
fn sessions_are_resumed_by_ticket() {
    let shown = TestCertificate::new();
    let tls = made(shown.pair()).unwrap();
    let client = Arc::new(shown.client());
    let kind = || meet_again(&tls, &client, "localhost").unwrap().kind;
    assert_eq!(
        [kind(), kind()],
        [HandshakeKind::Full, HandshakeKind::Resumed]
    );
    assert!(tls.config.ticketer.enabled());
}

#[test]
fn the_certificate_for_the_name_is_chosen_and_the_first_for_others() {
    let shown = TestCertificate::new();
    let pairs = vec![
        shown.another(&["a.test", "127.0.0.1"]),
        shown.another(&["b.test", "*.b.test"]),
        shown.another(&["c.test"]),
    ];
    let tls = ServerTls::from_files(pairs).unwrap();
    let prints = tls.certificates.fingerprints();
    for (name, at) in [
        ("a.test", 0),
        ("b.test", 1),
        ("x.b.test", 1),
        ("c.test", 2),
        ("127.0.0.1", 0),
    ] {
        let met = meet(&tls, shown.client(), name).unwrap();
        let print = CertificateFingerprint(sha2::Sha256::digest(&met.certificate).into());
        assert_eq!(print, prints[at], "{name}");
    }
    let error = meet(&tls, shown.client(), "d.test").unwrap_err();
    // It was met with the first, which is not for it.
    assert!(format!("{error:?}").contains("a.test"), "{error:?}");
}

#[test]
fn a_certificate_of_our_own_is_trusted_by_whoever_was_given_it() {
    let bound = [
        BoundAddress::Tcp("192.0.2.7:80".parse().unwrap()),
        BoundAddress::Tcp("[::]:80".parse().unwrap()),
        BoundAddress::Unix(None),
    ];
    let names = local_names(&bound);
    let tls = ServerTls::self_signed(names.clone()).unwrap();
    let pem = tls.self_signed_pem.clone().unwrap();
    for name in ["localhost", "127.0.0.1", "::1", "192.0.2.7"] {
        assert!(names.iter().any(|n| n == name), "{name}: {names:?}");
    }
    for name in &names {
        let met = meet(&tls, client(&pem), name).unwrap();
        let print = CertificateFingerprint(sha2::Sha256::digest(&met.certificate).into());
        assert_eq!(tls.certificates.fingerprints(), [print]);
    }
    assert!(meet(&tls, client(&pem), "example.org").is_err());
    assert!(meet(&tls, TestCertificate::new().client(), "localhost").is_err());
    // It has no file that could change.
    assert!(!tls.certificates.has_changed());
    assert_eq!(
        tls.certificates.reload().unwrap(),
        CertificateReload::Unchanged
    );
    let other = ServerTls::self_signed(names).unwrap();
    assert_ne!(
        other.certificates.fingerprints(),
        tls.certificates.fingerprints()
    );
}

#[test]
fn a_fingerprint_is_shown_as_openssl_does_and_nothing_of_a_key_is() {
    let mut bytes = [0xab; 32];
    bytes[0] = 1;
    let text = CertificateFingerprint(bytes).to_string();
    assert_eq!((text.len(), &text[..8]), (95, "01:AB:AB"));
    let shown = TestCertificate::new();
    let key = fs::read_to_string(shown.pair().key).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(!format!("{:?}", made(shown.pair()).unwrap()).contains(secret));
}

/// Of version 1, for a hundred years: `openssl x509 -req -signkey` made it, without extensions.
const OLD: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBJDCBywIUEl+SC/SQ+J8bzBh6B4QOJURKBqswCgYIKoZIzj0EAwIwFDESMBAG\n\
    A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTIwNDcyN1oYDzIxMjYxMDI4MjA0NzI3\n\
    WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
    AAS//GTTOPxFc7f02QyKJwWIDo7UwaNlxQJuL3IHN0KgUUSTBSb/6o83LIPxBwI8\n\
    OCvRSMbA2t/Kzqz463g1LvgRMAoGCCqGSM49BAMCA0gAMEUCIF2CyGajJwvtRCta\n\
    7lXmxBoajE8GjdbjAdWTNVtRGryZAiEA+A2HZZA6gTQJhPfIgysHTTJXn2hMqnPS\n\
    E8eQpgtp12A=\n\
    -----END CERTIFICATE-----\n";
#[test]
fn a_certificate_of_version_1_is_told() {
    let shown = TestCertificate::new();
    fs::write(shown.pair().certificate, OLD).unwrap();
    let error = made(shown.pair()).unwrap_err();
    assert!(
        matches!(error, CertificateError::Version1 { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("certificate.pem"), "{error}");
    assert!(error.hint().unwrap().contains("subjectAltName"));
}

#[test]
fn a_certificate_out_of_its_time_is_used_and_told() {
    let shown = TestCertificate::new();
    let now = SystemTime::now();
    let out = |tls: &ServerTls, now| tls.certificates.not_valid_at(now);
    let tls = made(shown.pair()).unwrap();
    assert_eq!(out(&tls, now), []);
    // Its own end shows when the time comes.
    let year = Duration::from_secs(366 * 24 * 3600);
    let later = out(&tls, now + 5000 * year);
    assert!(matches!(later[0].bound, ValidityBound::Expired(end) if end > now));
    let earlier = out(&tls, std::time::UNIX_EPOCH);
    assert!(matches!(earlier[0].bound, ValidityBound::NotBefore(begin) if begin < now));
    assert!(earlier[0].to_string().contains("clock right"));
    shown.write(&shown.authority.issue_expired(&["localhost"]));
    let tls = made(shown.pair()).unwrap();
    let [expired] = &out(&tls, now)[..] else {
        panic!("it has expired");
    };
    let text = expired.to_string();
    assert!(matches!(expired.bound, ValidityBound::Expired(end) if end < now));
    assert!(
        text.contains("certificate.pem expired on ") && text.contains(" GMT: "),
        "{text}"
    );
    assert_eq!(
        out(&ServerTls::self_signed(local_names(&[])).unwrap(), now),
        []
    );
}
