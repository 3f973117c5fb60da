//! A manifest in memory, for fuzz targets.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::format::ManifestFormat;
use super::previous_runs::PreviousRuns;
use super::row::ManifestRow;
use super::scan::{ManifestLines, ManifestScan, ScannedRow};
use crate::disk::PartialStorage;

/// A file that is only read.
#[derive(Debug)]
struct ManifestBytes(Vec<u8>);

impl PartialStorage for ManifestBytes {
    fn write_at(&self, _: u64, _: &[Bytes]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut rest = self.0.get(offset..).unwrap_or_default();
        io::Read::read(&mut rest, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// What earlier runs recorded in a manifest whose file has this name, the bytes up to the last complete line, and all rows; `None` if this
/// is not a manifest.
pub(crate) fn read_manifest(
    bytes: &[u8],
    name: &str,
) -> Option<(PreviousRuns, u64, Vec<ManifestRow>)> {
    let storage: Arc<dyn PartialStorage> = Arc::new(ManifestBytes(bytes.to_vec()));
    let format = ManifestFormat::from_path(Path::new(name))?;
    let reading = PreviousRuns::read(&storage, format).ok()??;
    let mut scan = ManifestScan::after(ManifestLines::new(&*storage), &reading.format);
    let mut rows = Vec::new();
    loop {
        match scan.next().ok()? {
            ScannedRow::Row { row, .. } => rows.push(*row),
            // The header of a table is one, too.
            ScannedRow::Damaged { .. } => {}
            ScannedRow::End { .. } => break,
        }
    }
    Some((reading.previous_runs, reading.valid_bytes, rows))
}

/// A new manifest with these rows.
pub(crate) fn encode_manifest(rows: &[ManifestRow], name: &str) -> Option<Vec<u8>> {
    let format = ManifestFormat::from_path(Path::new(name))?;
    let mut bytes = format.header();
    format.encode(&rows.iter().collect::<Vec<_>>(), &mut bytes);
    Some(bytes)
}
