//! The socket where a running tunnel serves its status to its own user: `$XDG_RUNTIME_DIR/haul/tunnel-PID.sock`, or
//! `/tmp/haul-UID/tunnel-PID.sock` where no session sets that variable (root, cron, containers).
//!
//! It is a convenience: a folder that cannot be used is a warning, and the tunnel runs without the socket.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use haul_service::listen::ListenAddress;
use haul_service::observe::AdminEndpoint;
use rustix::process::geteuid;

use crate::commands::service::admin::{AdminAddresses, AdminTask};

/// The begin and end of socket names; the process id is between them.
const SOCKET_NAME: (&str, &str) = ("tunnel-", ".sock");

/// Starts to serve on the current runtime.
///
/// # Errors
/// When the folder cannot be used.
pub(super) fn open(admin: AdminEndpoint) -> Result<AdminTask, String> {
    let folder = runtime_folder().unwrap_or_else(temporary_folder);
    create_folder(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = format!("{}{}{}", SOCKET_NAME.0, std::process::id(), SOCKET_NAME.1);
    let address = ListenAddress::Unix {
        path: folder.join(name),
        mode: Some(0o600),
    };
    let task = AdminAddresses::open(Some(&address), "SPEC", &[])
        .and_then(|endpoint| endpoint.serve(admin));
    task.map_err(|error| error.text().to_owned())
}

/// The folders with the sockets of this user's tunnels. They may have been started in other environments than this process.
pub(super) fn socket_folders() -> Vec<PathBuf> {
    let folders = runtime_folder().into_iter().chain([temporary_folder()]);
    folders.collect()
}

fn temporary_folder() -> PathBuf {
    std::env::temp_dir().join(format!("haul-{}", geteuid().as_raw()))
}

fn runtime_folder() -> Option<PathBuf> {
    let directory = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    Some(
        directory
            .filter(|directory| directory.is_absolute())?
            .join("haul"),
    )
}

/// The sockets in the folders with their process ids, sorted. A folder that another user could write to is left out.
pub(super) fn status_sockets(folders: &[PathBuf]) -> Vec<(u32, PathBuf)> {
    let folders = folders
        .iter()
        .filter(|folder| is_private(folder).unwrap_or(false));
    let entries = folders.flat_map(|folder| folder.read_dir().into_iter().flatten().flatten());
    let numbered = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number = name
            .strip_prefix(SOCKET_NAME.0)?
            .strip_suffix(SOCKET_NAME.1)?;
        Some((number.parse().ok()?, path))
    };
    let mut sockets: Vec<_> = entries.filter_map(|entry| numbered(entry.path())).collect();
    sockets.sort();
    sockets
}

/// Creates the folder, which only this user may read.
fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_private(folder)? {
        Ok(())
    } else {
        Err(io::Error::other(
            "it is not a folder that only this user can access",
        ))
    }
}

fn is_private(folder: &Path) -> io::Result<bool> {
    let meta = folder.symlink_metadata()?;
    Ok(meta.is_dir() && meta.uid() == geteuid().as_raw() && meta.mode() & 0o077 == 0)
}
