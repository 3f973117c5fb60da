//! Counts the bytes of all files in a tree, once for each name.
//!
//! Leaves out the store's temporary folder and the temporary files of uploads: those count as
//! reserved bytes. What is stored with objects, and has files of its own there, counts.
//!
//! # Recounts
//!
//! Recounts in the background what the store holds, since other programs add and remove files.
//!
//! The recount walks the whole tree, for a tenth of a second every few seconds, so that a tree of
//! any size takes a few hundredths of one thread. It begins when an upload was refused, since the
//! count matters then, and otherwise at intervals. [`StorageQuota::finish_recount`] decides what of
//! the result to believe.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use tokio::time::Instant;

use super::attribute_records;
use super::quota::{RecountStart, StorageQuota};
use super::root::StoreRoot;
use crate::key::{RESERVED_NAME, is_reserved};

/// Maximum depth of folders: each level holds a descriptor open.
const MAX_DEPTH: usize = 256;

/// A walk that proceeds in steps.
#[derive(Debug)]
pub(super) struct UsageWalk {
    /// The folder that is being read, and its parents.
    open_folders: Vec<Dir>,
    /// Bytes so far.
    bytes: u64,
}

/// Bytes of all files beneath a folder. Ignores what cannot be looked up.
pub(super) fn folder_bytes(folder: impl AsFd) -> u64 {
    let mut walk = UsageWalk::new(folder);
    loop {
        if let Some(sum) = walk.step(|| false) {
            return sum;
        }
    }
}

/// Bytes that an entry of a folder counts: the length of a regular file, otherwise none.
pub(super) fn file_bytes(folder: impl AsFd, name: &[u8]) -> u64 {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(0, |stat| match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => stat.st_size.try_into().unwrap_or(0),
        _ => 0,
    })
}

impl UsageWalk {
    pub(super) fn new(folder: impl AsFd) -> Self {
        Self {
            open_folders: Dir::read_from(folder).into_iter().collect(),
            bytes: 0,
        }
    }

    /// Handles at least one entry, and more until `is_enough`. Returns the sum when the walk is
    /// done.
    pub(super) fn step(&mut self, mut is_enough: impl FnMut() -> bool) -> Option<u64> {
        let mut depth = self.open_folders.len();
        while let Some(dir) = self.open_folders.last_mut() {
            match dir.read() {
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    let is_self = matches!(name.to_bytes(), b"." | b"..");
                    if depth == 1 && name.to_bytes() == RESERVED_NAME.as_bytes() {
                        let records = format!("{RESERVED_NAME}/{}", attribute_records::FOLDER);
                        let records = open(dir, records);
                        self.open_folders.extend(records);
                    } else if !is_self && !is_reserved(depth == 1, name.to_bytes()) {
                        let (more, folder) = look_up(dir, name);
                        self.bytes = self.bytes.saturating_add(more);
                        self.open_folders
                            .extend(folder.filter(|_| depth <= MAX_DEPTH));
                    }
                }
                // The folder ends, or was removed meanwhile.
                None | Some(Err(_)) => {
                    self.open_folders.pop();
                }
            }
            depth = self.open_folders.len();
            if depth > 0 && is_enough() {
                return None;
            }
        }
        Some(self.bytes)
    }
}

/// The bytes of an entry, or the entry opened if it is a folder.
fn look_up(dir: &Dir, name: &CStr) -> (u64, Option<Dir>) {
    let stat = dir
        .fd()
        .and_then(|dir| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW));
    match stat.map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_size)) {
        Ok((FileType::RegularFile, len)) => (len.try_into().unwrap_or(0), None),
        Ok((FileType::Directory, _)) => (0, open(dir, name)),
        _ => (0, None),
    }
}

fn open(dir: &Dir, name: impl rustix::path::Arg) -> Option<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir.fd().ok()?, name, flags, Mode::empty()).ok()?;
    Dir::new(opened).ok()
}

/// How long it walks at a time.
const STEP: Duration = Duration::from_millis(100);

/// The time between two recounts without a refusal.
const INTERVAL: Duration = Duration::from_secs(600);

/// The recount in progress, or the next one.
#[derive(Debug)]
pub(super) struct QuotaRecount {
    state: Mutex<QuotaRecountState>,
}

#[derive(Debug)]
struct QuotaRecountState {
    /// The count at its beginning, and the walk.
    walk: Option<(RecountStart, UsageWalk)>,
    /// When the last recount ended.
    ended: Instant,
}

impl QuotaRecount {
    /// The store was counted just now.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(QuotaRecountState {
                walk: None,
                ended: Instant::now(),
            }),
        }
    }

    /// Continues the recount if one is due. To be called every few seconds; waits for a disk.
    pub(super) fn step(&self, quota: &StorageQuota, root: &StoreRoot) {
        if !quota.is_limited() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        if state.walk.is_none() {
            let is_due = quota.take_refused() || started - state.ended >= INTERVAL;
            // Changes from here on are known to happen during the walk.
            let begin = || (quota.begin_recount(), UsageWalk::new(root.top()));
            state.walk = is_due.then(begin);
        }
        let Some((since, walk)) = &mut state.walk else {
            return;
        };
        if let Some(found) = walk.step(|| started.elapsed() >= STEP) {
            quota.finish_recount(*since, found);
            state.walk = None;
            state.ended = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;

    use super::*;

    #[test]
    fn a_walk_in_steps_counts_all_files_but_the_stores_own() {
        let folder = tempfile::tempdir().expect("a directory");
        for (path, len) in [
            ("a", 1),
            ("b/c/d", 10),
            ("b/e", 100),
            (".haul/strays", 1000),
            ("b/.haul-put-1", 10_000),
            ("b/.haul", 100_000),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, vec![0; len]).expect("a file");
        }
        std::os::unix::fs::symlink("a", folder.path().join("link")).expect("a link");
        let top = File::open(folder.path()).expect("the folder");
        assert_eq!(folder_bytes(&top), 100_111);
        let mut walk = UsageWalk::new(&top);
        let mut steps = 0;
        let sum = loop {
            steps += 1;
            if let Some(sum) = walk.step(|| true) {
                break sum;
            }
        };
        assert!(sum == 100_111 && steps > 8, "{sum} in {steps}");
    }
}
