//! Reads certificates and keys from files of bounded size, and checks them before they are used.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::{CertificateError, CertificatePair, MAX_FILE_BYTES};

/// Identifies the content of a file, to see whether it has changed. `None` if it does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp(Option<[i128; 5]>);

impl FileStamp {
    /// Follows links: tools that replace certificates often swap a link.
    pub(super) fn read(path: &Path) -> Self {
        let stamp = |metadata: Metadata| {
            let nanos =
                |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
            [
                metadata.dev().into(),
                metadata.ino().into(),
                metadata.size().into(),
                nanos(metadata.mtime(), metadata.mtime_nsec()),
                // Notices a copy that keeps the time of the original, over a file of the same size.
                nanos(metadata.ctime(), metadata.ctime_nsec()),
            ]
        };
        Self(std::fs::metadata(path).ok().map(stamp))
    }
}

pub(super) fn load_pair(
    pair: &CertificatePair,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain = read_chain(&pair.certificate)?;
    let key = read_key(&pair.key)?;
    let unusable = |source| CertificateError::Unusable {
        path: pair.certificate.clone(),
        source,
    };
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(unusable)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // Not every key reveals its public half.
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(certified)),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(mismatch_error(&certified, pair))
        }
        Err(error) if is_version_1(&error) => Err(CertificateError::Version1 {
            path: pair.certificate.clone(),
        }),
        Err(error) => Err(unusable(error)),
    }
}

/// Whether the certificate has version 1. The error's type is not public, so this looks at its
/// text.
fn is_version_1(error: &Error) -> bool {
    format!("{error:?}").contains("UnsupportedCertVersion")
}

/// Distinguishes two mistakes: two files that do not belong together, or a chain in the wrong
/// order.
fn mismatch_error(certified: &CertifiedKey, pair: &CertificatePair) -> CertificateError {
    let fits = |certificate: &CertificateDer<'static>| {
        let key = Arc::clone(&certified.key);
        CertifiedKey::new(vec![certificate.clone()], key)
            .keys_match()
            .is_ok()
    };
    if certified.cert.iter().any(fits) {
        return CertificateError::ChainOrder {
            path: pair.certificate.clone(),
        };
    }
    CertificateError::KeyMismatch {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let pem = read_file(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(CertificateError::NoCertificate {
            path: path.to_owned(),
            has_key: contains(&pem, "PRIVATE KEY-----"),
        }),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let pem = read_file(path)?;
    // As PKCS #8 writes it, and older files (RFC 1421).
    if contains(&pem, "BEGIN ENCRYPTED PRIVATE KEY") || contains(&pem, "Proc-Type: 4,ENCRYPTED") {
        return Err(CertificateError::Encrypted {
            path: path.to_owned(),
        });
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| CertificateError::NoKey {
        path: path.to_owned(),
        has_certificate: contains(&pem, "BEGIN CERTIFICATE"),
    })
}

fn contains(pem: &[u8], mark: &str) -> bool {
    pem.windows(mark.len())
        .any(|window| window == mark.as_bytes())
}

/// Reads a whole regular file. Opens without blocking, as a pipe would wait for a writer, and then
/// refuses anything but a file.
fn read_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source: io::Error| CertificateError::Read {
        path: path.to_owned(),
        source,
    };
    let open = |path: &Path| -> io::Result<(File, Metadata)> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let metadata = file.metadata()?;
        Ok((file, metadata))
    };
    let (file, metadata) = open(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(CertificateError::NotAFile {
            path: path.to_owned(),
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(CertificateError::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}
