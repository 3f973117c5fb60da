//! Errors of certificates and keys.

use std::io;
use std::path::PathBuf;

use super::MAX_FILE_BYTES;

/// Why a certificate cannot be used. No variant holds any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// No file was given.
    #[error("no certificate was given")]
    NoneGiven,
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A pipe, a folder or a device: it could not be read again when it changes.
    #[error("{} is not a file", path.display())]
    NotAFile { path: PathBuf },
    /// Larger than any certificate.
    #[error("{} has more than {MAX_FILE_BYTES} bytes, which no certificate or key has", path.display())]
    TooLarge { path: PathBuf },
    /// The file has no certificate, or half of one.
    #[error("{} contains no usable certificate", path.display())]
    NoCertificate {
        path: PathBuf,
        /// Whether it holds a key instead.
        has_key: bool,
    },
    /// The file has no key, or half of one.
    #[error("{} contains no usable private key", path.display())]
    NoKey {
        path: PathBuf,
        /// Whether it holds a certificate instead.
        has_certificate: bool,
    },
    #[error("the private key in {} is encrypted", path.display())]
    Encrypted { path: PathBuf },
    /// An unknown algorithm, or an invalid certificate.
    #[error("the certificate in {} or its key cannot be used", path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        source: rustls::Error,
    },
    /// X.509 version 1, as before 1996. No current client accepts it.
    #[error("the certificate in {} is X.509 version 1, which is not supported", path.display())]
    Version1 {
        /// The certificate's file.
        path: PathBuf,
    },
    /// The key belongs to a certificate that is not the first of its file.
    #[error("{} does not begin with the server's own certificate", path.display())]
    ChainOrder {
        /// The certificate's file.
        path: PathBuf,
    },
    /// The key belongs to another certificate.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The self-signed certificate could not be made.
    #[error("a self-signed certificate could not be made")]
    SelfSigned(#[from] rcgen::Error),
    /// TLS refuses the settings.
    #[error("the TLS settings cannot be used")]
    Config(#[from] rustls::Error),
}
