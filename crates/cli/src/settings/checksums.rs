//! The checksums of --checksum: given, or looked up in a list of digests, SHA256SUMS for example.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use haul_plan::{Checksum, DigestAlgorithm};
use haul_transfer::list::{ChecksumList, ChecksumListError};
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
    let given: Vec<&str> = args
        .file
        .iter()
        .flat_map(|file| file.components())
        .filter_map(|part| part.as_os_str().to_str())
        .collect();
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
    use std::collections::HashSet;

    use clap::{CommandFactory as _, Parser as _};
    use haul_transfer::manifest::{JobRowState, ManifestRow};

    use super::*;
    use crate::args::CliArgs;
    use crate::report::row_object;

    fn help(command: &str) -> String {
        let mut commands = CliArgs::command();
        let command = commands.find_subcommand_mut(command).unwrap();
        command.render_long_help().to_string()
    }

    /// The words in the lines that have an option.
    fn words(text: &str, option: &str) -> HashSet<String> {
        let lines = text.lines().filter(|line| line.contains(option));
        let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
        words.map(str::to_owned).collect()
    }

    fn accepts(arguments: &[&str]) -> bool {
        CliArgs::try_parse_from([&["haul"], arguments].concat()).is_ok()
    }

    #[test]
    fn f38_parsers_help_manual_and_results_have_every_digest() {
        let texts = [
            (help("get"), "ALGO is one of"),
            (
                include_str!("../../../../docs/manual/get.md").to_owned(),
                "**Digests.** ALGO is one of",
            ),
            (
                include_str!("../../../../docs/manual/batch.md").to_owned(),
                "is its name. A `jsonl` listing",
            ),
        ];
        for algorithm in DigestAlgorithm::ALL {
            let name = algorithm.name();
            for (text, line) in &texts {
                assert!(words(text, line).contains(name), "{line} {name}");
            }
            let hex = "0f".repeat(algorithm.digest_len());
            let checksum = format!("{name}:{hex}");
            for text in [name, &checksum] {
                assert!(
                    accepts(&["get", "--checksum", text, "http://h.test/f"]),
                    "{text}"
                );
            }
            let row = ManifestRow {
                checksums: vec![(algorithm, hex)],
                ..ManifestRow::new(None, "http://h.test/f".into(), JobRowState::Done)
            };
            assert_eq!(row_object(&row)["checksum"], checksum);
        }
    }

    #[test]
    fn f38_uploads_know_every_digest_that_s3_has() {
        let manual = include_str!("../../../../docs/manual/s3.md");
        for algorithm in DigestAlgorithm::ALL {
            let name = algorithm.name();
            let is_accepted = accepts(&["put", "--checksum", name, "f", "s3://b/k"]);
            assert_eq!(is_accepted, algorithm.s3().is_some(), "{name}");
            // It is sent unless another one is.
            if is_accepted && algorithm != DigestAlgorithm::Crc64Nvme {
                assert!(
                    words(&help("put"), "in place of CRC64NVME").contains(name),
                    "{name}"
                );
                assert!(words(manual, "`--checksum ALGO`").contains(name), "{name}");
            }
        }
    }
}
