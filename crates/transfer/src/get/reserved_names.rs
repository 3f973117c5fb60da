//! Which job of an engine a final name belongs to.
//!
//! Two URLs may come to one name, and that is known only when the origin has answered. The first to come to it has it for as
//! long as the engine lives, unless the caller releases it: a later job must neither replace what the first one made nor blame another
//! process for its lock.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use url::Url;

use crate::error::{GetError, LocalError};

/// The names taken, each by a job's number.
#[derive(Debug, Default)]
pub(super) struct ReservedNames(Mutex<HashMap<PathBuf, u64>>);

impl ReservedNames {
    /// Takes a name for a job, which may ask for it again.
    ///
    /// # Errors
    /// [`LocalError::DuplicateName`] when another job has it.
    pub(super) fn claim(&self, path: &Path, job: u64, url: &Url) -> Result<(), GetError> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = *names.entry(path.to_owned()).or_insert(job);
        if holder == job {
            return Ok(());
        }
        Err(GetError::local(
            path.to_owned(),
            LocalError::DuplicateName {
                url: Box::new(haul_net::without_credentials(url)),
            },
        ))
    }

    /// Gives the names of a job to whichever comes next.
    pub(super) fn release(&self, job: u64) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|_, holder| *holder != job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_the_first_job_that_reserves_it() {
        let (names, url) = (
            ReservedNames::default(),
            Url::parse("http://h.test/f").unwrap(),
        );
        assert!(names.claim(Path::new("d/f"), 3, &url).is_ok());
        assert!(names.claim(Path::new("d/f"), 3, &url).is_ok());
        assert!(names.claim(Path::new("d/g"), 4, &url).is_ok());
        let twice = names.claim(Path::new("d/f"), 4, &url).unwrap_err();
        assert_eq!(
            twice.to_string(),
            "http://h.test/f would be saved as d/f, which another URL already uses"
        );
        names.release(3);
        assert!(names.claim(Path::new("d/f"), 4, &url).is_ok());
        assert!(names.claim(Path::new("d/g"), 5, &url).is_err());
    }
}
