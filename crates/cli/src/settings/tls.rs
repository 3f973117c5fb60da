//! Certificates: whom to trust, and which to show.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use haul_net::{Identity, TlsOptions, TrustedFiles};

use super::SettingError;
use super::credentials::read;
use crate::args::ConnectionArgs;

/// What flags say about TLS, with what they begin with.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// What flags begin with: `--`, or `--proxy-`.
    pub(super) flags: &'static str,
    /// Of the only authorities.
    pub(super) cacert: Option<&'a Path>,
    /// Whether anybody is trusted.
    pub(super) insecure: bool,
    /// Of the certificate that we show.
    pub(super) cert: Option<&'a Path>,
    /// Of its key.
    pub(super) key: Option<&'a Path>,
}

/// What flags and the environment say about TLS.
pub(super) fn tls(args: &ConnectionArgs) -> Result<TlsOptions, SettingError> {
    client_tls(Names {
        flags: "--",
        cacert: args.cacert.as_deref(),
        insecure: args.insecure,
        cert: args.cert.as_deref(),
        key: args.key.as_deref(),
    })
}

/// The same of any flags.
pub(super) fn client_tls(names: Names<'_>) -> Result<TlsOptions, SettingError> {
    let flag = |name: &str| format!("{}{name}", names.flags);
    let cacert = names.cacert.map(|path| read(&flag("cacert"), path));
    let cacert = cacert.transpose()?;
    // A flag goes before the variables, which are not looked at then.
    let files = match cacert.is_some() || names.insecure {
        true => None,
        false => trusted(|name| std::env::var_os(name))?,
    };
    Ok(TlsOptions {
        cacert,
        files,
        insecure: names.insecure,
        identity: identity(&names)?,
        // The usual ones need no telling.
        flags: Some(names.flags).filter(|flags| *flags != "--"),
    })
}

/// The files that variables name in place of the platform's. They are parsed when an https connection needs them, but whether
/// they are what they should be is known now.
fn trusted(
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<TrustedFiles>, SettingError> {
    let given = |name| variable(name).filter(|value| !value.is_empty());
    let file = given("SSL_CERT_FILE").map(PathBuf::from);
    if let Some(path) = &file
        && !holds(&read("SSL_CERT_FILE", path)?, "CERTIFICATE-----")
    {
        let text = format!("SSL_CERT_FILE: {} holds no certificate", path.display());
        return Err(SettingError::new(text));
    }
    let directories: Vec<PathBuf> = given("SSL_CERT_DIR")
        .map(|value| std::env::split_paths(&value).collect())
        .unwrap_or_default();
    // Of several directories some may be missing, as systems have it; where none is there somebody has mistyped.
    if !directories.is_empty() && !directories.iter().any(|place| place.read_dir().is_ok()) {
        let text = format!("SSL_CERT_DIR: cannot read {}", directories[0].display());
        return Err(SettingError::new(text));
    }
    let files = TrustedFiles { file, directories };
    Ok((files != TrustedFiles::default()).then_some(files))
}

/// A certificate and its key, which may be in one file.
fn identity(names: &Names<'_>) -> Result<Option<Identity>, SettingError> {
    let (cert_flag, key_flag) = (
        format!("{}cert", names.flags),
        format!("{}key", names.flags),
    );
    let Some(cert) = names.cert else {
        return match names.key {
            None => Ok(None),
            Some(_) => Err(
                SettingError::new(format!("{key_flag} is given without {cert_flag}")).hint(
                    format!("{cert_flag} FILE holds its certificate; one PEM file may hold both"),
                ),
            ),
        };
    };
    let certificates = read(&cert_flag, cert)?;
    let (flag, path, key) = match names.key {
        Some(path) => (&key_flag, path, read(&key_flag, path)?),
        None if holds(&certificates, "PRIVATE KEY-----") => {
            (&cert_flag, cert, certificates.clone())
        }
        None => {
            return Err(
                SettingError::new(format!("{cert_flag} is given without {key_flag}")).hint(
                    format!("{key_flag} FILE holds its private key; one PEM file may hold both"),
                ),
            );
        }
    };
    if holds(&key, "BEGIN ENCRYPTED PRIVATE KEY-----") || holds(&key, "Proc-Type: 4,ENCRYPTED") {
        let path = path.display();
        let wrong = SettingError::new(format!("{flag}: the private key in {path} is encrypted"));
        return Err(wrong.hint("openssl pkey -in FILE -out PLAIN takes its passphrase off"));
    }
    Ok(Some(Identity { certificates, key }))
}

/// Whether a file has these words.
fn holds(file: &[u8], words: &str) -> bool {
    file.windows(words.len())
        .any(|window| window == words.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(cert: Option<&Path>, key: Option<&Path>) -> Result<Option<Identity>, SettingError> {
        super::identity(&Names {
            flags: "--",
            cacert: None,
            insecure: false,
            cert,
            key,
        })
    }

    #[test]
    fn a_key_may_be_in_the_certificates_file_and_must_be_plain() {
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
            assert!(error.advice().unwrap().contains("openssl pkey"));
        }
    }

    #[test]
    fn a_variable_that_names_no_file_is_an_error_and_an_empty_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().as_os_str().to_owned();
        let of = |file: Option<&str>, directory: Option<OsString>| {
            trusted(|name| match name {
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
        assert!(error.to_string().ends_with("junk holds no certificate"));
    }
}
