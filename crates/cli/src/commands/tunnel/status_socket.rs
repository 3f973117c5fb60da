//! The socket where a running tunnel serves its status to its own user: `$XDG_RUNTIME_DIR/haul/tunnel-PID.sock`.
//!
//! It is a convenience: without such a folder the tunnel runs without it; a folder that cannot be used is a warning.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use haul_service::listen::ListenAddress;
use haul_service::observe::AdminEndpoint;

use crate::commands::service::admin::{AdminAddresses, AdminTask};

/// The begin and end of socket names; the process id is between them.
const SOCKET_NAME: (&str, &str) = ("tunnel-", ".sock");

/// Starts to serve on the current runtime. Without a folder this is `None`; an unusable folder is an error.
pub(super) fn open(admin: AdminEndpoint) -> Result<Option<AdminTask>, String> {
    let Some(folder) = socket_folder() else {
        return Ok(None);
    };
    create_folder(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = format!("{}{}{}", SOCKET_NAME.0, std::process::id(), SOCKET_NAME.1);
    let address = ListenAddress::Unix {
        path: folder.join(name),
        mode: Some(0o600),
    };
    let task = AdminAddresses::open(Some(&address), ("SPEC", &[]));
    let task = task.and_then(|endpoint| endpoint.serve(admin));
    task.map(Some).map_err(|error| error.text().to_owned())
}

/// The folder with the sockets of this user's tunnels.
pub(super) fn socket_folder() -> Option<PathBuf> {
    let directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    Some(
        directory
            .filter(|directory| directory.is_absolute())?
            .join("haul"),
    )
}

/// The sockets in the folder with their process ids, sorted.
pub(super) fn status_sockets(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let numbered = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number = name
            .strip_prefix(SOCKET_NAME.0)?
            .strip_suffix(SOCKET_NAME.1)?;
        Some((number.parse().ok()?, path))
    };
    let sockets = entries.filter_map(|entry| numbered(entry.path()));
    let mut sockets: Vec<_> = sockets.collect();
    sockets.sort();
    sockets
}

/// Creates the folder, which only this user may read.
fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = folder.symlink_metadata()?;
    let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
    match meta.is_dir() && is_ours && meta.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(io::Error::other(
            "it is not a folder that only this user can access",
        )),
    }
}
