//! TLS options of clients: trusted authorities and client certificates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use haul_net::{ClientCertificate, TlsOptions, TrustedFiles};

use super::credentials::read_file;
use super::{OptionSource, SettingError, Sourced};
use crate::args::PeerTlsArgs;

/// The TLS files of flags or keys, with their sources.
#[derive(Debug)]
pub(super) struct TlsFileOptions<'a> {
    /// The prefix of the flags or keys, for errors found later: `--`, or `--proxy-`.
    pub(super) flags: &'static str,
    pub(super) cacert: Option<Sourced<&'a Path>>,
    pub(super) insecure: bool,
    pub(super) cert: Option<Sourced<&'a Path>>,
    pub(super) key: Option<Sourced<&'a Path>>,
}

/// The TLS options of flags and the environment.
pub(super) fn tls_options(args: &PeerTlsArgs) -> Result<TlsOptions, SettingError> {
    tls_options_from(TlsFileOptions {
        flags: "--",
        cacert: by_flag("--cacert", args.cacert.as_ref()),
        insecure: args.insecure,
        cert: by_flag("--cert", args.cert.as_ref()),
        key: by_flag("--key", args.key.as_ref()),
    })
}

pub(super) fn by_flag<'a>(
    name: &'static str,
    path: Option<&'a PathBuf>,
) -> Option<Sourced<&'a Path>> {
    path.map(|path| Sourced::flag(name, path.as_path()))
}

impl TlsFileOptions<'_> {
    /// The source of the first file.
    pub(super) fn by(&self) -> Option<&OptionSource> {
        let files = [&self.cacert, &self.cert, &self.key];
        files.into_iter().flatten().map(|file| &file.by).next()
    }
}

fn read_source(source: &Sourced<&Path>) -> Result<Vec<u8>, SettingError> {
    read_file(&source.by.to_string(), source.value)
}

/// The TLS options of these files and the environment.
pub(super) fn tls_options_from(names: TlsFileOptions<'_>) -> Result<TlsOptions, SettingError> {
    let cacert = names.cacert.as_ref().map(read_source).transpose()?;
    // A flag replaces the variables, which are not read then.
    let files = match cacert.is_some() || names.insecure {
        true => None,
        false => trusted_files(|name| std::env::var_os(name))?,
    };
    Ok(TlsOptions {
        cacert,
        trusted_files: files,
        insecure: names.insecure,
        client_certificate: identity(&names)?,
        flag_prefix: Some(names.flags).filter(|flags| *flags != "--"),
    })
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

/// The client certificate and its key, which may be in one file.
fn identity(names: &TlsFileOptions<'_>) -> Result<Option<ClientCertificate>, SettingError> {
    let Some(cert) = &names.cert else {
        return match &names.key {
            None => Ok(None),
            Some(key) => Err(missing_counterpart(&key.by, ("key", "cert"), "certificate")),
        };
    };
    let certificates = read_source(cert)?;
    let (source, key) = match &names.key {
        Some(source) => (source, read_source(source)?),
        None if contains(&certificates, "PRIVATE KEY-----") => (cert, certificates.clone()),
        None => {
            return Err(missing_counterpart(
                &cert.by,
                ("cert", "key"),
                "private key",
            ));
        }
    };
    if contains(&key, "BEGIN ENCRYPTED PRIVATE KEY-----")
        || contains(&key, "Proc-Type: 4,ENCRYPTED")
    {
        let path = source.value.display();
        let wrong = source
            .by
            .wrong(format!("the private key in {path} is encrypted"));
        return Err(wrong.with_hint("remove its passphrase with openssl pkey -in FILE -out PLAIN"));
    }
    Ok(Some(ClientCertificate { certificates, key }))
}

/// The certificate or the key is missing.
fn missing_counterpart(by: &OptionSource, (own, other): (&str, &str), what: &str) -> SettingError {
    let other = by.beside(own, other);
    SettingError::new(format!("{by} is given without {other}")).with_hint(format!(
        "{other} names the file of its {what}; one PEM file may contain both"
    ))
}

fn contains(file: &[u8], words: &str) -> bool {
    file.windows(words.len())
        .any(|window| window == words.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(
        cert: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<Option<ClientCertificate>, SettingError> {
        super::identity(&TlsFileOptions {
            flags: "--",
            cacert: None,
            insecure: false,
            cert: cert.map(|path| Sourced::flag("--cert", path)),
            key: key.map(|path| Sourced::flag("--key", path)),
        })
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
        let found = identity(Some(both.as_path()), None).unwrap().unwrap();
        assert_eq!(found.key, found.certificates);
        assert!(identity(Some(&cert), None).is_err() && identity(None, Some(&both)).is_err());
        for encrypted in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
        ] {
            let error = identity(Some(&cert), Some(&write("key", encrypted))).unwrap_err();
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
