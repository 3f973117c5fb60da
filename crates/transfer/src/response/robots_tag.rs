//! X-Robots-Tag: whether an origin forbids the use of a file.
//!
//! `noai, noindex` is for everybody, `somebot: noai` for the robot of that name, and so are the directives after it up to
//! the next name. A directive with a value looks like a name (`max-snippet: 5`), and so may a part of a date, but neither
//! hides a directive for everybody.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The name of the field.
const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// The name that the field has for haul.
const ROBOT_NAME: &str = "haul";

/// Directives that forbid the use of a file: for training, or at all. `none` stands for `noindex, nofollow`.
const FORBIDDING: [&str; 5] = ["noai", "noimageai", "noindex", "noimageindex", "none"];

/// Directives with a value behind a colon.
const WITH_VALUE: [&str; 4] = [
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
];

/// What an origin's X-Robots-Tag means for a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RobotsTagPolicy {
    /// Nothing: the user chose the file.
    #[default]
    Ignore,
    /// A file whose use it forbids is not downloaded.
    Respect,
}

impl RobotsTagPolicy {
    /// The first directive in a response's head that forbids the download.
    #[must_use]
    pub fn forbidding_directive(self, headers: &HeaderMap) -> Option<&'static str> {
        match self {
            Self::Ignore => None,
            Self::Respect => {
                let mut values = headers.get_all(X_ROBOTS_TAG).iter();
                values.find_map(forbidding_directive)
            }
        }
    }
}

/// The first directive of a value that forbids the use of a file and is for haul or everybody.
fn forbidding_directive(value: &HeaderValue) -> Option<&'static str> {
    let value = String::from_utf8_lossy(value.as_bytes());
    let mut is_for_haul = true;
    value.split(',').find_map(|item| {
        let mut directive = item.trim();
        if let Some((name, rest)) = directive.split_once(':')
            && is_robot_name(name.trim_end())
        {
            let name = name.trim_end();
            is_for_haul = name == "*" || name.eq_ignore_ascii_case(ROBOT_NAME);
            directive = rest.trim_start();
        }
        let is_same = |known: &&&str| directive.eq_ignore_ascii_case(known);
        let found = FORBIDDING.iter().find(is_same).copied();
        found.filter(|_| is_for_haul)
    })
}

/// Whether the text before a colon is the name of a robot.
fn is_robot_name(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-_.*/".contains(c);
    !name.is_empty()
        && name.chars().all(is_token)
        && !WITH_VALUE
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(values: &[&'static str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(X_ROBOTS_TAG, HeaderValue::from_static(value));
        }
        assert_eq!(RobotsTagPolicy::Ignore.forbidding_directive(&headers), None);
        RobotsTagPolicy::Respect.forbidding_directive(&headers)
    }

    #[test]
    fn directives_for_everybody_forbid_a_download() {
        for directive in FORBIDDING {
            assert_eq!(found(&[directive]), Some(directive));
        }
        assert_eq!(found(&["NoAI"]), Some("noai"));
        assert_eq!(found(&["nofollow, noarchive,NOINDEX"]), Some("noindex"));
        assert_eq!(found(&["nofollow", "", "noimageai"]), Some("noimageai"));
        assert_eq!(found(&[]), None);
        for harmless in [
            "all",
            "nofollow, noarchive",
            "noaimage",
            "no ai",
            "index",
            ",,",
        ] {
            assert_eq!(found(&[harmless]), None, "{harmless}");
        }
    }

    #[test]
    fn directives_for_another_robot_do_not_count() {
        assert_eq!(found(&["googlebot: noindex, noai"]), None);
        assert_eq!(found(&["googlebot: noindex, haul: noai"]), Some("noai"));
        assert_eq!(found(&["Haul : nofollow , noai"]), Some("noai"));
        assert_eq!(found(&["*: noai"]), Some("noai"));
        assert_eq!(found(&["haul: nofollow, otherbot: noai"]), None);
        assert_eq!(found(&["noindex, otherbot: noai"]), Some("noindex"));
        // Each field begins anew.
        assert_eq!(found(&["otherbot: nofollow", "noai"]), Some("noai"));
        assert_eq!(found(&["hauler: noai", "haul/2: noai"]), None);
    }

    #[test]
    fn values_of_directives_are_no_names() {
        let date = "unavailable_after: Wed, 25 Jun 2010 15:00:00 GMT, noai";
        assert_eq!(found(&[date]), Some("noai"));
        assert_eq!(found(&["max-snippet: 5, noindex"]), Some("noindex"));
        assert_eq!(found(&["otherbot: max-snippet:-1, noindex"]), None);
        assert_eq!(
            found(&["Max-Image-Preview:large,noimageindex"]),
            Some("noimageindex")
        );
        assert_eq!(found(&[": noai"]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let _ = forbidding_directive(&value);
            }
        }
    }
}
