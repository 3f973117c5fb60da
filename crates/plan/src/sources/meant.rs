//! What the file is that several sources shall have, and whether what one of them has is that file.

use super::verdict::{IntegrityEvidence, SourceMismatch};
use crate::response_digests::ExpectedDigest;
use crate::validator::{EntityTag, ResourceVersion};

/// What a source's answer says that it has.
#[derive(Debug, Clone, Copy)]
pub struct SourceContent<'a> {
    /// Its length and its validators.
    pub version: &'a ResourceVersion,
    /// Digests of the whole that it announces.
    pub digests: &'a [ExpectedDigest],
}

/// What every source must have.
#[derive(Debug)]
pub(super) struct ExpectedContent {
    pub(super) version: ResourceVersion,
    pub(super) digests: Vec<ExpectedDigest>,
    pub(super) evidence: IntegrityEvidence,
}

impl ExpectedContent {
    /// That what a source has is the file. `named`: the user says so, which together with an equal date is believed. A length alone
    /// proves nothing, whoever says so: two versions of it would be joined to a file that nobody has.
    pub(super) fn compare(
        &self,
        found: &SourceContent<'_>,
        named: bool,
    ) -> Result<(), SourceMismatch> {
        if self.version.length != found.version.length {
            return Err(SourceMismatch::Size {
                expected: self.version.length,
                found: found.version.length,
            });
        }
        let mut common = false;
        for known in &self.digests {
            let same = |other: &&ExpectedDigest| other.algorithm == known.algorithm;
            for other in found.digests.iter().filter(same) {
                if other.digest != known.digest {
                    return Err(SourceMismatch::Digest(known.algorithm));
                }
                common = true;
            }
        }
        let tags = self.version.etag.as_ref().zip(found.version.etag.as_ref());
        let tagged = tags.is_some_and(|(a, b)| a.strong_eq(b));
        let IntegrityEvidence {
            verified,
            pieces,
            told,
        } = self.evidence;
        if !found.version.may_combine_responses(verified, told) {
            return Err(SourceMismatch::Unpinned);
        }
        if verified && !pieces && !common && self.is_other(found.version) {
            return Err(SourceMismatch::Version);
        }
        match verified || common || tagged || (named && self.is_dated(found.version)?) {
            true => Ok(()),
            false => Err(SourceMismatch::Unproven),
        }
    }

    /// Whether a source's date and strong tag both differ: then a digest of the whole would most likely turn out wrong in the end.
    fn is_other(&self, version: &ResourceVersion) -> bool {
        let tags = self.version.etag.as_ref().zip(version.etag.as_ref());
        let strong =
            |(a, b): (&EntityTag, &EntityTag)| a.is_strong() && b.is_strong() && !a.strong_eq(b);
        tags.is_some_and(strong) && self.is_dated(version) == Err(SourceMismatch::Date)
    }

    /// Whether a source's file is of the same date, as far as both say: copies mostly keep it.
    fn is_dated(&self, version: &ResourceVersion) -> Result<bool, SourceMismatch> {
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
