//! Why there is no certificate to show, and what the user can do about it.

use std::io;
use std::path::PathBuf;

use super::certificate_files::MAX_FILE_BYTES;

/// Why a certificate cannot be used. No variant carries anything of a key.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// No file was named at all.
    #[error("no certificate was given")]
    NoneGiven,
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A pipe, a folder or a device: it could not be read again when it changes.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// What it is.
        path: PathBuf,
    },
    /// Larger than any certificate is.
    #[error("{} has more than {MAX_FILE_BYTES} bytes, which no certificate or key has", path.display())]
    TooLarge {
        /// Which one.
        path: PathBuf,
    },
    /// There is no certificate in the file, or half of one.
    #[error("{} holds no usable certificate", path.display())]
    NoCertificate {
        /// Which one.
        path: PathBuf,
        /// It holds a key.
        has_key: bool,
    },
    /// There is no key in the file, or half of one.
    #[error("{} holds no usable private key", path.display())]
    NoKey {
        /// Which one.
        path: PathBuf,
        /// It holds a certificate.
        has_certificate: bool,
    },
    /// The key wants a password.
    #[error("the private key in {} is encrypted", path.display())]
    Encrypted {
        /// Which file.
        path: PathBuf,
    },
    /// An algorithm that is not known here, or a certificate that makes no sense.
    #[error("the certificate of {} or its key cannot be used", path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// As certificates were before 1996. No client of today takes one.
    #[error("the certificate in {} is of version 1 of X.509, and cannot be used", path.display())]
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
    /// The key is of another certificate.
    #[error("the key in {} is not that of the certificate in {}", key.display(), certificate.display())]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// No certificate of our own can be made.
    #[error("no certificate could be made")]
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
            Self::NoneGiven => "name one with --cert and --key, or take --self-signed".into(),
            Self::Read { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "for a certificate of the server's own making there is --self-signed".into()
                }
                io::ErrorKind::PermissionDenied => {
                    "it must be readable for whom the server runs as".into()
                }
                _ => return None,
            },
            Self::NotAFile { .. } => {
                "certificates are read again when they change, so they must be files".into()
            }
            Self::NoCertificate { has_key: true, .. } => {
                "it holds a private key: are --cert and --key the wrong way round?".into()
            }
            Self::NoKey {
                has_certificate: true,
                ..
            } => "it holds a certificate: are --cert and --key the wrong way round?".into(),
            Self::NoCertificate { path, .. } => format!(
                "it must be PEM; of DER: openssl x509 -inform der -in {} -out certificate.pem",
                path.display()
            ),
            Self::NoKey { path, .. } => format!(
                "it must be PEM; of DER: openssl pkey -inform der -in {} -out key.pem",
                path.display()
            ),
            Self::Encrypted { path } => format!(
                "nobody could type its password when the server starts: openssl pkey -in {} -out plain.pem, and guard \
                 that with chmod 600",
                path.display()
            ),
            Self::Version1 { .. } => {
                "have it issued with the names that it is for, which makes it one of version 3: openssl req -x509 -newkey rsa:2048 \
                 -nodes -keyout key.pem -out certificate.pem -subj /CN=NAME -addext subjectAltName=DNS:NAME"
                    .into()
            }
            Self::ChainOrder { .. } => {
                "put the server's certificate first, then those that lead to the authority".into()
            }
            Self::KeyMismatch { .. } => {
                "name the two that were made together, or copy both anew".into()
            }
            Self::TooLarge { .. }
            | Self::Unusable { .. }
            | Self::SelfSigned(_)
            | Self::Config(_) => return None,
        };
        Some(text)
    }
}
