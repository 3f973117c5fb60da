//! Files with secrets.

use std::path::Path;

use haul_serve::access::{SigningKey, SigningKeyError};

use super::SettingError;

/// A warning if every user of this machine can read a file of secrets. The file is used anyway: a container may have no other user.
pub(crate) fn world_readable_warning(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = path.metadata().ok()?;
    let is_exposed = meta.is_file() && meta.permissions().mode() & 0o004 != 0;
    let path = path.display();
    is_exposed.then(|| {
        format!("{path} can be read by every user of this machine: fix it with chmod o= {path}")
    })
}

/// Reads the signing key that a flag names.
///
/// # Errors
/// The file cannot be read, or is not a key.
pub(crate) fn read_signing_key(flag: &str, path: &Path) -> Result<SigningKey, SettingError> {
    SigningKey::read(path).map_err(|error| {
        let hint = match &error {
            SigningKeyError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                "the user that haul runs as must be able to read it"
            }
            SigningKeyError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::IsADirectory =>
            {
                "name a key file, as haul sign --new-key FILE makes it"
            }
            _ => "haul sign --new-key FILE makes a key",
        };
        // The library's hint at another tool is left out: haul makes keys itself.
        let (text, source) = match error {
            SigningKeyError::Io { path, source } => (
                format!("{flag}: cannot read {}", path.display()),
                Some(source),
            ),
            SigningKeyError::Length => (
                format!(
                    "{flag}: {} is not a key of 16 to 4096 bytes",
                    path.display()
                ),
                None,
            ),
        };
        let setting_error = SettingError::new(text).with_hint(hint);
        match source {
            Some(source) => setting_error.caused_by(source),
            None => setting_error,
        }
    })
}
