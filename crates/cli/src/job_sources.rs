//! What names the files of a batch: URLs, globs and lists, one after the other, read as the batch asks for them.
//!
//! Nothing is computed or read ahead: a glob of a billion URLs costs as much as one, and a list that comes through a pipe is begun with
//! its first line. What is no URL becomes a bad line, which the batch tells with the number of the line, or of the glob's member.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use haul_net::redacted_text;
use haul_plan::Glob;
use haul_transfer::list::{BadLine, BadLineProblem, DownloadList, ListEntry, ListFormat};
use url::Url;

/// Names files.
#[derive(Debug)]
pub(crate) enum JobSource {
    /// One.
    Url(Url),
    /// Many by one text.
    Glob {
        /// The text.
        glob: Glob,
        /// The first of its URLs: whether it is one was looked at, and its login is that of the others.
        first: Url,
    },
    /// A list in a file.
    List {
        /// What messages call it.
        name: String,
        /// The file, open.
        file: File,
        /// How it is written, if that was said.
        format: Option<ListFormat>,
    },
    /// A list on standard input.
    Stdin(Option<ListFormat>),
    /// The files of a Metalink document, which was read as a whole; in place of those that cannot be used, why.
    Document(Vec<Result<ListEntry, BadLine>>),
}

impl JobSource {
    /// The URL that may lack a password.
    pub(crate) fn url_mut(&mut self) -> Option<&mut Url> {
        match self {
            Self::Url(url) | Self::Glob { first: url, .. } => Some(url),
            Self::List { .. } | Self::Stdin(_) | Self::Document(_) => None,
        }
    }

    /// Whether only reading it tells what it names.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List { .. } | Self::Stdin(_))
    }

    /// How many files it names, as far as that is known before it is read.
    pub(crate) fn file_count(&self) -> u64 {
        match self {
            Self::Glob { glob, .. } => glob.len(),
            Self::Document(files) => files.len() as u64,
            _ => 1,
        }
    }
}

/// All that name files, in their order.
#[derive(Debug)]
pub(crate) struct JobSources {
    /// Those not begun.
    waiting: VecDeque<JobSource>,
    /// The one that is read.
    current: Option<OpenJobSource>,
    /// Options in lists that were not obeyed.
    ignored: IgnoredListOptions,
}

/// A source that is being read.
#[derive(Debug)]
enum OpenJobSource {
    /// A glob, and the number of its next member.
    Glob(Glob, Url, u64),
    /// A list, and what messages call it.
    List(DownloadList, String),
    /// Files of a Metalink document.
    Document(std::vec::IntoIter<Result<ListEntry, BadLine>>),
}

impl JobSources {
    pub(crate) fn new(sources: Vec<JobSource>) -> Self {
        Self {
            waiting: sources.into(),
            current: None,
            ignored: IgnoredListOptions::default(),
        }
    }

    /// Where options that are not obeyed are noted as they are read.
    pub(crate) fn ignored(&self) -> IgnoredListOptions {
        self.ignored.clone()
    }

    /// Begins a source, or is all of it.
    fn open(&mut self, source: JobSource) -> Option<ListEntry> {
        let list = |read: Box<dyn Read + Send>, format, name: String| {
            OpenJobSource::List(DownloadList::open(read, format, &name), name)
        };
        self.current = Some(match source {
            JobSource::Url(url) => return Some(ListEntry::new(0, url)),
            JobSource::Glob { glob, first } => OpenJobSource::Glob(glob, first, 0),
            JobSource::List { name, file, format } => list(Box::new(file), format, name),
            JobSource::Document(files) => OpenJobSource::Document(files.into_iter()),
            JobSource::Stdin(format) => {
                list(Box::new(io::stdin()), format, "standard input".into())
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
                        .map(|item| glob_member(&item.url, first, *number))
                }
                Some(OpenJobSource::List(list, name)) => {
                    let item = list.next();
                    if item.is_none() {
                        self.ignored.add(name, list.ignored_options());
                    }
                    item
                }
                Some(OpenJobSource::Document(files)) => files.next(),
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

/// A member of a glob. It has the password of the first one, if it has its user and none of its own.
fn glob_member(text: &str, first: &Url, number: u64) -> Result<ListEntry, BadLine> {
    let bad = |problem| BadLine {
        list_name: "the URL's members".into(),
        line: number,
        excerpt: redacted_text(text),
        problem,
    };
    let mut url = Url::parse(text).map_err(|error| bad(BadLineProblem::InvalidUrl(error)))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad(BadLineProblem::UnsupportedScheme));
    }
    let lacks = url.password().is_none() && !url.username().is_empty();
    let same = url.username() == first.username() && url.origin() == first.origin();
    if lacks && same {
        // A URL with a user can have a password.
        let _ = url.set_password(first.password());
    }
    Ok(ListEntry::new(0, url))
}

/// Options of lists that were seen, are not obeyed, and would have changed what is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoredListOptions(Arc<Mutex<Vec<OpenList>>>);

/// A list, and its options.
type OpenList = (String, BTreeSet<&'static str>);

impl IgnoredListOptions {
    fn add(&self, list: &str, options: BTreeSet<&'static str>) {
        if !options.is_empty() {
            let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push((list.to_owned(), options));
        }
    }

    /// What there is to say of it, a line for each list.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let warning = |(list, options): &OpenList| {
            let options: Vec<&str> = options.iter().copied().collect();
            format!("{list}: not obeyed: {}", options.join(", "))
        };
        noted.iter().map(warning).collect()
    }
}
