//! Files with secrets in them, as several commands read them.

use std::path::Path;

use haul_serve::access::{SigningKey, SigningKeyError};

use super::SettingError;

/// A warning if every user of this machine can read a file of secrets. It is used all the same: in a container there may be
/// no other user.
pub(crate) fn world_readable_warning(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = path.metadata().ok()?;
    let is_exposed = meta.is_file() && meta.permissions().mode() & 0o004 != 0;
    let path = path.display();
    is_exposed.then(|| {
        format!("{path} can be read by every user of this machine: chmod o= {path} mends that")
    })
}

/// The key that a flag names.
///
/// # Errors
/// When it cannot be read, or is no key.
pub(crate) fn read_signing_key(flag: &str, path: &Path) -> Result<SigningKey, SettingError> {
    SigningKey::read(path).map_err(|error| {
        let hint = match &error {
            SigningKeyError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                "it must be readable for whom this runs as"
            }
            SigningKeyError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::IsADirectory =>
            {
                "name the file itself, as haul sign --new-key FILE makes it"
            }
            _ => "haul sign --new-key FILE makes a key",
        };
        // The library's hint at another tool is left out: this program makes keys itself.
        let (text, source) = match error {
            SigningKeyError::Io { path, source } => (
                format!("{flag}: cannot read {}", path.display()),
                Some(source),
            ),
            SigningKeyError::Length => (
                format!("{flag}: {} is no key of 16 to 4096 bytes", path.display()),
                None,
            ),
        };
        let told = SettingError::new(text).with_hint(hint);
        match source {
            Some(source) => told.caused_by(source),
            None => told,
        }
    })
}
