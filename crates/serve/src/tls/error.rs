//! Errors of certificates and keys, with hints for the user.

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
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A pipe, a folder or a device: it could not be read again when it changes.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Larger than any certificate.
    #[error("{} has more than {MAX_FILE_BYTES} bytes, which no certificate or key has", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file has no certificate, or half of one.
    #[error("{} contains no usable certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// Whether it holds a key instead.
        has_key: bool,
    },
    /// The file has no key, or half of one.
    #[error("{} contains no usable private key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Whether it holds a certificate instead.
        has_certificate: bool,
    },
    /// The key is encrypted.
    #[error("the private key in {} is encrypted", path.display())]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// An unknown algorithm, or an invalid certificate.
    #[error("the certificate in {} or its key cannot be used", path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// The reason.
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

impl CertificateError {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoneGiven => "name one with --cert and --key, or use --self-signed".into(),
            Self::Read { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "--self-signed makes the server use a certificate of its own".into()
                }
                io::ErrorKind::PermissionDenied => {
                    "it must be readable by the user that the server runs as".into()
                }
                _ => return None,
            },
            Self::NotAFile { .. } => {
                "certificates are read again when they change, so they must be files".into()
            }
            Self::NoCertificate { has_key: true, .. } => {
                "it contains a private key: are --cert and --key the wrong way round?".into()
            }
            Self::NoKey {
                has_certificate: true,
                ..
            } => "it contains a certificate: are --cert and --key the wrong way round?".into(),
            Self::NoCertificate { path, .. } => format!(
                "it must be PEM; to convert DER: openssl x509 -inform der -in {} -out certificate.pem",
                path.display()
            ),
            Self::NoKey { path, .. } => format!(
                "it must be PEM; to convert DER: openssl pkey -inform der -in {} -out key.pem",
                path.display()
            ),
            Self::Encrypted { path } => format!(
                "nobody can type its password when the server starts; decrypt it with openssl pkey -in {} -out \
                 plain.pem, and protect that with chmod 600",
                path.display()
            ),
            Self::Version1 { .. } => {
                "issue it again with its names, which makes it version 3: openssl req -x509 -newkey rsa:2048 \
                 -nodes -keyout key.pem -out certificate.pem -subj /CN=NAME -addext subjectAltName=DNS:NAME"
                    .into()
            }
            Self::ChainOrder { .. } => {
                "put the server's certificate first, then those that lead to the authority".into()
            }
            Self::KeyMismatch { .. } => {
                "name the two files that belong together, or copy both again".into()
            }
            Self::TooLarge { .. }
            | Self::Unusable { .. }
            | Self::SelfSigned(_)
            | Self::Config(_) => return None,
        };
        Some(text)
    }
}
