//! The digests that a file must have, and who says so: the user, the origin's header fields, an earlier run's journal.

use haul_plan::{Checksum, DigestAlgorithm, ExpectedDigest, ResourceVersion};
use url::Url;

use crate::checksum::{ComputedDigest, hex};
use crate::error::{GetError, VerificationError};
use crate::journal::{JournalEvidence, JournalHeader};

/// The digests that a file must have.
#[derive(Debug, Default, Clone)]
pub(crate) struct ExpectedDigests {
    /// From the user; one without a digest is only to be reported.
    pub(crate) user: Vec<Checksum>,
    /// From the origin's header fields (row A26), and from a document that it leads to.
    pub(crate) announced: Vec<ExpectedDigest>,
    /// Whether digests of pieces are compared, too.
    pub(crate) piece_digests: bool,
    /// Whether a redirect named a digest. It identifies the version, and validators of the redirect's target do not: each of its nodes
    /// may have others (row A44).
    pub(crate) identify_version: bool,
}

impl ExpectedDigests {
    /// Digests that only the user gave.
    pub(crate) fn of_user(checksums: &[Checksum]) -> Self {
        Self {
            user: checksums.to_vec(),
            ..Self::default()
        }
    }

    /// What the responses of a version must have in common.
    pub(crate) fn pinned(&self, version: &ResourceVersion) -> ResourceVersion {
        if self.identify_version {
            version.without_validators()
        } else {
            version.clone()
        }
    }

    /// Every algorithm that must be computed.
    pub(crate) fn algorithms(&self) -> impl Iterator<Item = DigestAlgorithm> + '_ {
        let user = self.user.iter().map(|checksum| checksum.algorithm);
        user.chain(self.announced.iter().map(|expected| expected.algorithm))
    }

    /// Whether a digest would show at the end that the bytes are not one version of the file.
    pub(crate) fn verifies(&self) -> bool {
        self.piece_digests
            || !self.announced.is_empty()
            || self.user.iter().any(|checksum| checksum.digest.is_some())
    }

    /// The same, with the digests that the origin announced to an earlier run, whose bytes this one keeps.
    pub(crate) fn with_saved(mut self, saved: &JournalHeader) -> Self {
        for expected in saved.announced_digests() {
            let known = |known: &ExpectedDigest| {
                (known.algorithm, &known.digest) == (expected.algorithm, &expected.digest)
            };
            if !self.announced.iter().any(known) {
                self.announced.push(expected);
            }
        }
        self
    }

    /// Whether the origin announces another digest now than to an earlier run.
    pub(crate) fn contradicts(&self, saved: &JournalHeader) -> bool {
        let saved = saved.announced_digests();
        let differs = |now: &ExpectedDigest, then: &ExpectedDigest| {
            now.algorithm == then.algorithm && now.digest != then.digest
        };
        self.announced
            .iter()
            .any(|now| saved.iter().any(|then| differs(now, then)))
    }

    /// Whether a run may keep bytes that were joined on this evidence: validators are no proof for bytes that a digest was to verify.
    /// Any digest will do, since all of the file is compared with it in the end.
    pub(crate) fn supports(&self, joined: JournalEvidence) -> bool {
        joined == JournalEvidence::Version || self.verifies()
    }

    /// The evidence on which bytes of several hosts are joined.
    pub(crate) fn join_evidence(&self) -> JournalEvidence {
        match (self.piece_digests, self.verifies()) {
            (true, _) => JournalEvidence::Pieces,
            (false, true) => JournalEvidence::Digest,
            (false, false) => JournalEvidence::Version,
        }
    }

    /// Compares computed digests.
    ///
    /// # Errors
    /// [`VerificationError::Checksum`] for the first that differs; it does not say yet where the bytes went.
    pub(crate) fn verify(&self, url: &Url, computed: &[ComputedDigest]) -> Result<(), GetError> {
        let user = self.user.iter().filter_map(|checksum| {
            let digest = checksum.digest.as_ref()?;
            Some((checksum.algorithm, digest, "the given checksum"))
        });
        let announced = self
            .announced
            .iter()
            .map(|expected| (expected.algorithm, &expected.digest, expected.field));
        for (algorithm, expected, expected_by) in user.chain(announced) {
            // A digest that nobody computed is as wrong as one that differs.
            let found = computed.iter().find(|found| found.algorithm == algorithm);
            if found.is_none_or(|found| &found.digest != expected) {
                return Err(GetError::verification(
                    haul_net::without_credentials(url),
                    VerificationError::Checksum {
                        algorithm,
                        expected: hex(expected),
                        found: found.map_or_else(|| "none".into(), |found| hex(&found.digest)),
                        expected_by,
                        moved_to: None,
                    },
                ));
            }
        }
        Ok(())
    }

    /// The digests that the user requested, in hexadecimal, in the order of the request.
    pub(crate) fn report(&self, computed: &[ComputedDigest]) -> Vec<(DigestAlgorithm, String)> {
        let digest = |checksum: &Checksum| {
            let found = computed
                .iter()
                .find(|found| found.algorithm == checksum.algorithm)?;
            Some((found.algorithm, hex(&found.digest)))
        };
        self.user.iter().filter_map(digest).collect()
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
        let expected = ExpectedDigests {
            announced: vec![expected],
            ..ExpectedDigests::default()
        };
        let url = Url::parse("http://h.test/f").unwrap();
        let computed = |algorithm, digest| ComputedDigest { algorithm, digest };
        for found in [
            vec![],
            vec![computed(DigestAlgorithm::Sha1, vec![1])],
            vec![computed(DigestAlgorithm::Md5, vec![2])],
        ] {
            assert!(expected.verify(&url, &found).is_err(), "{found:?}");
        }
        let right = [computed(DigestAlgorithm::Md5, vec![1])];
        assert!(expected.verify(&url, &right).is_ok());
    }
}
