//! The levels of a cell of the workload `transfer`.

use crate::Cell;
use crate::cell::{FileSet, LevelError, parse_size};
use crate::servers::LinkSpec;

/// The factors of this workload.
pub(crate) const FACTORS: &str = "direction, store, files, connections, part-size, link";

/// The most connections of a level. More would measure the limits of this machine.
const MAX_CONNECTIONS: usize = 1024;

/// What is transferred, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferCell {
    /// Whether files are uploaded, and not downloaded.
    pub is_upload: bool,
    /// Whether the server is an S3 store. Over plain HTTP a file is uploaded by one PUT, whatever its size.
    pub is_s3: bool,
    pub files: FileSet,
    /// Connections, or requests at a time; `None` for haul's own choice.
    pub connections: Option<usize>,
    /// The size of parts or segments in bytes; `None` for haul's own choice.
    pub part_bytes: Option<u64>,
    /// What is between client and server.
    pub link: LinkSpec,
}

impl TransferCell {
    /// Parses the levels. A factor that the experiment does not have is at its default: the download of a file over plain HTTP and loopback,
    /// with haul's own choices.
    ///
    /// # Errors
    /// A level that its factor does not have.
    pub fn parse(cell: &Cell) -> Result<Self, LevelError> {
        let files = FileSet {
            count: 1,
            bytes: 64 << 20,
        };
        Ok(Self {
            is_upload: cell.choose("direction", &[("get", false), ("put", true)])?,
            is_s3: cell.choose("store", &[("http", false), ("s3", true)])?,
            files: FileSet::from_cell(cell, files)?,
            connections: cell.parse("connections", "auto, or 1 to 1024", None, |text| {
                let in_range = |count: &usize| (1..=MAX_CONNECTIONS).contains(count);
                auto_or(text, |text| text.parse().ok().filter(in_range))
            })?,
            part_bytes: cell.parse("part-size", "auto, or a size as 8M", None, |text| {
                auto_or(text, |text| parse_size(text).filter(|size| *size > 0))
            })?,
            link: LinkSpec::from_cell(cell)?,
        })
    }
}

/// `auto` is `Some(None)`.
fn auto_or<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        "auto" => Some(None),
        text => parse(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_levels_are_parsed() {
        let cell = Cell::new([
            ("direction", "put"),
            ("store", "s3"),
            ("files", "100 x 1k"),
            ("connections", "8"),
            ("part-size", "8M"),
            ("link", "20ms 25M/200M"),
        ]);
        let parsed = TransferCell {
            is_upload: true,
            is_s3: true,
            files: FileSet {
                count: 100,
                bytes: 1024,
            },
            connections: Some(8),
            part_bytes: Some(8 << 20),
            link: LinkSpec::parse("20ms 25M/200M").unwrap(),
        };
        assert_eq!(TransferCell::parse(&cell), Ok(parsed));
        let auto = cell.with(&Cell::new([("connections", "auto"), ("part-size", "auto")]));
        let auto = TransferCell::parse(&auto).unwrap();
        assert_eq!((auto.connections, auto.part_bytes), (None, None));
    }

    #[test]
    fn a_factor_that_is_missing_has_its_default() {
        let parsed = TransferCell::parse(&Cell::default()).unwrap();
        assert!(!parsed.is_upload && !parsed.is_s3);
        assert_eq!((parsed.files.count, parsed.files.bytes), (1, 64 << 20));
        assert_eq!((parsed.connections, parsed.part_bytes), (None, None));
        assert!(parsed.link.is_loopback());
    }

    #[test]
    fn an_unknown_level_names_its_factor() {
        for (factor, level) in [
            ("direction", "up"),
            ("store", "ftp"),
            ("files", "many"),
            ("connections", "0"),
            ("connections", "1025"),
            ("connections", "many"),
            ("part-size", "0"),
            ("part-size", "-1"),
            ("link", "wire"),
        ] {
            let error = TransferCell::parse(&Cell::new([(factor, level)])).unwrap_err();
            assert_eq!((error.factor, &*error.level), (factor, level));
        }
    }
}
