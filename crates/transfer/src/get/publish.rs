//! The last steps: digests, sync, rename.
//!
//! Only here does a file get its final name, and only after everything about it was found right.

use std::io;
use std::path::PathBuf;

use haul_plan::{Checksum, DigestAlgorithm, ExpectedDigest, ResourceId, ResourceVersion};
use url::Url;

use super::partial_download::PartialDownload;
use crate::checksum::{ComputedDigest, hex};
use crate::disk::{FilePermissions, blocking, store_validators};
use crate::error::GetError;
use crate::journal::{JoinEvidence, JournalHeader};

/// What the digests of a job must be.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExpectedDigests {
    /// From the user.
    pub(crate) user: Vec<Checksum>,
    /// From the origin's header fields (row A26).
    pub(crate) announced: Vec<ExpectedDigest>,
    /// Whether digests of pieces are compared, too.
    pub(crate) piece_digests: bool,
}

impl ExpectedDigests {
    /// Every algorithm that must be computed.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = DigestAlgorithm> + '_ {
        let given = self.user.iter().map(|checksum| checksum.algorithm);
        given.chain(self.announced.iter().map(|expected| expected.algorithm))
    }

    /// Whether bytes that are not one version of the file would be found out at the end.
    pub(crate) fn verifies(&self) -> bool {
        self.piece_digests
            || !self.announced.is_empty()
            || self.user.iter().any(|c| c.digest.is_some())
    }

    /// The same, with the digests that an earlier run was told of the bytes which this one goes on with.
    pub(crate) fn with_saved(mut self, kept: &JournalHeader) -> Self {
        for expected in kept.announced_digests() {
            let known = |known: &ExpectedDigest| {
                (known.algorithm, &known.digest) == (expected.algorithm, &expected.digest)
            };
            if !self.announced.iter().any(known) {
                self.announced.push(expected);
            }
        }
        self
    }

    /// Whether the origin announces another digest by now than an earlier run was told.
    pub(crate) fn contradicts(&self, kept: &JournalHeader) -> bool {
        let kept = kept.announced_digests();
        self.announced.iter().any(|now| {
            let same = |then: &&ExpectedDigest| then.algorithm == now.algorithm;
            kept.iter()
                .filter(same)
                .any(|then| then.digest != now.digest)
        })
    }

    /// Whether bytes that were joined on this evidence may be gone on with: validators do not vouch for what a digest was to.
    /// Any digest will do, since all of the file is compared with it in the end.
    pub(crate) fn supports(&self, joined: JoinEvidence) -> bool {
        joined == JoinEvidence::Version || self.verifies()
    }

    /// What bytes of other hosts than one are joined on.
    pub(crate) fn join_evidence(&self) -> JoinEvidence {
        match (self.piece_digests, self.verifies()) {
            (true, _) => JoinEvidence::Pieces,
            (false, true) => JoinEvidence::Digest,
            (false, false) => JoinEvidence::Version,
        }
    }

    /// Compares; the first that differs is the error, without saying yet where the bytes went.
    pub(crate) fn verify(&self, url: &Url, found: &[ComputedDigest]) -> Result<(), GetError> {
        let given = self
            .user
            .iter()
            .filter_map(|c| Some((c.algorithm, c.digest.as_ref()?, "the given checksum")));
        let announced = self
            .announced
            .iter()
            .map(|e| (e.algorithm, &e.digest, e.field));
        for (algorithm, expected, origin) in given.chain(announced) {
            // One that nobody computed is as wrong as one that differs.
            let digested = found.iter().find(|d| d.algorithm == algorithm);
            if digested.is_none_or(|digested| &digested.digest != expected) {
                return Err(GetError::Checksum {
                    url: Box::new(haul_net::without_credentials(url)),
                    algorithm,
                    expected: hex(expected),
                    found: digested.map_or_else(|| "none".into(), |d| hex(&d.digest)),
                    expected_by: origin,
                    moved_to: None,
                });
            }
        }
        Ok(())
    }

    /// The digests that the user asked for, in hexadecimal, in the order asked.
    pub(crate) fn report(&self, found: &[ComputedDigest]) -> Vec<(DigestAlgorithm, String)> {
        let digest = |checksum: &Checksum| {
            let digested = found.iter().find(|d| d.algorithm == checksum.algorithm)?;
            Some((digested.algorithm, hex(&digested.digest)))
        };
        self.user.iter().filter_map(digest).collect()
    }
}

/// A file under its final name.
#[derive(Debug)]
pub(super) struct PublishedFile {
    /// The name.
    pub(super) path: PathBuf,
    /// Why the name may not survive a power cut. That takes nothing from the file, which is whole and in its place.
    pub(super) unsynced: Option<io::Error>,
}

/// Gives a whole and verified partial file of a version `from` somewhere its final name, and the rights of the file that it replaces.
///
/// # Errors
/// [`GetError::AlreadyExists`] when the name was taken meanwhile and `replace` is false: what the journal claims of the partial file
/// then stays, so that the same command with `--overwrite` need not fetch it again. Else [`GetError::Local`].
pub(super) fn publish(
    partial: &mut PartialDownload,
    (version, from): (&ResourceVersion, ResourceId),
    replace: bool,
) -> Result<PublishedFile, GetError> {
    let path = partial.paths.path().to_owned();
    let local = |action| {
        let path = path.clone();
        move |source| GetError::local(action, path, source)
    };
    blocking(|| {
        let rights = FilePermissions::of_file(&path).or(partial.replaced_permissions);
        if let Some(rights) = rights.filter(|_| replace) {
            rights.apply(partial.file.file());
        }
        let length = partial.storage().length().map_err(local("look at"))?;
        store_validators(partial.file.file(), version, length, from);
        partial.storage().sync().map_err(local("sync"))?;
        partial.is_in_place().map_err(local("rename"))?;
        let renamed = partial.paths.publish(replace);
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => GetError::AlreadyExists { path: path.clone() },
            _ => local("rename to")(e),
        })?;
        partial.mark_published();
        let directory = partial.paths.directory();
        let unsynced = partial.storage().sync_directory(directory).err();
        Ok(PublishedFile {
            path: path.clone(),
            unsynced,
        })
    })
}

/// Puts bytes that are not the file meant under a name that says so (row B9), and says where in the error.
pub(super) fn set_aside(partial: &mut PartialDownload, error: GetError) -> GetError {
    let aside = partial.paths.bad_checksum();
    let moved = blocking(|| {
        partial.is_in_place()?;
        std::fs::rename(partial.paths.partial(), &aside)?;
        partial.mark_published();
        Ok::<_, io::Error>(())
    });
    match (error, moved) {
        (
            GetError::Checksum {
                url,
                algorithm,
                expected,
                found,
                expected_by: origin,
                ..
            },
            Ok(()),
        ) => GetError::Checksum {
            url,
            algorithm,
            expected,
            found,
            expected_by: origin,
            moved_to: Some(aside),
        },
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a26_a_digest_that_nobody_computed_is_as_wrong_as_one_that_differs() {
        let expected = ExpectedDigest {
            algorithm: DigestAlgorithm::Md5,
            digest: vec![1],
            field: "Digest",
        };
        let wanted = ExpectedDigests {
            user: Vec::new(),
            announced: vec![expected],
            piece_digests: false,
        };
        let url = Url::parse("http://h.test/f").unwrap();
        let digested = |algorithm, digest| ComputedDigest { algorithm, digest };
        for found in [
            vec![],
            vec![digested(DigestAlgorithm::Sha1, vec![1])],
            vec![digested(DigestAlgorithm::Md5, vec![2])],
        ] {
            assert!(wanted.verify(&url, &found).is_err(), "{found:?}");
        }
        let right = [digested(DigestAlgorithm::Md5, vec![1])];
        assert!(wanted.verify(&url, &right).is_ok());
    }
}
