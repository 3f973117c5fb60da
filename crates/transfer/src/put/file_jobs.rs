//! The uploads of files, folders, lists of paths and standard input, each with its target and its header fields.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

use haul_plan::{Checksum, DigestAlgorithm};
use http::HeaderMap;
use tokio_util::sync::CancellationToken;

use super::job_source::FoundUpload;
use super::object_headers::ObjectHeaders;
use super::options::{UploadInput, UploadJob, UploadTarget};
use crate::bucket::KeyFilter;
use crate::filename::has_reserved_suffix;
use crate::folder_walk::{FolderName, FolderProblem, FolderWalk};
use crate::input_error::InputError;
use crate::manifest::{ManifestRow, PreviousRuns};
use crate::sync::{ObjectDigests, file_has_content};

/// What is uploaded, and to where.
#[derive(Debug)]
pub struct FileJobSettings {
    /// Files, folders and standard input. There are no objects among them.
    pub inputs: Vec<UploadInput>,
    /// More files, read as they are needed.
    pub list: Option<PathList>,
    /// Whether folders are walked. Otherwise they are failures.
    pub is_recursive: bool,
    /// Whether links to folders below these are followed.
    pub follows_links: bool,
    /// Which files of folders are meant.
    pub filter: KeyFilter,
    /// Where they go. If it ends with a slash, each file gets a target below it.
    pub target: UploadTarget,
    /// The fields of each file.
    pub headers: ObjectHeaders,
    /// If-Match and If-None-Match.
    pub conditions: HeaderMap,
}

/// The uploads of files, found as they are needed: folders may have millions.
#[derive(Debug)]
pub struct FileJobs {
    settings: FileJobSettings,
    waiting: VecDeque<UploadInput>,
    claimed: ClaimedTargets,
    /// The folder that is being walked.
    folder: Option<FolderWalk>,
    /// What earlier runs have uploaded.
    previous: Option<PreviousRuns>,
    counts: Arc<LeftOutCounts>,
    next_id: u64,
    stop: CancellationToken,
}

/// Files that are left out and are not failures. Counted while the walk finds others.
#[derive(Debug, Default)]
pub struct LeftOutCounts {
    /// Files that an earlier run has uploaded.
    pub done_earlier: AtomicU64,
    /// Files of folders that the filter leaves out.
    pub unmatched: AtomicU64,
    /// Partial files of haul in folders.
    pub partial_files: AtomicU64,
}

impl FileJobs {
    /// The uploads of these inputs, but for files that earlier runs have uploaded and nobody has changed since. They end when they are stopped.
    #[must_use]
    pub fn new(
        mut settings: FileJobSettings,
        previous: Option<PreviousRuns>,
        stop: CancellationToken,
    ) -> Self {
        let inputs = std::mem::take(&mut settings.inputs);
        Self {
            // The names below one folder are all different.
            claimed: ClaimedTargets::new(inputs.len() > 1 || settings.list.is_some()),
            waiting: inputs.into(),
            settings,
            folder: None,
            previous,
            counts: Arc::default(),
            next_id: 0,
            stop,
        }
    }

    /// What is left out.
    #[must_use]
    pub fn counts(&self) -> Arc<LeftOutCounts> {
        Arc::clone(&self.counts)
    }

    /// How many files there are, if that is known before any folder is read.
    #[must_use]
    pub fn known_count(&self) -> Option<usize> {
        let settings = &self.settings;
        let is_known = !settings.is_recursive && settings.list.is_none() && self.previous.is_none();
        is_known.then_some(self.waiting.len())
    }

    fn next_input(&mut self, input: UploadInput) -> Option<FoundUpload> {
        let path = match input {
            UploadInput::File(path) => path,
            input => {
                let headers = self.settings.headers.for_file(Path::new(""), None);
                return Some(Ok(self.job(input, self.settings.target.clone(), headers)));
            }
        };
        let unreadable = |source| InputError::Unreadable {
            name: path.display().to_string(),
            source,
        };
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => return Some(Err(unreadable(error))),
        };
        if !metadata.is_dir() {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_owned();
            return self.named_file(&path, Path::new(&name));
        }
        if !self.settings.is_recursive {
            return Some(Err(InputError::IsFolder(path)));
        }
        match FolderWalk::open(&path, self.settings.follows_links) {
            Ok(walk) => {
                self.folder = Some(walk);
                None
            }
            Err(error) => Some(Err(unreadable(error))),
        }
    }

    /// The upload of a file that an argument or a list names.
    fn named_file(&mut self, path: &Path, name: &Path) -> Option<FoundUpload> {
        let found = FolderName {
            name: name.into(),
            path: path.to_owned(),
        };
        match found.metadata() {
            Ok(metadata) => self.file(path, name, &metadata),
            Err(problem) => Some(Err(InputError::Named(problem))),
        }
    }

    /// The upload of what the walk of a folder has found; `None` if it is left out.
    fn in_folder(&mut self, found: Result<FolderName, FolderProblem>) -> Option<FoundUpload> {
        match found {
            Ok(found) => self.found(&found),
            Err(problem) if self.is_excluded(&problem) => None,
            Err(problem) => Some(Err(InputError::InFolder(problem))),
        }
    }

    /// The upload of a name in a folder; `None` if it is left out.
    fn found(&mut self, found: &FolderName) -> Option<FoundUpload> {
        let key = found.name.to_string_lossy();
        // Partial files of haul are not files yet.
        let left_out = match has_reserved_suffix(&key) {
            _ if !self.settings.filter.accepts(&key) => &self.counts.unmatched,
            true => &self.counts.partial_files,
            false => {
                return match found.metadata() {
                    Ok(metadata) => self.file(&found.path, Path::new(&found.name), &metadata),
                    Err(problem) => Some(Err(InputError::InFolder(problem))),
                };
            }
        };
        left_out.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether the filter leaves out everything below a folder.
    fn is_excluded(&self, problem: &FolderProblem) -> bool {
        let name = problem.name.to_string_lossy();
        self.settings.filter.excludes_folder(&name)
    }

    /// The upload of a file; `None` if there is one already.
    fn file(&mut self, path: &Path, name: &Path, metadata: &Metadata) -> Option<FoundUpload> {
        let prefix = &self.settings.target;
        let target = if prefix.is_prefix() {
            prefix.below(name)
        } else {
            Ok(prefix.clone())
        };
        let path = path.to_owned();
        let target = match target {
            Ok(target) => target,
            Err(source) => return Some(Err(InputError::Name { path, source })),
        };
        match self.claimed.claim(&target, &path) {
            TargetClaim::Claimed => {}
            TargetClaim::Repeated => return None,
            TargetClaim::Taken => {
                let name = name.to_owned();
                return Some(Err(InputError::TargetTaken { path, name }));
            }
        }
        let headers = self.settings.headers.for_file(name, Some(metadata));
        Some(Ok(self.job(UploadInput::File(path), target, headers)))
    }

    fn job(&mut self, input: UploadInput, target: UploadTarget, headers: HeaderMap) -> UploadJob {
        let id = self.next_id;
        self.next_id += 1;
        UploadJob {
            id,
            input,
            target,
            headers,
            conditions: self.settings.conditions.clone(),
        }
    }

    fn next_listed(&mut self) -> Option<FoundUpload> {
        loop {
            let list = self.settings.list.as_mut()?;
            let line = match list.lines.next()? {
                Ok(line) => line,
                Err(source) => {
                    let name = std::mem::take(&mut list.name);
                    self.settings.list = None;
                    return Some(Err(InputError::List { name, source }));
                }
            };
            let path = path_of_line(&line);
            if path.as_os_str().is_empty() {
                continue;
            }
            let name = name_of_path(path);
            let upload = self.named_file(path, name);
            if upload.is_some() {
                return upload;
            }
        }
    }

    /// The next file, uploaded by an earlier run or not.
    fn next_found(&mut self) -> Option<FoundUpload> {
        // Nobody may want any of a million files that are left out, so this ends by itself.
        while !self.stop.is_cancelled() {
            let in_folder = self.folder.as_mut().map(Iterator::next);
            let upload = match in_folder {
                Some(Some(found)) => self.in_folder(found),
                Some(None) => {
                    self.folder = None;
                    None
                }
                None => match self.waiting.pop_front() {
                    Some(input) => self.next_input(input),
                    None => Some(self.next_listed()?),
                },
            };
            if upload.is_some() {
                return upload;
            }
        }
        None
    }
}

impl Iterator for FileJobs {
    type Item = FoundUpload;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = self.next_found()?;
            match (&found, &self.previous) {
                (Ok(job), Some(previous)) if is_done(previous, job) => {
                    self.counts.done_earlier.fetch_add(1, Ordering::Relaxed);
                }
                _ => return Some(found),
            }
        }
    }
}

/// Whether an earlier run has uploaded the file, and it has the same content still.
fn is_done(previous: &PreviousRuns, job: &UploadJob) -> bool {
    let UploadInput::File(path) = &job.input else {
        return false;
    };
    let Some(row) = previous.done_row(&job.target.to_string(), path.to_str()) else {
        return false;
    };
    let digests = ObjectDigests {
        checksums: row_checksums(&row),
        ..ObjectDigests::default()
    };
    let is_same_size = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == row.bytes);
    is_same_size && file_has_content(path, &digests).unwrap_or(false)
}

fn row_checksums(row: &ManifestRow) -> Vec<Checksum> {
    let checksum =
        |(algorithm, hex): &(DigestAlgorithm, String)| format!("{algorithm}:{hex}").parse().ok();
    row.checksums.iter().filter_map(checksum).collect()
}

/// Paths of a list, a line each. A path is also the part of the target behind the prefix, without `./` and `/` at its beginning.
pub struct PathList {
    name: String,
    lines: io::Split<Box<dyn BufRead + Send>>,
}

/// The path in a line. A list from Windows has a CR at the end of each, and the name of a file may have one, too.
fn path_of_line(line: &[u8]) -> &Path {
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    match line.strip_suffix(b"\r") {
        Some(before) if path(line).symlink_metadata().is_err() => path(before),
        _ => path(line),
    }
}

/// The part of a key that a listed path becomes: without `./` and `/` at its beginning.
fn name_of_path(path: &Path) -> &Path {
    let mut bytes = path.as_os_str().as_bytes();
    while let Some(rest) = bytes
        .strip_prefix(b"/")
        .or_else(|| bytes.strip_prefix(b"./"))
    {
        bytes = rest;
    }
    Path::new(OsStr::from_bytes(bytes))
}

/// The targets of a run, where two files might have one: the second would replace the first. They are remembered by 64 bits of a hash, so
/// that a list of millions costs little. That two of a million targets share these happens once in 40 million lists; a file is refused then.
#[derive(Debug)]
struct ClaimedTargets {
    /// Hashes of targets and of the files that go there; `None` where no target can repeat.
    claimed: Option<HashMap<u64, u64>>,
    hasher: RandomState,
}

/// Whether a file may go to its target.
#[derive(Debug, PartialEq, Eq)]
enum TargetClaim {
    Claimed,
    /// The same file goes there already.
    Repeated,
    /// Another file goes there.
    Taken,
}

impl ClaimedTargets {
    fn new(may_repeat: bool) -> Self {
        Self {
            claimed: may_repeat.then(HashMap::new),
            hasher: RandomState::new(),
        }
    }

    fn claim(&mut self, target: &UploadTarget, path: &Path) -> TargetClaim {
        let Some(claimed) = &mut self.claimed else {
            return TargetClaim::Claimed;
        };
        let path = self.hasher.hash_one(path.as_os_str());
        match claimed.insert(self.hasher.hash_one(target.to_string()), path) {
            None => TargetClaim::Claimed,
            Some(first) if first == path => TargetClaim::Repeated,
            Some(_) => TargetClaim::Taken,
        }
    }
}

impl PathList {
    /// The paths of a list in a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = io::BufReader::new(File::open(path)?);
        Ok(Self::new(path.display().to_string(), Box::new(file)))
    }

    /// The paths of a list on standard input.
    #[must_use]
    pub fn stdin() -> Self {
        let lines = io::BufReader::new(io::stdin());
        Self::new("standard input".to_owned(), Box::new(lines))
    }

    fn new(name: String, lines: Box<dyn BufRead + Send>) -> Self {
        let lines = lines.split(b'\n');
        Self { name, lines }
    }
}

impl fmt::Debug for PathList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PathList").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{KeyPattern, KeyRule};

    fn jobs_of(folder: &Path, rules: Vec<KeyRule>, stop: &CancellationToken) -> FileJobs {
        let settings = FileJobSettings {
            inputs: vec![UploadInput::File(folder.to_owned())],
            list: None,
            is_recursive: true,
            follows_links: false,
            filter: KeyFilter::new(rules),
            target: UploadTarget::Object("s3://bucket/".parse().unwrap()),
            headers: ObjectHeaders {
                common: HeaderMap::new(),
                keeps_attributes: false,
            },
            conditions: HeaderMap::new(),
        };
        FileJobs::new(settings, None, stop.clone())
    }

    #[test]
    fn a_walk_that_is_stopped_ends_whether_files_are_wanted_or_not() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let stop = CancellationToken::new();
        let mut wanted = jobs_of(folder.path(), Vec::new(), &stop);
        let left_out = vec![KeyRule::Exclude(KeyPattern::parse("*"))];
        let mut left_out = jobs_of(folder.path(), left_out, &stop);
        assert!(wanted.next().unwrap().is_ok());
        stop.cancel();
        assert!(wanted.next().is_none());
        assert!(left_out.next().is_none());
        assert_eq!(left_out.counts().unmatched.load(Ordering::Relaxed), 0);
    }
}
