//! What `haul put` uploads: files, folders and standard input, each with its key and what the object will be.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haul_s3::S3Address;
use haul_transfer::put::{UploadInput, UploadJob};
use http::{HeaderMap, HeaderName, HeaderValue};
use walkdir::WalkDir;

use crate::args::{ObjectArgs, PutArgs};

/// A file that cannot be uploaded.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct BadInput {
    pub(super) text: String,
    pub(super) hint: Option<&'static str>,
}

impl BadInput {
    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
        }
    }

    fn with_hint(self, hint: &'static str) -> Self {
        Self {
            hint: Some(hint),
            ..self
        }
    }
}

/// The uploads of a command, found as they are needed: folders may have millions of files.
pub(super) struct PutJobs<'a> {
    args: &'a PutArgs,
    target: S3Address,
    /// Whether each file gets a key below the target.
    is_prefix: bool,
    headers: ObjectHeaders,
    waiting: VecDeque<&'a str>,
    folder: Option<FolderWalk>,
    next_id: u64,
}

/// A folder that is being walked.
struct FolderWalk {
    root: PathBuf,
    files: walkdir::IntoIter,
}

impl<'a> PutJobs<'a> {
    /// # Errors
    /// Words that make no upload.
    pub(super) fn new(args: &'a PutArgs) -> Result<Self, BadInput> {
        let (target, inputs) = args
            .words
            .split_last()
            .ok_or_else(|| BadInput::new("there is nothing to upload"))?;
        let target: S3Address = target.parse().map_err(|error: haul_s3::S3AddressError| {
            BadInput::new(error.to_string())
                .with_hint("the last word says where to: s3://BUCKET/KEY, or s3://BUCKET/PREFIX/")
        })?;
        if inputs.is_empty() {
            return Err(BadInput::new("there is nothing to upload")
                .with_hint("haul put FILE... s3://BUCKET/PREFIX/"));
        }
        let is_prefix = target.is_prefix() || inputs.len() > 1;
        let mut target = target;
        if is_prefix && !target.is_prefix() || args.recursive && !target.is_prefix() {
            target.key.push('/');
        }
        if inputs.contains(&"-".to_owned()) && (is_prefix || args.recursive) {
            return Err(BadInput::new("standard input has no name")
                .with_hint("upload it alone, to s3://BUCKET/KEY"));
        }
        Ok(Self {
            args,
            target,
            is_prefix: is_prefix || args.recursive,
            headers: ObjectHeaders::new(&args.object)?,
            waiting: inputs.iter().map(String::as_str).collect(),
            folder: None,
            next_id: 0,
        })
    }

    /// How many files there are, if that is known before any folder is read.
    pub(super) fn known_count(&self) -> Option<usize> {
        (!self.args.recursive).then_some(self.waiting.len())
    }

    fn next_input(&mut self, input: &str) -> Option<Result<UploadJob, BadInput>> {
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
            if !self.args.recursive {
                let error = BadInput::new(format!("{input} is a folder"));
                return Some(Err(error.with_hint("-r uploads everything below it")));
            }
            self.folder = Some(FolderWalk {
                root: path.to_owned(),
                files: WalkDir::new(path).sort_by_file_name().into_iter(),
            });
            return None;
        }
        Some(self.file(
            path,
            path.file_name().map_or_else(|| Path::new(input), Path::new),
            &metadata,
        ))
    }

    /// The next file of the folder that is being walked.
    fn next_in_folder(&mut self) -> Option<Result<UploadJob, BadInput>> {
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
            let is_meant = below
                .to_str()
                .is_none_or(|key| self.args.filter.filter.accepts(key));
            if is_meant {
                return Some(self.file(entry.path(), &below, &metadata));
            }
        }
    }

    fn file(
        &mut self,
        path: &Path,
        name: &Path,
        metadata: &Metadata,
    ) -> Result<UploadJob, BadInput> {
        let Some(name) = name.to_str() else {
            let text = format!("the name {} is not UTF-8, and keys are", path.display());
            return Err(BadInput::new(text));
        };
        let target = match self.is_prefix {
            true => self.target.with_key(format!("{}{name}", self.target.key)),
            false => self.target.clone(),
        };
        let headers = self.headers.of(name, Some(metadata))?;
        Ok(self.job(UploadInput::File(path.to_owned()), target, headers))
    }

    fn job(&mut self, input: UploadInput, target: S3Address, headers: HeaderMap) -> UploadJob {
        let id = self.next_id;
        self.next_id += 1;
        UploadJob {
            id,
            input,
            target,
            headers,
            conditions: self.headers.conditions.clone(),
        }
    }
}

impl Iterator for PutJobs<'_> {
    type Item = Result<UploadJob, BadInput>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(job) = self.next_in_folder() {
                return Some(job);
            }
            let input = self.waiting.pop_front()?;
            if let Some(job) = self.next_input(input) {
                return Some(job);
            }
        }
    }
}

/// The fields of requests that store an object.
struct ObjectHeaders {
    /// For all objects.
    common: HeaderMap,
    conditions: HeaderMap,
    has_content_type: bool,
    preserves: bool,
}

impl ObjectHeaders {
    fn new(args: &ObjectArgs) -> Result<Self, BadInput> {
        let mut common = HeaderMap::new();
        let fields = [
            ("content-type", &args.content_type),
            ("cache-control", &args.cache_control),
            ("content-disposition", &args.content_disposition),
            ("content-encoding", &args.content_encoding),
            ("content-language", &args.content_language),
            ("x-amz-storage-class", &args.storage_class),
            ("x-amz-acl", &args.acl),
            ("x-amz-server-side-encryption", &args.sse),
            (
                "x-amz-server-side-encryption-aws-kms-key-id",
                &args.sse_kms_key_id,
            ),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                common.insert(HeaderName::from_static(name), field_value(name, value)?);
            }
        }
        for (name, value) in &args.metadata {
            let field = format!("x-amz-meta-{}", name.to_ascii_lowercase());
            let field: HeaderName = field
                .parse()
                .map_err(|_| BadInput::new(format!("{name:?} cannot be the name of metadata")))?;
            common.insert(field, field_value(name, value)?);
        }
        if !args.tag.is_empty() {
            let pairs = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(&args.tag)
                .finish();
            common.insert(
                HeaderName::from_static("x-amz-tagging"),
                field_value("--tag", &pairs)?,
            );
        }
        let mut conditions = HeaderMap::new();
        if args.if_none_match {
            conditions.insert(http::header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(etag) = &args.if_match {
            let etag = format!("\"{}\"", etag.trim_matches('"'));
            conditions.insert(http::header::IF_MATCH, field_value("--if-match", &etag)?);
        }
        Ok(Self {
            common,
            conditions,
            has_content_type: args.content_type.is_some(),
            preserves: !args.no_preserve,
        })
    }

    /// The fields of a file with this name.
    fn of(&self, name: &str, metadata: Option<&Metadata>) -> Result<HeaderMap, BadInput> {
        let mut headers = self.common.clone();
        if !self.has_content_type {
            let guessed = mime_guess::from_path(name).first_raw();
            let guessed = guessed.unwrap_or("application/octet-stream");
            headers.insert(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static(guessed),
            );
        }
        if let Some(metadata) = metadata.filter(|_| self.preserves) {
            let (seconds, nanos) = (metadata.mtime(), metadata.mtime_nsec());
            let fields = [
                ("x-amz-meta-mtime", format!("{seconds}.{nanos:09}")),
                (
                    "x-amz-meta-s3cmd-attrs",
                    format!("mode:{}/mtime:{seconds}", metadata.mode()),
                ),
            ];
            for (name, value) in fields {
                let name = HeaderName::from_static(name);
                // What the user says goes before it.
                if !headers.contains_key(&name) {
                    let value = field_value(name.as_str(), &value)?;
                    headers.insert(name, value);
                }
            }
        }
        Ok(headers)
    }
}

fn field_value(name: &str, value: &str) -> Result<HeaderValue, BadInput> {
    HeaderValue::from_str(value).map_err(|_| {
        BadInput::new(format!(
            "the value of {name} cannot be sent in a header field"
        ))
    })
}
