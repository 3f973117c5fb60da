//! Whose file it is that lies under a name which a URL of this list wants.
//!
//! Names without a suffix go by the order of a list: the first of several URLs gets it. With another list, or the same in another
//! order, that would be another one, and what lies there since an earlier run would be taken for its file. Three things tell:
//! the mark that files of ours carry, where the file system has attributes; that the name with this URL's own suffix
//! lies beside it, which nobody else would be given; and the manifest, by the last row of a job that was done under the name. Where none of them does - somebody else's file - it is taken for
//! the one that is wanted, as `wget -nc` takes it.
//!
//! Nothing is asked of the system where nothing lies under a name, unless its directory holds too much to be known.

use std::path::Path;

use haul_plan::{PathCandidate, ResourceId};
use url::Url;

use super::directory_cache::DirectoryCache;
use super::job::{manifest_path, manifest_url};
use crate::disk::{DownloadPaths, FileOwner, file_owner};
use crate::manifest::PreviousRuns;

/// What is looked at to tell.
pub(super) struct OwnerCheck<'a> {
    /// What lies in the directories.
    pub(super) directory_cache: &'a mut DirectoryCache,
    /// What earlier runs have done.
    pub(super) previous_runs: Option<&'a PreviousRuns>,
    /// The batch's directory; `NoFile` for entries of an archive, which lie nowhere.
    pub(super) directory: Option<&'a Path>,
    /// Whether the user's word is to replace what lies there, whosever it is.
    pub(super) overwrites: bool,
    /// Who wants the name.
    pub(super) url: &'a Url,
}

impl OwnerCheck<'_> {
    /// Whether the name is another URL's, so that this one gets one with a suffix.
    pub(super) fn belongs_to_other_url(&mut self, candidate: &PathCandidate<'_>) -> bool {
        let Some(directory) = self.directory else {
            // Entries are never replaced: a second one of the name would hide the first from whoever unpacks them.
            let otherwise = candidate.alternative();
            return self.is_written_down_as_anothers(candidate.path())
                || otherwise.is_some_and(|path| self.has_done(candidate.path(), &path));
        };
        let path = directory.join(candidate.path());
        if !self.may_lie(&path) {
            return false;
        }
        match file_owner(&path) {
            FileOwner::NoFile => return false,
            FileOwner::Resource(resource) if resource == ResourceId::from_url(self.url) => {
                return false;
            }
            FileOwner::Resource(_) if !self.overwrites => return true,
            FileOwner::Unknown if !self.overwrites && self.is_written_down_as_anothers(&path) => {
                return true;
            }
            FileOwner::Resource(_) | FileOwner::Unknown => {}
        }
        let Some(otherwise) = candidate.alternative().map(|path| directory.join(path)) else {
            return false;
        };
        (self.may_lie(&otherwise) && otherwise.symlink_metadata().is_ok())
            || self.has_done(&path, &otherwise)
    }

    /// Whether an earlier run has done this URL's file under the one name and not under the other.
    fn has_done(&self, path: &Path, otherwise: &Path) -> bool {
        let Some(past) = self.previous_runs else {
            return false;
        };
        let url = manifest_url(self.url);
        let done = |path: &Path| past.is_done(&url, Some(&manifest_path(path)));
        !done(path) && done(otherwise)
    }

    /// Whether the manifest says that what lies there came from another resource. Rows hold URLs as they are shown; what is masked
    /// in both may differ, and then it is not known to be another's.
    fn is_written_down_as_anothers(&self, path: &Path) -> bool {
        let resource = |shown: &str| Url::parse(shown).map(|url| ResourceId::from_url(&url)).ok();
        let url = manifest_url(self.url);
        let done = self
            .previous_runs
            .and_then(|past| past.other_url_done_at(&url, &manifest_path(path)));
        let other = done.and_then(|other| resource(&other));
        other.is_some() && other != resource(&url)
    }

    fn may_lie(&mut self, path: &Path) -> bool {
        let target = DownloadPaths::new(path.to_owned());
        self.directory_cache.may_exist(target.directory(), path)
    }
}
