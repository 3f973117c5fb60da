//! TLS options of clients: trusted authorities and client certificates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use haul_net::{ClientCertificate, PemRole, TlsConfigError, TlsOptions, TrustedFiles};

use super::SettingError;
use super::credentials::read_file;
use crate::args::{GivenOptions, OptionSource, PeerTlsArgs, ProxyTlsArgs};

/// TLS options of these flags and the environment, for a command without layers of settings.
///
/// # Errors
/// A file that cannot be used.
pub(crate) fn peer_tls_options(args: &PeerTlsArgs) -> Result<TlsOptions, SettingError> {
    TlsFiles::of_peer(args, &GivenOptions::default()).options()
}

/// The files about TLS with one peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct TlsFiles<'a> {
    cacert: Option<&'a Path>,
    insecure: bool,
    cert: Option<&'a Path>,
    key: Option<&'a Path>,
    /// What the names of the flags begin with, after the dashes.
    prefix: &'static str,
    /// Where the files are given.
    given: &'a GivenOptions,
}

impl<'a> TlsFiles<'a> {
    /// The files for TLS with a server.
    pub(super) fn of_peer(args: &'a PeerTlsArgs, given: &'a GivenOptions) -> Self {
        Self {
            cacert: args.cacert.as_deref(),
            insecure: args.insecure,
            cert: args.cert.as_deref(),
            key: args.key.as_deref(),
            prefix: "",
            given,
        }
    }

    /// The files for TLS with a proxy.
    pub(super) fn of_proxy(args: &'a ProxyTlsArgs, given: &'a GivenOptions) -> Self {
        Self {
            cacert: args.proxy_cacert.as_deref(),
            insecure: args.proxy_insecure,
            cert: args.proxy_cert.as_deref(),
            key: args.proxy_key.as_deref(),
            prefix: "proxy-",
            given,
        }
    }

    /// Whether any of them is given.
    pub(super) fn is_given(&self) -> bool {
        self.insecure || self.cacert.or(self.cert).or(self.key).is_some()
    }

    /// The file and the line of the first file, for messages.
    fn line_prefix(&self) -> String {
        let names = ["cacert", "cert", "key"].map(|name| format!("{}{name}", self.prefix));
        let source = self
            .given
            .first_source(&names.each_ref().map(String::as_str));
        source.map_or_else(String::new, |source| source.line_prefix())
    }

    fn source(&self, name: &str) -> OptionSource {
        self.given.source(&format!("{}{name}", self.prefix))
    }

    fn read(&self, name: &str, path: &Path) -> Result<Vec<u8>, SettingError> {
        read_file(&self.source(name).to_string(), path)
    }

    /// The TLS options of these files and the environment. Files of flags and keys are parsed, so that an error can name them.
    pub(super) fn options(&self) -> Result<TlsOptions, SettingError> {
        let cacert = self
            .cacert
            .map(|path| self.read("cacert", path))
            .transpose()?;
        // A flag replaces the variables, which are not read then.
        let trusted_files = if cacert.is_some() || self.insecure {
            None
        } else {
            trusted_files(|name| std::env::var_os(name))?
        };
        let options = TlsOptions {
            cacert,
            trusted_files,
            insecure: self.insecure,
            client_certificate: self.client_certificate()?,
        };
        options.check().map_err(|error| self.unusable(error))?;
        Ok(options)
    }

    /// The name of the flag or key for this file, and the file.
    fn file(&self, role: PemRole) -> (&'static str, &'a Path) {
        let (name, path) = match role {
            PemRole::TrustedCertificates => ("cacert", self.cacert),
            PemRole::ClientKey if self.key.is_some() => ("key", self.key),
            // One file may contain both.
            PemRole::ClientCertificate | PemRole::ClientKey => ("cert", self.cert),
        };
        (name, path.unwrap_or_else(|| Path::new("")))
    }

    /// The error about files that cannot be used: it names the flag or key, and the file.
    pub(super) fn unusable(&self, error: TlsConfigError) -> SettingError {
        match error {
            TlsConfigError::Pem { role, source } => {
                let (name, path) = self.file(role);
                let text = format!("{} contains no usable {}", path.display(), role.content());
                let error = SettingError::at(&self.source(name), text);
                match source {
                    Some(source) => error.caused_by(source),
                    None => error,
                }
            }
            TlsConfigError::KeyMismatch => {
                let (name, key) = self.file(PemRole::ClientKey);
                let (_, certificate) = self.file(PemRole::ClientCertificate);
                let text = format!(
                    "the private key in {} does not belong to the certificate in {}",
                    key.display(),
                    certificate.display()
                );
                SettingError::at(&self.source(name), text)
            }
            other => SettingError::new(format!("{}{other}", self.line_prefix())).caused_by(other),
        }
    }

    /// The client certificate and its key, which may be in one file.
    fn client_certificate(&self) -> Result<Option<ClientCertificate>, SettingError> {
        let Some(cert) = self.cert else {
            return match self.key {
                None => Ok(None),
                Some(_) => Err(self.missing_counterpart("key", "cert", "certificate")),
            };
        };
        let certificates = self.read("cert", cert)?;
        let (name, path) = self.file(PemRole::ClientKey);
        let key = match self.key {
            Some(path) => self.read("key", path)?,
            None if contains(&certificates, "PRIVATE KEY-----") => certificates.clone(),
            None => return Err(self.missing_counterpart("cert", "key", "private key")),
        };
        if contains(&key, "BEGIN ENCRYPTED PRIVATE KEY-----")
            || contains(&key, "Proc-Type: 4,ENCRYPTED")
        {
            let text = format!("the private key in {} is encrypted", path.display());
            return Err(SettingError::at(&self.source(name), text)
                .with_hint("remove its passphrase with openssl pkey -in FILE -out PLAIN"));
        }
        Ok(Some(ClientCertificate { certificates, key }))
    }

    /// The error about a certificate without a key, or the other way round.
    fn missing_counterpart(&self, given: &str, missing: &str, what: &str) -> SettingError {
        let source = self.source(given);
        let name = source.name();
        let missing = format!("{}{missing}", name.strip_suffix(given).unwrap_or(name));
        SettingError::new(format!("{source} is given without {missing}")).with_hint(format!(
            "{missing} names the file of its {what}; one PEM file may contain both"
        ))
    }
}

/// The files that variables name instead of the platform's. They are parsed when an https connection needs them, but checked now.
fn trusted_files(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<TrustedFiles>, SettingError> {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let file = given("SSL_CERT_FILE").map(PathBuf::from);
    if let Some(path) = &file
        && !contains(&read_file("SSL_CERT_FILE", path)?, "CERTIFICATE-----")
    {
        let text = format!("SSL_CERT_FILE: {} contains no certificate", path.display());
        return Err(SettingError::new(text));
    }
    let directories: Vec<PathBuf> = given("SSL_CERT_DIR")
        .map(|value| std::env::split_paths(&value).collect())
        .unwrap_or_default();
    // Some of several directories may be missing, as on many systems; if all are, it is a mistake.
    if !directories.is_empty() && !directories.iter().any(|place| place.read_dir().is_ok()) {
        let text = format!("SSL_CERT_DIR: cannot read {}", directories[0].display());
        return Err(SettingError::new(text));
    }
    let files = TrustedFiles { file, directories };
    Ok((files != TrustedFiles::default()).then_some(files))
}

fn contains(file: &[u8], words: &str) -> bool {
    file.windows(words.len())
        .any(|window| window == words.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_certificate(
        cert: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<Option<ClientCertificate>, SettingError> {
        let files = TlsFiles {
            cacert: None,
            insecure: false,
            cert,
            key,
            prefix: "",
            given: &GivenOptions::default(),
        };
        files.client_certificate()
    }

    #[test]
    fn a_key_may_be_in_the_certificates_file_and_must_not_be_encrypted() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let both = write(
            "both",
            "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n",
        );
        let cert = write("cert", "-----BEGIN CERTIFICATE-----\n");
        let found = client_certificate(Some(both.as_path()), None)
            .unwrap()
            .unwrap();
        assert_eq!(found.key, found.certificates);
        assert!(
            client_certificate(Some(&cert), None).is_err()
                && client_certificate(None, Some(&both)).is_err()
        );
        for encrypted in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
        ] {
            let error =
                client_certificate(Some(&cert), Some(&write("key", encrypted))).unwrap_err();
            assert!(error.to_string().ends_with("key is encrypted"), "{error}");
            assert!(error.hint().unwrap().contains("openssl pkey"));
        }
    }

    #[test]
    fn a_variable_that_names_no_file_is_an_error_and_an_empty_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().as_os_str().to_owned();
        let of = |file: Option<&str>, directory: Option<OsString>| {
            trusted_files(|name| match name {
                "SSL_CERT_FILE" => file.map(OsString::from),
                _ => directory.clone(),
            })
        };
        assert_eq!(of(None, None).unwrap(), None);
        assert_eq!(of(Some(""), None).unwrap(), None);
        assert!(of(None, Some(here.clone())).unwrap().is_some());
        for directory in [None, Some(here.clone())] {
            let error = of(Some("/nope"), directory).unwrap_err();
            assert_eq!(error.to_string(), "SSL_CERT_FILE: cannot read /nope");
        }
        assert!(of(here.to_str(), None).is_err());
        std::fs::write(dir.path().join("junk"), "junk").unwrap();
        let error = of(dir.path().join("junk").to_str(), None).unwrap_err();
        assert!(error.to_string().ends_with("junk contains no certificate"));
    }
}
