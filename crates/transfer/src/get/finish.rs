//! The last steps: digests, sync, rename.
//!
//! Only here does a file get its final name, and only after everything about it was found right.

use std::io;
use std::path::PathBuf;

use haul_plan::{Algorithm, Checksum, Expected, Version};
use url::Url;

use super::partial::Partial;
use crate::checksum::{Digested, hex};
use crate::disk::{blocking, stamp};
use crate::error::GetError;

/// What the digests of a job must be.
#[derive(Debug, Default, Clone)]
pub(super) struct Wanted {
    /// From the user.
    pub(super) given: Vec<Checksum>,
    /// From the origin's header fields (row A26).
    pub(super) announced: Vec<Expected>,
}

impl Wanted {
    /// Every algorithm that must be computed.
    pub(super) fn algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        let given = self.given.iter().map(|checksum| checksum.algorithm);
        given.chain(self.announced.iter().map(|expected| expected.algorithm))
    }

    /// Whether bytes that are not one version of the file would be found out at the end.
    pub(super) fn verifies(&self) -> bool {
        !self.announced.is_empty() || self.given.iter().any(|c| c.digest.is_some())
    }

    /// Compares; the first that differs is the error, without saying yet where the bytes went.
    pub(super) fn check(&self, url: &Url, found: &[Digested]) -> Result<(), GetError> {
        let given = self
            .given
            .iter()
            .filter_map(|c| Some((c.algorithm, c.digest.as_ref()?, "given")));
        let announced = self
            .announced
            .iter()
            .map(|e| (e.algorithm, &e.digest, e.field));
        for (algorithm, expected, origin) in given.chain(announced) {
            let Some(digested) = found.iter().find(|d| d.algorithm == algorithm) else {
                continue;
            };
            if &digested.digest != expected {
                return Err(GetError::Checksum {
                    url: Box::new(haul_net::without_credentials(url)),
                    algorithm,
                    expected: hex(expected),
                    found: hex(&digested.digest),
                    origin,
                    aside: None,
                });
            }
        }
        Ok(())
    }

    /// The digests that the user asked for, in hexadecimal, in the order asked.
    pub(super) fn report(&self, found: &[Digested]) -> Vec<(Algorithm, String)> {
        let digest = |checksum: &Checksum| {
            let digested = found.iter().find(|d| d.algorithm == checksum.algorithm)?;
            Some((digested.algorithm, hex(&digested.digest)))
        };
        self.given.iter().filter_map(digest).collect()
    }
}

/// Gives a whole and verified partial file its final name.
///
/// # Errors
/// [`GetError::Exists`] when the name was taken meanwhile and `replace` is false: the partial file then stays, so that
/// the same command with `--overwrite` need not fetch it again. Else [`GetError::Local`].
pub(super) fn publish(
    partial: &mut Partial,
    version: &Version,
    replace: bool,
) -> Result<PathBuf, GetError> {
    let path = partial.target.path().to_owned();
    let local = |action| {
        let path = path.clone();
        move |source| GetError::local(action, path, source)
    };
    blocking(|| {
        stamp(partial.file.file(), version);
        partial.storage().sync().map_err(local("sync"))?;
        let renamed = partial.target.publish(replace, partial.file.file());
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => GetError::Exists { path: path.clone() },
            _ => local("rename to")(e),
        })?;
        partial.settle();
        Ok(())
    })?;
    Ok(path)
}

/// Puts bytes that are not the file meant under a name that says so (row B9), and says where in the error.
pub(super) fn set_aside(partial: &mut Partial, error: GetError) -> GetError {
    let aside = partial.target.aside();
    let moved = blocking(|| {
        std::fs::rename(partial.target.part(), &aside)?;
        partial.settle();
        Ok::<_, io::Error>(())
    });
    match (error, moved) {
        (
            GetError::Checksum {
                url,
                algorithm,
                expected,
                found,
                origin,
                ..
            },
            Ok(()),
        ) => GetError::Checksum {
            url,
            algorithm,
            expected,
            found,
            origin,
            aside: Some(aside),
        },
        (error, _) => error,
    }
}
