//! The names of the shards of one archive.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The naming scheme of an archive.
#[derive(Debug, Clone)]
pub(super) struct ShardNames {
    /// The name that the user gave.
    path: PathBuf,
    /// Whether the archive is a numbered series of shards.
    numbered: bool,
}

impl ShardNames {
    pub(super) fn new(path: PathBuf, numbered: bool) -> Self {
        Self { path, numbered }
    }

    /// Whether the archive is a numbered series of shards.
    pub(super) fn is_numbered(&self) -> bool {
        self.numbered
    }

    pub(super) fn path(&self, index: u64) -> PathBuf {
        if !self.numbered {
            return self.path.clone();
        }
        let mut name = self.stem();
        name.push(format!("-{index:06}.tar"));
        self.path.with_file_name(name)
    }

    /// The name of a shard in manifest rows. It has no directory, because the directory may be moved.
    pub(super) fn name(&self, index: u64) -> String {
        let path = self.path(index);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // "-" alone is the name of a stream.
        match &*name {
            "-" => "./-".to_owned(),
            _ => name.into_owned(),
        }
    }

    /// The number of the shard with this name; `None` when the name does not belong to this archive.
    pub(super) fn index_of(&self, shard: &str) -> Option<u64> {
        let digits = || {
            let rest = shard.strip_suffix(".tar")?;
            rest.rsplit_once('-')?.1.parse().ok()
        };
        let index = if self.numbered { digits()? } else { 0 };
        (self.name(index) == shard).then_some(index)
    }

    /// `NAME` of `NAME.tar`.
    fn stem(&self) -> OsString {
        let is_tar = self
            .path
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("tar"));
        let stem = if is_tar {
            self.path.file_stem()
        } else {
            self.path.file_name()
        };
        stem.unwrap_or_default().to_owned()
    }
}

/// Whether the name is taken. A dangling link counts.
pub(super) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbered_before_the_extension() {
        let names = ShardNames::new("d/train.tar".into(), true);
        assert_eq!(names.path(0), Path::new("d/train-000000.tar"));
        assert_eq!(names.path(1_234_567), Path::new("d/train-1234567.tar"));
        assert_eq!(
            ShardNames::new("d/train".into(), true).path(7),
            Path::new("d/train-000007.tar")
        );
        assert_eq!(
            ShardNames::new("d/v1.2".into(), true).path(7),
            Path::new("d/v1.2-000007.tar")
        );
        assert_eq!(
            ShardNames::new("d/train.tar".into(), false).path(0),
            Path::new("d/train.tar")
        );
    }

    #[test]
    fn no_file_has_the_name_of_a_stream() {
        let names = ShardNames::new("./-".into(), false);
        assert_eq!((names.name(0).as_str(), names.index_of("-")), ("./-", None));
        assert_eq!(names.index_of("./-"), Some(0));
    }

    #[test]
    fn the_number_of_a_shard_is_read_from_its_name() {
        let names = ShardNames::new("d/a-1.tar".into(), true);
        for index in [0, 1, 999_999, 1_000_000, u64::MAX] {
            assert_eq!(names.index_of(&names.name(index)), Some(index));
        }
        for other in [
            "a-1.tar",
            "a-2-000001.tar",
            "a-1-1.tar",
            "a-1-+00001.tar",
            "-",
            "",
            "a-1-000001.TAR",
        ] {
            assert_eq!(names.index_of(other), None, "{other}");
        }
        assert_eq!(
            ShardNames::new("d/a-1.tar".into(), false).index_of("a-1.tar"),
            Some(0)
        );
        assert_eq!(
            ShardNames::new("d/a-1.tar".into(), false).index_of("a-1-000000.tar"),
            None
        );
    }
}
