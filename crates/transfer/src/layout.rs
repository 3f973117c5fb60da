//! The paths of a batch's files under their directory. Nothing here looks at a disk.
//!
//! A [`PathLayout`] gives each URL a path, whatever the URL, always inside the directory. If two URLs want
//! the same path, one gets it: [`AssignedPaths`] remembers the assigned paths and finds another name for the
//! second URL, the same one on every run of the same list. [`relative_path()`] checks a path that the list
//! itself names.

mod assigned_paths;
mod path_digest;
mod relative_path;
mod resource_id;
mod template;
mod url_path;

use std::path::PathBuf;

use haul_plan::hex;
use url::Url;

pub(crate) use assigned_paths::{AssignedPaths, PathAssignment, PathCandidate};
pub use relative_path::{RelativePathError, relative_path};
pub use resource_id::ResourceId;
pub use template::{PathTemplate, PathTemplateError, PathTemplateProblem};

use crate::filename;

/// How paths are made of URLs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PathLayout {
    /// The base name; all files in one directory.
    #[default]
    Name,
    /// The host and path of the URL.
    Path,
    /// `ab/cd/` and the SHA-256 of the URL in hexadecimal, without credentials and fragment.
    Hash,
    /// A template of the user.
    Template(PathTemplate),
}

/// What a path may be made of.
#[derive(Debug, Clone, Copy)]
pub struct PathLayoutInput<'a> {
    /// The URL.
    pub url: &'a Url,
    /// The job's number in the batch.
    pub index: u64,
    /// The job's line in the list.
    pub line: u64,
}

impl PathLayout {
    /// The path for a URL: relative, of plain components, the last one a file's name.
    #[must_use]
    pub fn path(&self, input: PathLayoutInput<'_>) -> PathBuf {
        let url = input.url;
        match self {
            Self::Name => filename::from_url(url).into(),
            Self::Path => url_path::path(url),
            Self::Hash => {
                let hash = hex(&path_digest::digest_url(url));
                [&hash[..2], &hash[2..4], &hash].iter().collect()
            }
            Self::Template(template) => template.path(input),
        }
    }
}

#[cfg(test)]
mod tests;
