//! The socket at which a running tunnel tells its own user how it is: `$XDG_RUNTIME_DIR/haul/tunnel-PID.sock`.
//!
//! It is for convenience alone: where there is no such folder, the tunnel runs without; where it cannot be used, that is told.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use haul_service::listen::ListenAddress;
use haul_service::observe::AdminEndpoint;

use crate::commands::service::admin::{AdminAddresses, AdminTask};

/// What names of such sockets begin and end with; between them is the number of the process.
const SOCKET_NAME: (&str, &str) = ("tunnel-", ".sock");

/// Begins to answer, on the runtime that it is called on. Where there is a place for that and it cannot be had, why.
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
    let opened = AdminAddresses::open(Some(&address), ("SPEC", &[]));
    let opened = opened.and_then(|endpoint| endpoint.serve(admin));
    opened
        .map(Some)
        .map_err(|trouble| trouble.text().to_owned())
}

/// Where the sockets of this user's tunnels are.
pub(super) fn socket_folder() -> Option<PathBuf> {
    let place = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    Some(place.filter(|place| place.is_absolute())?.join("haul"))
}

/// Those that are there, each with the number of its process, in the order of these.
pub(super) fn status_sockets(folder: &Path) -> Vec<(u32, PathBuf)> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let numbered = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number = name
            .strip_prefix(SOCKET_NAME.0)?
            .strip_suffix(SOCKET_NAME.1)?;
        Some((number.parse().ok()?, path))
    };
    let all = entries.filter_map(|entry| numbered(entry.path()));
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

/// Makes the folder, which nobody else may look into.
fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = folder.symlink_metadata()?;
    let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
    match meta.is_dir() && is_ours && meta.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(io::Error::other("it is not a folder of this user's alone")),
    }
}
