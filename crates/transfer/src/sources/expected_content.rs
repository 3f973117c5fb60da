//! The file that all sources of a job shall have, and whether a source has that file.

use haul_plan::{DigestAlgorithm, EntityTag, ExpectedDigest, ResourceVersion};

/// The content of a source, as its first response announces it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceContent<'a> {
    /// Length and validators.
    pub version: &'a ResourceVersion,
    /// Digests of the whole file.
    pub digests: &'a [ExpectedDigest],
}

/// What shows, other than validators, that bytes are bytes of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IntegrityEvidence {
    /// The bytes are compared with digests of the whole file or of its pieces.
    pub verified: bool,
    /// The digests are of pieces: a bad piece is noticed early, and only that piece is fetched again.
    pub piece_digests: bool,
    /// The user requested several connections, and so accepted joining responses without validators.
    pub user_allows_joining: bool,
}

/// Why the bytes of a source may not go into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceMismatch {
    /// The lengths differ.
    #[error("it has {} bytes where the others have {}", DisplayLength(*.found), DisplayLength(*.expected))]
    Size {
        /// The length that the first source announced.
        expected: Option<u64>,
        /// The length that this source announces.
        found: Option<u64>,
    },
    /// The digests differ.
    #[error("it announces another {0} than the others")]
    Digest(DigestAlgorithm),
    /// The dates differ, and nothing else shows that the files are equal.
    #[error("it has a file of another date than the others")]
    Date,
    /// Date and strong tag both differ, and a wrong file would be noticed only when all of it has come.
    #[error("both its date and its tag are those of another version")]
    Version,
    /// Only the length agrees, and nothing else is known of the source.
    #[error("nothing shows that it has the same version")]
    Unproven,
    /// A change of the source's file would not be noticed.
    #[error("it sends neither ETag nor Last-Modified, so that a change would not be noticed")]
    NoValidator,
}

/// The content that every source must have.
#[derive(Debug)]
pub(super) struct ExpectedContent {
    pub(super) version: ResourceVersion,
    pub(super) digests: Vec<ExpectedDigest>,
    pub(super) evidence: IntegrityEvidence,
}

impl ExpectedContent {
    /// Checks that a source has the file. `user_named`: the user says so, which together with an equal date is believed. An equal
    /// length alone proves nothing, whichever source is named: two versions would be joined to a file that no source has.
    pub(super) fn check(
        &self,
        found: &SourceContent<'_>,
        user_named: bool,
    ) -> Result<(), SourceMismatch> {
        if self.version.length != found.version.length {
            return Err(SourceMismatch::Size {
                expected: self.version.length,
                found: found.version.length,
            });
        }
        let same_digest = self.has_same_digest(found.digests)?;
        let tags = self.version.etag.as_ref().zip(found.version.etag.as_ref());
        let same_tag = tags.is_some_and(|(a, b)| a.strong_eq(b));
        let IntegrityEvidence {
            verified,
            piece_digests,
            user_allows_joining,
        } = self.evidence;
        if !found
            .version
            .may_combine_responses(verified, user_allows_joining)
        {
            return Err(SourceMismatch::NoValidator);
        }
        if verified && !piece_digests && !same_digest && self.is_other_version(found.version) {
            return Err(SourceMismatch::Version);
        }
        let proven = verified
            || same_digest
            || same_tag
            || (user_named && self.has_same_date(found.version)?);
        if proven {
            Ok(())
        } else {
            Err(SourceMismatch::Unproven)
        }
    }

    /// Whether a digest that both announce is the same.
    fn has_same_digest(&self, found: &[ExpectedDigest]) -> Result<bool, SourceMismatch> {
        let mut common = false;
        for known in &self.digests {
            let same_algorithm = |other: &&ExpectedDigest| other.algorithm == known.algorithm;
            for other in found.iter().filter(same_algorithm) {
                if other.digest != known.digest {
                    return Err(SourceMismatch::Digest(known.algorithm));
                }
                common = true;
            }
        }
        Ok(common)
    }

    /// Whether date and strong tag both differ: then a digest of the whole file would most likely be wrong in the end.
    fn is_other_version(&self, version: &ResourceVersion) -> bool {
        let tags = self.version.etag.as_ref().zip(version.etag.as_ref());
        let differ =
            |(a, b): (&EntityTag, &EntityTag)| a.is_strong() && b.is_strong() && !a.strong_eq(b);
        tags.is_some_and(differ) && self.has_same_date(version) == Err(SourceMismatch::Date)
    }

    /// Whether both announce the same date; copies mostly keep it.
    fn has_same_date(&self, version: &ResourceVersion) -> Result<bool, SourceMismatch> {
        let date = |version: &ResourceVersion| {
            let text = version.last_modified.as_deref()?;
            httpdate::parse_http_date(text).ok()
        };
        match (date(&self.version), date(version)) {
            (Some(a), Some(b)) if a != b => Err(SourceMismatch::Date),
            (a, b) => Ok(a.is_some() && b.is_some()),
        }
    }
}

/// Prints a length that may be unknown.
struct DisplayLength(Option<u64>);

impl std::fmt::Display for DisplayLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(length) => write!(f, "{length}"),
            None => f.write_str("an unknown number of"),
        }
    }
}
