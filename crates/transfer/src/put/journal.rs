//! Remembers which parts of a file the store has, so that a later run sends only the others.
//!
//! A text file in the state directory, named by a digest of the file's path, the store and the object: a line with the upload and what the file
//! was, then a line for each part. Each line begins with its CRC-32C; reading ends at the first line that is damaged, and what was lost is
//! sent again. The file is locked while its upload runs.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use haul_digest::{crc32c, hex};
use haul_plan::Checksum;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::file_part::FileSnapshot;
use super::kept_parts::KnownPart;

/// How often a journal is opened that its owner removes or replaces at the same time.
const MAX_OPENS: usize = 8;

/// The number of this format.
const FORMAT: u32 = 1;

/// The longest line: upload ids have some hundred characters.
const MAX_LINE: u64 = 16 << 10;

/// The most rows: every part, sent again some times.
const MAX_ROWS: usize = 100_000;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UploadRecord {
    format: u32,
    /// The file, for people who look.
    path: String,
    /// The object, for the same.
    target: String,
    pub(super) upload_id: String,
    pub(super) part_bytes: u64,
    size: u64,
    modified: i128,
    /// The time of the inode's last change. Programs cannot set it, unlike the modification time. 0 in records of older versions.
    #[serde(default)]
    changed: i128,
    inode: u64,
    /// A digest of what the store was told about the object when its upload began; empty in records of older versions.
    #[serde(default)]
    settings: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct PartRecord {
    part: u32,
    size: u64,
    etag: String,
    crc64nvme: u64,
    /// The checksum that the user wants, as `--checksum` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
}

#[derive(Debug)]
pub(super) struct UploadJournal {
    path: PathBuf,
    file: File,
}

/// What an earlier run left.
#[derive(Debug)]
pub(super) struct EarlierUpload {
    pub(super) record: UploadRecord,
    pub(super) parts: Vec<KnownPart>,
}

impl UploadRecord {
    pub(super) fn new(
        file: (&Path, FileSnapshot),
        target: &str,
        upload_id: &str,
        part_bytes: u64,
        settings: String,
    ) -> Self {
        let (path, snapshot) = file;
        Self {
            format: FORMAT,
            path: path.display().to_string(),
            target: target.to_owned(),
            upload_id: upload_id.to_owned(),
            part_bytes,
            size: snapshot.size,
            modified: snapshot.modified,
            changed: snapshot.changed,
            inode: snapshot.inode,
            settings,
        }
    }

    /// Whether the file is still what it was (row F12), and the object is to be what its upload began as.
    pub(super) fn is_of(&self, snapshot: FileSnapshot, settings: &str) -> bool {
        self.format == FORMAT
            && self.settings == settings
            && self.size == snapshot.size
            && self.modified == snapshot.modified
            && self.changed == snapshot.changed
            && self.inode == snapshot.inode
    }
}

impl EarlierUpload {
    fn read(mut lines: impl io::BufRead) -> io::Result<Option<Self>> {
        let Some(record) = read_line::<UploadRecord>(&mut lines)? else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        while parts.len() < MAX_ROWS
            && let Some(row) = read_line::<PartRecord>(&mut lines)?
        {
            parts.push(KnownPart {
                number: row.part,
                size: row.size,
                etag: row.etag,
                crc64nvme: Some(row.crc64nvme),
                wanted: row.wanted.and_then(|text| text.parse().ok()),
            });
        }
        Ok(Some(Self { record, parts }))
    }
}

/// For fuzz targets: the size of a file and of its parts, and the parts that the store has, by the lines of a journal.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_upload_journal(lines: &[u8]) -> Option<(u64, u64, Vec<KnownPart>)> {
    let earlier = EarlierUpload::read(lines).ok()??;
    Some((
        earlier.record.size,
        earlier.record.part_bytes,
        earlier.parts,
    ))
}

/// For fuzz targets: the line of a part.
#[cfg(feature = "fuzzing")]
pub(crate) fn upload_journal_line(part: &KnownPart) -> Vec<u8> {
    line(&part_record(part)).unwrap_or_default()
}

impl UploadJournal {
    /// Opens or creates the journal of a file and an object, named by its store; `None` if another process has it.
    pub(super) fn open(directory: &Path, file: &Path, object: &str) -> io::Result<Option<Self>> {
        std::fs::create_dir_all(directory)?;
        let absolute = std::fs::canonicalize(file)?;
        let mut key = absolute.into_os_string().into_encoded_bytes();
        key.push(0);
        key.extend_from_slice(object.as_bytes());
        let name = blake3::hash(&key).to_hex();
        let path = directory.join(format!("{}.upload", &name[..32]));
        for _ in 0..MAX_OPENS {
            let file = open_file(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // Whoever had the lock may have removed the file, or put another in its place.
            let at_path = std::fs::metadata(&path).map(|metadata| metadata.ino());
            if at_path.is_ok_and(|inode| file.metadata().is_ok_and(|own| own.ino() == inode)) {
                return Ok(Some(Self { path, file }));
            }
        }
        Ok(None)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier run left, if it can be read.
    pub(super) fn read(&mut self) -> io::Result<Option<EarlierUpload>> {
        self.file.rewind()?;
        EarlierUpload::read(BufReader::new(&self.file))
    }

    /// Begins anew with this upload, and with parts that count.
    pub(super) fn restart<'a>(
        &mut self,
        record: &UploadRecord,
        parts: impl Iterator<Item = &'a KnownPart>,
    ) -> io::Result<()> {
        let mut text = line(record)?;
        for part in parts {
            text.extend(line(&part_record(part))?);
        }
        // Beside the old one, which a kill must leave or replace as a whole: else nobody would know the upload.
        let fresh_path = self.path.with_extension("new");
        match std::fs::remove_file(&fresh_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut fresh = open_file(&fresh_path)?;
        flock(&fresh, FlockOperation::NonBlockingLockExclusive)?;
        fresh.write_all(&text)?;
        // A power cut must not leave an upload that nobody knows of.
        fresh.sync_data()?;
        std::fs::rename(&fresh_path, &self.path)?;
        self.file = fresh;
        Ok(())
    }

    /// The store has a part.
    pub(super) fn add(&mut self, part: &KnownPart) -> io::Result<()> {
        self.file.write_all(&line(&part_record(part))?)
    }

    /// The upload is over.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

impl Drop for UploadJournal {
    /// Releases the lock. Closing the file alone does not while a process that was forked has a copy of its descriptor.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Opens a journal for reading, and for writing at its end.
fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    // The name of a file, its store and the identifier of an upload are nobody else's business.
    options.mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

fn part_record(part: &KnownPart) -> PartRecord {
    PartRecord {
        part: part.number,
        size: part.size,
        etag: part.etag.clone(),
        crc64nvme: part.crc64nvme.unwrap_or_default(),
        wanted: part.wanted.as_ref().and_then(checksum_text),
    }
}

/// A checksum as `--checksum` writes it.
fn checksum_text(checksum: &Checksum) -> Option<String> {
    let digest = hex(checksum.digest.as_deref()?);
    Some(format!("{}:{digest}", checksum.algorithm))
}

fn line(record: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(record)?;
    Ok(format!("{:08x} {json}\n", crc32c(json.as_bytes())).into_bytes())
}

/// The next line; `None` at the end, or at a line that is damaged.
fn read_line<T: for<'de> Deserialize<'de>>(lines: &mut impl io::BufRead) -> io::Result<Option<T>> {
    let mut text = Vec::new();
    io::Read::take(&mut *lines, MAX_LINE).read_until(b'\n', &mut text)?;
    let record = || {
        let text = str::from_utf8(text.strip_suffix(b"\n")?).ok()?;
        let (crc, json) = text.split_once(' ')?;
        let is_whole = u32::from_str_radix(crc, 16) == Ok(crc32c(json.as_bytes()));
        serde_json::from_str(json).ok().filter(|_| is_whole)
    };
    Ok(record())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> FileSnapshot {
        FileSnapshot {
            size: 100,
            modified: 5,
            changed: 6,
            inode: 7,
            mode: 0o644,
        }
    }

    fn part(number: u32) -> KnownPart {
        KnownPart {
            number,
            size: 10,
            etag: format!("e{number}"),
            crc64nvme: Some(u64::from(number)),
            wanted: (number == 2).then(|| format!("sha1:{}", "0a".repeat(20)).parse().unwrap()),
        }
    }

    /// A journal with two parts in a directory of its own.
    fn written(directory: &Path) -> (PathBuf, &'static str, UploadRecord) {
        let file = directory.join("f");
        std::fs::write(&file, "x").unwrap();
        let object = "store b k";
        let record = UploadRecord::new((&file, snapshot()), "s3://b/k", "id", 10, "s".to_owned());
        let mut journal = UploadJournal::open(directory, &file, object)
            .unwrap()
            .unwrap();
        assert!(journal.read().unwrap().is_none());
        journal.restart(&record, [part(1)].iter()).unwrap();
        journal.add(&part(2)).unwrap();
        (file, object, record)
    }

    #[test]
    fn a_later_run_reads_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let (file, object, record) = written(directory.path());
        let mut journal = UploadJournal::open(directory.path(), &file, object)
            .unwrap()
            .unwrap();
        assert!(
            UploadJournal::open(directory.path(), &file, object)
                .unwrap()
                .is_none()
        );
        let found = journal.read().unwrap().unwrap();
        assert_eq!(
            (found.record, found.parts),
            (record, vec![part(1), part(2)])
        );
        journal.remove().unwrap();
        let mut journal = UploadJournal::open(directory.path(), &file, object)
            .unwrap()
            .unwrap();
        assert!(journal.read().unwrap().is_none());
    }

    #[test]
    fn the_lock_ends_with_its_value_though_a_forked_process_has_the_file_open() {
        let directory = tempfile::tempdir().unwrap();
        let (file, object, _) = written(directory.path());
        let open = || UploadJournal::open(directory.path(), &file, object).unwrap();
        let journal = open().unwrap();
        let copy = journal.file.try_clone().unwrap();
        drop(journal);
        assert!(open().is_some());
        drop(copy);
    }

    #[test]
    fn f12_another_file_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let (.., record) = written(directory.path());
        assert!(record.is_of(snapshot(), "s") && !record.is_of(snapshot(), "other"));
        for other in [
            FileSnapshot {
                size: 101,
                ..snapshot()
            },
            FileSnapshot {
                modified: 6,
                ..snapshot()
            },
            FileSnapshot {
                changed: 7,
                ..snapshot()
            },
            FileSnapshot {
                inode: 8,
                ..snapshot()
            },
        ] {
            assert!(!record.is_of(other, "s"));
        }
    }

    /// A kill may cut the last line, and a disk may damage any: what comes before is right.
    #[test]
    fn damage_costs_the_lines_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let (file, object, _) = written(directory.path());
        let path = UploadJournal::open(directory.path(), &file, object)
            .unwrap()
            .unwrap()
            .path
            .clone();
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            for damaged in [whole[..cut].to_vec(), {
                let mut bytes = whole.clone();
                bytes[cut] ^= 1;
                bytes
            }] {
                std::fs::write(&path, damaged).unwrap();
                let mut journal = UploadJournal::open(directory.path(), &file, object)
                    .unwrap()
                    .unwrap();
                let parts = journal
                    .read()
                    .unwrap()
                    .map_or_else(Vec::new, |found| found.parts);
                assert!(parts.len() < 2, "{cut}");
                assert!(parts.iter().all(|found| *found == part(1)));
            }
        }
    }
}
