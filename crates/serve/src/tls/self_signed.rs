//! Makes a self-signed certificate: encryption at once, trust by comparing a fingerprint.
//!
//! It is valid for thirteen months. The key never leaves the memory of this process, so a shorter
//! time would protect nothing, and a certificate that expires under a running server would be one
//! more fingerprint to compare. Some clients refuse a longer time (Apple's: 825 days).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_service::listen::BoundAddress;
use haul_service::reachable_addresses;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{DnsName, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::CertificateError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Valid from a day ago, for clients whose clocks are behind, and for thirteen months.
const BACKDATED: Duration = DAY;
const LIFETIME: Duration = DAY.saturating_mul(397);

pub(super) struct SelfSignedCertificate {
    pub(super) certified: CertifiedKey,
    /// The certificate without the key.
    pub(super) pem: String,
}

/// The names and addresses of this machine: `localhost`, its host name, and the listening
/// addresses. For an unspecified address, the addresses that other machines most likely use.
#[must_use]
pub fn local_names(listening: &[BoundAddress]) -> Vec<String> {
    let mut names = vec!["localhost".to_owned()];
    // Not every host name is valid in a certificate.
    let host = rustix::system::uname()
        .nodename()
        .to_str()
        .ok()
        .map(str::to_ascii_lowercase);
    names.extend(host.filter(|name| is_name(name)));
    let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for local in listening {
        match local {
            BoundAddress::Tcp(address) if address.ip().is_unspecified() => {
                addresses.extend(reachable_addresses())
            }
            BoundAddress::Tcp(address) => addresses.push(address.ip().to_canonical()),
            BoundAddress::Unix(_) => {}
        }
    }
    names.extend(addresses.iter().map(ToString::to_string));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn is_name(name: &str) -> bool {
    !name.ends_with('.') && DnsName::try_from(name).is_ok()
}

/// Makes a certificate for these names, on P-256: every client supports it, and a handshake signs
/// with it in some thirty microseconds where RSA needs hundreds.
pub(super) fn self_sign(
    names: Vec<String>,
    provider: &CryptoProvider,
) -> Result<SelfSignedCertificate, CertificateError> {
    let mut params = CertificateParams::new(names)?;
    // Not a host name: browsers show this text first when they warn.
    params
        .distinguished_name
        .push(DnType::CommonName, "haul, self-signed");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(BACKDATED);
    params.not_before = date_time_ymd(1970, 1, 1) + now;
    params.not_after = params.not_before + BACKDATED + LIFETIME;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    let pem = certificate.pem();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let certified = CertifiedKey::from_der(vec![certificate.der().clone()], key.into(), provider)?;
    Ok(SelfSignedCertificate { certified, pem })
}
