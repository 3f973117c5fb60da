//! The checksums of --checksum: given, or looked up in a file that sha256sum and similar tools write.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use haul_plan::{Checksum, filename};
use url::Url;

use super::SettingError;
use crate::args::{ChecksumArg, OutputArgs};

/// The longest file of checksums that is read, in bytes: some 200,000 lines.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// The checksums of a download.
///
/// # Errors
/// When a list cannot be read, or has no line for the file.
pub(super) fn checksums_of(args: &OutputArgs, url: &Url) -> Result<Vec<Checksum>, SettingError> {
    let mut checksums = Vec::with_capacity(args.checksum.len());
    for checksum in &args.checksum {
        checksums.push(match checksum {
            ChecksumArg::Checksum(checksum) => checksum.clone(),
            ChecksumArg::List(path) => find_in_list(path, args, url)?,
        });
    }
    Ok(checksums)
}

/// Looks the file up by its name in the URL, which its publisher knows, then by the name that it gets here.
fn find_in_list(path: &Path, args: &OutputArgs, url: &Url) -> Result<Checksum, SettingError> {
    let list = read_list(path).map_err(|error| {
        SettingError::new(format!("--checksum: cannot read {}", path.display())).caused_by(error)
    })?;
    let name = filename::from_url(url);
    let given = args.file.as_ref().and_then(|file| file.file_name());
    let given = given.and_then(|name| name.to_str());
    Checksum::find_in_list(&list, &name)
        .or_else(|| Checksum::find_in_list(&list, given?))
        .ok_or_else(|| {
            SettingError::new(format!("{} has no checksum of {name}", path.display()))
                .with_hint("its lines are HEX  NAME, as sha256sum writes them")
        })
}

fn read_list(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_LIST_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
