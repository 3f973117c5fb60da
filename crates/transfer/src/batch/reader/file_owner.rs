//! Finds out which URL a file belongs to that has the name which a URL of this list wants.
//!
//! Of several URLs that want one name, the first in the list gets it without a suffix. With another list, or the same
//! in another order, that would be another URL, and an existing file would be taken for its file. Three things tell the
//! URL of a file: the mark that haul puts on its files, where the file system has attributes; the existence of the name
//! with this URL's own suffix, which no other URL gets; and the last manifest row of a job that was done under the
//! name. If none of them decides, a file of another origin is taken for the requested one, as `wget -nc` does.
//!
//! No file is looked at where the directory cache knows that the name is free.

use std::path::Path;

use haul_s3::parse_download_url;
use url::Url;

use super::directory_cache::DirectoryCache;
use crate::batch::job::{manifest_path, manifest_url};
use crate::disk::{FileOwner, file_owner};
use crate::layout::{PathCandidate, ResourceId};
use crate::manifest::PreviousRuns;

/// What is needed to find the owner of a name.
pub(super) struct FileOwnerLookup<'a> {
    pub(super) directory_cache: &'a mut DirectoryCache,
    pub(super) previous_runs: Option<&'a PreviousRuns>,
    /// The batch's directory; `None` for entries of an archive, which are not files.
    pub(super) directory: Option<&'a Path>,
    /// Whether the user wants existing files to be replaced, whatever URL they belong to.
    pub(super) overwrites: bool,
    /// The URL that wants the name.
    pub(super) url: &'a Url,
}

impl FileOwnerLookup<'_> {
    /// Whether the name belongs to another URL, so that this one gets a suffix.
    pub(super) fn belongs_to_other_url(&mut self, candidate: &PathCandidate<'_>) -> bool {
        let Some(directory) = self.directory else {
            // Entries are never replaced: a second entry of a name would hide the first when the archive is unpacked.
            let otherwise = candidate.alternative();
            return self.manifest_names_other_url(candidate.path())
                || otherwise.is_some_and(|path| self.was_done_under(candidate.path(), &path));
        };
        let path = directory.join(candidate.path());
        if !self.directory_cache.may_exist(&path) {
            return false;
        }
        match file_owner(&path) {
            FileOwner::NoFile => return false,
            FileOwner::Resource(resource) if resource == ResourceId::from_url(self.url) => {
                return false;
            }
            FileOwner::Resource(_) if !self.overwrites => return true,
            FileOwner::Unknown if !self.overwrites && self.manifest_names_other_url(&path) => {
                return true;
            }
            FileOwner::Resource(_) | FileOwner::Unknown => {}
        }
        let Some(otherwise) = candidate.alternative().map(|path| directory.join(path)) else {
            return false;
        };
        (self.directory_cache.may_exist(&otherwise) && otherwise.symlink_metadata().is_ok())
            || self.was_done_under(&path, &otherwise)
    }

    /// Whether an earlier run did this URL's job under the name `otherwise` and not under `path`.
    fn was_done_under(&self, path: &Path, otherwise: &Path) -> bool {
        let Some(previous_runs) = self.previous_runs else {
            return false;
        };
        let url = manifest_url(self.url);
        let done = |path: &Path| previous_runs.is_done(&url, Some(&manifest_path(path)));
        !done(path) && done(otherwise)
    }

    /// Whether the manifest says that the file came from another resource. Rows hold redacted URLs. Where the
    /// difference may be in the redacted part, this is false.
    fn manifest_names_other_url(&self, path: &Path) -> bool {
        let resource = |shown: &str| {
            parse_download_url(shown)
                .map(|url| ResourceId::from_url(&url))
                .ok()
        };
        let url = manifest_url(self.url);
        let done = self
            .previous_runs
            .and_then(|previous_runs| previous_runs.other_url_done_at(&url, &manifest_path(path)));
        let other = done.and_then(|other| resource(&other));
        other.is_some() && other != resource(&url)
    }
}
