//! The checksums of --checksum: given, or looked up in a list of digests, SHA256SUMS for example.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use haul_plan::{Checksum, ChecksumList, ChecksumListError, DigestAlgorithm};
use percent_encoding::percent_decode_str;
use url::Url;

use super::SettingError;
use crate::args::{ChecksumArg, OutputArgs};

/// The checksums of a download.
///
/// # Errors
/// When a list cannot be read, or has no digest of the file.
pub(super) fn checksums_of(args: &OutputArgs, url: &Url) -> Result<Vec<Checksum>, SettingError> {
    let mut checksums = Vec::with_capacity(args.checksum.len());
    for checksum in &args.checksum {
        match checksum {
            ChecksumArg::Checksum(checksum) => checksums.push(checksum.clone()),
            ChecksumArg::List(list) => checksums.extend(listed_checksums(list, args, url)?),
        }
    }
    Ok(checksums)
}

/// Looks the file up by the path of its URL, which its publisher knows, then by the path that it gets here.
fn listed_checksums(
    path: &Path,
    args: &OutputArgs,
    url: &Url,
) -> Result<Vec<Checksum>, SettingError> {
    let list = read_list(path).map_err(|error| {
        SettingError::new(format!("--checksum: cannot read {}", path.display())).caused_by(error)
    })?;
    let decoded = percent_decode_str(url.path()).decode_utf8_lossy();
    let parts: Vec<&str> = decoded.split('/').filter(|part| !part.is_empty()).collect();
    let given = args.file.iter().flat_map(|file| file.components());
    let given: Vec<&str> = given.filter_map(|part| part.as_os_str().to_str()).collect();
    let found = ChecksumList::parse(&list).and_then(|list| match list.find(&parts) {
        Err(ChecksumListError::NotListed) if !given.is_empty() => list.find(&given),
        found => found,
    });
    let name = parts.last().or_else(|| given.last()).unwrap_or(&"the file");
    found.map_err(|error| match error {
        ChecksumListError::NotListed => {
            let what = format!("{} has no checksum of {name}", path.display());
            SettingError::new(what).with_hint(format!(
                "it needs a line as sha256sum, gpg --print-md or openssl dgst write it, of one of {}",
                DigestAlgorithm::names()
            ))
        }
        ChecksumListError::Ambiguous { .. } => {
            let what = format!("{} has several checksums of {name}", path.display());
            let error = SettingError::new(what).caused_by(error);
            error.with_hint("give the right one as --checksum ALGO:HEX")
        }
        ChecksumListError::TooLarge => {
            SettingError::new(format!("--checksum: cannot use {}", path.display())).caused_by(error)
        }
    })
}

/// Reads a list, and one byte more than it may have.
fn read_list(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = ChecksumList::MAX_BYTES as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CliArgs;

    #[test]
    fn f38_help_and_manual_have_every_digest() {
        let mut command = CliArgs::command();
        let get = command.find_subcommand_mut("get").unwrap();
        let help = get.render_long_help().to_string();
        let manual = include_str!("../../../../docs/manual/get.md");
        let lists = include_str!("../../../../docs/manual/batch.md");
        for algorithm in DigestAlgorithm::ALL {
            let name = algorithm.name();
            assert!(help.contains(name), "{name}");
            assert!(manual.contains(name) && lists.contains(name), "{name}");
        }
    }
}
