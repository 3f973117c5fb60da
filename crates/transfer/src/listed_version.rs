//! Whether a file that is there is the version that a list names (row F29).

use std::time::SystemTime;

use haul_plan::UnixTime;

/// The version of a file that a list names: that of a store, or one that the user wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedVersion {
    /// In bytes.
    pub size: u64,
    /// The entity tag, if the list has one.
    pub entity_tag: Option<String>,
    /// When that version was stored, if the list says it.
    pub modified: Option<SystemTime>,
}

/// What is known of a file that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NotedVersion {
    /// Bytes that the file has.
    pub size: u64,
    /// The entity tag that was noted when it was downloaded from the same place, also if it was edited since.
    pub entity_tag: Option<String>,
    /// When it was last modified.
    pub modified: Option<SystemTime>,
    /// Whether it is known to be a download from the same place that nobody has edited.
    pub is_unedited_download: bool,
}

/// What becomes of a file for which a list names a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedVersionDecision {
    /// Nothing says that it is another version.
    Keep,
    /// It is another version, and nobody's work: the listed one takes its place.
    Replace,
    /// It is another version, and may be somebody's work. With what differs.
    Refuse(VersionDifference),
}

/// What shows that two versions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionDifference {
    /// Their sizes.
    Size,
    /// Their entity tags.
    EntityTag,
    /// The listed one was stored after the file was written.
    Time,
}

impl ListedVersion {
    /// Decides about a file.
    #[must_use]
    pub(crate) fn decide(&self, noted: &NotedVersion) -> ListedVersionDecision {
        match self.difference(noted) {
            None => ListedVersionDecision::Keep,
            Some(_) if noted.is_unedited_download => ListedVersionDecision::Replace,
            Some(difference) => ListedVersionDecision::Refuse(difference),
        }
    }

    /// Whether a response of this length, perhaps with an entity tag, can be no version of the file: it is neither as long as this one, nor
    /// has it the tag of another version.
    #[must_use]
    pub(crate) fn excludes(&self, entity_tag: Option<&str>, length: u64) -> bool {
        let is_other_tag = |tag| {
            let listed = self.entity_tag.as_deref();
            listed.is_none_or(|listed| bare_tag(listed) != bare_tag(tag))
        };
        self.size != length && !entity_tag.is_some_and(is_other_tag)
    }

    /// What shows that a file is not this version. Where tags can be compared, times say nothing.
    #[must_use]
    pub(crate) fn difference(&self, noted: &NotedVersion) -> Option<VersionDifference> {
        if self.size != noted.size {
            return Some(VersionDifference::Size);
        }
        if let (Some(listed), Some(noted)) = (&self.entity_tag, &noted.entity_tag) {
            return (bare_tag(listed) != bare_tag(noted)).then_some(VersionDifference::EntityTag);
        }
        let seconds = |time: Option<SystemTime>| Some(UnixTime::from(time?).whole_seconds());
        let times = seconds(self.modified).zip(seconds(noted.modified));
        times
            .is_some_and(|(listed, noted)| listed > noted)
            .then_some(VersionDifference::Time)
    }
}

/// A tag without quotes. A weak one says as much here: responses that are compressed on their way weaken the tag of their object.
fn bare_tag(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_response_is_the_listed_version_or_has_the_tag_of_another() {
        let listed = |tag: Option<&str>| ListedVersion {
            size: 7,
            entity_tag: tag.map(str::to_owned),
            modified: None,
        };
        for (tag, excluded) in [(None, true), (Some("\"a\""), true), (Some("\"b\""), false)] {
            assert!(!listed(Some("a")).excludes(tag, 7), "{tag:?}");
            assert_eq!(listed(Some("a")).excludes(tag, 59), excluded, "{tag:?}");
        }
        assert!(listed(None).excludes(None, 59));
        assert!(!listed(None).excludes(Some("\"a\""), 59));
    }

    fn at(seconds: u64) -> Option<SystemTime> {
        Some(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn f29_what_differs_decides_and_an_edited_file_is_never_replaced() {
        use VersionDifference::{EntityTag, Size, Time};
        let listed = |size, tag: &str, modified| ListedVersion {
            size,
            entity_tag: Some(tag.to_owned()).filter(|tag| !tag.is_empty()),
            modified,
        };
        let noted = |size, entity_tag: Option<&str>, modified| NotedVersion {
            size,
            entity_tag: entity_tag.map(str::to_owned),
            modified,
            is_unedited_download: false,
        };
        for (listed, noted, difference) in [
            (listed(3, "a", at(5)), noted(3, Some("\"a\""), at(1)), None),
            (listed(3, "a", None), noted(3, Some("W/\"a\""), at(1)), None),
            (
                listed(3, "a", at(5)),
                noted(4, Some("\"a\""), at(5)),
                Some(Size),
            ),
            (
                listed(3, "b", at(1)),
                noted(3, Some("\"a\""), at(5)),
                Some(EntityTag),
            ),
            (listed(3, "b", at(6)), noted(3, None, at(5)), Some(Time)),
            (listed(3, "b", at(5)), noted(3, None, at(5)), None),
            (listed(3, "", None), noted(3, Some("\"a\""), at(5)), None),
            (listed(3, "", None), noted(2, None, None), Some(Size)),
        ] {
            let decision = listed.decide(&noted);
            let expected = match difference {
                None => ListedVersionDecision::Keep,
                Some(difference) => ListedVersionDecision::Refuse(difference),
            };
            assert_eq!(decision, expected, "{listed:?} {noted:?}");
            let own = NotedVersion {
                is_unedited_download: true,
                ..noted
            };
            let expected = match difference {
                None => ListedVersionDecision::Keep,
                Some(_) => ListedVersionDecision::Replace,
            };
            assert_eq!(listed.decide(&own), expected, "{listed:?} {own:?}");
        }
    }
}
