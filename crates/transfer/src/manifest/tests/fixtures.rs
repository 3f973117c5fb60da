//! Rows, files and helpers for the manifest's tests.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use crate::archive::ShardEntryLocation;
use crate::disk::{PartialFile, PartialStorage};
use crate::error::ErrorClass;
use crate::manifest::format::ManifestFormat;
use crate::manifest::previous_runs::PreviousRuns;
use crate::manifest::row::{JobRowState, ManifestRow, ManifestRowError, RowTimings};
use crate::manifest::scan::{ManifestScan, ScannedRow};
use crate::manifest::writer::Manifest;

/// A read-only file in memory.
#[derive(Debug)]
pub(super) struct MemoryStorage(pub(super) Vec<u8>);

impl PartialStorage for MemoryStorage {
    fn write_at(&self, _offset: u64, _pieces: &[Bytes]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap().min(self.0.len());
        let read = buffer.len().min(self.0.len() - from);
        buffer[..read].copy_from_slice(&self.0[from..from + read]);
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// A row of a job that was done, or that failed.
pub(super) fn row(n: u64, done: bool) -> ManifestRow {
    let state = if done {
        JobRowState::Done
    } else {
        JobRowState::Failed
    };
    ManifestRow {
        path: Some(format!("d/{n}")),
        status: Some(if done { 200 } else { 404 }),
        bytes: n,
        etag: done.then(|| format!("\"v{n}\"")),
        attempts: 1,
        error: (!done).then(|| {
            let text = "the server answered 404 Not Found";
            ManifestRowError::new(ErrorClass::Network, text.into())
        }),
        ..ManifestRow::new(Some(n + 1), format!("http://h.test/{n}"), state)
    }
}

/// Appends rows as a run does.
pub(super) fn append(path: &Path, rows: &[ManifestRow]) -> PreviousRuns {
    let (mut manifest, previous_runs) = Manifest::open(path).unwrap();
    manifest.append(rows).unwrap();
    manifest.sync().unwrap();
    previous_runs
}

/// All rows in a file, in order.
pub(super) fn rows(path: &Path) -> Vec<ManifestRow> {
    let storage: Arc<dyn PartialStorage> = Arc::new(PartialFile::open(path).unwrap());
    let reading = PreviousRuns::read(&storage, ManifestFormat::from_path(path).unwrap())
        .unwrap()
        .unwrap();
    let mut scan = ManifestScan::from_offset(&*storage, &reading.format, 0);
    let mut rows = Vec::new();
    loop {
        match scan.next().unwrap() {
            ScannedRow::Row { row, .. } => rows.push(*row),
            ScannedRow::Damaged { .. } => {}
            ScannedRow::End { .. } => return rows,
        }
    }
}

/// Text as peers and lists may send it.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9/.:\"',= -]{1,20}",
        1 => "[\\r\\n\",\\\\a\u{0}\u{7f}\u{feff}ä]{1,6}",
        1 => any::<String>(),
    ]
}

pub(super) fn any_row() -> impl Strategy<Value = ManifestRow> {
    let text =
        || prop::option::of(any_text().prop_filter("empty is none", |text| !text.is_empty()));
    let class = prop::sample::select(
        &[
            ErrorClass::Verification,
            ErrorClass::LocalIo,
            ErrorClass::Network,
            ErrorClass::Interrupted,
        ][..],
    );
    let error = prop::option::of(
        (class, any_text()).prop_map(|(class, text)| ManifestRowError::new(class, text)),
    );
    let state =
        prop::sample::select(&[JobRowState::Done, JobRowState::Failed, JobRowState::Skipped][..]);
    let algorithm = prop::sample::select(&haul_plan::DigestAlgorithm::ALL[..]);
    let checksums = prop::collection::vec((algorithm, "[0-9a-f]{8}"), 0..3);
    let shard = prop::option::of((any_text(), any::<u64>(), any::<u64>()).prop_filter_map(
        "empty is none",
        |placed| {
            let (shard, offset, end) = placed;
            (!shard.is_empty()).then_some(ShardEntryLocation { shard, offset, end })
        },
    ));
    let ms = any::<[u64; 5]>().prop_map(|[dns, connect, tls, first_byte, total]| RowTimings {
        dns,
        connect,
        tls,
        first_byte,
        total,
    });
    let job = (prop::option::of(any::<u64>()), any_text(), text(), state);
    let answer = (
        prop::option::of(any::<u16>()),
        any::<u64>(),
        checksums,
        text(),
    );
    (job, answer, (any::<u32>(), ms, error, shard)).prop_map(|(job, answer, rest)| ManifestRow {
        path: job.2,
        status: answer.0,
        bytes: answer.1,
        checksums: answer.2,
        etag: answer.3,
        attempts: rest.0,
        timings: rest.1,
        error: rest.2,
        shard: rest.3,
        ..ManifestRow::new(job.0, format!("u{}", job.1), job.3)
    })
}
