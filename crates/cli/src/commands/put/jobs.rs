//! What `haul put` uploads: files, folders and standard input, each with its key and what the object will be.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
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
use http::{HeaderMap, HeaderValue};
use url::Url;
use walkdir::WalkDir;

use super::super::uploads::{BadInput, FoundUpload, ObjectHeaders, field_value};
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
    /// The names of files that arguments have named. A later one of the same name would replace the object.
    names: HashSet<OsString>,
    list: Option<PathList>,
    folder: Option<FolderWalk>,
    /// What earlier runs have uploaded.
    previous: Option<PreviousRuns>,
    pub(super) done_earlier: Arc<AtomicU64>,
    /// Files of folders that the filter leaves out.
    pub(super) unmatched: Arc<AtomicU64>,
    /// Partial files of haul in folders, which are left out.
    pub(super) partial_files: Arc<AtomicU64>,
    next_id: u64,
}

/// A folder that is being walked.
struct FolderWalk {
    root: PathBuf,
    files: walkdir::IntoIter,
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
            names: HashSet::new(),
            list: args.input.as_deref().map(PathList::open).transpose()?,
            folder: None,
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
            let headers = self.headers.of("", None);
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
                    hint: Some("-r uploads everything below it"),
                    ..BadInput::new(format!("{input} is a folder"))
                }));
            }
            self.folder = Some(FolderWalk {
                root: path.to_owned(),
                files: WalkDir::new(path).sort_by_file_name().into_iter(),
            });
            return None;
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        if !self.names.insert(name.to_owned()) {
            let text = format!(
                "{input} is not uploaded: another {} of this command was",
                name.display()
            );
            return Some(Err(BadInput {
                exit: ExitReason::Usage,
                ..BadInput::new(text).with_hint("upload it to another prefix")
            }));
        }
        Some(self.file(path, Path::new(name), &metadata))
    }

    /// The next file of the folder that is being walked.
    fn next_in_folder(&mut self) -> Option<FoundUpload> {
        loop {
            let folder = self.folder.as_mut()?;
            let Some(entry) = folder.files.next() else {
                self.folder = None;
                return None;
            };
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(BadInput::new(error.to_string()))),
            };
            // A link to a file is followed; a link to a folder may lead back here.
            let metadata = match std::fs::metadata(entry.path()) {
                Ok(metadata) if metadata.is_file() => metadata,
                Ok(_) => continue,
                Err(error) => {
                    let text = format!("cannot read {}: {error}", entry.path().display());
                    return Some(Err(BadInput::new(text)));
                }
            };
            let below = entry
                .path()
                .strip_prefix(&folder.root)
                .unwrap_or_else(|_| entry.path())
                .to_owned();
            // Partial files of haul are no files yet.
            let left_out = match below.to_str() {
                Some(key) if !self.filter.accepts(key) => &self.unmatched,
                Some(key) if has_reserved_suffix(key) => &self.partial_files,
                _ => return Some(self.file(entry.path(), &below, &metadata)),
            };
            left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn file(&mut self, path: &Path, name: &Path, metadata: &Metadata) -> FoundUpload {
        let Some(name) = name.to_str() else {
            let text = format!("the name {} is not UTF-8, and keys are", path.display());
            return Err(BadInput::new(text));
        };
        let target = match self.is_prefix {
            true => self.target.below(name),
            false => self.target.clone(),
        };
        let headers = self.headers.of(name, Some(metadata))?;
        Ok(self.job(UploadInput::File(path.to_owned()), target, headers))
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
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                continue;
            }
            let mut name = line.trim_start_matches('/');
            while let Some(rest) = name.strip_prefix("./") {
                name = rest.trim_start_matches('/');
            }
            let path = Path::new(line);
            return Some(match std::fs::metadata(path) {
                Ok(metadata) => self.file(path, Path::new(name), &metadata),
                Err(error) => Err(BadInput::new(format!("cannot read {line}: {error}"))),
            });
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
    lines: io::Lines<Box<dyn BufRead + Send>>,
}

impl PathList {
    fn open(path: &Path) -> Result<Self, BadInput> {
        if path.as_os_str() == "-" {
            let lines: Box<dyn BufRead + Send> = Box::new(io::BufReader::new(io::stdin()));
            return Ok(Self {
                name: "standard input".to_owned(),
                lines: lines.lines(),
            });
        }
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| BadInput::new(format!("-i: cannot read {name}: {error}")))?;
        let lines: Box<dyn BufRead + Send> = Box::new(io::BufReader::new(file));
        Ok(Self {
            name,
            lines: lines.lines(),
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
    let url: Url = text.parse().map_err(|error| {
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
