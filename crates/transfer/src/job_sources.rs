//! The sources of a batch's files: URLs, globs and lists, read one after the other as the batch asks for more.
//!
//! Nothing is read ahead: a glob of a billion URLs costs as much as one, and a list from a pipe starts with its first line. A text that is
//! not a URL becomes a bad line, which the batch reports with the number of its line or of its place in the glob.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use haul_net::redacted_text;
use haul_s3::{ListedObject, S3Address};
use url::Url;

use crate::bucket::{
    BucketError, KeyPathError, ObjectSelection, SelectedObjects, StoreSession, path_of_key,
};
use crate::glob::Glob;
use crate::list::{BadLine, BadLineProblem, DownloadList, ListEntry, ListFormat, parse_list_url};
use crate::listed_version::ListedVersion;

#[derive(Debug)]
pub enum JobSource {
    Url(Url),
    /// Many URLs from one pattern.
    Glob {
        /// The pattern.
        glob: Glob,
        /// Its first URL, which was checked; the others have its login.
        first: Url,
    },
    /// A list in a file.
    List {
        /// Its name in messages.
        name: String,
        file: File,
        /// Its format, if given.
        format: Option<ListFormat>,
    },
    /// A list on standard input.
    Stdin(Option<ListFormat>),
    /// The objects of a bucket below a prefix, or those that match a pattern.
    Objects(ObjectSelection),
    /// Their list, which is on its way.
    Listing(SelectedObjects),
    /// The files of a Metalink document, which was read completely, and why some of them cannot be used.
    Document(Vec<Result<ListEntry, BadLine>>),
}

impl JobSource {
    /// A URL that may need a password.
    pub fn url_mut(&mut self) -> Option<&mut Url> {
        match self {
            Self::Url(url) | Self::Glob { first: url, .. } => Some(url),
            Self::List { .. }
            | Self::Stdin(_)
            | Self::Objects(_)
            | Self::Listing(_)
            | Self::Document(_) => None,
        }
    }

    /// Whether the number of files is known only after reading.
    pub fn is_list(&self) -> bool {
        matches!(
            self,
            Self::List { .. } | Self::Stdin(_) | Self::Objects(_) | Self::Listing(_)
        )
    }

    /// How many files it names, as far as known before reading.
    pub fn file_count(&self) -> u64 {
        match self {
            Self::Glob { glob, .. } => glob.len(),
            Self::Document(files) => files.len() as u64,
            _ => 1,
        }
    }
}

/// The entry of a listed object, or why it cannot be one; `None` if the object only stands for a folder.
fn selected_entry(
    selection: &ObjectSelection,
    object: &ListedObject,
    number: u64,
) -> Option<Result<ListEntry, BadLine>> {
    let name = selection.name_of(&object.key);
    // The key of a folder has no bytes of its own.
    let is_folder = object.size == 0 && path_of_key(name) == Err(KeyPathError::Folder);
    if is_folder {
        return None;
    }
    let listed = ListedVersion {
        size: object.size,
        entity_tag: Some(object.etag.clone()).filter(|tag| !tag.is_empty()),
        modified: object.modified(),
    };
    let list = &selection.prefix;
    let address = list.with_key(&*object.key);
    Some(object_entry(list, number, &address, name, listed))
}

/// The entry of an object, which the list of a prefix has with this number.
///
/// # Errors
/// The name makes no path, or the address no URL.
pub(crate) fn object_entry(
    list: &S3Address,
    number: u64,
    object: &S3Address,
    name: &str,
    listed: ListedVersion,
) -> Result<ListEntry, BadLine> {
    let bad = |problem| BadLine {
        list_name: list.to_string().into(),
        line: number,
        excerpt: object.key.clone(),
        url: None,
        problem,
    };
    let path = path_of_key(name).map_err(|error| bad(BadLineProblem::InvalidKey(error)))?;
    let url = object
        .to_url()
        .map_err(|error| bad(BadLineProblem::InvalidAddress(error)))?;
    Ok(ListEntry {
        path: Some(path),
        listed: Some(listed),
        ..ListEntry::new(number, url)
    })
}

/// The objects of a list as entries.
#[derive(Debug)]
struct ListedEntries {
    objects: SelectedObjects,
    failures: BucketListFailures,
}

impl ListedEntries {
    fn next(&mut self) -> Option<Result<ListEntry, BadLine>> {
        loop {
            match self.objects.blocking_next()? {
                Ok(object) => {
                    let (selection, number) = (&self.objects.selection, self.objects.number);
                    if let Some(entry) = selected_entry(selection, &object, number) {
                        return Some(entry);
                    }
                }
                Err(error) => {
                    self.failures.add(error);
                    return None;
                }
            }
        }
    }
}

/// All sources, in their order.
#[derive(Debug)]
pub struct JobSources {
    /// Sources not opened yet.
    waiting: VecDeque<JobSource>,
    /// The source being read.
    current: Option<OpenJobSource>,
    ignored: IgnoredListOptions,
    failures: BucketListFailures,
}

#[derive(Debug)]
enum OpenJobSource {
    /// A glob, its first URL, and the number of the next.
    Glob(Glob, Url, u64),
    /// A list and its name in messages.
    List(Box<DownloadList>, String),
    /// The list of a bucket.
    Objects(Box<ListedEntries>),
    /// Files of a Metalink document.
    Document(std::vec::IntoIter<Result<ListEntry, BadLine>>),
}

impl JobSources {
    /// The files of these sources.
    #[must_use]
    pub fn new(sources: Vec<JobSource>) -> Self {
        Self {
            waiting: sources.into(),
            current: None,
            ignored: IgnoredListOptions::default(),
            failures: BucketListFailures::default(),
        }
    }

    /// The options that lists contain and haul ignores, filled while lists are read.
    pub fn ignored(&self) -> IgnoredListOptions {
        self.ignored.clone()
    }

    /// Why lists of buckets ended early, filled while they are read.
    pub fn failures(&self) -> BucketListFailures {
        self.failures.clone()
    }

    /// Whether there are buckets to list.
    pub fn has_objects(&self) -> bool {
        let is_objects = |source: &JobSource| matches!(source, JobSource::Objects(_));
        self.waiting.iter().any(is_objects)
    }

    /// Whether all files are objects of one bucket.
    pub fn has_one_bucket(&self) -> bool {
        let mut buckets = self.waiting.iter().map(|source| match source {
            JobSource::Objects(selection) => Some(&*selection.prefix.bucket),
            _ => None,
        });
        let first = buckets.next().flatten();
        first.is_some() && buckets.all(|bucket| bucket == first)
    }

    pub fn start_lists(&mut self, session: &StoreSession) {
        let waiting = std::mem::take(&mut self.waiting);
        let started = waiting.into_iter().map(|source| match source {
            JobSource::Objects(selection) => JobSource::Listing(session.list(selection)),
            other => other,
        });
        self.waiting = started.collect();
    }

    /// Opens a source. A single URL is returned at once.
    fn open(&mut self, source: JobSource) -> Option<ListEntry> {
        let list = |file, format, name: String| {
            let list = DownloadList::open_file(file, format, &name);
            OpenJobSource::List(Box::new(list), name)
        };
        self.current = Some(match source {
            JobSource::Url(url) => return Some(ListEntry::new(0, url)),
            JobSource::Glob { glob, first } => OpenJobSource::Glob(glob, first, 0),
            JobSource::List { name, file, format } => list(file, format, name),
            JobSource::Document(files) => OpenJobSource::Document(files.into_iter()),
            JobSource::Listing(objects) => OpenJobSource::Objects(Box::new(ListedEntries {
                objects,
                failures: self.failures.clone(),
            })),
            // Every list was started before the first source is read.
            JobSource::Objects(_) => return None,
            JobSource::Stdin(format) => {
                let name = "standard input".to_owned();
                match io::stdin().as_fd().try_clone_to_owned() {
                    Ok(stdin) => list(File::from(stdin), format, name),
                    // As many files are open as may be.
                    Err(_) => {
                        let stdin = DownloadList::open(Box::new(io::stdin()), format, &name);
                        OpenJobSource::List(Box::new(stdin), name)
                    }
                }
            }
        });
        None
    }
}

impl Iterator for JobSources {
    type Item = Result<ListEntry, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let item = match &mut self.current {
                Some(OpenJobSource::Glob(glob, first, number)) => {
                    *number += 1;
                    glob.nth(*number - 1)
                        .map(|url| glob_member(&url, first, *number))
                }
                Some(OpenJobSource::List(list, name)) => {
                    let item = list.next();
                    if item.is_none() {
                        self.ignored.add(name, list.ignored_options());
                    }
                    item
                }
                Some(OpenJobSource::Document(files)) => files.next(),
                Some(OpenJobSource::Objects(objects)) => objects.next(),
                None => None,
            };
            if item.is_some() {
                return item;
            }
            let source = self.waiting.pop_front()?;
            self.current = None;
            if let Some(entry) = self.open(source) {
                return Some(Ok(entry));
            }
        }
    }
}

/// A URL of a glob. It gets the password of the first one if it has the same user and origin and no password.
fn glob_member(text: &str, first: &Url, number: u64) -> Result<ListEntry, BadLine> {
    let bad = |problem| BadLine {
        list_name: "the URL pattern".into(),
        line: number,
        excerpt: redacted_text(text),
        url: None,
        problem,
    };
    let mut url = parse_list_url(text).map_err(bad)?;
    let lacks_password = url.password().is_none() && !url.username().is_empty();
    let is_same_user = url.username() == first.username() && url.origin() == first.origin();
    if lacks_password && is_same_user {
        // A URL with a user can have a password.
        let _ = url.set_password(first.password());
    }
    Ok(ListEntry::new(0, url))
}

/// Why lists of buckets ended early: what they did not name is missing.
#[derive(Debug, Clone, Default)]
pub struct BucketListFailures(Arc<Mutex<Vec<BucketError>>>);

impl BucketListFailures {
    fn add(&self, error: BucketError) {
        // The run says that it was interrupted.
        if !matches!(error, BucketError::Interrupted) {
            let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push(error);
        }
    }

    /// Those so far.
    #[must_use]
    pub fn take(&self) -> Vec<BucketError> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut noted)
    }
}

/// Options in lists that haul ignores although they would change requests.
#[derive(Debug, Clone, Default)]
pub struct IgnoredListOptions(Arc<Mutex<Vec<ListOptions>>>);

/// A list's name and its ignored options.
type ListOptions = (String, BTreeSet<&'static str>);

impl IgnoredListOptions {
    fn add(&self, list: &str, options: BTreeSet<&'static str>) {
        if !options.is_empty() {
            let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push((list.to_owned(), options));
        }
    }

    /// A warning for each list.
    pub fn warnings(&self) -> Vec<String> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let warning = |(list, options): &ListOptions| {
            let options: Vec<&str> = options.iter().copied().collect();
            format!("{list}: ignored options: {}", options.join(", "))
        };
        noted.iter().map(warning).collect()
    }
}
