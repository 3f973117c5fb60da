//! Where the files of a batch go under their directory, as paths: nothing here looks at a disk.
//!
//! A [`PathLayout`] gives each URL the path that is wanted for it, whatever the URL says always a path inside the directory. What
//! two URLs want, one gets: [`AssignedPaths`] remembers what was given out and finds the other a name of its own, the same one on every
//! run of the same list. A path that a list names itself is [`relative_path`]'s to judge.

mod assigned_paths;
mod path_digest;
mod relative_path;
mod resource_id;
mod template;
mod url_path;

use std::path::PathBuf;

use url::Url;

pub use assigned_paths::{AssignedPaths, PathAssignment, PathCandidate};
pub use relative_path::{RelativePathError, relative_path};
pub use resource_id::ResourceId;
pub use template::{PathTemplate, PathTemplateError, PathTemplateProblem};

use crate::filename;

/// How paths are made of URLs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PathLayout {
    /// The base name, all in one directory.
    #[default]
    Name,
    /// Host and path as the URL has them.
    Path,
    /// `ab/cd/` and the SHA-256 of the URL in hexadecimal, without credentials and fragment.
    Hash,
    /// As the user wrote it.
    Template(PathTemplate),
}

/// What a path may be made of.
#[derive(Debug, Clone, Copy)]
pub struct PathLayoutInput<'a> {
    /// The URL.
    pub url: &'a Url,
    /// Which job of the batch it is.
    pub index: u64,
    /// Its line in the list.
    pub line: u64,
}

impl PathLayout {
    /// The path that is wanted for a URL: relative, of plain components, the last of them a file's name.
    #[must_use]
    pub fn path(&self, subject: PathLayoutInput<'_>) -> PathBuf {
        let url = subject.url;
        match self {
            Self::Name => filename::from_url(url).into(),
            Self::Path => url_path::path(url),
            Self::Hash => {
                let hash = path_digest::hex(&path_digest::digest_url(url));
                [&hash[..2], &hash[2..4], &hash].iter().collect()
            }
            Self::Template(template) => template.path(subject),
        }
    }
}

#[cfg(test)]
mod tests;
