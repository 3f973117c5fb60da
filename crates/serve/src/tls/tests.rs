//! Handshakes in memory: the negotiated settings, and which certificate is used.
//!
//! `reloads` changes files under a server, `mistakes` starts with wrong ones.

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

/// A certificate, its authority and the folder with its files.
struct TestCertificate {
    directory: TempDir,
    authority: CertificateAuthority,
}

impl TestCertificate {
    fn new() -> Self {
        let fixture = Self {
            directory: tempfile::tempdir().unwrap(),
            authority: CertificateAuthority::new(),
        };
        fixture.write(&fixture.authority.issue(&["localhost"]));
        fixture
    }

    fn pair(&self) -> CertificatePair {
        CertificatePair {
            certificate: self.directory.path().join("certificate.pem"),
            key: self.directory.path().join("key.pem"),
        }
    }

    fn write(&self, issued: &IssuedCertificate) {
        // As a careful tool does it: there is never half a file.
        let replace = |path: &Path, text: &str| {
            let loaded = path.with_extension("new");
            fs::write(&loaded, text).unwrap();
            fs::rename(loaded, path).unwrap();
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
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap();
    builder.with_root_certificates(roots).with_no_client_auth()
}

#[derive(Debug)]
struct HandshakeResult {
    certificate: CertificateDer<'static>,
    suite: CipherSuite,
    protocol: Option<Vec<u8>>,
    kind: HandshakeKind,
}

fn handshake(
    tls: &ServerTls,
    client: ClientConfig,
    name: &str,
) -> Result<HandshakeResult, rustls::Error> {
    handshake_with(tls, &Arc::new(client), name)
}

fn handshake_with(
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

fn server_tls(pair: CertificatePair) -> Result<ServerTls, CertificateError> {
    ServerTls::from_files(vec![pair])
}

#[test]
fn a_handshake_negotiates_aes_128_and_http2() {
    let fixture = TestCertificate::new();
    let tls = server_tls(fixture.pair()).unwrap();
    let mut pairs = fixture.client();
    pairs.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let result = handshake(&tls, pairs, "localhost").unwrap();
    // The client prefers AES-256.
    assert_eq!(result.suite, CipherSuite::TLS13_AES_128_GCM_SHA256);
    assert_eq!(result.protocol.unwrap(), b"h2");
    let previous = client_of(
        &fixture.authority.certificate_pem(),
        &[&rustls::version::TLS12],
    );
    let result = handshake(&tls, previous, "localhost").unwrap();
    assert_eq!(
        result.suite,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    );
    let mut one = fixture.client();
    one.alpn_protocols = vec![b"http/1.1".to_vec()];
    assert_eq!(
        handshake(&tls, one, "localhost").unwrap().protocol.unwrap(),
        b"http/1.1"
    );
    assert_eq!(
        handshake(&tls, fixture.client(), "localhost")
            .unwrap()
            .protocol,
        None
    );
}

#[test]
fn sessions_are_resumed_by_ticket() {
    let fixture = TestCertificate::new();
    let tls = server_tls(fixture.pair()).unwrap();
    let client = Arc::new(fixture.client());
    let kind = || handshake_with(&tls, &client, "localhost").unwrap().kind;
    assert_eq!(
        [kind(), kind()],
        [HandshakeKind::Full, HandshakeKind::Resumed]
    );
    assert!(tls.config.ticketer.enabled());
}

#[test]
fn the_certificate_for_the_name_is_chosen_and_the_first_for_others() {
    let fixture = TestCertificate::new();
    let pairs = vec![
        fixture.another(&["a.test", "127.0.0.1"]),
        fixture.another(&["b.test", "*.b.test"]),
        fixture.another(&["c.test"]),
    ];
    let tls = ServerTls::from_files(pairs).unwrap();
    let fingerprints = tls.certificates.fingerprints();
    for (name, at) in [
        ("a.test", 0),
        ("b.test", 1),
        ("x.b.test", 1),
        ("c.test", 2),
        ("127.0.0.1", 0),
    ] {
        let result = handshake(&tls, fixture.client(), name).unwrap();
        let fingerprint = CertificateFingerprint(sha2::Sha256::digest(&result.certificate).into());
        assert_eq!(fingerprint, fingerprints[at], "{name}");
    }
    let error = handshake(&tls, fixture.client(), "d.test").unwrap_err();
    // The server used the first certificate, which is not for this name.
    assert!(format!("{error:?}").contains("a.test"), "{error:?}");
}

#[test]
fn a_self_signed_certificate_is_trusted_by_a_client_that_has_it() {
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
        let result = handshake(&tls, client(&pem), name).unwrap();
        let fingerprint = CertificateFingerprint(sha2::Sha256::digest(&result.certificate).into());
        assert_eq!(tls.certificates.fingerprints(), [fingerprint]);
    }
    assert!(handshake(&tls, client(&pem), "example.org").is_err());
    assert!(handshake(&tls, TestCertificate::new().client(), "localhost").is_err());
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
fn a_fingerprint_is_shown_as_by_openssl_and_a_key_never() {
    let mut bytes = [0xab; 32];
    bytes[0] = 1;
    let text = CertificateFingerprint(bytes).to_string();
    assert_eq!((text.len(), &text[..8]), (95, "01:AB:AB"));
    let fixture = TestCertificate::new();
    let key = fs::read_to_string(fixture.pair().key).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(!format!("{:?}", server_tls(fixture.pair()).unwrap()).contains(secret));
}

/// Version 1, valid for a hundred years: made by `openssl x509 -req -signkey`, without extensions.
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
fn an_x509_version_1_certificate_is_reported() {
    let fixture = TestCertificate::new();
    fs::write(fixture.pair().certificate, OLD).unwrap();
    let error = server_tls(fixture.pair()).unwrap_err();
    assert!(
        matches!(error, CertificateError::Version1 { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("certificate.pem"), "{error}");
}

#[test]
fn an_expired_certificate_is_used_and_reported() {
    let fixture = TestCertificate::new();
    let now = SystemTime::now();
    let out = |tls: &ServerTls, now| tls.certificates.not_valid_at(now);
    let tls = server_tls(fixture.pair()).unwrap();
    assert_eq!(out(&tls, now), []);
    // Its expiry is noticed when the time comes.
    let year = Duration::from_secs(366 * 24 * 3600);
    let later = out(&tls, now + 5000 * year);
    assert!(matches!(later[0].bound, ValidityBound::Expired(end) if end > now));
    let earlier = out(&tls, std::time::UNIX_EPOCH);
    assert!(matches!(earlier[0].bound, ValidityBound::NotBefore(begin) if begin < now));
    assert!(earlier[0].to_string().contains("clock right"));
    fixture.write(&fixture.authority.issue_expired(&["localhost"]));
    let tls = server_tls(fixture.pair()).unwrap();
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
