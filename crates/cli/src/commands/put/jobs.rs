//! What `haul put` uploads: files, folders and standard input, each with its key and what the object will be.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_net::UserCredentials;
use haul_plan::filename::has_reserved_suffix;
use haul_plan::sync::ObjectDigests;
use haul_plan::{Checksum, DigestAlgorithm, KeyFilter};
use haul_s3::S3Address;
use haul_transfer::manifest::{ManifestRow, PreviousRuns};
use haul_transfer::put::{UploadInput, UploadJob, UploadTarget};
use haul_transfer::sync::file_has_content;
use haul_transfer::{FolderName, FolderProblem, FolderProblemKind, FolderWalk};
use http::{HeaderMap, HeaderValue};

use super::super::uploads::{BadInput, FoundUpload, ObjectHeaders, field_value, folder_problem};
use crate::args::{ObjectArgs, PutArgs, PutConditionArgs, StorageArgs};
use crate::exit::ExitReason;
use crate::message;
use crate::settings::complete_passwords;
use crate::sys::stdin_closed;

/// The uploads of a command, found as they are needed: folders may have millions of files.
pub(super) struct PutJobs {
    is_recursive: bool,
    filter: KeyFilter,
    target: UploadTarget,
    /// Whether each file gets a key below the target.
    is_prefix: bool,
    headers: ObjectHeaders,
    conditions: HeaderMap,
    waiting: VecDeque<String>,
    claimed: ClaimedTargets,
    list: Option<PathList>,
    /// The folder that is being walked.
    folder: Option<FolderWalk>,
    follows_links: bool,
    /// What earlier runs have uploaded.
    previous: Option<PreviousRuns>,
    pub(super) done_earlier: Arc<AtomicU64>,
    /// Files of folders that the filter leaves out.
    pub(super) unmatched: Arc<AtomicU64>,
    /// Partial files of haul in folders, which are left out.
    pub(super) partial_files: Arc<AtomicU64>,
    next_id: u64,
}

impl PutJobs {
    /// # Errors
    /// Words that make no upload.
    pub(super) fn new(args: &PutArgs) -> Result<Self, BadInput> {
        let (target, inputs) = args
            .words
            .split_last()
            .ok_or_else(|| BadInput::new("there is nothing to upload"))?;
        let mut target = parse_target(target)?;
        check_flags(args, &target)?;
        if let UploadTarget::Url(url) = &mut target
            && !args.login.is_given()
        {
            complete_passwords([url].into_iter(), &UserCredentials::default())
                .map_err(|error| BadInput::new(message::chain_text(&error)))?;
        }
        if inputs.is_empty() && args.input.is_none() {
            return Err(BadInput::new("there is nothing to upload")
                .with_hint("haul put FILE... s3://BUCKET/PREFIX/"));
        }
        let has_several = inputs.len() > 1 || args.recursive || args.input.is_some();
        if has_several && !target.is_prefix() {
            add_slash(&mut target);
        }
        let is_prefix = target.is_prefix();
        if inputs.contains(&"-".to_owned()) && is_prefix {
            return Err(BadInput::new("standard input has no name")
                .with_hint("upload it alone, to s3://BUCKET/KEY"));
        }
        if args.expected_size.is_some() && !inputs.contains(&"-".to_owned()) {
            let text = "--expected-size is about standard input";
            return Err(BadInput::new(text).with_hint("haul put - s3://BUCKET/KEY"));
        }
        let reads_stdin = |name: &str| name == "-";
        let list = args.input.as_deref().and_then(Path::to_str);
        let is_read = inputs
            .iter()
            .map(String::as_str)
            .chain(list)
            .any(reads_stdin);
        if is_read && stdin_closed() {
            return Err(BadInput::new("standard input is closed"));
        }
        let is_object = matches!(target, UploadTarget::Object(_));
        Ok(Self {
            is_recursive: args.recursive,
            filter: args.filter.filter.clone(),
            target,
            is_prefix,
            headers: object_headers(args, is_object)?,
            conditions: conditions(&args.conditions)?,
            waiting: inputs.iter().cloned().collect(),
            // The names below one folder are all different.
            claimed: ClaimedTargets::new(inputs.len() > 1 || args.input.is_some()),
            list: args.input.as_deref().map(PathList::open).transpose()?,
            folder: None,
            follows_links: args.follow_links,
            previous: None,
            done_earlier: Arc::default(),
            unmatched: Arc::default(),
            partial_files: Arc::default(),
            next_id: 0,
        })
    }

    /// Leaves files out that earlier runs have uploaded.
    pub(super) fn without(self, previous: PreviousRuns) -> Self {
        Self {
            previous: Some(previous),
            ..self
        }
    }

    /// Whether the files become objects of a store.
    pub(super) fn is_for_store(&self) -> bool {
        matches!(self.target, UploadTarget::Object(_))
    }

    /// How many files there are, if that is known before any folder is read.
    pub(super) fn known_count(&self) -> Option<usize> {
        let is_known = !self.is_recursive && self.list.is_none() && self.previous.is_none();
        is_known.then_some(self.waiting.len())
    }

    fn next_input(&mut self, input: &str) -> Option<FoundUpload> {
        if input == "-" {
            let headers = self.headers.of(Path::new(""), None);
            return Some(
                headers.map(|headers| self.job(UploadInput::Stdin, self.target.clone(), headers)),
            );
        }
        let path = Path::new(input);
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return Some(Err(BadInput::new(format!("cannot read {input}: {error}")))),
        };
        if metadata.is_dir() {
            if !self.is_recursive {
                return Some(Err(BadInput {
                    exit: ExitReason::Usage,
                    hint: Some("-r uploads everything below it".into()),
                    ..BadInput::new(format!("{input} is a folder"))
                }));
            }
            return match FolderWalk::open(path, self.follows_links) {
                Ok(walk) => {
                    self.folder = Some(walk);
                    None
                }
                Err(error) => Some(Err(BadInput::new(format!("cannot read {input}: {error}")))),
            };
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.named_file(path, Path::new(name))
    }

    /// The upload of a file that an argument or a list names.
    fn named_file(&mut self, path: &Path, name: &Path) -> Option<FoundUpload> {
        let found = FolderName {
            name: name.into(),
            path: path.to_owned(),
        };
        match found.metadata() {
            Ok(metadata) => self.file(path, name, &metadata),
            Err(problem) => Some(Err(match problem.kind {
                FolderProblemKind::NotAFile(_) if !path.is_dir() => BadInput {
                    exit: ExitReason::Usage,
                    ..BadInput::new(problem.to_string())
                        .with_hint("a pipe goes to standard input: haul put - TARGET < PIPE")
                },
                _ => BadInput::new(problem.to_string()),
            })),
        }
    }

    /// The next file of the folder that is being walked.
    fn next_in_folder(&mut self) -> Option<FoundUpload> {
        loop {
            let Some(found) = self.folder.as_mut()?.next() else {
                self.folder = None;
                return None;
            };
            let upload = match found {
                Ok(found) => self.found(&found),
                Err(problem) if self.is_excluded(&problem) => None,
                Err(problem) => Some(Err(folder_problem(&problem))),
            };
            if upload.is_some() {
                return upload;
            }
        }
    }

    /// The upload of a name in a folder; `None` if it is left out.
    fn found(&mut self, found: &FolderName) -> Option<FoundUpload> {
        let key = found.name.to_string_lossy();
        // Partial files of haul are no files yet.
        let left_out = match has_reserved_suffix(&key) {
            _ if !self.filter.accepts(&key) => &self.unmatched,
            true => &self.partial_files,
            false => {
                return match found.metadata() {
                    Ok(metadata) => self.file(&found.path, Path::new(&found.name), &metadata),
                    Err(problem) => Some(Err(folder_problem(&problem))),
                };
            }
        };
        left_out.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether the filter leaves out everything below a folder.
    fn is_excluded(&self, problem: &FolderProblem) -> bool {
        self.filter.excludes_folder(&problem.name.to_string_lossy())
    }

    /// The upload of a file; `None` if the command has it already.
    fn file(&mut self, path: &Path, name: &Path, metadata: &Metadata) -> Option<FoundUpload> {
        let target = match self.is_prefix {
            false => Ok(self.target.clone()),
            true => self.target.below(name),
        };
        let is_not_uploaded = format!("{} is not uploaded", path.display());
        let target = match target {
            Ok(target) => target,
            Err(error) => return Some(Err(BadInput::new(format!("{is_not_uploaded}: {error}")))),
        };
        match self.claimed.claim(&target, path) {
            TargetClaim::Claimed => {}
            TargetClaim::Repeated => return None,
            TargetClaim::Taken => {
                let name = name.display();
                let text = format!("{is_not_uploaded}: another {name} of this command was");
                return Some(Err(BadInput {
                    exit: ExitReason::Usage,
                    ..BadInput::new(text).with_hint("upload it to another prefix")
                }));
            }
        }
        let headers = self.headers.of(name, Some(metadata));
        Some(headers.map(|headers| self.job(UploadInput::File(path.to_owned()), target, headers)))
    }

    fn job(&mut self, input: UploadInput, target: UploadTarget, headers: HeaderMap) -> UploadJob {
        let id = self.next_id;
        self.next_id += 1;
        UploadJob {
            id,
            input,
            target,
            headers,
            conditions: self.conditions.clone(),
        }
    }
}

impl PutJobs {
    /// The next file of a list.
    fn next_listed(&mut self) -> Option<FoundUpload> {
        loop {
            let list = self.list.as_mut()?;
            let line = match list.lines.next()? {
                Ok(line) => line,
                Err(error) => {
                    let text = format!("-i: cannot read {}: {error}", list.name);
                    self.list = None;
                    return Some(Err(BadInput::new(text)));
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
        loop {
            if let Some(job) = self.next_in_folder() {
                return Some(job);
            }
            let found = match self.waiting.pop_front() {
                Some(input) => self.next_input(&input),
                None => Some(self.next_listed()?),
            };
            if let Some(job) = found {
                return Some(job);
            }
        }
    }
}

impl Iterator for PutJobs {
    type Item = FoundUpload;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = self.next_found()?;
            match (&found, &self.previous) {
                (Ok(job), Some(previous)) if is_done(previous, job) => {
                    self.done_earlier.fetch_add(1, Ordering::Relaxed);
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

/// Paths of a list, a line each.
struct PathList {
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

/// The targets of a command, where two files might have one: the second would replace the first. They are remembered by 64 bits of a hash, so
/// that a list of millions costs little. That two of a million targets share these happens once in 40 million lists; a file is refused then.
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
    fn open(path: &Path) -> Result<Self, BadInput> {
        if path.as_os_str() == "-" {
            let lines: Box<dyn BufRead + Send> = Box::new(io::BufReader::new(io::stdin()));
            return Ok(Self {
                name: "standard input".to_owned(),
                lines: lines.split(b'\n'),
            });
        }
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| BadInput::new(format!("-i: cannot read {name}: {error}")))?;
        let lines: Box<dyn BufRead + Send> = Box::new(io::BufReader::new(file));
        Ok(Self {
            name,
            lines: lines.split(b'\n'),
        })
    }
}

/// The conditions under which an object is published.
fn conditions(args: &PutConditionArgs) -> Result<HeaderMap, BadInput> {
    let mut conditions = HeaderMap::new();
    if args.if_none_match {
        conditions.insert(http::header::IF_NONE_MATCH, HeaderValue::from_static("*"));
    }
    if let Some(etag) = &args.if_match {
        let etag = format!("\"{}\"", etag.trim_matches('"'));
        conditions.insert(http::header::IF_MATCH, field_value("--if-match", &etag)?);
    }
    Ok(conditions)
}

/// Parses where files go.
fn parse_target(text: &str) -> Result<UploadTarget, BadInput> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        let address: Result<S3Address, _> = text.parse();
        return address.map(UploadTarget::Object).map_err(|error| {
            BadInput::new(error.to_string()).with_hint(
                "the last word says where to: s3://BUCKET/KEY, s3://BUCKET/PREFIX/ or https://HOST/PATH",
            )
        });
    }
    let url = haul_net::parse_url(text).map_err(|error| {
        BadInput::new(format!(
            "{} is no URL: {error}",
            haul_net::redacted_text(text)
        ))
    })?;
    Ok(UploadTarget::Url(url))
}

/// Flags that mean nothing for the kind of target are mistakes.
fn check_flags(args: &PutArgs, target: &UploadTarget) -> Result<(), BadInput> {
    if matches!(target, UploadTarget::Object(_)) {
        return match args.login.is_given() {
            true => Err(BadInput::new(
                "-H, -u, --bearer and --netrc are for http:// and https:// URLs",
            )
            .with_hint("S3 has --metadata for objects, and --profile for credentials")),
            false => Ok(()),
        };
    }
    let ObjectArgs {
        metadata,
        tag,
        storage,
        ..
    } = &args.object;
    let StorageArgs {
        storage_class,
        acl,
        sse,
        sse_kms_key_id: _,
    } = storage;
    let for_objects = [
        ("--metadata", !metadata.is_empty()),
        ("--tag", !tag.is_empty()),
        ("--storage-class", storage_class.is_some()),
        ("--acl", acl.is_some()),
        ("--sse", sse.is_some()),
        ("--checksum", args.conditions.checksum.is_some()),
        ("--no-preserve", args.object.no_preserve),
    ];
    match for_objects.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(BadInput::new(format!(
            "{flag} is for s3:// addresses, not for URLs"
        ))),
        None => Ok(()),
    }
}

/// The fields of all files. Only objects keep the time and mode of a file.
fn object_headers(args: &PutArgs, is_object: bool) -> Result<ObjectHeaders, BadInput> {
    let headers = ObjectHeaders::new(&args.object)?;
    Ok(match is_object {
        true => headers,
        false => headers.without_file_attributes(),
    })
}

fn add_slash(target: &mut UploadTarget) {
    match target {
        UploadTarget::Object(address) => address.key.push('/'),
        UploadTarget::Url(url) => url.set_path(&format!("{}/", url.path())),
    }
}
