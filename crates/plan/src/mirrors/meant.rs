//! What the file is that several sources shall have, and whether what one of them has is that file.

use super::verdict::{Evidence, Mismatch};
use crate::digest_field::Expected;
use crate::validator::{EntityTag, Version};

/// What a source's answer says that it has.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// Its length and its validators.
    pub version: &'a Version,
    /// Digests of the whole that it announces.
    pub digests: &'a [Expected],
}

/// What every source must have.
#[derive(Debug)]
pub(super) struct Meant {
    pub(super) version: Version,
    pub(super) digests: Vec<Expected>,
    pub(super) evidence: Evidence,
}

impl Meant {
    /// That what a source has is the file. `named`: the user says so, which together with an equal date is believed. A length alone
    /// proves nothing, whoever says so: two versions of it would be joined to a file that nobody has.
    pub(super) fn compare(&self, found: &Found<'_>, named: bool) -> Result<(), Mismatch> {
        if self.version.length != found.version.length {
            return Err(Mismatch::Size {
                expected: self.version.length,
                found: found.version.length,
            });
        }
        let mut common = false;
        for known in &self.digests {
            let same = |other: &&Expected| other.algorithm == known.algorithm;
            for other in found.digests.iter().filter(same) {
                if other.digest != known.digest {
                    return Err(Mismatch::Digest(known.algorithm));
                }
                common = true;
            }
        }
        let tags = self.version.etag.as_ref().zip(found.version.etag.as_ref());
        let tagged = tags.is_some_and(|(a, b)| a.strong_eq(b));
        let Evidence {
            verified,
            pieces,
            told,
        } = self.evidence;
        if !found.version.may_be_joined(verified, told) {
            return Err(Mismatch::Unpinned);
        }
        if verified && !pieces && !common && self.is_other(found.version) {
            return Err(Mismatch::Version);
        }
        match verified || common || tagged || (named && self.is_dated(found.version)?) {
            true => Ok(()),
            false => Err(Mismatch::Unproven),
        }
    }

    /// Whether a source's date and strong tag both differ: then a digest of the whole would most likely turn out wrong in the end.
    fn is_other(&self, version: &Version) -> bool {
        let tags = self.version.etag.as_ref().zip(version.etag.as_ref());
        let strong =
            |(a, b): (&EntityTag, &EntityTag)| a.is_strong() && b.is_strong() && !a.strong_eq(b);
        tags.is_some_and(strong) && self.is_dated(version) == Err(Mismatch::Date)
    }

    /// Whether a source's file is of the same date, as far as both say: copies mostly keep it.
    fn is_dated(&self, version: &Version) -> Result<bool, Mismatch> {
        let date = |version: &Version| {
            let text = version.last_modified.as_deref()?;
            httpdate::parse_http_date(text).ok()
        };
        match (date(&self.version), date(version)) {
            (Some(a), Some(b)) if a != b => Err(Mismatch::Date),
            (a, b) => Ok(a.is_some() && b.is_some()),
        }
    }
}
